//go:build integration

package integration

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol/san"
)

// TestReached asks a host on its port for other machines, with stock curl and the
// certificates of each role.
func TestReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.newHost(t, "edge-01", false)
	listen := freeAddress(t)
	write(t, h.config(), "http.listen = \""+listen+"\"\n"+read(t, h.config()))
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	curl := func(l login, method, path string) string {
		t.Helper()
		args := []string{"-k", "-sS", "-m", "20", "-X", method, "-o", "-", "-w", " %{http_code}"}
		if l.cert != "" {
			args = append(args, "--cert", l.cert, "--key", l.key)
		}
		out, _ := exec.CommandContext(t.Context(), "curl", append(args, "https://"+listen+path)...).CombinedOutput()
		return string(out)
	}
	screen, head := w.viewer(t, "screen"), w.stolenCoordinator()
	for _, tc := range []struct {
		who          login
		method, path string
		want         string
	}{
		{screen, "GET", "/ping", "pong 200"},
		{head, "GET", "/ping", "pong 200"},
		{head, "POST", "/trigger", " 204"},
		{screen, "POST", "/trigger", "this was asked less than 5 s ago 429"},
		{screen, "POST", "/heartbeat", " 204"},
		{screen, "GET", "/trigger", " 405"},
	} {
		if got := strings.ReplaceAll(curl(tc.who, tc.method, tc.path), "\n", ""); !strings.HasSuffix(got, tc.want) {
			t.Errorf("%s %s: %q, want %q", tc.method, tc.path, got, tc.want)
		}
	}
	for _, path := range []string{"/status", "/metrics", "/v1/actions", "/v1/containers", "/readyz", "/"} {
		if got := curl(head, "GET", path); !strings.HasSuffix(got, " 404") {
			t.Errorf("%s is served: %s", path, got)
		}
	}
	for who, l := range map[string]login{"a stranger": {}, "a host": w.tlsOf(t, "edge-01")} {
		if got := curl(l, "GET", "/ping"); !strings.HasSuffix(got, " 000") {
			t.Errorf("%s is served: %s", who, got)
		}
	}

	// What it shows is the certificate of the host, from the fleet's authority.
	pair, err := tls.LoadX509KeyPair(screen.cert, screen.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", listen, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(read(t, screen.ca)))
	shown := c.ConnectionState().PeerCertificates[0]
	if _, err := shown.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil || shown.URIs[0].String() != (san.Name{Kind: san.Host, ID: "edge-01"}).String() {
		t.Errorf("it shows a certificate of %v, %v", shown.URIs, err)
	}

	// Connections that say nothing take no place for long, and keep no one out.
	for range 40 {
		silent, err := net.Dial("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	for deadline := time.Now().Add(patience); ; elapse(t, 200*time.Millisecond) {
		if got := curl(screen, "GET", "/ping"); strings.Contains(got, "pong") {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("forty silent connections keep others out: %s", got)
		}
	}
	if got := h.get(t, "/v1/check"); !strings.Contains(got, "http.listen "+listen) {
		t.Errorf("doctor says nothing of the listener: %s", got)
	}
}
