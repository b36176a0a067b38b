// Package runnertest is the conformance suite of supervisor programs: what the
// run-directory contract promises, tried on real processes.
//
//	func TestMain(m *testing.M) { os.Exit(runnertest.Main(m, os.Args)) }
//
//	func TestConformance(t *testing.T) {
//		runnertest.Run(t, runnertest.Harness{Supervisor: []string{"/path/hostler-run"}})
//	}
//
// All commands are lines for a POSIX shell, as busybox has it, so the suite runs
// wherever a supervisor can start one: on the host and in a container. It needs
// root and a cgroup2 tree. It leaves no process and no cgroup behind.
package runnertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Harness is one supervisor program under test.
type Harness struct {
	// Supervisor is its argv, as for runner.Spec. Required.
	Supervisor []string
	// Target goes into every spec: where the commands run.
	Target map[string]string
	// User is a user that exists where the commands run, and UID its id.
	// Default nobody, 65534.
	User string
	UID  int
	// Root is the directory of this machine that is the root of where the commands
	// run. Default /.
	Root string
	// Without names the cases that the supervisor's kind cannot have; they are
	// not registered.
	Without []string
}

// sometime is a limit in milliseconds that no command reaches before it has said
// its first line, on a machine with much else to do either.
const sometime = 2000

// surrounding is in the environment of whoever starts supervisors.
const surrounding = "leaked"

// A Case is one promise.
type Case struct {
	Name string
	run  func(t *testing.T, e *env)
}

// Cases returns the names of all cases.
func Cases() []string {
	var names []string
	for _, c := range cases() {
		names = append(names, c.Name)
	}
	return names
}

func cases() []Case {
	return slices.Concat(endCases(), daemonCases(), outputCases(), streamCases(), terminalCases(), crashCases(), recoverCases())
}

// Run tries every case as a subtest.
func Run(t *testing.T, h Harness) {
	if h.User == "" {
		h.User, h.UID = "nobody", 65534
	}
	for _, name := range h.Without {
		if !slices.Contains(Cases(), name) {
			t.Fatalf("Without names the unknown case %q", name)
		}
	}
	t.Setenv("HOSTLER_SECRET", surrounding)
	for _, c := range cases() {
		if !slices.Contains(h.Without, c.Name) {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel() // each has a root and control groups of its own
				c.run(t, newEnv(t, h))
			})
		}
	}
}

// env is what one case works with: a runner on a root of its own.
type env struct {
	Harness
	runner *runner.Runner
	root   string
	action string
	boot   string
}

func newEnv(t *testing.T, h Harness) *env {
	t.Helper()
	return newEnvAt(t, h, filepath.Join(t.TempDir(), "runs"))
}

func newEnvAt(t *testing.T, h Harness, root string) *env {
	t.Helper()
	boot, err := runner.Boot()
	if err != nil {
		t.Fatal(err)
	}
	// The leaf is named after the action, and all cases share one tree.
	name := strings.NewReplacer("/", "-", ",", "", "#", "-").Replace(t.Name())
	e := &env{Harness: h, root: root, boot: boot, action: "test-" + name + "-" + strconv.Itoa(os.Getpid())}
	e.runner = e.open(t)
	return e
}

// open makes a runner on the root, as the agent does at each start.
func (e *env) open(t *testing.T) *runner.Runner {
	t.Helper()
	r, err := runner.New(runner.Config{Root: e.root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (e *env) dir() rundir.Dir { return rundir.Dir(filepath.Join(e.root, e.action, "1")) }

// spec returns the spec of a shell line with its arguments.
func (e *env) spec(line string, args ...string) runner.Spec {
	return runner.Spec{
		Spec: rundir.Spec{
			Action: e.action, Attempt: 1, Target: e.Target, GraceMS: -1,
			Argv: append([]string{"/bin/sh", "-c", line, "sh"}, args...),
		},
		Supervisor: e.Supervisor,
	}
}

func (e *env) start(t *testing.T, spec runner.Spec) *runner.Run {
	t.Helper()
	run, err := e.runner.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	// t.Context has ended when this runs.
	t.Cleanup(func() {
		_ = run.Cancel(context.Background()) // over already, or killed on purpose
	})
	return run
}

func wait(t *testing.T, run *runner.Run) *rundir.Exit {
	t.Helper()
	exit, err := run.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// do runs a spec to its end.
func (e *env) do(t *testing.T, spec runner.Spec) *rundir.Exit {
	t.Helper()
	return wait(t, e.start(t, spec))
}

// output returns a whole stream in which nothing was dropped.
func (e *env) output(t *testing.T, fd int) []byte {
	t.Helper()
	o, err := e.runner.Output(e.action, 1, fd)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	size, err := o.Size()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(o, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stdin makes a file for a command to read.
func (e *env) stdin(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(e.root, ".stdin")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (e *env) wantOutput(t *testing.T, fd int, want []byte) {
	t.Helper()
	got := e.output(t, fd)
	if sha256.Sum256(got) != sha256.Sum256(want) {
		t.Errorf("fd %d: %d bytes %.200q, want %d bytes %.200q", fd, len(got), got, len(want), want)
	}
}

// follow reads stdout as it comes until it holds want.
func follow(t *testing.T, run *runner.Run, want string) {
	t.Helper()
	o, err := run.Output(rundir.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var got []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(got, []byte(want)) {
		changed := run.Changed()
		n, err := o.ReadAt(buf, int64(len(got)))
		got = append(got, buf[:n]...)
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if n > 0 {
			continue
		}
		select {
		case <-run.Done():
			t.Fatalf("ended with output %q, want %q in it", got, want)
		case <-changed:
		}
	}
}

// awaitUnlocked waits until the supervisor of an attempt has ended.
func (e *env) awaitUnlocked(t *testing.T, attempt int) {
	t.Helper()
	f, err := os.Open(filepath.Join(e.root, e.action, strconv.Itoa(attempt), rundir.LockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer rundir.Unlock(f)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
}

// processes returns the pids whose command line holds mark. A process in a
// container is seen from outside too.
func processes(t *testing.T, mark string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		b, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err == nil && bytes.Contains(b, []byte(mark)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// held begins a line that goes on when it is let go; its first argument is the mark.
const held = `trap go=1 USR1; echo ready; sleep "$1" & while [ -z "$go" ]; do wait; done; `

// letGo lets a line go on that is held, once it has said that it is ready.
func (e *env) letGo(t *testing.T) {
	t.Helper()
	for _, pid := range processes(t, e.mark()) {
		if err := unix.Kill(pid, unix.SIGUSR1); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
}

// mark returns a number of seconds that no other process sleeps, for the command
// line of a sleep that can be found again.
func (e *env) mark() string {
	sum := sha256.Sum256([]byte(e.action))
	return "9" + strconv.Itoa(100_000_000+int(sum[0])<<16+int(sum[1])<<8+int(sum[2]))
}

// wantNothingLeft fails if a process of the case or its leaf is there.
func (e *env) wantNothingLeft(t *testing.T) {
	t.Helper()
	if pids := processes(t, e.mark()); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
	if start, err := e.dir().Start(); err == nil && start.Leaf != "" {
		if _, err := os.Stat(start.Leaf); err == nil {
			t.Errorf("leaf %s is left", start.Leaf)
		}
	}
}
