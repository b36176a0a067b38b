package placements

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
	"github.com/hostler-io/hostler/internal/cli/term"
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

// TestMoveOfUniqueIsInSight: on a terminal a move that takes long shows where the container
// stands.
func TestMoveOfUniqueIsInSight(t *testing.T) {
	const line = "move of edge-01/db: to host edge-02, withheld on host edge-01, 1 s"
	s := new(screen)
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p := api.Placement{Lease: api.Lease{Name: "db", Host: "edge-01", Phase: "withheld", Move: &api.Move{To: "edge-02"}}}
		if asked++; asked > 50 || strings.Contains(s.shown(), line) {
			p.Lease = api.Lease{Name: "db", Host: "edge-02", Phase: "held", Moved: &api.MoveEnd{Move: api.Move{To: "edge-02"}}}
		}
		if err := json.NewEncoder(w).Encode(p); err != nil {
			t.Error(err)
		}
	}))
	server.Listener = listener
	server.Start()
	defer server.Close()
	c, err := client.New(client.Config{Address: "unix://" + listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	e := &conn.Env{UI: &term.UI{Out: s, Err: s, OutTTY: true, ErrTTY: true, Getenv: func(string) string { return "" }, Now: time.Now}}
	root := &cobra.Command{Use: "hostler", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
		return MoveUnique(cmd.Context(), e, &conn.Remote{Client: c}, api.Container{Name: "db", Host: "edge-01", CTID: "1"}, api.AskMove{Host: "edge-02"}, 0)
	}}
	if code := e.Run(context.Background(), root, nil); code != 0 || !strings.Contains(s.shown(), line) {
		t.Errorf("code %d, shown %q, want %q", code, s.shown(), line)
	}
}
