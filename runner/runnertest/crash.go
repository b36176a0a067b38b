package runnertest

import (
	"bufio"
	"encoding/json"
	"errors"

	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// crashCases: processes that die or come twice.
func crashCases() []Case {
	return []Case{
		{"agent killed", testAgentKilled},
		{"agent killed at any moment", testAgentKilledAnytime},
		{"supervisor killed", testSupervisorKilled},
		{"supervisor killed, then adopted by a new agent", testSupervisorKilledAfterRestart},
		{"supervisor ignores stray signals", testStraySignals},
		{"reboot", testReboot},
		{"second supervisor", testSecondSupervisor},
		{"supervisor missing", testSupervisorMissing},
		{"spec unusable", testBadSpec},
		{"attempt exists", testAttemptExists},
	}
}

// starterArg makes a test binary be an agent that starts one run and is then
// killed: argv = binary, starterArg, root; the spec comes on stdin.
const starterArg = "runnertest-starter"

// Main is what TestMain of a package that calls Run exits with. args are the
// test binary's own: they let it play the agents that the suite kills.
func Main(m *testing.M, args []string) (code int) {
	if len(args) == 3 && args[1] == starterArg {
		return starter(args[2])
	}
	return m.Run()
}

func starter(root string) int {
	var spec runner.Spec
	fail := func(err error) int {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	if os.Getpid() == 1 { // of its own PID namespace
		private := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, "")
		if err := errors.Join(private, syscall.Mount("proc", "/proc", "proc", 0, "")); err != nil {
			return fail(err)
		}
	}
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		return fail(err)
	}
	r, err := runner.New(runner.Config{Root: root})
	if err != nil {
		return fail(err)
	}
	run, err := r.Start(spec)
	if err != nil {
		return fail(err)
	}
	os.Stdout.WriteString("started\n")
	for said := false; !said; {
		changed := run.Changed()
		if b, err := os.ReadFile(filepath.Join(root, spec.Action, "1", "stdout")); err == nil && len(b) > 0 {
			os.Stdout.Write(b)
			said = true
			continue
		}
		select {
		case <-changed:
		case <-run.Done():
			return fail(errors.New("the run ended and said nothing"))
		}
	}
	select {} // until killed
}

// startAgent starts such an agent and returns its stdout.
func (e *env) startAgent(t *testing.T, spec runner.Spec, attr *syscall.SysProcAttr) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, starterArg, e.root)
	cmd.Stdin, cmd.Stderr, cmd.SysProcAttr = strings.NewReader(string(text)), os.Stderr, attr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

func awaitStarted(t *testing.T, out *bufio.Reader) {
	t.Helper()
	if line, err := out.ReadString('\n'); err != nil {
		t.Fatalf("the agent said %q, %v", line, err)
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
}

func (e *env) recover(t *testing.T) runner.Found {
	t.Helper()
	found, err := e.runner.Recover(t.Context(), e.action, 1, e.boot)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (e *env) wantVerdict(t *testing.T, want runner.Verdict) runner.Found {
	t.Helper()
	found := e.recover(t)
	if found.Verdict != want {
		t.Fatalf("verdict %q (%+v), want %q", found.Verdict, found, want)
	}
	return found
}

// The agent is killed with its whole process group, as a shell or a service
// manager may do it: the supervisor is in none of it.
func testAgentKilled(t *testing.T, e *env) {
	agent, out := e.startAgent(t, e.spec(held+"echo done; exit 8", e.mark()), &syscall.SysProcAttr{Setpgid: true})
	awaitStarted(t, out)
	// Before the command has spoken, its supervisor may not have the lock yet.
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the agent said %q, %v", line, err)
	}
	if err := syscall.Kill(-agent.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait() // "signal: killed"
	found := e.wantVerdict(t, runner.Adopted)
	e.letGo(t)
	if exit := wait(t, found.Run); exit.Code != 8 {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stdout, []byte("ready\ndone\n"))
	if again := e.wantVerdict(t, runner.Exited); again.Exit.Code != 8 {
		t.Errorf("%+v", again.Exit)
	}
}

// Wherever the agent dies, the command has run once, or not at all and never will.
func testAgentKilledAnytime(t *testing.T, e *env) {
	action := e.action
	for i := range 24 {
		e.action = action + "-" + string(rune('a'+i))
		agent, _ := e.startAgent(t, e.spec("echo ran"), nil)
		delay := time.NewTimer(time.Duration(i) * 500 * time.Microsecond)
		<-delay.C
		kill(t, agent)
		found := e.recover(t)
		exit := found.Exit
		switch found.Verdict {
		case runner.Adopted:
			exit = wait(t, found.Run)
		case runner.Exited, runner.NeverBegan:
		default:
			t.Fatalf("verdict %q", found.Verdict)
		}
		want := "ran\n"
		if exit.NeverBegan {
			want = ""
		}
		e.wantOutput(t, rundir.Stdout, []byte(want))
	}
	// One that comes when its run was given up does nothing, but it looks; not while
	// the directories are removed.
	awaitNone(t, e.root)
}

// killSupervisor kills the supervisor of a run that has begun.
func (e *env) killSupervisor(t *testing.T) {
	t.Helper()
	start, err := e.dir().Start()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(start.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func testSupervisorKilled(t *testing.T, e *env) {
	run := e.start(t, e.spec(orphan+`echo ready; sleep "$1"`, e.mark()))
	follow(t, run, "ready")
	e.killSupervisor(t)
	if _, err := run.Wait(t.Context()); !errors.Is(err, runner.ErrDied) {
		t.Errorf("Wait: %v, want ErrDied", err)
	}
	if err := e.runner.Remove(e.action); !errors.Is(err, runner.ErrRunning) {
		t.Errorf("Remove while the leaf is populated: %v, want ErrRunning", err)
	}
	e.wantDead(t)
	e.wantOutput(t, rundir.Stdout, []byte("ready\n"))
	o, err := e.runner.Output(e.action, 1, rundir.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := o.Account(); err != nil || got != (rundir.Stream{Bytes: 6}) {
		t.Errorf("the account of what it left: %+v, %v", got, err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// wantDead recovers a run whose supervisor was killed.
func (e *env) wantDead(t *testing.T) {
	t.Helper()
	for range 2 { // the second time it is no other
		if found := e.wantVerdict(t, runner.Died); !found.Emptied || found.Problem != nil {
			t.Errorf("%+v", found)
		}
		e.wantNothingLeft(t)
	}
}

func testSupervisorKilledAfterRestart(t *testing.T, e *env) {
	run := e.start(t, e.spec(orphan+`echo ready; sleep "$1"`, e.mark()))
	follow(t, run, "ready")
	second := e.open(t)
	found, err := second.Recover(t.Context(), e.action, 1, e.boot)
	if err != nil || found.Verdict != runner.Adopted {
		t.Fatalf("%+v, %v", found, err)
	}
	e.killSupervisor(t)
	if _, err := found.Run.Wait(t.Context()); !errors.Is(err, runner.ErrDied) {
		t.Errorf("Wait: %v, want ErrDied", err)
	}
	<-run.Done() // reaped: no zombie holds anything
	e.wantDead(t)
}

func testStraySignals(t *testing.T, e *env) {
	run := e.start(t, e.spec(held+"exit 3", e.mark()))
	follow(t, run, "ready")
	start, err := e.dir().Start()
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(start.PID, sig); err != nil {
			t.Fatal(err)
		}
	}
	e.letGo(t)
	if exit := wait(t, run); exit.Code != 3 || exit.Signal != 0 {
		t.Errorf("%+v", exit)
	}
}

// A new PID namespace plays the boot of a machine: it has a PID 1 of its own,
// whose end is the end of all.
func testReboot(t *testing.T, e *env) {
	agent, out := e.startAgent(t, e.spec(`echo ready; exec sleep "$1"`, e.mark()),
		&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS})
	awaitStarted(t, out)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the agent said %q, %v", line, err)
	}
	kill(t, agent)
	if found := e.wantVerdict(t, runner.Rebooted); !found.Emptied {
		t.Errorf("%+v", found)
	}
	e.wantNothingLeft(t)
	e.wantVerdict(t, runner.Rebooted)
}

func testSecondSupervisor(t *testing.T, e *env) {
	run := e.start(t, e.spec(held+"exit 2", e.mark()))
	follow(t, run, "ready")
	e.wantTaken(t)
	e.letGo(t)
	if exit := wait(t, run); exit.Code != 2 {
		t.Errorf("%+v", exit)
	}
	e.awaitUnlocked(t, 1)
	e.wantTaken(t)
	e.wantOutput(t, rundir.Stdout, []byte("ready\n"))
}

// supervise runs the supervisor program on the run directory to its end.
func (e *env) supervise(t *testing.T) (code int) {
	t.Helper()
	return e.superviseBy(t, string(e.dir()), "")
}

// superviseBy starts a supervisor with that argument and standard input.
func (e *env) superviseBy(t *testing.T, arg, stdin string) (code int) {
	t.Helper()
	cmd := exec.Command(e.Supervisor[0], append(e.Supervisor[1:len(e.Supervisor):len(e.Supervisor)], arg)...)
	cmd.Env = []string{}
	cmd.Stdin = strings.NewReader(stdin)
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// A supervisor that is told its directory late serves it like any other; its
// command does not read the pipe by which it was told.
func testLater(t *testing.T, e *env) {
	e.writeSpec(t, "cat; echo ran")
	if code := e.superviseBy(t, rundir.Later, string(e.dir())); code != 0 {
		t.Errorf("the supervisor ended with %d", code)
	}
	e.wantOutput(t, rundir.Stdout, []byte("ran\n"))
	e.wantVerdict(t, runner.Exited)
	if code := e.superviseBy(t, rundir.Later, string(e.dir())); code != 3 {
		t.Errorf("the supervisor of a taken directory ended with %d, want 3", code)
	}
	if !e.dir().Has(rundir.LogFile) {
		t.Error("it has no log")
	}
}

// The pipe ends without a word when the agent does.
func testNeverNeeded(t *testing.T, e *env) {
	if code := e.superviseBy(t, rundir.Later, ""); code != 0 {
		t.Errorf("a supervisor without a run ended with %d", code)
	}
	if code := e.superviseBy(t, rundir.Later, filepath.Join(t.TempDir(), "absent")); code != 1 {
		t.Errorf("a supervisor without its directory ended with %d, want 1", code)
	}
}

// wantTaken starts a supervisor too many: it says so with exit code 3.
func (e *env) wantTaken(t *testing.T) {
	t.Helper()
	if code := e.supervise(t); code != 3 {
		t.Errorf("the supervisor of a taken directory ended with %d, want 3", code)
	}
}

func testSupervisorMissing(t *testing.T, e *env) {
	spec := e.spec("echo ran")
	spec.Supervisor = []string{filepath.Join(t.TempDir(), "absent")}
	if _, err := e.runner.Start(spec); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start: %v, want ErrNotExist", err)
	}
	e.wantVerdict(t, runner.NeverBegan)
	e.wantTaken(t)
}

func testBadSpec(t *testing.T, e *env) {
	spec := e.spec("echo ran")
	good := string(rundir.AppendSpec(nil, &spec.Spec))
	for name, text := range map[string]string{
		"absent":        "",
		"empty":         "",
		"truncated":     good[:len(good)-20],
		"unknown field": strings.Replace(good, `"dir":`, `"colour":"red","dir":`, 1),
		"other version": strings.Replace(good, `"version":1`, `"version":2`, 1),
		"oversized":     good + strings.Repeat(" ", rundir.MaxSpec),
		"garbage":       string(noise(1000)),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, e.Harness)
			e.makeDir(t)
			if name != "absent" {
				e.write(t, rundir.SpecFile, text)
			}
			if code := e.supervise(t); code != 0 {
				t.Errorf("supervisor ended with %d", code)
			}
			exit := e.wantVerdict(t, runner.Exited).Exit
			if !exit.NeverBegan || exit.Reason != rundir.ReasonSpec || exit.Code != 125 || exit.Detail == "" {
				t.Errorf("%+v", exit)
			}
			if e.dir().Has(rundir.StartFile) {
				t.Error("start.json was written")
			}
			e.wantTaken(t)
		})
	}
}

func testAttemptExists(t *testing.T, e *env) {
	e.do(t, e.spec("echo ran"))
	if _, err := e.runner.Start(e.spec("echo again")); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v, want ErrExist", err)
	}
	e.wantOutput(t, rundir.Stdout, []byte("ran\n"))
	next := e.spec("exit 6")
	next.Attempt = 2
	if exit := e.do(t, next); exit.Code != 6 {
		t.Errorf("%+v", exit)
	}
}
