//go:build integration

package integration

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGeneratedClients: generators that are not ours make clients of the document, in
// Go and in TypeScript, and each of them gives an order. A validator that is not ours
// finds nothing wrong with the document.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	document := w.document(t)
	for _, c := range []struct {
		name  string
		steps [][]string
		want  string
	}{
		{"go", [][]string{
			{"go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", "api.gen.go", document},
			{"go", "run", "."},
		}, "DONE ok\nhello from Go\nunknown_host\n"},
		{"ts", [][]string{
			{"npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error"},
			{"node_modules/.bin/validate-api", document},
			{"node_modules/.bin/openapi-typescript", document, "-o", "api.ts"},
			{"node_modules/.bin/tsc"},
			{"node", "order.js"},
		}, "DONE ok\nhello from TypeScript\nunknown_host\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata/clients", c.name))); err != nil {
				t.Fatal(err)
			}
			var last []byte
			for _, step := range c.steps {
				cmd := exec.CommandContext(t.Context(), step[0], step[1:]...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "ADDRESS="+w.url(), "TOKEN="+w.token, "HOST=edge-01",
					"CA="+w.path("coordinator/ca.crt"), "NODE_EXTRA_CA_CERTS="+w.path("coordinator/ca.crt"), "GOFLAGS=-mod=mod -buildvcs=false")
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%q: %v\n%s", step, err, out)
				}
				last = out
			}
			if string(last) != c.want {
				t.Errorf("it prints\n%swant\n%s", last, c.want)
			}
		})
	}
}

// document keeps the document of the API in a file. It is served to everybody.
func (w *world) document(t testing.TB) string {
	t.Helper()
	resp, err := w.web(t).Get(w.url() + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	path := filepath.Join(w.dir, "openapi.json")
	write(t, path, string(b))
	return path
}
