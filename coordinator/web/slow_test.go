package web_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator"
)

// Who sends a body one byte at a time, or none of what was announced, holds a
// connection for no longer than an honest client on the slowest line needs.
func TestSlowBodiesAreCut(t *testing.T) {
	for name, path := range map[string]string{"enrolment": "/enrol/v1/begin", "without a token": "/v1/actions", "no route": "/nowhere", "with a token": "/v1/actions"} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				conn, err := s.line.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				token := ""
				if name == "with a token" {
					token = "Authorization: Bearer " + s.tokens[coordinator.RoleOperator] + "\r\n"
				}
				begin := time.Now()
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: coordinator\r\nContent-Type: application/json\r\n%sContent-Length: 5000\r\n\r\n{", path, token)
				for ; err == nil && time.Since(begin) < time.Hour; _, err = io.WriteString(conn, " ") {
					<-time.After(5 * time.Second)
				}
				if d := time.Since(begin); d > 2*time.Minute {
					t.Errorf("the connection was held for %s", d)
				}
			})
		})
	}
}
