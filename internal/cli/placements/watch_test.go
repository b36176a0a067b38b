package placements

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// planned runs a plan under the options. The plan is empty when it is asked for the first time, holds
// a step the next two times, and is empty from then on; the fifth question ends the run.
func planned(t *testing.T, tty bool, options ...string) (code int, shown string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	asked, gone := 0, make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		steps := []api.PlacementStep{}
		if asked++; asked == 2 || asked == 3 {
			steps = append(steps, api.PlacementStep{Name: "db", CTID: "1", From: "edge-01", To: "edge-02"})
		}
		if asked == 5 {
			cancel()
			<-gone // no answer comes before that
			return
		}
		if err := json.NewEncoder(w).Encode(steps); err != nil {
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
	var out bytes.Buffer
	a := &commands{&conn.Env{UI: &term.UI{Out: &out, Err: &out, OutTTY: tty, ErrTTY: tty, Getenv: func(string) string { return "" }, Now: time.Now, Every: time.Millisecond}}}
	root := &cobra.Command{Use: "hostler", SilenceErrors: true, SilenceUsage: true}
	v := show.ShowFlags(root)
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.plan(cmd.Context(), &conn.Remote{Client: c}, v, api.WhatIf{})
	}
	code = a.Run(ctx, root, options)
	close(gone)
	return code, out.String()
}

// TestPlanIsWatched: with --watch each change of a plan is printed, also that nothing is left of
// it, until the user ends that.
func TestPlanIsWatched(t *testing.T) {
	const none, step, clear = "Every unique container is where it should be.\n", "name: db\nfrom: edge-01\nto: edge-02\nstays: false\nctid: 1\n", "\x1b[H\x1b[2J"
	for _, c := range []struct {
		name    string
		tty     bool
		options []string
		code    int
		want    string
	}{
		{"once", false, nil, 0, none},
		{"pipe", false, []string{"--watch"}, term.ExitInterrupted, none + step + none},
		{"program", false, []string{"--watch", "-o", "json"}, term.ExitInterrupted, none + `{"name":"db","ctid":"1","from":"edge-01","to":"edge-02"}` + "\n" + none},
		{"terminal", true, []string{"-w"}, term.ExitInterrupted, clear + none + clear + step + clear + step + clear + none},
	} {
		if code, shown := planned(t, c.tty, c.options...); code != c.code || shown != c.want {
			t.Errorf("%s: code %d, want %d; shown %q, want %q", c.name, code, c.code, shown, c.want)
		}
	}
}
