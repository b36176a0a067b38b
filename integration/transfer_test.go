//go:build integration

package integration

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// sumOf is the SHA-256 of a file.
func sumOf(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// random makes a file that nobody can guess.
func (w *world) random(t testing.TB, name string, mib int) string {
	t.Helper()
	path := w.path(name)
	w.tool(t, "dd", "if=/dev/urandom", "of="+path, "bs=1M", fmt.Sprint("count=", mib), "status=none")
	return path
}

// TestStdin gives commands something to read.
func TestStdin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	small, large := w.path("small"), w.random(t, "large", 64)
	write(t, small, "what a command reads\n")

	if out := w.must(t, "run", "edge-01", "--stdin", small, "--", "cat"); out != "what a command reads\n" {
		t.Errorf("it has read %q", out)
	}
	if out := w.must(t, "exec", "edge-01/web", "--stdin", small, "--", "wc", "-c"); strings.TrimSpace(out) != "21" {
		t.Errorf("in the container it has read %q", out)
	}
	if out := w.must(t, "run", "edge-01", "--stdin", "/dev/null", "--", "wc", "-c"); strings.TrimSpace(out) != "0" {
		t.Errorf("of nothing it has read %q", out)
	}
	if out := w.must(t, "run", "edge-01", "--stdin", large, "--", "sha256sum"); !strings.HasPrefix(out, sumOf(t, large)) {
		t.Errorf("it has read %q", out)
	}
	left, err := os.ReadDir(h.path("inputs"))
	if err != nil || len(left) > 0 {
		t.Errorf("of what was read %v is left, %v", left, err)
	}
	p := w.start(t, "hostler", "run", "edge-01", "--stdin", large, "--timeout", "5m", "--", "sh", "-c", "sleep 1; sha256sum")
	for range 3 {
		h.restart(t, kill)
		w.coordinator.end(t, kill)
		w.startCoordinator(t)
	}
	if r := p.finish(t).exits(t, 0); !strings.HasPrefix(r.stdout, sumOf(t, large)) {
		t.Errorf("after kills it has read %q", r.stdout)
	}
}

// TestPushAndPull copies files to a host and a container, and back.
func TestPushAndPull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	there, large := w.path("there"), w.random(t, "large", 40)
	mkdir(t, there)

	t.Run("a file to the host", func(t *testing.T) {
		if err := os.Chmod(large, 0o640); err != nil {
			t.Fatal(err)
		}
		w.must(t, "push", large, "edge-01:"+there+"/copy", "--owner", "12:34")
		i, err := os.Stat(there + "/copy")
		if err != nil {
			t.Fatal(err)
		}
		st := i.Sys().(*syscall.Stat_t)
		if i.Mode() != 0o640 || st.Uid != 12 || st.Gid != 34 || sumOf(t, there+"/copy") != sumOf(t, large) {
			t.Errorf("%v of %d:%d", i.Mode(), st.Uid, st.Gid)
		}
		w.must(t, "push", large, "edge-01:"+there, "--mode", "4755")
		if i, err := os.Stat(there + "/large"); err != nil || i.Mode() != 0o755|os.ModeSetuid {
			t.Errorf("%v, %v", i, err)
		}
		w.cli(t, "push", large, "edge-01:"+there+"/nosuch/copy").exits(t, 1, "no such file")
		w.cli(t, "push", large, "edge-01:"+there+"/copy", "--owner", "nobody-at-all").exits(t, 1, "nobody-at-all")
	})

	t.Run("a tree into a container and back", func(t *testing.T) {
		tree := w.path("tree")
		mkdir(t, tree)
		mkdir(t, tree+"/sub")
		write(t, tree+"/sub/a", "alpha")
		if err := os.Symlink("sub/a", tree+"/link"); err != nil {
			t.Fatal(err)
		}
		for _, state := range []string{"running", "stopped"} {
			if state == "stopped" {
				w.must(t, "ct", "stop", "edge-01/web")
			}
			w.must(t, "push", "-r", tree, "edge-01/web:/etc")
			back := w.path("back-" + state)
			mkdir(t, back)
			w.must(t, "pull", "edge-01/web:/etc/tree", "edge-01/web:/etc/passwd", back)
			if got := read(t, back+"/tree/link"); got != "alpha" || read(t, back+"/passwd") == "" {
				t.Errorf("%s: it came back as %q", state, got)
			}
		}
		w.must(t, "ct", "start", "edge-01/web")
		if out := w.must(t, "exec", "edge-01/web", "--", "cat", "/etc/tree/sub/a"); out != "alpha" {
			t.Errorf("in the container it is %q", out)
		}
		w.cli(t, "push", tree, "edge-01/web:/etc").exits(t, 2, "directory")
	})

	t.Run("no link leads out of a container", func(t *testing.T) {
		out := w.path("out")
		mkdir(t, out)
		write(t, out+"/secret", "of the host")
		script := `ln -s "$0" /etc/abs; ln -s ../../../../../../../../../../"$0" /etc/up; ln -s /proc/1/root"$0" /etc/magic`
		w.must(t, "exec", "edge-01/web", "--", "sh", "-c", script, out)
		for _, link := range []string{"abs", "up", "magic"} {
			w.cli(t, "push", large, "edge-01/web:/etc/"+link+"/x").exits(t, 1)
			w.cli(t, "pull", "edge-01/web:/etc/"+link+"/secret", there).exits(t, 1)
		}
		if all, err := os.ReadDir(out); err != nil || len(all) != 1 {
			t.Errorf("on the host lie %v, %v", all, err)
		}
	})

	t.Run("a container that swaps its directories", func(t *testing.T) {
		out := w.path("race")
		mkdir(t, out)
		mkdir(t, h.path("lxc/web/rootfs/race"))
		mkdir(t, h.path("lxc/web/rootfs/race/d"))
		// One of its own processes, which the agent knows nothing of.
		racer := w.spawn(t, "racer", w.env(), "lxc-attach", "-P", h.path("lxc"), "-n", "web", "--",
			"sh", "-c", `cd /race; echo racing; while :; do mv d e; ln -s "$0" d; rm d; mv e d; done`, out)
		racer.says(t, racer.out, "racing")
		for range 10 {
			w.cli(t, "push", "-r", w.path("tree"), "edge-01/web:/race/d") // it may well fail
		}
		racer.end(t, kill)
		w.must(t, "ct", "stop", "edge-01/web") // and what is left of it
		if all, err := os.ReadDir(out); err != nil || len(all) != 0 {
			t.Errorf("on the host lie %v, %v", all, err)
		}
	})

	t.Run("through kills", func(t *testing.T) {
		p := w.start(t, "hostler", "push", large, "edge-01:"+there+"/killed")
		h.restart(t, kill)
		w.coordinator.end(t, kill)
		w.startCoordinator(t)
		p.finish(t).exits(t, 0)
		if sumOf(t, there+"/killed") != sumOf(t, large) {
			t.Error("it arrived as another")
		}
		back := w.path("back-killed")
		mkdir(t, back)
		p = w.start(t, "hostler", "pull", "edge-01:"+there+"/killed", back)
		h.restart(t, kill)
		p.finish(t).exits(t, 0)
		if sumOf(t, back+"/killed") != sumOf(t, large) {
			t.Error("it came back as another")
		}
		if left, _ := filepath.Glob(there + "/.hostler-*"); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})

	t.Run("special files", func(t *testing.T) {
		if err := syscall.Mkfifo(there+"/pipe", 0o600); err != nil {
			t.Fatal(err)
		}
		back := w.path("back-special")
		mkdir(t, back)
		w.cli(t, "pull", "edge-01:"+there+"/pipe", back).exits(t, 1, "neither a file nor a directory")
		w.cli(t, "pull", "edge-01:"+there, back).exits(t, 1, "left out")
		if sumOf(t, back+"/there/copy") != sumOf(t, large) {
			t.Error("the rest did not come")
		}
		w.cli(t, "push", large, "edge-01:"+there+"/pipe").exits(t, 1, "neither a file nor a directory")
		w.cli(t, "pull", "edge-01:/nosuch", back).exits(t, 1, "no such file")
	})

	t.Run("who and what is in the audit log", func(t *testing.T) {
		log := w.must(t, "audit", "ls", "-o", "json", "--limit", "500")
		for _, text := range []string{"host.push", "container.pull", there + "/copy", sumOf(t, large)} {
			if !strings.Contains(log, text) {
				t.Errorf("the audit log says nothing of %q", text)
			}
		}
	})
}
