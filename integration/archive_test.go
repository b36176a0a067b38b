//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestImageArchives brings images of LXC and podman from one host to another: by a file,
// which the second one refuses if it was changed or if a stranger has signed it, and from
// host to host.
func TestImageArchives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.addPodmanHost(t, "edge-01")
	w.addPodmanHost(t, "edge-02")
	dir := t.TempDir()
	for runtime, template := range map[string]string{"lxc": "busybox", "podman": podmantest.Image} {
		t.Run(runtime, func(t *testing.T) {
			where, ref, file := "edge-01/"+runtime, "localhost/of-"+runtime+":1", filepath.Join(dir, runtime)
			w.must(t, "ct", "create", where, template, "--start", "--label", "app=web")
			w.must(t, "exec", where, "--", "sh", "-c", "echo one > /root/state; chown 7:8 /root/state")
			w.must(t, "image", "promote", where, "of-"+runtime+":1")
			w.must(t, "image", "export", "edge-01", ref, file)
			w.must(t, "image", "import", file, "edge-02")
			w.must(t, "image", "demote", "edge-02/"+runtime, ref, "--start", "--keep")
			look := []string{"exec", "edge-02/" + runtime, "--", "sh", "-c", "cat /root/state; stat -c %u:%g /root/state"}
			if out := w.must(t, look...); out != "one\n7:8\n" {
				t.Errorf("its files are %q", out)
			}
			if out := w.must(t, "ct", "config", "get", "edge-02/"+runtime, "label.app"); !strings.Contains(out, "web") {
				t.Errorf("it is kept with %q", out)
			}
		})
	}
	b, err := os.ReadFile(filepath.Join(dir, "lxc"))
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	changed := filepath.Join(dir, "changed")
	if err := os.WriteFile(changed, b, 0o600); err != nil {
		t.Fatal(err)
	}
	w.must(t, "image", "rm", "edge-02", "localhost/of-lxc:1", "--yes")
	w.cli(t, "image", "import", changed, "edge-02").exits(t, 1, "digest")
	w.cli(t, "image", "import", filepath.Join(dir, "lxc"), "edge-02", "--allow-unsigned").exits(t, 2, "--name")
	if err := os.WriteFile(changed, b[:len(b)-100], 0o600); err != nil {
		t.Fatal(err)
	}
	w.cli(t, "image", "import", changed, "edge-02").exits(t, 1, "cut short")
	w.must(t, "image", "copy", "edge-01", "localhost/of-lxc:1", "edge-02")
	if out := w.must(t, "image", "ls", "edge-02", "-o", "csv"); !strings.Contains(out, "localhost/of-lxc:1,lxc,") {
		t.Errorf("the list is %s", out)
	}
	h.local(t, "image", "export", "localhost/of-lxc:1", filepath.Join(dir, "local")).exits(t, 0)
	// Another fleet knows none of its hosts.
	other := newWorld(t)
	other.addHost(t, "far-01", true)
	other.cli(t, "image", "import", filepath.Join(dir, "local"), "far-01").exits(t, 1, "--allow-unsigned")
	other.must(t, "image", "import", filepath.Join(dir, "local"), "far-01", "--allow-unsigned", "--name", "taken:1")
	if out := other.must(t, "image", "ls", "far-01", "-o", "csv"); !strings.Contains(out, "localhost/taken:1,lxc,") {
		t.Errorf("the list is %s", out)
	}
}
