package runner_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/runnertest"
)

func TestMain(m *testing.M) { os.Exit(runnertest.Main(m, os.Args)) }

// build returns hostler-run, as it is shipped.
func build(tb testing.TB) string { tb.Helper(); return builttest.Program(tb, "hostler-run") }

func TestConformance(t *testing.T) {
	runnertest.Run(t, runnertest.Harness{Supervisor: []string{build(t)}})
}

// A machine without a cgroup2 tree runs commands, and promises no more than it can.
func TestWithoutCgroup2(t *testing.T) {
	program := build(t)
	r, err := runner.New(runner.Config{Root: filepath.Join(t.TempDir(), "runs")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// In a mount namespace of its own, where nobody mounts one.
	hide := `umount -l "$(awk '$3 == "cgroup2" {print $2}' /proc/mounts)"; exec "$@"`
	spec := func(attempt int, line string) runner.Spec {
		return runner.Spec{
			Spec:       rundir.Spec{Action: "no-cgroup2-" + strconv.Itoa(os.Getpid()), Attempt: attempt, Argv: []string{"/bin/sh", "-c", line}, GraceMS: 100},
			Supervisor: []string{"/usr/bin/unshare", "--mount", "/bin/sh", "-c", hide, "sh", program},
		}
	}

	line, letGo := gate(t)
	run, err := r.Start(spec(1, "echo out; "+line+"exit 7"))
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Cancel(t.Context()); !errors.Is(err, runner.ErrUnsupported) {
		t.Errorf("Cancel: %v, want ErrUnsupported", err)
	}
	letGo()
	exit, err := run.Wait(t.Context())
	if err != nil || exit.Code != 7 || exit.Cancelled || exit.Emptied || exit.Stdout.Bytes != 4 {
		t.Errorf("%+v, %v", exit, err)
	}

	limited := spec(2, "trap '' TERM; sleep 1000; sleep 1000")
	limited.TimeoutMS = 2000 // its trap is set by then
	if run, err = r.Start(limited); err != nil {
		t.Fatal(err)
	}
	if exit, err = run.Wait(t.Context()); err != nil || !exit.TimedOut || exit.Signal != 9 || exit.Emptied {
		t.Errorf("%+v, %v", exit, err)
	}

	// Who stays with the pipe in hand delays the end, but not for long.
	if run, err = r.Start(spec(3, "(setsid sleep 3 &); exit 1")); err != nil {
		t.Fatal(err)
	}
	if exit, err = run.Wait(t.Context()); err != nil || exit.Code != 1 || exit.Emptied {
		t.Errorf("%+v, %v", exit, err)
	}
}

// gate returns the part of a line that waits until it is let go.
func gate(t *testing.T) (line string, letGo func()) {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return "read -r line <" + fifo + "; ", func() {
		t.Helper()
		if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// memoryCgroup makes a cgroup that may use 32 MiB, in whichever tree of this
// machine accounts memory.
func memoryCgroup(t *testing.T) string {
	t.Helper()
	dir, limit := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(dir); err != nil {
		dir, limit = "/sys/fs/cgroup", "memory.max"
	}
	dir = filepath.Join(dir, "hostler-oom-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The supervisor is in there until its last moment, which follows the
		// run's end.
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(time.Minute); ; <-tick.C {
			err := os.Remove(dir)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	})
	if err := os.WriteFile(filepath.Join(dir, limit), []byte("33554432"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOOMIsTold(t *testing.T) {
	program, cgroup := build(t), memoryCgroup(t)
	r, err := runner.New(runner.Config{Root: filepath.Join(t.TempDir(), "runs")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, c := range []struct {
		argv []string
		oom  bool
	}{
		{[]string{"/usr/bin/tail", "/dev/zero"}, true}, // looks for the end of a line
		{[]string{"/bin/sh", "-c", "kill -9 $$"}, false},
	} {
		run, err := r.Start(runner.Spec{
			Spec:       rundir.Spec{Action: "oom-" + strconv.Itoa(os.Getpid()), Attempt: i + 1, Argv: c.argv},
			Supervisor: []string{"/bin/sh", "-c", `echo $$ > "$1/cgroup.procs"; exec "$2" "$3"`, "sh", cgroup, program},
		})
		if err != nil {
			t.Fatal(err)
		}
		exit, err := run.Wait(t.Context())
		if err != nil || exit.Signal != 9 || exit.OOM != c.oom {
			t.Errorf("%q: %+v, %v", c.argv, exit, err)
		}
	}
}

// TestOrphansAreTheSupervisors: whoever reaps orphans learns of their end; init
// of a container may be a program that reaps nobody.
func TestOrphansAreTheSupervisors(t *testing.T) {
	program, root := build(t), filepath.Join(t.TempDir(), "runs")
	r, err := runner.New(runner.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	action := "orphan-" + strconv.Itoa(os.Getpid())
	run, err := r.Start(runner.Spec{
		Spec: rundir.Spec{Action: action, Attempt: 1, Argv: []string{"/bin/sh", "-c",
			"orphan=$(sleep 1000 >/dev/null & echo $!); read -r pid name state parent rest </proc/$orphan/stat; echo $parent"}},
		Supervisor: []string{program},
	})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := run.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	dir := rundir.Dir(filepath.Join(root, action, "1"))
	start, err := dir.Start()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := os.ReadFile(dir.Path(rundir.StreamFile(rundir.Stdout))); err != nil || string(out) != strconv.Itoa(start.PID)+"\n" {
		t.Errorf("an orphan went to %q, %v; want the supervisor, %d", out, err, start.PID)
	}
}

func TestStartRefuses(t *testing.T) {
	r, err := runner.New(runner.Config{Root: filepath.Join(t.TempDir(), "runs")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	good := func() runner.Spec {
		return runner.Spec{Spec: rundir.Spec{Action: "a", Attempt: 1, Argv: []string{"true"}}, Supervisor: []string{"/bin/true"}}
	}
	for name, spoil := range map[string]func(*runner.Spec){
		"no argv":             func(s *runner.Spec) { s.Argv = nil },
		"path as action":      func(s *runner.Spec) { s.Action = "../a" },
		"attempt 0":           func(s *runner.Spec) { s.Attempt = 0 },
		"NUL in an argument":  func(s *runner.Spec) { s.Argv = []string{"a\x00b"} },
		"relative supervisor": func(s *runner.Spec) { s.Supervisor = []string{"true"} },
		"relative directory":  func(s *runner.Spec) { s.Dir = "tmp" },
		"negative timeout":    func(s *runner.Spec) { s.TimeoutMS = -1 },
		"tiny cap":            func(s *runner.Spec) { s.CapBytes = 1 },
		"env without a name":  func(s *runner.Spec) { s.Env = []string{"=x"} },
	} {
		spec := good()
		spoil(&spec)
		if _, err := r.Start(spec); err == nil {
			t.Errorf("%s: started", name)
		}
	}
	if ids, err := r.List(); err != nil || len(ids) != 0 {
		t.Errorf("List = %v, %v: a refused start left something", ids, err)
	}
}

// Close leaves the command alone and tells who waits.
func TestCloseLeavesTheCommand(t *testing.T) {
	program, root := build(t), filepath.Join(t.TempDir(), "runs")
	r, err := runner.New(runner.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	action := "close-" + strconv.Itoa(os.Getpid())
	line, letGo := gate(t)
	run, err := r.Start(runner.Spec{
		Spec:       rundir.Spec{Action: action, Attempt: 1, Argv: []string{"/bin/sh", "-c", "echo ready; " + line + "exit 5"}},
		Supervisor: []string{program},
	})
	if err != nil {
		t.Fatal(err)
	}
	awaitOutput(t, run, 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); !errors.Is(err, runner.ErrClosed) {
		t.Errorf("Wait: %v, want ErrClosed", err)
	}
	next, err := runner.New(runner.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	boot, err := runner.Boot()
	if err != nil {
		t.Fatal(err)
	}
	found, err := next.Recover(t.Context(), action, 1, boot)
	if err != nil || found.Verdict != runner.Adopted {
		t.Fatalf("%+v, %v", found, err)
	}
	letGo()
	if exit, err := found.Run.Wait(t.Context()); err != nil || exit.Code != 5 {
		t.Errorf("%+v, %v", exit, err)
	}
}

// What could not be read for a moment is no verdict: the end is on the disk.
func TestRecoverWithoutDescriptors(t *testing.T) {
	r, err := runner.New(runner.Config{Root: filepath.Join(t.TempDir(), "runs")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	action := "starved-" + strconv.Itoa(os.Getpid())
	run, err := r.Start(runner.Spec{
		Spec:       rundir.Spec{Action: action, Attempt: 1, Argv: []string{"/bin/sh", "-c", "exit 5"}},
		Supervisor: []string{build(t)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	boot, err := runner.Boot()
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	found, err := r.Recover(t.Context(), action, 1, boot)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("without a descriptor: %+v, %v", found, err)
	}
	if found, err := r.Recover(t.Context(), action, 1, boot); err != nil || found.Verdict != runner.Exited || found.Exit.Code != 5 {
		t.Errorf("with one: %+v, %v", found, err)
	}
}

// awaitOutput waits until the command has written so many bytes.
func awaitOutput(t *testing.T, run *runner.Run, bytes int64) {
	t.Helper()
	out, err := run.Output(rundir.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for {
		changed := run.Changed()
		if size, err := out.Size(); err != nil {
			t.Fatal(err)
		} else if size >= bytes {
			return
		}
		select {
		case <-run.Done():
			t.Fatal("the run ended before")
		case <-changed:
		}
	}
}

// A cancel under way does not hold up Close, and goes on without us.
func TestCloseReleasesCancel(t *testing.T) {
	program, root := build(t), filepath.Join(t.TempDir(), "runs")
	r, err := runner.New(runner.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	action := "close-cancel-" + strconv.Itoa(os.Getpid())
	line, letGo := gate(t)
	run, err := r.Start(runner.Spec{
		Spec: rundir.Spec{
			Action: action, Attempt: 1, GraceMS: time.Hour.Milliseconds(),
			Argv: []string{"/bin/sh", "-c", "trap 'echo asked; asked=1' TERM; echo ready; while test -z \"$asked\"; do sleep 0.1; done; " + line},
		},
		Supervisor: []string{program},
	})
	if err != nil {
		t.Fatal(err)
	}
	awaitOutput(t, run, 1)
	cancelled := make(chan error, 1)
	go func() { cancelled <- run.Cancel(t.Context()) }()
	awaitOutput(t, run, int64(len("ready\nasked\n")))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; !errors.Is(err, runner.ErrClosed) {
		t.Errorf("Cancel: %v, want ErrClosed", err)
	}
	next, err := runner.New(runner.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	boot, err := runner.Boot()
	if err != nil {
		t.Fatal(err)
	}
	found, err := next.Recover(t.Context(), action, 1, boot)
	if err != nil || found.Verdict != runner.Adopted {
		t.Fatalf("%+v, %v", found, err)
	}
	letGo()
	if exit, err := found.Run.Wait(t.Context()); err != nil || !exit.Cancelled || !exit.Emptied {
		t.Errorf("%+v, %v", exit, err)
	}
}

// BenchmarkTrue compares a supervised /bin/true with a bare one, also in what
// processors do for it: this process, and the others. What the difference buys: a
// start and an end on disk, a leaf, a record that outlives everybody.
func BenchmarkTrue(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("supervised", func(b *testing.B) {
		program := build(b)
		r, err := runner.New(runner.Config{Root: filepath.Join(b.TempDir(), "runs")})
		if err != nil {
			b.Fatal(err)
		}
		own, others := spent(b, unix.RUSAGE_SELF), spent(b, unix.RUSAGE_CHILDREN)
		n := 0
		for b.Loop() {
			n++
			run, err := r.Start(runner.Spec{
				Spec:       rundir.Spec{Action: "bench-" + strings.Repeat("0", 8) + strconv.Itoa(n), Attempt: 1, Argv: []string{"/bin/true"}},
				Supervisor: []string{program},
			})
			if err != nil {
				b.Fatal(err)
			}
			if exit, err := run.Wait(context.Background()); err != nil || exit.Code != 0 {
				b.Fatal(exit, err)
			}
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((spent(b, unix.RUSAGE_SELF)-own)/float64(n), "cpu-ms/op")
		b.ReportMetric((spent(b, unix.RUSAGE_CHILDREN)-others)/float64(n), "child-cpu-ms/op")
	})
}

// spent is processor time in milliseconds.
func spent(b *testing.B, who int) float64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}
