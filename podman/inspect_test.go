package podman_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/podman"
)

// TestEndsWhileInspected: podman fails an inspection whose container ends while podman reads
// of its process in /proc. The container is inspected again, but not for ever.
func TestEndsWhileInspected(t *testing.T) {
	m := newMachine(t)
	spec := m.specs()
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	var ends atomic.Int32 // how many inspections are still to fail
	real := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", m.cfg.Socket)
	}}
	t.Cleanup(real.CloseIdleConnections)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "podman"})
	forward.Transport = real
	between := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, spec.Name+"/json") && ends.Add(-1) >= 0 {
			w.WriteHeader(http.StatusInternalServerError)
			// As podman 4.3 has said it.
			_, _ = io.WriteString(w, `{"cause":"no such process","message":"read /proc/16863/cgroup: no such process","response":500}`)
			return
		}
		forward.ServeHTTP(w, req)
	}))
	cfg := m.cfg
	cfg.Socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	between.Listener.Close()
	between.Listener = l
	between.Start()
	t.Cleanup(between.Close)
	r, err := podman.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })

	ends.Store(1)
	if info, err := r.Inspect(t.Context(), spec.Name); err != nil || info.State != container.StateStopped {
		t.Errorf("it is %+v, %v; want a stopped container", info, err)
	}
	ends.Store(1000)
	if _, err := r.Inspect(t.Context(), spec.Name); err == nil || !strings.Contains(err.Error(), "no such process") {
		t.Errorf("podman that always fails: %v", err)
	}
}
