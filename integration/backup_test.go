//go:build integration

package integration

import (
	"fmt"
	"os"
	"os/exec"
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
	t.Run("increments", func(t *testing.T) {
		for name, args := range map[string][]string{"grows": {"--template", "busybox"}, "pods": {podmantest.Image}} {
			w.must(t, slices.Concat([]string{"ct", "create", "edge-01/" + name}, args, []string{"--start"})...)
			sh(name, "mkdir /root/old; echo one > /root/old/state; echo x > '/root/.wh.x'; head -c 300000 /dev/urandom > /root/large")
			w.must(t, "backup", "create", "edge-01/"+name, name+"-0", "--incremental")
			sh(name, "rm -r /root/old; ln -s /etc /root/old; echo two > /root/state; chown 7:8 /root/state")
			w.must(t, "backup", "create", "edge-01/"+name, name+"-1", "--incremental")
			sh(name, "rm '/root/.wh.x'; echo three > /root/state")
			w.must(t, "backup", "create", "edge-01/"+name, name+"-2", "--incremental")
			all := show[[]api.Backup](t, w, "backup", "ls", "edge-01")
			for i, parent := range []string{"", name + "-0", name + "-1"} {
				at := slices.IndexFunc(all, func(b api.Backup) bool { return b.Name == fmt.Sprint(name, "-", i) })
				if at < 0 || all[at].Parent != parent || all[at].Chain != i+1 || all[at].Problem != "" || all[at].Verified == nil {
					t.Fatalf("of %s there are %+v", name, all)
				}
			}
			w.container(t, "edge-01/"+name, "has the increment as its good backup", func(c ct) bool { return c.Backup == name+"-2" })
			w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
			for i, want := range []string{"one\nno\nx\n", "two\nlink\nx\n", "three\nlink\nno\n"} {
				w.must(t, "backup", "restore", "edge-01/again", "--from", fmt.Sprint(name, "-", i), "--start")
				if out := sh("again", "cat /root/state 2>/dev/null || cat /root/old/state; test -L /root/old && echo link || echo no; cat '/root/.wh.x' 2>/dev/null || echo no"); out != want {
					t.Errorf("made of %s-%d it has %q, want %q", name, i, out, want)
				}
				w.must(t, "ct", "rm", "edge-01/again", "--yes")
			}
			w.cli(t, "backup", "rm", "edge-01", name+"-1", "--yes").exits(t, 1, "needed to restore "+name+"-2")
			w.must(t, "backup", "copy", "edge-01", name+"-1", "edge-02")
			w.must(t, "backup", "copy", "edge-01", name+"-2", "edge-02") // two of three are there
			all = show[[]api.Backup](t, w, "backup", "ls", "edge-02")
			for i := range 3 {
				at := slices.IndexFunc(all, func(b api.Backup) bool { return b.Name == fmt.Sprint(name, "-", i) })
				if at < 0 || all[at].From != "edge-01" || all[at].Chain != i+1 || all[at].Problem != "" || all[at].Verified == nil {
					t.Fatalf("of %s edge-02 has %+v", name, all)
				}
			}
			file := filepath.Join(h.path("backups"), name+"-0.hostler-backup")
			raw := []byte(read(t, file))
			raw[len(raw)/2] ^= 1
			write(t, file, string(raw))
			w.cli(t, "backup", "verify", "edge-01", name+"-2").exits(t, 1, name+"-0")
			w.cli(t, "backup", "restore", "edge-01/again", "--from", name+"-2").exits(t, 1, "cannot be used")
			if name == "grows" { // edge-02 has LXC alone
				w.must(t, "backup", "restore", "edge-02/again", "--from", name+"-2", "--start")
				if out := w.must(t, "exec", "edge-02/again", "--", "sh", "-c", "cat /root/state; test -L /root/old && echo link; ls -A /root | grep -c wh; stat -c %u:%g /root/state"); out != "three\nlink\n0\n7:8\n" {
					t.Errorf("on the other host it has %q", out)
				}
				w.must(t, "ct", "rm", "edge-02/again", "--yes")
			}
			for _, i := range []string{"-2", "-1", "-0"} {
				w.must(t, "backup", "rm", "edge-01", name+i, "--yes")
				w.must(t, "backup", "rm", "edge-02", name+i, "--yes")
			}
		}
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
	t.Run("encrypted to a key that gpg has made", func(t *testing.T) {
		home := w.path("gpg")
		mkdir(t, home)
		if err := os.Chmod(home, 0o700); err != nil {
			t.Fatal(err)
		}
		gpg := func(args ...string) (string, error) {
			cmd := exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}, args...)...)
			out, err := cmd.Output()
			return string(out), err
		}
		t.Cleanup(func() {
			if out, err := exec.Command("gpgconf", "--homedir", home, "--kill", "all").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		public, secret := other.path("backup.pub"), other.path("backup.key")
		for _, args := range [][]string{{"--quick-generate-key", "operator", "future-default", "default", "never"}, {"--output", public, "--armor", "--export"}, {"--output", secret, "--export-secret-keys"}} {
			if out, err := gpg(args...); err != nil {
				t.Fatalf("gpg %q: %v: %s", args, err, out)
			}
		}
		set := func(line string) {
			t.Helper()
			other.agent.end(t, term)
			write(t, other.config(), read(t, other.config())+line)
			other.start(t)
		}
		set(fmt.Sprintf("[backups]\nencrypt_to = %q\n", public))
		w.must(t, "ct", "create", "edge-02/safe", "--template", "busybox", "--start")
		w.must(t, "exec", "edge-02/safe", "--", "sh", "-c", "echo for few > /root/state")
		w.must(t, "backup", "create", "edge-02/safe", "e1")
		w.must(t, "backup", "verify", "edge-02", "e1")
		if all := show[[]api.Backup](t, w, "backup", "ls", "edge-02"); len(all) != 1 || len(all[0].EncryptedTo) != 1 || all[0].Verified == nil {
			t.Errorf("there are %+v", all)
		}
		file := filepath.Join(other.path("backups"), "e1.hostler-backup")
		if out, err := exec.Command("tar", "--zstd", "-tf", file).CombinedOutput(); err == nil {
			t.Errorf("it is read without a key: %s", out)
		}
		plain := w.path("e1.tar.zst")
		if _, err := gpg("--output", plain, "--decrypt", file); err != nil { // gpg does not know what the manifest is, which is behind the message
			t.Logf("gpg: %v", err)
		}
		if out, err := exec.Command("tar", "--zstd", "-xOf", plain, "root/state").CombinedOutput(); err != nil || string(out) != "for few\n" {
			t.Errorf("decrypted by gpg it has %q, %v", out, err)
		}
		w.cli(t, "backup", "restore", "edge-02/safe-2", "--from", "e1").exits(t, 1, "backups.secret_key")
		w.must(t, "ct", "stop", "edge-02/safe", "--grace", "1s")
		w.must(t, "ct", "move", "edge-02/safe", "edge-01", "--yes") // where the key is not
		w.must(t, "ct", "rm", "edge-01/safe", "--yes")
		set(fmt.Sprintf("secret_key = %q\n", secret))
		w.must(t, "backup", "restore", "edge-02/safe-2", "--from", "e1", "--start")
		if out := w.must(t, "exec", "edge-02/safe-2", "--", "cat", "/root/state"); out != "for few\n" {
			t.Errorf("restored it has %q", out)
		}
		entries, err := os.ReadDir(other.path("backups"))
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".new-") {
				t.Errorf("what was decrypted is left: %s", e.Name())
			}
		}
		w.must(t, "ct", "rm", "edge-02/safe-2", "--yes")
		w.must(t, "backup", "rm", "edge-02", "e1", "--yes")
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
