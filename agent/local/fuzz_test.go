package local_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/local"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// FuzzCreateAction sends any body to an agent that runs no commands. It is taken
// or refused with a problem, and is never a fault of ours.
func FuzzCreateAction(f *testing.F) {
	for _, seed := range []string{
		`{"spec":"eyJraW5kIjoiaG9zdC5waW5nIn0="}`, `{"host":"edge-01","spec":"eyJraW5kIjoiaG9zdC5ydW4iLCJhcmd2IjpbInRydWUiXX0="}`, `{"host":"edge-02","spec":"e30="}`,
		`{"id":"01890a5d-ac96-774b-bcce-b302099a8057","spec":""}`, `{}`, `null`, `[]`, ``, `{"spec":1}`, `{"spec":"e30=","spec":"e30="}`,
	} {
		f.Add(seed)
	}
	ctx, cancel := context.WithCancel(f.Context())
	q := must[*queue.Queue](f)(queue.Create(ctx, queue.Config{Path: filepath.Join(f.TempDir(), "queue.db")}, protocol.StoreID{1}))
	a := must[*agent.Agent](f)(agent.New(agent.Config{Host: "edge-01", Fleet: protocol.FleetID{1}, FleetName: "lab", Queue: q, Boot: "a"}))
	h := must[http.Handler](f)(local.New(local.Config{Agent: a, Host: "edge-01", Version: "1.2.3", Check: well}))
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.Run(ctx) }) // returns what ended it
	f.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := q.Close(); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/actions", strings.NewReader(body)))
		if w.Code >= http.StatusInternalServerError && w.Code != http.StatusServiceUnavailable || w.Code >= http.StatusMultipleChoices && w.Header().Get("Content-Type") != api.ContentProblem {
			t.Errorf("%q: status %d: %s", body, w.Code, w.Body)
		}
	})
}
