package hosts

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// TestEventsOverARecovery: the ids of before are gone, and the follower begins anew,
// but who names such an id himself is told.
func TestEventsOverARecovery(t *testing.T) {
	const begins = 1 << 32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		recovered := false
		switch r.URL.Query().Get("after") {
		case "4": // and then the line breaks
			fmt.Fprint(w, "data: {\"id\":5,\"type\":\"host.online\"}\n\n")
		case "0":
			fmt.Fprintf(w, "data: {\"id\":%d,\"type\":\"host.online\"}\n\n", begins+1)
		default:
			recovered = true
		}
		if recovered {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, `{"status":410,"code":"gone","detail":"the events behind it are not kept"}`)
		}
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	c, err := client.New(client.Config{Address: server.URL, CA: server.Certificate().Raw})
	if err != nil {
		t.Fatal(err)
	}
	follow := func(from uint64) (out, said string, err error) {
		var o, e bytes.Buffer
		a := &commands{&conn.Env{UI: &term.UI{Out: &o, Err: &e, Now: time.Now}}}
		err = a.followEvents(t.Context(), &conn.Remote{Client: c}, &show.View{Format: show.Format{Word: "json"}, Limit: 2}, from, time.Time{})
		return o.String(), e.String(), err
	}
	out, said, err := follow(4)
	if err != nil || !strings.Contains(out, `"id": 5,`) || !strings.Contains(out, fmt.Sprintf(`"id": %d,`, begins+1)) {
		t.Errorf("printed %q, %v", out, err)
	}
	if !strings.Contains(said, "the events after 5 are no longer stored") {
		t.Errorf("said %q", said)
	}
	if out, _, err := follow(3); err == nil || out != "" {
		t.Errorf("behind an id that is gone: %q, %v", out, err)
	}
}
