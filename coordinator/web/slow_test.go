package web_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/web"
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
					token = "Authorization: Bearer " + s.tokens[core.RoleOperator] + "\r\n"
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

// Who takes nothing holds little of an answer in the system, where it would cost as
// much as to read all of it.
func TestLittleWaitsForAReader(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := web.NewServer(http.NotFoundHandler(), nil, web.NewNoise(slog.New(slog.DiscardHandler)))
	conns := make(chan *tls.Conn, 1)
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns <- c.(*tls.Conn)
		}
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tls.NewListener(plain, new(tls.Config))) }()
	defer func() {
		if err := errors.Join(s.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	reader, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	raw, err := (<-conns).NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	if cerr := raw.Control(func(fd uintptr) {
		for b := make([]byte, 16<<10); err == nil; {
			var n int
			n, err = syscall.Write(int(fd), b)
			taken += max(n, 0)
		}
	}); cerr != nil || taken == 0 || taken > 1<<20 {
		t.Errorf("the system takes %d bytes that nobody reads; %v", taken, cerr)
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Error(err)
	}
}
