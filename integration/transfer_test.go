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

	"golang.org/x/sys/unix"
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
		// A file system that belongs to the users of the container takes no other's file.
		w.must(t, "exec", "edge-01/web", "--", "sh", "-c", "echo app:x:1000:1000::/:/bin/sh >>/etc/passwd; mkdir -m 700 /dev/shm/own; chown 1000 /dev/shm/own")
		w.must(t, "push", tree+"/sub/a", "edge-01/web:/dev/shm/own/a", "--owner", "app")
		if out := w.must(t, "exec", "edge-01/web", "--", "stat", "-c", "%u:%g", "/dev/shm/own/a"); strings.TrimSpace(out) != "1000:1000" {
			t.Errorf("in a file system of the container it belongs to %q", out)
		}
		w.must(t, "pull", "edge-01/web:/dev/shm/own/a", w.path("from-shm"))
	})

	t.Run("no link leads out of a container", func(t *testing.T) {
		out := w.path("out")
		mkdir(t, out)
		write(t, out+"/secret", "of the host")
		script := `ln -s "$0" /etc/abs; ln -s ../../../../../../../../../../"$0" /etc/up; ln -s /proc/1/root"$0" /etc/magic`
		w.must(t, "exec", "edge-01/web", "--", "sh", "-c", script, out)
		for link, code := range map[string]int{"abs": 3, "up": 3, "magic": 1} {
			w.cli(t, "push", large, "edge-01/web:/etc/"+link+"/x").exits(t, 1)
			w.cli(t, "pull", "edge-01/web:/etc/"+link+"/secret", there).exits(t, code)
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
		w.cli(t, "pull", "edge-01:"+there+"/pipe", back).exits(t, 1, "not a file or a directory")
		w.cli(t, "pull", "edge-01:"+there, back).exits(t, 1, "left out")
		if sumOf(t, back+"/there/copy") != sumOf(t, large) {
			t.Error("the rest did not come")
		}
		w.cli(t, "push", large, "edge-01:"+there+"/pipe").exits(t, 1, "not a file or a directory")
		w.cli(t, "pull", "edge-01:/nosuch", back).exits(t, 3, "why: no such file: /nosuch")
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

// stagedBytes is how much of a pull is kept in a directory.
func stagedBytes(t testing.TB, dir string) (n int64) {
	t.Helper()
	for _, name := range entries(t, dir) {
		if i, err := os.Lstat(filepath.Join(dir, name)); err == nil && strings.HasPrefix(name, ".hostler-pull-") {
			n += i.Size()
		}
	}
	return n
}

// breakOff kills a pull in its middle.
func (w *world) breakOff(t testing.TB, from, into, name string) {
	t.Helper()
	watch := watchDir(t, into)
	defer watch.Close()
	events := make([]byte, 4096)
	for range 100 {
		p := w.start(t, "hostler", "pull", from, into)
		for stagedBytes(t, into) < 1<<20 && !p.ended() {
			if _, err := watch.Read(events); err != nil {
				t.Fatalf("nothing comes: %v", err)
			}
		}
		p.end(t, kill)
		if stagedBytes(t, into) > 0 {
			return
		}
		// It was faster than we were.
		if err := os.Remove(filepath.Join(into, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no pull was caught in its middle")
}

// TestPullGoesOn kills pulls in their middle: the next one goes on where they were,
// or begins anew if there is something else now.
func TestPullGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	large, back := w.random(t, "large", 128), w.path("back")
	mkdir(t, back)
	arrived := func(said string) {
		t.Helper()
		if sumOf(t, back+"/large") != sumOf(t, large) {
			t.Error("it came back as another")
		}
		if all := entries(t, back); len(all) != 1 {
			t.Errorf("in the directory are %q", all)
		}
		if !strings.Contains(said, "continuing after") {
			t.Errorf("it says %q", said)
		}
		if err := os.Remove(back + "/large"); err != nil {
			t.Fatal(err)
		}
	}
	w.breakOff(t, "edge-01:"+large, back, "large")
	gone(t, back+"/large")
	arrived(w.cli(t, "pull", "edge-01:"+large, back).exits(t, 0).stderr)
	if log := w.must(t, "audit", "ls", "-o", "json", "--limit", "500"); !strings.Contains(log, sumOf(t, large)+"  large") {
		t.Error("the audit log says nothing of the digest of what was pulled")
	}
	w.breakOff(t, "edge-01:"+large, back, "large")
	write(t, large, strings.Repeat("something else\n", 500_000))
	r := w.cli(t, "pull", "edge-01:"+large, back).exits(t, 0, "it has changed since")
	arrived(r.stderr)
}

// TestPullToAFullDisk has room for a part of what comes, and then for all that comes
// but not for what is in it. Each time what has come is kept, nothing is half there,
// and the same pull goes on when there is room.
func TestPullToAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	d := w.newDisk(t, "small") // 24 MiB
	large := w.random(t, "large", 9)
	ballast := filepath.Join(d.dir, "ballast")
	pull := func(code int, says ...string) {
		t.Helper()
		w.cli(t, "pull", "edge-01:"+large, d.dir).exits(t, code, says...)
	}

	w.tool(t, "fallocate", "-l", "16M", ballast)
	pull(1, "cannot store the received data", "no space left on device", "repair that and run the pull again: the received data is kept")
	if stagedBytes(t, d.dir) < 1<<20 {
		t.Errorf("%d bytes are kept", stagedBytes(t, d.dir))
	}
	if err := os.Truncate(ballast, 8<<20); err != nil {
		t.Fatal(err)
	}
	pull(1, "continuing after", "cannot unpack it", "no space left on device")
	if all := entries(t, d.dir); len(all) != 2 || stagedBytes(t, d.dir) < 9<<20 {
		t.Errorf("in the directory are %q, %d bytes of it kept", all, stagedBytes(t, d.dir))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	pull(0, "continuing after 9.0MiB")
	if all := entries(t, d.dir); len(all) != 1 || sumOf(t, filepath.Join(d.dir, "large")) != sumOf(t, large) {
		t.Errorf("in the directory are %q, or it is another", all)
	}
}

// TestPushToAFullDisk leaves what was there when there is no room where it goes, on
// the host or on the coordinator. With room, the same push succeeds.
func TestPushToAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	d, large := w.newDisk(t, "small"), w.random(t, "large", 6)
	there, ballast := filepath.Join(d.dir, "there"), filepath.Join(d.dir, "ballast")
	write(t, there, "what was there before")
	w.tool(t, "fallocate", "-l", "16M", ballast)
	w.cli(t, "push", large, "edge-01:"+there).exits(t, 1, "no space left on device")
	if all := entries(t, d.dir); len(all) != 2 || read(t, there) != "what was there before" {
		t.Errorf("there are %q", all)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.cli(t, "push", large, "edge-01:"+there).exits(t, 0)
	if sumOf(t, there) != sumOf(t, large) {
		t.Error("it arrived as another")
	}
}

// TestPushThroughAFullDisk has no room on the coordinator for what is pushed: that is
// said before anything is sent, and nothing else is in trouble.
func TestPushThroughAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.newDisk(t, "coordinator") })
	w.addHost(t, "edge-01", false)
	large, there := w.random(t, "large", 24), w.path("there") // as large as the disk
	write(t, there, "what was there before")
	w.cli(t, "push", large, "edge-01:"+there).exits(t, 6, "not enough room on the disk", "make room on the coordinator")
	if left := entriesOf(t, w.path("coordinator/payloads/admin")); len(left) > 1 || read(t, there) != "what was there before" {
		t.Errorf("of what was pushed %q is left", left)
	}
	w.works(t, "edge-01")
}

// TestPushToAHostWithoutRoom has no room where the host keeps what is on its way: that
// is said, nothing is left or harmed, and with room the same push succeeds.
func TestPushToAHostWithoutRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.newDiskOf(t, "edge-01", 160<<20)
	h := w.addHost(t, "edge-01", false)
	large, there := w.random(t, "large", 6), w.path("there")
	write(t, there, "what was there before")
	ballast := filepath.Join(d.dir, "ballast")
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		t.Fatal(err)
	}
	kept := int64(st.Blocks-st.Bfree+st.Bavail) * st.Bsize / 4 // what no input may take
	w.tool(t, "fallocate", "-l", fmt.Sprint(int64(st.Bavail)*st.Bsize-kept-4<<20), ballast)
	w.cli(t, "push", large, "edge-01:"+there).exits(t, 1, "its input did not arrive: not enough room on the disk")
	if left := entries(t, h.path("inputs")); len(left) > 0 || read(t, there) != "what was there before" {
		t.Errorf("of what was pushed %q is left", left)
	}
	w.works(t, "edge-01")
	small := w.random(t, "small", 1)
	w.cli(t, "push", small, "edge-01:"+there).exits(t, 0)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.cli(t, "push", large, "edge-01:"+there).exits(t, 0)
	if sumOf(t, there) != sumOf(t, large) {
		t.Error("it arrived as another")
	}
	if h.agent.ended() {
		t.Error("the agent has ended")
	}
}

// TestBatchCopies copies by a file of operations. Going on with it brings what was
// pulled then, though the host has something else by now.
func TestBatchCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	large, ops, copied := w.random(t, "large", 16), w.path("ops.yaml"), w.path("copied")
	want := sumOf(t, large)
	write(t, ops, `- {push: edge-01, from: large, to: `+copied+`}
- {push: edge-01/web, from: large, to: /root/}
- {pull: edge-01, from: `+copied+`, to: back}
- {pull: edge-01/web, from: /root/large, to: back-of-web}
- {run: edge-01, argv: [cp, /dev/null, `+copied+`]}
- {exec: edge-01/web, argv: ["false"]}
`)
	r := w.cli(t, "batch", "-f", ops).exits(t, 1)
	_, id, _ := strings.Cut(r.stderr, "batch ")
	id, _, _ = strings.Cut(id, "\n")
	for _, name := range []string{"back", "back-of-web"} {
		if sumOf(t, w.path(name)) != want {
			t.Errorf("%s is another file\n%s", name, r.stdout)
		}
		write(t, w.path(name), "something else")
	}
	w.cli(t, "batch", "-f", ops, "--resume", id).exits(t, 1)
	for _, name := range []string{"back", "back-of-web"} {
		if sumOf(t, w.path(name)) != want {
			t.Errorf("%s is not what it was when it was pulled", name)
		}
	}
	if i, err := os.Stat(copied); err != nil || i.Size() != 0 {
		t.Errorf("something was done twice: %v, %v", i, err)
	}
}
