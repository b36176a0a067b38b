package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// TestTailIsWaitedForWhileItMoves: the end of a long output over a slow line
// comes in one answer that takes minutes, and then not at all for as long.
func TestTailIsWaitedForWhileItMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		var moved atomic.Int64
		begun := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			w := &counter{w: new(bytes.Buffer), moved: &moved}
			for range 30 {
				<-time.After(20 * time.Second)
				if _, err := w.Write([]byte("x")); err != nil || ctx.Err() != nil {
					t.Errorf("given up although it moves: %v, %v", err, context.Cause(ctx))
				}
			}
			<-ctx.Done() // and then nothing comes
		}()
		// For five minutes its host is there, with more to send.
		there := func() bool { return time.Since(begun) < 15*time.Minute }
		WatchTail(tail, done, &moved, there, stop)
		if took := time.Since(begun); context.Cause(ctx) != ErrTail || took < 15*time.Minute || took > 15*time.Minute+2*tail {
			t.Errorf("ended by %v after %v", context.Cause(ctx), took)
		}
	})
}

// TestMissingOutputIsWaitedFor: as long as the host of an ended action is there and
// has more to send, and it is said once.
func TestMissingOutputIsWaitedFor(t *testing.T) {
	connectivity := ""
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/hosts/edge-01", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":"edge-01","state":"approved","connectivity":%q}`, connectivity)
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	c, err := client.New(client.Config{Address: server.URL, CA: server.Certificate().Raw})
	if err != nil {
		t.Fatal(err)
	}
	act := api.Action{ID: "0199", Host: "edge-01", State: "DONE", Output: []api.Output{{FD: "stdout", Bytes: 1000, Dropped: 100}, {FD: "stderr", Bytes: 50}}}
	for _, tt := range []struct {
		connectivity string
		moved        int64
		want         bool
	}{
		{"online", 949, true}, {"late", 0, true}, {"offline", 949, false}, {"unknown", 949, false}, {"online", 950, false},
	} {
		var said bytes.Buffer
		f := &Follower{Dispatcher: New(&conn.Env{UI: &term.UI{Err: &said}}), Remote: &conn.Remote{Client: c}, Label: "edge-01"}
		connectivity = tt.connectivity
		got := f.Comes(t.Context(), act, tt.moved)
		again := f.Comes(t.Context(), act, tt.moved)
		if got != tt.want || again != tt.want {
			t.Errorf("%s, %d bytes came: %t, %t", tt.connectivity, tt.moved, got, again)
		}
		text := fmt.Sprintf("waiting for %d bytes of its output, which its host, edge-01, has not sent yet\n", 950-tt.moved)
		if n := strings.Count(said.String(), text); n != map[bool]int{true: 1}[tt.want] {
			t.Errorf("%s, %d bytes came: it said %q", tt.connectivity, tt.moved, said.String())
		}
	}
}
