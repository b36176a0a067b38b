package conn

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// screen is a terminal that tells when something is shown.
type screen struct {
	mu    sync.Mutex
	text  strings.Builder
	wants string
	shown chan struct{} // closed when wants is there
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := strings.Contains(s.text.String(), s.wants)
	n, err := s.text.Write(b)
	if !before && strings.Contains(s.text.String(), s.wants) {
		close(s.shown)
	}
	return n, err
}

// TestSlowAnswersAreWaitedForInSight: whatever is asked, a terminal shows for how long no
// answer has come, and nothing of it stays. What waits by itself tells so elsewhere.
func TestSlowAnswersAreWaitedForInSight(t *testing.T) {
	const line = "waiting for an answer of the agent, 1 s"
	s := &screen{wants: line, shown: make(chan struct{})}
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("wait") == "" {
			select { // it answers when the line is there
			case <-s.shown:
			case <-time.After(time.Minute):
				t.Error("nothing is shown")
			}
		}
		_, _ = w.Write([]byte("{}")) // who asked may have gone
	}))
	server.Listener = listener
	server.Start()
	defer server.Close()

	a := &Env{UI: &term.UI{Out: s, Err: s, OutTTY: true, ErrTTY: true, Getenv: func(k string) string { return map[string]string{"HOME": dir}[k] }, Now: time.Now}, socket: listener.Addr().String()}
	root := &cobra.Command{Use: "hostler", RunE: func(cmd *cobra.Command, _ []string) error {
		r, err := a.Connect()
		if err != nil {
			return err
		}
		if _, err := r.Action(cmd.Context(), "1", time.Second); err != nil {
			return err
		}
		_, err = r.Action(cmd.Context(), "1", 0)
		return err
	}}
	if code := a.Run(t.Context(), root, nil); code != 0 || s.text.String() != line+"\r\x1b[K" {
		t.Errorf("code %d, shown %q", code, s.text.String())
	}
}
