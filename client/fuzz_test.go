package client_test

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
)

// FuzzAnswers has a server that answers anything, as a page, as a problem and as
// events: a client returns, and what it hands on was read as a whole.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"id":"x"}`, `{"code":"not_found","detail":"no"}`, "data: {\"id\":1}\n\n", "data: {\n", ": comment\n\ndata:{}\n\n", "id: 1\r\n", `null`, `[`, ``, "data:null\n",
	} {
		f.Add([]byte(seed), uint16(http.StatusOK))
		f.Add([]byte(seed), uint16(http.StatusConflict))
	}
	var answer atomic.Pointer[struct {
		body   []byte
		status int
	}]
	socket := filepath.Join(f.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		f.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answer.Load()
		if a.status >= http.StatusBadRequest {
			w.Header().Set("Content-Type", api.ContentProblem)
		}
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body) // the client may have gone
	})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			f.Error(err)
		}
	})
	c, err := client.New(client.Config{Address: "unix://" + socket})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, status uint16) {
		answer.Store(&struct {
			body   []byte
			status int
		}{body, 200 + int(status)%400})
		failed := answer.Load().status >= http.StatusMultipleChoices
		var a api.Action
		if err := c.Get(t.Context(), "/v1/actions/x", nil, &a); err == nil && failed {
			t.Errorf("status %d is taken as success", answer.Load().status)
		}
		if err := c.Events(t.Context(), 0, func(api.Event) error { return nil }); err == nil && failed {
			t.Errorf("status %d is taken as events", answer.Load().status)
		}
	})
}
