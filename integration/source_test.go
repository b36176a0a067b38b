//go:build integration

package integration

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestImageSources makes real containers of LXC of an image server's archive, of a file
// of the host and of a URL, and holds pulls to their policy.
func TestImageSources(t *testing.T) {
	t.Parallel()
	system := func(motto string) []byte {
		t.Helper()
		rootfs, err := podmantest.Rootfs()
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(rootfs)
		if err != nil {
			t.Fatal(err)
		}
		more := imagetest.Layer(t, imagetest.Entry{Header: tar.Header{Name: "etc/motto", Mode: 0o644}, Content: motto},
			imagetest.Entry{Header: tar.Header{Name: "sbin/", Typeflag: tar.TypeDir, Mode: 0o755}},
			imagetest.Entry{Header: tar.Header{Name: "sbin/init", Mode: 0o755}, Content: "#!/bin/sh\nexec /bin/sleep 1000000\n"})
		return append(bytes.TrimRight(all, "\x00"), append(make([]byte, (512-len(bytes.TrimRight(all, "\x00"))%512)%512), more...)...)
	}
	pack := func(raw []byte) []byte {
		t.Helper()
		cmd := exec.Command("xz", "-c", "-1")
		cmd.Stdin = bytes.NewReader(raw)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var archive atomic.Pointer[[]byte]
	archive.Store(new(pack(system("of the server"))))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		packed := *archive.Load()
		switch r.URL.Path {
		case "/streams/v1/index.json":
			fmt.Fprint(rw, `{"format":"index:1.0","index":{"images":{"datatype":"image-downloads","format":"products:1.0","path":"streams/v1/images.json"}}}`)
		case "/streams/v1/images.json":
			fmt.Fprintf(rw, `{"format":"products:1.0","products":{"d":{"aliases":"debian/bookworm,debian/12","arch":%q,"versions":{"20240101_05:24":{"items":{"r":{"ftype":"root.tar.xz","path":"images/rootfs.tar.xz","sha256":"%x","size":%d}}}}}}}`,
				runtime.GOARCH, sha256.Sum256(packed), len(packed))
		case "/images/rootfs.tar.xz", "/root.tar.xz":
			_, _ = rw.Write(packed) // a host that goes away asks again
		default:
			http.NotFound(rw, r)
		}
	}))
	t.Cleanup(server.Close)
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	file := w.path("root.tar")
	if err := os.WriteFile(file, system("of a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.cli(t, "ct", "create", "edge-01/no", "site:debian/12").exits(t, 1, "images.servers")
	write(t, h.config(), read(t, h.config())+fmt.Sprintf("\n[images]\nservers = [\"site=%s\"]\ninsecure = [%q]\n", server.URL, strings.TrimPrefix(server.URL, "http://")))
	h.restart(t, syscall.SIGTERM)
	w.cli(t, "ct", "create", "edge-01/no", "site:debian/12", "--pull", "never").exits(t, 1, "no such image on this host")
	motto := func(name, want string) {
		t.Helper()
		if out := w.must(t, "exec", "edge-01/"+name, "--", "cat", "/etc/motto"); out != want {
			t.Errorf("%s says %q, want %q", name, out, want)
		}
	}
	for name, ref := range map[string]string{"one": "site:debian/12", "two": server.URL + "/root.tar.xz"} {
		w.cli(t, "ct", "create", "edge-01/"+name, ref, "--start").exits(t, 0)
		motto(name, "of the server")
	}
	w.cli(t, "ct", "create", "edge-01/three", "file:"+file, "--start").exits(t, 0)
	motto("three", "of a file")
	archive.Store(new(pack(system("of the newer server"))))
	w.cli(t, "ct", "create", "edge-01/four", "site:debian/12", "--start", "--pull", "missing").exits(t, 0)
	motto("four", "of the server")
	w.cli(t, "ct", "create", "edge-01/five", "site:debian/12", "--start", "--pull", "always").exits(t, 0)
	motto("five", "of the newer server")
	if out := w.must(t, "image", "ls", "edge-01", "-o", "csv"); !strings.Contains(out, "site:debian/12,lxc,") || !strings.Contains(out, "file:"+file+",lxc,") {
		t.Errorf("the list is %s", out)
	}
	// Who may pull images is not thereby who may read every file of the host.
	if r := w.cli(t, "image", "pull", "edge-01", "file:"+file, "--runtime", "lxc"); r.code == 0 || !strings.Contains(r.stderr, "is read when a container is made of it") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	w.cli(t, "image", "rm", "edge-01", "site:debian/12", "--yes").exits(t, 0)
}
