package fences

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

func (s *screen) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

// TestFenceIsFollowedInSight: on a terminal a fence that takes long shows how it stands.
func TestFenceIsFollowedInSight(t *testing.T) {
	const line = "fence of host edge-01: sending, device pdu was asked, 1 s"
	s := new(screen)
	asked := 0
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f := api.Fence{ID: "1", Host: "edge-01", State: "sending", Log: []api.FenceLine{{Text: "device pdu was asked"}}}
		if asked++; s.shows(line) || asked > 100 {
			now := time.Now()
			f.State, f.EndedAt = "done", &now
		}
		if err := json.NewEncoder(w).Encode(f); err != nil {
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
	a := &commands{&conn.Env{UI: &term.UI{Out: s, Err: s, OutTTY: true, ErrTTY: true, Getenv: func(string) string { return "" }, Now: time.Now}}, nil}
	root := &cobra.Command{Use: "hostler", RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := a.follow(cmd.Context(), &conn.Remote{Client: c}, api.Fence{ID: "1", Host: "edge-01", State: "delayed"})
		return err
	}}
	if code := a.Run(context.Background(), root, nil); code != 0 || !s.shows(line) {
		t.Errorf("code %d, shown %q", code, s.text.String())
	}
}
