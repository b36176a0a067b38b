//go:build integration

package integration

import (
	"archive/tar"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestImages pulls, lists, uses and removes an image of a host, from the coordinator and
// on the host: a container of LXC is made of it and runs what the image says.
func TestImages(t *testing.T) {
	t.Parallel()
	registry := podmantest.Registry(t)
	rootfs, err := podmantest.Rootfs()
	if err != nil {
		t.Fatal(err)
	}
	system, err := io.ReadAll(rootfs)
	if err != nil {
		t.Fatal(err)
	}
	img := imagetest.Make(t, imagetest.Config{Cmd: []string{"/bin/sleep", "1000000"}, StopSignal: "SIGKILL"}, system,
		imagetest.Layer(t, imagetest.Entry{Header: tar.Header{Name: "etc/motto", Mode: 0o644}, Content: "made of layers"}))
	ref := img.Push(t, registry, "site/web", "1")
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.cli(t, "image", "pull", "edge-01", ref, "--runtime", "lxc").exits(t, 1, "images.insecure")
	write(t, h.config(), read(t, h.config())+"\n[images]\ninsecure = [\""+registry+"\"]\n")
	h.restart(t, syscall.SIGTERM)
	pulled := w.cli(t, "image", "pull", "edge-01", ref, "--runtime", "lxc").exits(t, 0)
	if pulled.stdout != ref+" "+img.Digest+"\n" || !strings.Contains(pulled.stderr, "pulling "+ref) {
		t.Errorf("it says %q and %q", pulled.stdout, pulled.stderr)
	}
	if out := w.must(t, "image", "ls", "edge-01", "-o", "csv"); !strings.Contains(out, ref+",lxc,") || !strings.Contains(out, img.Digest) {
		t.Errorf("the list is %s", out)
	}
	w.cli(t, "ct", "create", "edge-01/web", ref, "--runtime", "lxc", "--start").exits(t, 0)
	if out := w.must(t, "exec", "edge-01/web", "--", "cat", "/etc/motto"); out != "made of layers" {
		t.Errorf("the container says %q", out)
	}
	if out := w.must(t, "ct", "config", "get", "edge-01/web", "digest"); out != img.Digest+"\n" {
		t.Errorf("it is made of %q", out)
	}
	// It shares the files of the image, and they are there while it is stopped, too.
	if out := w.must(t, "ct", "config", "get", "edge-01/web", "rootfs"); out != "overlay\n" {
		t.Errorf("its root directory is %q", out)
	}
	if s := show[api.Host](t, w, "host", "show", "edge-01"); !slices.Contains(s.Features, "lxc.overlay") {
		t.Errorf("the host can %q", s.Features)
	}
	w.must(t, "ct", "stop", "edge-01/web")
	write(t, w.path("pushed"), "pushed to a stopped one\n")
	w.must(t, "push", w.path("pushed"), "edge-01/web:/etc/pushed")
	if out := w.must(t, "pull", "edge-01/web:/etc/motto", "-") + w.must(t, "pull", "edge-01/web:/etc/pushed", "-"); out != "made of layerspushed to a stopped one\n" {
		t.Errorf("the stopped container has %q", out)
	}
	w.must(t, "backup", "create", "edge-01/web", "stopped")
	w.must(t, "ct", "start", "edge-01/web")
	if out := w.must(t, "exec", "edge-01/web", "--", "cat", "/etc/pushed"); out != "pushed to a stopped one\n" {
		t.Errorf("the container says %q", out)
	}
	w.must(t, "backup", "create", "edge-01/web", "running")
	for _, from := range []string{"stopped", "running"} {
		w.must(t, "backup", "restore", "edge-01/"+from, "--from", from)
		if out := w.must(t, "pull", "edge-01/"+from+":/etc/motto", "-") + w.must(t, "ct", "config", "get", "edge-01/"+from, "rootfs"); out != "made of layerscopy\n" {
			t.Errorf("the restored container has %q", out)
		}
	}
	archive := w.path("web.image")
	h.local(t, "image", "export", ref, archive, "--runtime", "lxc").exits(t, 0)
	w.cli(t, "image", "rm", "edge-01", ref, "--yes").exits(t, 0)
	w.cli(t, "image", "rm", "edge-01", ref, "--yes").exits(t, 1, "no such image on this host")
	if out := h.local(t, "image", "ls", "-o", "name").exits(t, 0).stdout; out != "" {
		t.Errorf("the host has %q", out)
	}
	if out := h.local(t, "image", "prune", "--yes", "--runtime", "lxc").exits(t, 0).stderr; !strings.Contains(out, "0 images removed") {
		t.Errorf("prune says %q", out)
	}
	w.must(t, "exec", "edge-01/web", "--", "true")

	// Without a coordinator, an archive and what a command reads come by the agent's socket.
	w.coordinator.end(t, term)
	h.local(t, "image", "import", archive, "edge-01").exits(t, 2, "leave out the names of hosts")
	h.local(t, "image", "import", archive).exits(t, 0)
	if out := h.local(t, "image", "ls", "-o", "csv").exits(t, 0).stdout; !strings.Contains(out, ref+",lxc,") {
		t.Errorf("the host has %q", out)
	}
	whole := read(t, archive)
	write(t, archive, whole[:len(whole)/2])
	h.local(t, "image", "import", archive).exits(t, 1)
	write(t, w.path("line"), "read on the host\n")
	if out := h.local(t, "run", "--stdin", w.path("line"), "--", "cat").exits(t, 0).stdout; out != "read on the host\n" {
		t.Errorf("the command has read %q", out)
	}
	h.local(t, "push", w.path("line"), "web:/etc/line").exits(t, 0)
	if out := h.local(t, "pull", "web:/etc/line", "-").exits(t, 0).stdout; out != "read on the host\n" {
		t.Errorf("the container has %q", out)
	}
	h.local(t, "push", w.path("line"), ":/srv/").exits(t, 2, "cp for the files of this host")
	h.local(t, "pull", "edge-01/web:/srv/line", "-").exits(t, 2, "use the container name alone")
}
