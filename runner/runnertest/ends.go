package runnertest

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// endCases: how a command ends, by itself and otherwise.
func endCases() []Case {
	return []Case{
		{"inherits nothing", testInheritsNothing},
		{"exit codes", testExitCodes},
		{"killed main process", testSignal},
		{"program not found", testNotFound},
		{"program not executable", testNotExecutable},
		{"arguments too long", testArgumentsTooLong},
		{"user", testUser},
		{"user opens its output by name", testUserOutput},
		{"unknown user", testUnknownUser},
		{"directory", testDirectory},
		{"directory missing", testBadDirectory},
		{"argv unchanged", testArgv},
		{"environment", testEnvironment},
		{"orphans die with the main process", testOrphans},
		{"time limit kills all", testTimeLimit},
		{"time limit asks first", testTimeLimitTerm},
		{"cancel kills all", testCancel},
		{"cancel asks first", testCancelTerm},
		{"cancel wakes the stopped", testCancelStopped},
		{"cancel at once", testCancelAtOnce},
		{"cancel after the end", testCancelLate},
		{"cancel given up", testCancelGivenUp},
		{"cancel is answered when it is over", testCancelAnswer},
		{"time limit while the program cannot be opened", testHungLimit},
		{"cancel while the program cannot be opened", testHungCancel},
		{"file modes", testModes},
		{"started before its run", testLater},
		{"started for nothing", testNeverNeeded},
	}
}

// testInheritsNothing: what is open where supervisors are started reaches no command.
func testInheritsNothing(t *testing.T, e *env) {
	host, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0) // children of this process have it
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(host)
	if exit := e.do(t, e.spec("exec ls /proc/self/fd")); exit.Code != 0 {
		t.Fatalf("it ended with %+v", exit)
	}
	if out := strings.Fields(string(e.output(t, rundir.Stdout))); !slices.Equal(out, []string{"0", "1", "2", "3"}) { // 3 is the directory that ls reads
		t.Errorf("the command has %q", out)
	}
}

func testExitCodes(t *testing.T, e *env) {
	for i, code := range []int{0, 1, 77, 255} {
		spec := e.spec("exit $1", strconv.Itoa(code))
		spec.Attempt = i + 1
		exit := e.do(t, spec)
		if exit.Code != code || exit.WaitStatus != uint32(code)<<8 || exit.Signal != 0 || exit.Reason != "" || !exit.Emptied {
			t.Errorf("exit %d: %+v", code, exit)
		}
	}
}

func testSignal(t *testing.T, e *env) {
	exit := e.do(t, e.spec("kill -9 $$"))
	if exit.Signal != 9 || exit.Code != 137 || exit.WaitStatus&0x7f != 9 || exit.TimedOut || exit.Cancelled {
		t.Errorf("%+v", exit)
	}
}

func testNotFound(t *testing.T, e *env) {
	for i, program := range []string{"/no/such/program", "no-such-program"} {
		spec := e.spec("")
		spec.Argv, spec.Attempt = []string{program}, i+1
		if exit := e.do(t, spec); exit.Code != 127 || exit.NeverBegan {
			t.Errorf("%s: %+v", program, exit)
		}
	}
}

func testNotExecutable(t *testing.T, e *env) {
	spec := e.spec("")
	spec.Argv = []string{"/etc/passwd"}
	if exit := e.do(t, spec); exit.Code != 126 || exit.NeverBegan {
		t.Errorf("%+v", exit)
	}
}

// The kernel takes no argument of more than 128 KiB. Who asks for it is told so.
func testArgumentsTooLong(t *testing.T, e *env) {
	spec := e.spec("exit 0", strings.Repeat("x", 128<<10))
	exit := e.do(t, spec)
	if exit.Code != 126 || exit.NeverBegan || !strings.Contains(exit.Detail, "argument list too long") {
		t.Errorf("%+v", exit)
	}
}

// Scripts write to /dev/stderr, whoever runs them.
func testUserOutput(t *testing.T, e *env) {
	spec := e.spec("echo out > /dev/stdout; echo err > /dev/stderr")
	spec.User = "4711:4712"
	if exit := e.do(t, spec); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stdout, []byte("out\n"))
	e.wantOutput(t, rundir.Stderr, []byte("err\n"))
}

func testUser(t *testing.T, e *env) {
	spec := e.spec("id -u")
	spec.User = e.User
	if exit := e.do(t, spec); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stdout, []byte(strconv.Itoa(e.UID)+"\n"))
	pair := e.spec("id -u; id -g; id -G")
	pair.User, pair.Attempt, pair.Action = "4711:4712", 1, e.action+"-pair"
	e.action = pair.Action
	if exit := e.do(t, pair); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stdout, []byte("4711\n4712\n4712\n"))
}

func testUnknownUser(t *testing.T, e *env) {
	for i, user := range []string{"no-such-user", "4711", "-1", "0:x", "root "} {
		spec := e.spec("echo ran")
		spec.User, spec.Attempt = user, i+1
		exit := e.do(t, spec)
		if exit.Reason != rundir.ReasonUnknownUser || !exit.NeverBegan || exit.Code != 125 || exit.Stdout.Bytes != 0 {
			t.Errorf("%q: %+v", user, exit)
		}
	}
}

func testDirectory(t *testing.T, e *env) {
	spec := e.spec("pwd")
	spec.Dir = "/tmp"
	e.do(t, spec)
	e.wantOutput(t, rundir.Stdout, []byte("/tmp\n"))
}

func testBadDirectory(t *testing.T, e *env) {
	for i, dir := range []string{"/no/such/directory", "/etc/passwd"} {
		spec := e.spec("echo ran")
		spec.Dir, spec.Attempt = dir, i+1
		exit := e.do(t, spec)
		if exit.Reason != rundir.ReasonDirectory || !exit.NeverBegan || exit.Stdout.Bytes != 0 {
			t.Errorf("%s: %+v", dir, exit)
		}
	}
}

func testArgv(t *testing.T, e *env) {
	args := []string{"", "a b", "$(id)", "`id`", ";|&<>*?[]{}~!#", `"'\`, "\n\t\x01\x7f", "é€😀", "-n", "--", "%s%n", strings.Repeat("x", 100_000)}
	// The pieces are separated by what no argument can hold.
	e.do(t, e.spec(`printf '%s\0' "$@"`, args...))
	e.wantOutput(t, rundir.Stdout, []byte(strings.Join(args, "\x00")+"\x00"))
}

func testEnvironment(t *testing.T, e *env) {
	spec := e.spec(`env`)
	spec.Env = []string{"A=1 2", "B=", "HOME=/over"}
	e.do(t, spec)
	lines := strings.Split(string(e.output(t, rundir.Stdout)), "\n")
	for _, want := range []string{"A=1 2", "B=", "HOME=/over"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is not in %q", want, lines)
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "PATH=/") }) {
		t.Errorf("no PATH in %q", lines)
	}
	for _, line := range lines {
		if strings.Contains(line, surrounding) {
			t.Errorf("the agent's environment came through: %q", line)
		}
	}
}

// Twice forked, in a session of its own, with the pipe in hand: nothing helps it.
const orphan = `(setsid sleep "$1" &) ; (trap "" TERM HUP; sleep "$1" & exec sleep "$1") & `

func testOrphans(t *testing.T, e *env) {
	action := e.action
	for i := range 20 {
		e.action = action + "-" + strconv.Itoa(i)
		began := time.Now()
		exit := e.do(t, e.spec(orphan+"echo over; exit 5", e.mark()))
		took := time.Since(began)
		if exit.Code != 5 || !exit.Emptied || exit.TimedOut || exit.Cancelled {
			t.Errorf("%+v", exit)
		}
		e.wantOutput(t, rundir.Stdout, []byte("over\n"))
		e.wantNothingLeft(t)
		// The drain of a pipe that stays open takes that long, each time.
		if took < 2*time.Second {
			return
		}
	}
	t.Error("none took less than a pipe is drained that stays open")
}

func testTimeLimit(t *testing.T, e *env) {
	spec := e.spec(orphan+`trap "" TERM; sleep "$1"; sleep "$1"`, e.mark())
	spec.TimeoutMS, spec.GraceMS = sometime, 200
	exit := e.do(t, spec)
	if !exit.TimedOut || exit.Signal != 9 || !exit.Emptied || exit.Cancelled {
		t.Errorf("%+v", exit)
	}
	if took := exit.EndedMS - exit.StartedMS; took < sometime+200 || took > time.Minute.Milliseconds() {
		t.Errorf("took %d ms", took)
	}
	e.wantNothingLeft(t)
}

func testTimeLimitTerm(t *testing.T, e *env) {
	spec := e.spec(`trap "echo bye; exit 3" TERM; echo ready; sleep "$1" & wait`, e.mark())
	spec.TimeoutMS = sometime
	exit := e.do(t, spec)
	if !exit.TimedOut || exit.Code != 3 || exit.Signal != 0 {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stdout, []byte("ready\nbye\n"))
	e.wantNothingLeft(t)
}

func testCancel(t *testing.T, e *env) {
	spec := e.spec(orphan+`trap "" TERM; echo ready; sleep "$1"; sleep "$1"`, e.mark())
	spec.GraceMS = 200
	run := e.start(t, spec)
	follow(t, run, "ready")
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Nothing may be left at the moment of the answer.
	e.wantNothingLeft(t)
	if exit := wait(t, run); !exit.Cancelled || exit.Signal != 9 || !exit.Emptied {
		t.Errorf("%+v", exit)
	}
}

// The grace belongs to everything in the leaf, not to the main process alone.
func testCancelTerm(t *testing.T, e *env) {
	// A wait that ends because its child did must not end the shell: its trap is
	// still to come.
	spec := e.spec(`trap "exit 4" TERM; (trap "sleep 0.2; echo child bye; exit" TERM; sleep "$1" & echo ready; while :; do wait; done) & while :; do wait; done`, e.mark())
	run := e.start(t, spec)
	follow(t, run, "ready")
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, run); !exit.Cancelled || exit.Code != 4 {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stdout, []byte("ready\nchild bye\n"))
	e.wantNothingLeft(t)
}

func testCancelStopped(t *testing.T, e *env) {
	spec := e.spec(`trap "exit 6" TERM; echo ready; kill -STOP $$; exit 7`)
	spec.GraceMS = ages.Milliseconds()
	run := e.start(t, spec)
	follow(t, run, "ready")
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Stopped before or after the signals came: it must not last the grace.
	if exit := wait(t, run); exit.Signal == 9 || exit.EndedMS-exit.StartedMS >= spec.GraceMS {
		t.Errorf("%+v", exit)
	}
}

// The supervisor may not have reached its first line yet.
func testCancelAtOnce(t *testing.T, e *env) {
	for i := range 10 {
		spec := e.spec(`exec sleep "$1"`, e.mark())
		spec.Attempt = i + 1
		run := e.start(t, spec)
		if err := run.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, run); !exit.Cancelled || exit.Signal != 15 {
			t.Errorf("%+v", exit)
		}
	}
	e.wantNothingLeft(t)
}

func testCancelLate(t *testing.T, e *env) {
	run := e.start(t, e.spec("exit 9"))
	wait(t, run)
	if err := run.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	if exit := wait(t, run); exit.Cancelled || exit.Code != 9 {
		t.Errorf("%+v", exit)
	}
}

// The answer itself says that nothing is left, to whoever asks over ctl.sock.
func testCancelAnswer(t *testing.T, e *env) {
	spec := e.spec(`trap "" TERM; echo ready; sleep "$1"; sleep "$1"`, e.mark())
	spec.GraceMS = 200
	run := e.start(t, spec)
	follow(t, run, "ready")
	dir, err := os.Open(string(e.dir()))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	conn, err := net.Dial("unixpacket", rundir.SocketPath(dir, rundir.CtlFile))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(rundir.AppendRequest(nil, rundir.Request{Op: rundir.OpCancel})); err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, rundir.MaxPacket)
	n, err := conn.Read(packet)
	if err != nil {
		t.Fatal(err)
	}
	ended := e.dir().Has(rundir.ExitFile)
	if reply, err := rundir.ParseReply(packet[:n]); err != nil || reply.Result != rundir.ResultEnded || !ended {
		t.Errorf("%+v, %v, and the end is recorded: %v", reply, err, ended)
	}
	e.wantNothingLeft(t)
	if exit := wait(t, run); !exit.Cancelled || !exit.Emptied {
		t.Errorf("%+v", exit)
	}
}

// Who stops waiting for a cancel does not stop the cancel.
func testCancelGivenUp(t *testing.T, e *env) {
	spec := e.spec(`trap "echo asked" TERM; echo ready; while :; do sleep "$1" & wait; done`, e.mark())
	spec.GraceMS = 3000
	run := e.start(t, spec)
	follow(t, run, "ready")
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run.Cancel(ctx) }()
	follow(t, run, "asked")
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
	if exit := wait(t, run); !exit.Cancelled || exit.Signal != 9 {
		t.Errorf("%+v", exit)
	}
	e.wantNothingLeft(t)
}

func testModes(t *testing.T, e *env) {
	spec := e.spec("echo x")
	spec.Stdin = e.stdin(t, []byte("in"))
	run := e.start(t, spec)
	wait(t, run)
	// The files of the supervisor are its own while it lives: the lock tells.
	e.awaitUnlocked(t, 1)
	err := fs.WalkDir(os.DirFS(e.root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// hung makes a program of which opening hangs, as if its file system did not answer,
// and returns its path where commands run.
func (e *env) hung(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if e.Root != "" {
		dir = filepath.Join(e.Root, e.mark())
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "hung")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	// The kernel waits 45 seconds for the holder of a lease, who does not hear it.
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(name, e.Root)
}

func testHungLimit(t *testing.T, e *env) {
	spec := e.spec("")
	spec.Argv, spec.TimeoutMS, spec.GraceMS = []string{e.hung(t)}, 300, 100
	if exit := e.do(t, spec); !exit.TimedOut || !wasKilled(exit) || !exit.Emptied {
		t.Errorf("%+v", exit)
	}
	e.wantNothingLeft(t)
}

func testHungCancel(t *testing.T, e *env) {
	spec := e.spec("")
	spec.Argv, spec.GraceMS = []string{e.hung(t)}, 100
	run := e.start(t, spec)
	<-run.Started()
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, run); !exit.Cancelled || !wasKilled(exit) || !exit.Emptied {
		t.Errorf("%+v", exit)
	}
	e.wantNothingLeft(t)
}

// wasKilled reports whether a command that was to end has ended by a signal: the first
// one, if its process was there to take it.
func wasKilled(exit *rundir.Exit) bool {
	return (exit.Signal == 9 || exit.Signal == 15) && exit.Code == 128+exit.Signal
}
