//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestSnapshots keeps and restores the files of containers of LXC and podman as a user
// does, from the coordinator and on the host alone.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.addPodmanHost(t, "edge-01")
	for name, image := range map[string]string{"lxc": "busybox", "podman": podmantest.Image} {
		t.Run(name, func(t *testing.T) { w.snapshots(t, h, "edge-01/"+name, image) })
	}
	t.Run("what was cut short is found, and goes with the next snapshot", func(t *testing.T) {
		w.must(t, "ct", "create", "edge-01/half", "--template", "busybox")
		left := filepath.Join(h.path("lxc"), "half", "snapshots", ".new", "tree")
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
		if r := w.start(t, "hostler-agent", "--config", h.config(), "fsck").finish(t); !strings.Contains(r.stdout, "half snapshot") {
			t.Errorf("fsck says %s%s", r.stdout, r.stderr)
		}
		w.must(t, "snapshot", "create", "edge-01/half")
		if _, err := os.Lstat(left); err == nil {
			t.Error("it is there still")
		}
		w.must(t, "ct", "rm", "edge-01/half", "--yes")
	})
}

func (w *world) snapshots(t *testing.T, h *host, where, image string) {
	w.must(t, "ct", "create", where, image, "--start")
	sh := func(script string) string {
		t.Helper()
		return w.must(t, "exec", where, "--", "sh", "-c", script)
	}
	sh("echo one > /root/state; chown 7:8 /root/state; mkdir -p /root/deep; ln -s /root/state /root/deep/link; rm -f /etc/group")
	w.must(t, "snapshot", "create", where, "first", "--pause")
	w.container(t, where, "runs again", func(c ct) bool { return c.State == "running" })
	w.cli(t, "snapshot", "create", where, "first").exits(t, 1, "another name")
	sh("echo two > /root/state; echo more > /root/more; rm -r /root/deep; echo back > /etc/group")
	w.cli(t, "snapshot", "rollback", where, "first", "--yes").exits(t, 1, "--restart")
	if out := sh("cat /root/state"); out != "two\n" {
		t.Errorf("a rollback that was refused has left %q", out)
	}
	w.must(t, "snapshot", "create", where) // named after the time
	w.must(t, "snapshot", "rollback", where, "first", "--restart", "--yes")
	look := "cat /root/state; stat -c %u:%g /root/state; ls -d /root/more /etc/group 2>/dev/null; readlink /root/deep/link"
	if out := sh(look + "; true"); out != "one\n7:8\n/root/state\n" {
		t.Errorf("it is rolled back to %q", out)
	}
	sh("echo three > /root/state")
	all := show[[]api.ContainerSnapshot](t, w, "snapshot", "ls", where)
	if len(all) != 2 || all[1].Name != "first" || !all[1].Paused || all[0].Paused || all[1].Entries == 0 {
		t.Errorf("there are %+v", all)
	}
	w.must(t, "ct", "stop", where)
	w.must(t, "snapshot", "rollback", where, all[0].Name, "--yes")
	if c := w.container(t, where, "stays stopped", func(c ct) bool { return c.State == "stopped" }); c.Intended != "stopped" {
		t.Errorf("it is to be %s", c.Intended)
	}
	w.must(t, "ct", "start", where)
	if out := sh("cat /root/state /root/more /etc/group"); out != "two\nmore\nback\n" {
		t.Errorf("it is rolled back to %q", out)
	}
	_, name, _ := strings.Cut(where, "/")
	h.local(t, "snapshot", "--local", "prune", name, "--keep-daily", "1", "--keep-weekly", "0", "--yes").exits(t, 0)
	if out := h.local(t, "snapshot", "--local", "ls", name, "-o", "name").exits(t, 0).stdout; out != all[0].Name+"\n" {
		t.Errorf("of the snapshots %q stay", out)
	}
	w.must(t, "snapshot", "rm", where, all[0].Name, "--yes")
	w.cli(t, "snapshot", "rollback", where, all[0].Name, "--restart", "--yes").exits(t, 1, "snapshot ls")
	w.must(t, "exec", where, "--", "true")
	w.must(t, "snapshot", "create", where, "last")
	w.must(t, "ct", "rm", where, "--yes")
}
