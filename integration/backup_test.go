//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestBackups makes archives of containers, and containers of archives: whole ones of its
// own host, and of no other kind.
func TestBackups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.addPodmanHost(t, "edge-01")
	if err := os.Mkdir(w.path("nas"), 0o700); err != nil {
		t.Fatal(err)
	}
	other := w.addHost(t, "edge-02", false)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start", "--label", "app=web", "--limit", "pids=300")
	sh := func(name, script string) string {
		t.Helper()
		return w.must(t, "exec", "edge-01/"+name, "--", "sh", "-c", script)
	}
	sh("web", "echo one > /root/state; chown 7:8 /root/state; mkdir -p /etc/ssh; echo k > /etc/ssh/ssh_host_rsa_key; echo id > /etc/machine-id; echo x > '/root/.wh.x'")
	w.must(t, "backup", "create", "edge-01/web", "b1")
	w.cli(t, "backup", "create", "edge-01/web", "b1").exits(t, 1, "another name")
	w.must(t, "ct", "rm", "edge-01/web", "--yes")
	w.must(t, "backup", "verify", "edge-01", "b1")

	t.Run("restored under another name", func(t *testing.T) {
		w.must(t, "backup", "restore", "edge-01/web-2", "--from", "b1", "--start")
		look := "cat /root/state; stat -c %u:%g /root/state; hostname; ls /etc/ssh; cat /etc/machine-id; cat '/root/.wh.x'"
		if out := sh("web-2", look); out != "one\n7:8\nweb-2\nx\n" {
			t.Errorf("it is %q", out)
		}
		if out := w.must(t, "ct", "config", "get", "edge-01/web-2", "limit.pids") + w.must(t, "ct", "config", "get", "edge-01/web-2", "label.app"); out != "300\nweb\n" {
			t.Errorf("it is kept by %q", out)
		}
		w.must(t, "ct", "clone", "edge-01/web-2", "web-4", "--start")
		if out := sh("web-4", look); out != "one\n7:8\nweb-4\nx\n" {
			t.Errorf("its clone is %q", out)
		}
		w.must(t, "ct", "rm", "edge-01/web-4", "--yes")
		w.cli(t, "backup", "restore", "edge-01/web-2", "--from", "b1").exits(t, 1, "exists")
		w.must(t, "ct", "rm", "edge-01/web-2", "--yes")
	})
	t.Run("on the host alone", func(t *testing.T) {
		h.local(t, "backup", "--local", "restore", "web-3", "--from", "b1").exits(t, 0)
		h.local(t, "backup", "--local", "create", "web-3", "b3").exits(t, 0)
		if out := h.local(t, "backup", "--local", "ls", "-o", "name").exits(t, 0).stdout; out != "b1\nb3\n" {
			t.Errorf("there are %q", out)
		}
		h.local(t, "backup", "--local", "rm", "b3", "--yes").exits(t, 0)
		w.must(t, "ct", "rm", "edge-01/web-3", "--yes")
	})
	t.Run("of podman", func(t *testing.T) {
		w.must(t, "ct", "create", "edge-01/pod", podmantest.Image, "--start")
		sh("pod", "echo one > /root/state; chown 7:8 /root/state; mkdir -p /etc/ssh; echo k > /etc/ssh/ssh_host_rsa_key; echo id > /etc/machine-id; echo x > '/root/.wh.x'")
		w.must(t, "backup", "create", "edge-01/pod", "p1")
		w.must(t, "ct", "stop", "edge-01/pod")
		w.must(t, "backup", "create", "edge-01/pod", "p2")
		w.must(t, "ct", "rm", "edge-01/pod", "--yes")
		w.must(t, "backup", "verify", "edge-01", "p1")
		for _, from := range []string{"p1", "p2"} {
			w.must(t, "backup", "restore", "edge-01/pod-2", "--from", from, "--start")
			if out := sh("pod-2", "cat /root/state; stat -c %u:%g /root/state; hostname; ls /etc/ssh; cat /etc/machine-id; cat '/root/.wh.x'"); out != "one\n7:8\npod-2\nx\n" {
				t.Errorf("made of %s it is %q", from, out)
			}
			w.must(t, "ct", "rm", "edge-01/pod-2", "--yes")
		}
	})
	t.Run("at a target", func(t *testing.T) {
		w.must(t, "ct", "create", "edge-01/far", "--template", "busybox")
		w.cli(t, "backup", "create", "edge-01/far", "f1", "--target", "away").exits(t, 1, "mounted")
		if all := show[[]api.Backup](t, w, "backup", "ls", "edge-01"); !slices.ContainsFunc(all, func(b api.Backup) bool { return b.Target == "away" && strings.Contains(b.Problem, "mounted") }) {
			t.Errorf("of a target that is away there is %+v", all)
		}
		w.must(t, "backup", "create", "edge-01/far", "f1", "--target", "nas")
		if _, err := os.Stat(w.path("nas/f1.hostler-backup")); err != nil {
			t.Error(err)
		}
		w.cli(t, "backup", "verify", "edge-01", "f1").exits(t, 1, "no backup f1")
		h.local(t, "backup", "--local", "verify", "f1", "--target", "nas").exits(t, 0)
		w.container(t, "edge-01/far", "has a good backup", func(c ct) bool { return c.Backup == "nas:f1" && c.BackupAt != nil })
		w.must(t, "ct", "rm", "edge-01/far", "--yes")
		w.must(t, "backup", "restore", "edge-01/near", "--from", "f1", "--target", "nas")
		w.must(t, "ct", "rm", "edge-01/near", "--yes")
		w.must(t, "backup", "rm", "edge-01", "f1", "--target", "nas", "--yes")
		w.cli(t, "backup", "verify", "edge-01", "f1", "--target", "other").exits(t, 1, "no target other")
	})
	t.Run("by a schedule, which a manifest may say", func(t *testing.T) {
		write(t, w.path("timer.yaml"), "version: 1\ncontainers:\n  - {host: edge-01, name: timer, image: busybox, backup: {every: 1d, keep_daily: 7}}\n")
		from := len(w.events.since(0))
		w.must(t, "ct", "apply", "-f", w.path("timer.yaml"), "--yes")
		w.must(t, "snapshot", "schedule", "edge-01/timer", "--every", "6h", "--keep-daily", "2")
		h.local(t, "backup", "--local", "schedule", "timer", "--every", "12h").exits(t, 0)
		for _, kind := range []string{"container.backup", "container.snapshot"} {
			w.event(t, from, "the "+kind+" that was due", func(e api.Event) bool {
				return e.Type == "action.state" && e.Data["kind"] == kind && e.Data["state"] == "DONE"
			})
		}
		if all := show[[]api.Backup](t, w, "backup", "ls", "edge-01"); !slices.ContainsFunc(all, func(b api.Backup) bool { return b.Scheduled && b.Container == "timer" && b.Verified != nil }) {
			t.Errorf("there are %+v", all)
		}
		if out := w.must(t, "ct", "config", "get", "edge-01/timer", "backup") + w.must(t, "snapshot", "ls", "edge-01/timer", "-o", "name"); !strings.HasPrefix(out, "every 12h\nauto-") {
			t.Errorf("it is kept as %q", out)
		}
		w.cli(t, "ct", "apply", "-f", w.path("timer.yaml"), "--dry-run").exits(t, 10)
		w.must(t, "ct", "apply", "-f", w.path("timer.yaml"), "--yes")
		w.cli(t, "ct", "apply", "-f", w.path("timer.yaml"), "--dry-run").exits(t, 0)
		w.must(t, "ct", "rm", "edge-01/timer", "--yes")
	})
	t.Run("damaged and foreign ones are refused before anything is written", func(t *testing.T) {
		dir := h.path("backups")
		raw := []byte(read(t, filepath.Join(dir, "b1.hostler-backup")))
		changed := append([]byte{}, raw...)
		changed[len(changed)/2] ^= 1
		for name, b := range map[string][]byte{"cut": raw[:len(raw)-100], "changed": changed} {
			if err := os.WriteFile(filepath.Join(dir, name+".hostler-backup"), b, 0o600); err != nil {
				t.Fatal(err)
			}
			w.cli(t, "backup", "verify", "edge-01", name).exits(t, 1)
			w.cli(t, "backup", "restore", "edge-01/bad", "--from", name).exits(t, 1, "cannot be used")
		}
		if err := os.MkdirAll(other.path("backups"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(other.path("backups"), "foreign.hostler-backup"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		w.cli(t, "backup", "restore", "edge-02/bad", "--from", "foreign").exits(t, 1, "key of this host")
		for _, h := range []*host{h, other} {
			if _, err := os.Lstat(filepath.Join(h.path("lxc"), "bad")); err == nil {
				t.Errorf("%s has written something", h.name)
			}
		}
		all := show[[]api.Backup](t, w, "backup", "ls", "edge-02")
		if len(all) != 1 || !strings.Contains(all[0].Problem, "not signed") {
			t.Errorf("there are %+v", all)
		}
		w.cli(t, "backup", "restore", "edge-01/bad", "--from", "nosuch").exits(t, 1, "backup ls")
		w.cli(t, "backup", "restore", "edge-01/bad", "--from", "../b1").exits(t, 2)
	})
}
