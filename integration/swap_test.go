//go:build integration

package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// previous is the commit that hosts run until this release. The Makefile names it.
func previous(t testing.TB) string {
	t.Helper()
	commit := os.Getenv("HOSTLER_PREVIOUS")
	if commit == "" {
		t.Fatal("HOSTLER_PREVIOUS names no commit: run make integration")
	}
	return commit
}

// TestSwap replaces the programs of a host and of its coordinator by those of today,
// while commands of the old ones run. No command stops or begins again, and its output
// arrives whole.
//
// It builds the programs of commits before this one, so it needs git and the history
// (a shallow clone has none: git fetch --unshallow).
func TestSwap(t *testing.T) {
	t.Parallel()
	for name, commit := range map[string]string{"release": previous(t), "commit": "HEAD~1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			swap(t, commit)
		})
	}
}

func swap(t *testing.T, commit string) {
	bin := t.TempDir()
	for _, program := range []string{"hostler", "hostler-agent", "hostler-coordinator", "hostler-lxc", "hostler-run"} {
		copyProgram(t, filepath.Join(builtAt(t, commit), program), bin)
	}
	w := newWorld(t, func(w *world) { w.bin = bin })
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.container(t, "edge-01/web", "runs", func(c ct) bool { return c.State == "running" })

	witness, stop := w.path("tickers"), w.path("enough")
	begin := func(where, name, witness, stop string) string {
		return strings.TrimSpace(w.must(t, where, name, "--timeout", "10m", "--no-wait", "--", "sh", "-c", ticker, "begun", witness, stop))
	}
	tickers := []string{begin("run", "edge-01", witness, stop), begin("run", "edge-01", witness, stop), begin("exec", "edge-01/web", "/tickers", "/enough")}
	for _, id := range tickers {
		w.state(t, id, "RUNNING")
	}
	const script = `while [ ! -e "$1" ]; do head -c 10000 /dev/urandom | tee -a "$0"; sleep 0.1; done`
	writer := w.start(t, "hostler", "run", "edge-01", "--timeout", "10m", "--", "sh", "-c", script, w.path("copy"), stop)
	more := func() {
		t.Helper()
		from := len(writer.out.String())
		until(t, &writer.out.change, "more output arrives", func() bool { return len(writer.out.String()) >= from+100_000 || writer.ended() })
	}
	o := w.startOrders(w.path("witness"), 0)
	goOn := func() { t.Helper(); o.more(t, 3); more() }
	goOn()

	replace(t, bin, "hostler-agent", "hostler-run", "hostler-lxc")
	h.restart(t, term)
	goOn()
	replace(t, bin, "hostler-coordinator")
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	goOn()
	replace(t, bin, "hostler")
	goOn()

	for _, id := range tickers {
		if act := w.action(t, id); act.State != "RUNNING" {
			t.Errorf("action %s is %s %s after the swap", id, act.State, act.Reason)
		}
	}
	write(t, stop, "")
	write(t, h.path("lxc/web/rootfs/enough"), "")
	o.finish(t)
	r := writer.finish(t).exits(t, 0)
	if want := read(t, w.path("copy")); r.stdout != want {
		t.Errorf("%d bytes of output arrived of %d, or they are others", len(r.stdout), len(want))
	}
	for _, id := range tickers {
		w.unnoticed(t, id)
	}
	for file, times := range map[string]int{witness: 2, h.path("lxc/web/rootfs/tickers"): 1} {
		if got := read(t, file); got != strings.Repeat("begun\n", times) {
			t.Errorf("the commands have begun: %q, want %d", got, times)
		}
	}
	w.quiet(t)
	h.unlocked(t)
}

// TestPrevious is the matrix of releases: an agent of the previous one works with this
// coordinator, and one of this release with the coordinator before. Each host gives its
// commands, containers, files, cancels and reports, is away meanwhile, and comes back.
func TestPrevious(t *testing.T) {
	t.Parallel()
	old := builtAt(t, previous(t))
	for name, programsOf := range map[string]struct{ host, fleet string }{
		"agent of the previous release":       {old, programs(t)},
		"coordinator of the previous release": {programs(t), old},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			for _, program := range []string{"hostler-agent", "hostler-run", "hostler-lxc"} {
				copyProgram(t, filepath.Join(programsOf.host, program), bin)
			}
			for _, program := range []string{"hostler-coordinator", "hostler"} {
				copyProgram(t, filepath.Join(programsOf.fleet, program), bin)
			}
			workTogether(t, newWorld(t, func(w *world) { w.bin = bin }))
		})
	}
}

// workTogether asks a host for each sort of what it does.
func workTogether(t *testing.T, w *world) {
	h := w.addHost(t, "edge-01", true)
	if out := w.must(t, "run", "edge-01", "--", "echo", "hello"); out != "hello\n" {
		t.Errorf("a command prints %q", out)
	}
	w.cli(t, "run", "edge-01", "--", "sh", "-c", "exit 7").exits(t, 7, "")
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.container(t, "edge-01/web", "runs", func(c ct) bool { return c.State == "running" })
	if out := w.must(t, "exec", "edge-01/web", "--", "hostname"); !strings.Contains(out, "web") {
		t.Errorf("a command in a container prints %q", out)
	}
	file, back := w.path("file"), w.path("back")
	write(t, file, "pushed\n")
	mkdir(t, back)
	w.must(t, "push", file, "edge-01:"+w.path("pushed"))
	w.must(t, "pull", "edge-01:"+w.path("pushed"), back)
	if got := read(t, filepath.Join(back, "pushed")); got != "pushed\n" {
		t.Errorf("a file comes back as %q", got)
	}
	long := strings.TrimSpace(w.must(t, "run", "edge-01", "--no-wait", "--timeout", "10m", "--", "sleep", "600"))
	w.state(t, long, "RUNNING")
	h.restart(t, kill)
	w.coordinator.end(t, kill)
	w.startCoordinator(t)
	w.must(t, "action", "cancel", long)
	w.state(t, long, "CANCELLED")
	w.must(t, "ct", "stop", "edge-01/web")
	w.container(t, "edge-01/web", "is stopped", func(c ct) bool { return c.State == "stopped" })
	w.must(t, "ct", "rm", "edge-01/web", "--yes")
	w.quiet(t)
	h.unlocked(t)
}

// copyProgram puts a program into a directory of its own, where it can be replaced.
func copyProgram(t testing.TB, program, dir string) {
	t.Helper()
	if b, err := exec.Command("cp", program, dir+"/").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
}

// builtAt returns the directory with the programs of a commit. They are built once and
// kept beside those of today, where the next run finds them.
func builtAt(t testing.TB, commit string) string {
	t.Helper()
	b, err := exec.Command("git", "-C", "..", "rev-parse", "--verify", commit+"^{commit}").CombinedOutput()
	if err != nil {
		t.Fatalf("commit %s is needed, from a clone with its history (git fetch --unshallow): %v: %s", commit, err, b)
	}
	building.Lock()
	defer building.Unlock()
	bin := filepath.Join(programs(t), "before", strings.TrimSpace(string(b)))
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	fresh, err := os.MkdirTemp(programs(t), "before-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	buildAt(t, commit, t.TempDir(), fresh)
	if err := errors.Join(os.MkdirAll(filepath.Dir(bin), 0o700), os.Chmod(fresh, 0o755), os.Rename(fresh, bin)); err != nil {
		t.Fatal(err)
	}
	return bin
}

// building lets one test build at a time.
var building sync.Mutex

// buildAt builds the programs of a commit from a copy of its files.
func buildAt(t testing.TB, commit, source, bin string) {
	t.Helper()
	tar := filepath.Join(source, "source.tar")
	if b, err := exec.Command("git", "-C", "..", "archive", "--output", tar, commit).CombinedOutput(); err != nil {
		t.Fatalf("the files of commit %s are needed, from a clone with its history (git fetch --unshallow): %v: %s", commit, err, b)
	}
	for _, argv := range [][]string{
		{"tar", "-xf", tar},
		{"env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin + "/", "./cmd/hostler", "./cmd/hostler-agent", "./cmd/hostler-coordinator", "./cmd/hostler-run"},
		{"env", "CGO_ENABLED=1", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin + "/", "./cmd/hostler-lxc"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = source
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building commit %s: %s: %v: %s", commit, strings.Join(argv, " "), err, b)
		}
	}
}

// replace puts the programs of today where the old ones are, as a package manager
// does: those that run go on with the old file.
func replace(t testing.TB, bin string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(bin, name)
		fresh := path + "." + strconv.Itoa(os.Getpid())
		// A process of its own writes: a file that this one has open for writing may be
		// open in a program that it starts meanwhile, and could not be run then.
		if b, err := exec.Command("cp", filepath.Join(programs(t), name), fresh).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		if err := os.Rename(fresh, path); err != nil {
			t.Fatal(err)
		}
	}
}
