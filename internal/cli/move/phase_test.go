package move

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// screen is a terminal whose text can be looked at meanwhile.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestPhaseIsInSight: on a terminal a step that takes long shows which one it is, how its action
// is, and for how long; elsewhere the step is told once.
func TestPhaseIsInSight(t *testing.T) {
	for _, c := range []struct {
		name string
		tty  bool
		line string
	}{
		{"terminal", true, "edge-01/web: stop the container: running, 1 s"},
		{"pipe", false, "edge-01/web: stop the container\n"},
	} {
		var out screen
		polls := 0
		listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "a.sock"))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			act := api.Action{ID: "1", State: "RUNNING", Shown: "running"}
			if polls++; polls > 100 || strings.Contains(out.shown(), c.line) {
				act.State, act.Shown = "DONE", "done"
			}
			if err := json.NewEncoder(w).Encode(act); err != nil {
				t.Error(err)
			}
		}))
		server.Listener = listener
		server.Start()
		defer server.Close()
		r, err := client.New(client.Config{Address: "unix://" + listener.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		ui := &term.UI{Out: &out, Err: &out, OutTTY: c.tty, ErrTTY: c.tty, Getenv: func(string) string { return "" }, Now: time.Now, Random: func([]byte) {}}
		m := &mover{Dispatcher: &dispatch.Dispatcher{Env: &conn.Env{UI: ui}}, r: &conn.Remote{Client: r}, ref: conn.Ref{Host: "edge-01", Name: "web"}, to: "edge-02", p: still(), id: protocol.NewCTID(1, [10]byte{})}
		root := &cobra.Command{Use: "hostler", SilenceUsage: true, SilenceErrors: true, RunE: func(cmd *cobra.Command, _ []string) error { return m.do(cmd.Context(), stop) }}
		code := ui.Run(context.Background(), root, nil)
		if code != 0 || !strings.Contains(out.shown(), c.line) {
			t.Errorf("%s: code %d, shown %q, want %q", c.name, code, out.shown(), c.line)
		}
		if !c.tty && out.shown() != c.line {
			t.Errorf("%s: shown %q, want %q alone", c.name, out.shown(), c.line)
		}
	}
}
