package probe_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/probe"
	"github.com/hostler-io/hostler/protocol/contract"
)

func prober(t *testing.T) (*probe.Prober, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run", "checks")
	p, err := probe.New(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, dir
}

// TestConnections: a port and a path are asked for at the container's own address, and
// nothing leads elsewhere.
func TestConnections(t *testing.T) {
	p, dir := prober(t)
	if info, err := os.Stat(filepath.Dir(dir)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory above is %v, %v", info.Mode(), err)
	}
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/hangs":
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	where, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(where.Host)
	at := containers.Probed{Name: "web", Addresses: []netip.Addr{addr.Addr()}}
	port := strconv.Itoa(int(addr.Port()))
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := closed.Addr().(*net.TCPAddr).Port
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at    containers.Probed
		check contract.Check
		want  string
	}{
		{at, contract.Check{TCP: int64(addr.Port())}, ""},
		{at, contract.Check{TCP: int64(free)}, "refused"},
		{containers.Probed{Name: "web"}, contract.Check{TCP: 80}, "no address"},
		{at, contract.Check{HTTP: ":" + port}, ""},
		{at, contract.Check{HTTP: ":" + port + "/well?deep=1"}, ""},
		{at, contract.Check{HTTP: ":" + port + "/away"}, ""},
		{at, contract.Check{HTTP: ":" + port + "/broken"}, "503"},
		{at, contract.Check{HTTP: ":" + port + "/hangs"}, "deadline"},
		{containers.Probed{Name: "web"}, contract.Check{HTTP: ":" + port}, "no address"},
		{at, contract.Check{Cmd: []string{"true"}}, "runtime is gone"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err := p.Probe(ctx, c.at, c.check)
		cancel()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.check, err, c.want)
		}
		if c.check.HTTP == ":"+port+"/well?deep=1" && asked != "/well?deep=1" {
			t.Errorf("it was asked for %q", asked)
		}
	}
}
