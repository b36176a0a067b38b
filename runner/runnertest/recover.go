package runnertest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// recoverCases: the directory as a crash behind each line leaves it, and what
// the next agent, and a supervisor that comes late, make of it.
func recoverCases() []Case {
	return []Case{
		{"crash before the directory", testCrashBeforeDir},
		{"crash before the start", testCrashBeforeStart},
		{"crash before the fork", testCrashBeforeFork},
		{"crash with the leaf made", testCrashWithLeaf},
		{"start of another boot", testStartOfOtherBoot},
		{"end of another boot", testExitOfOtherBoot},
		{"record damaged", testDamaged},
		{"record damaged in another boot", testDamagedInOtherBoot},
		{"lock held", testLockHeld},
		{"list and remove", testListRemove},
		{"remove cut short", testRemoveCutShort},
	}
}

func (e *env) makeDir(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(string(e.dir()), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (e *env) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(e.dir().Path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeSpec prepares the directory as Start does.
func (e *env) writeSpec(t *testing.T, line string) {
	t.Helper()
	e.makeDir(t)
	spec := e.spec(line)
	if err := e.dir().CreateSpec(&spec.Spec); err != nil {
		t.Fatal(err)
	}
}

func (e *env) writeStart(t *testing.T, boot, leaf string) {
	t.Helper()
	s := &rundir.Start{Boot: boot, PID: 1 << 22, StartTicks: 1, Leaf: leaf, Keep: rundir.NewKeep(rundir.MinCap, true)}
	if err := e.dir().CreateStart(s); err != nil {
		t.Fatal(err)
	}
}

// wantNeverBegan says that nothing ran, and that nothing will.
func (e *env) wantNeverBegan(t *testing.T) {
	t.Helper()
	for range 2 {
		found := e.wantVerdict(t, runner.NeverBegan)
		if !found.Exit.NeverBegan || found.Exit.Reason != rundir.ReasonNotStarted {
			t.Errorf("%+v", found.Exit)
		}
	}
	e.wantTaken(t)
	e.wantOutput(t, rundir.Stdout, nil)
}

func testCrashBeforeDir(t *testing.T, e *env) { e.wantNeverBegan(t) }

func testCrashBeforeStart(t *testing.T, e *env) {
	for name, prepare := range map[string]func(t *testing.T, e *env){
		"empty directory": func(t *testing.T, e *env) { e.makeDir(t) },
		"half a spec":     func(t *testing.T, e *env) { e.makeDir(t); e.write(t, rundir.SpecFile, `{"version":1,"act`) },
		"spec":            func(t *testing.T, e *env) { e.writeSpec(t, "echo ran") },
		"empty lock":      func(t *testing.T, e *env) { e.writeSpec(t, "echo ran"); e.write(t, rundir.LockFile, "") },
		"half a start": func(t *testing.T, e *env) {
			e.writeSpec(t, "echo ran")
			e.write(t, rundir.LockFile, string(rundir.AppendHolder(nil, &rundir.Holder{PID: 1 << 22})))
			e.write(t, rundir.ExitFile+".tmp", strings.Repeat("\x00", 100))
			e.write(t, "stdout", "")
			e.write(t, "stderr", "")
			e.write(t, rundir.CtlFile+".tmp", "")
			e.write(t, rundir.StartFile+".tmp", `{"version":1,"bo`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, e.Harness)
			prepare(t, e)
			e.wantNeverBegan(t)
		})
		t.Run(name+", supervisor first", func(t *testing.T) {
			e := newEnv(t, e.Harness)
			prepare(t, e)
			if code := e.supervise(t); code != 0 {
				t.Fatalf("supervisor ended with %d", code)
			}
			exit := e.wantVerdict(t, runner.Exited).Exit
			complete := name != "empty directory" && name != "half a spec"
			if ran := exit.Stdout.Bytes == 4; ran != complete || exit.NeverBegan == complete {
				t.Errorf("%+v", exit)
			}
		})
	}
}

// start.json was durable, then the supervisor was killed: it may have run.
func testCrashBeforeFork(t *testing.T, e *env) {
	e.writeSpec(t, "echo ran")
	e.writeStart(t, e.boot, e.parent(t)+"/"+rundir.LeafName(e.action, 1))
	e.wantDead(t)
	e.wantTaken(t)
	e.wantOutput(t, rundir.Stdout, nil)
}

// parent returns the directory in which the supervisor makes its leaves.
func (e *env) parent(t *testing.T) string {
	t.Helper()
	probe := e.spec(":")
	probe.Action += "-probe"
	run := e.start(t, probe)
	wait(t, run)
	o := rundir.Dir(strings.Replace(string(e.dir()), e.action, probe.Action, 1))
	start, err := o.Start()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(start.Leaf, "/"+rundir.LeafName(probe.Action, 1))
}

// The leaf was made, start.json was not: the leaf goes, and is no obstacle.
func testCrashWithLeaf(t *testing.T, e *env) {
	leaf := e.parent(t) + "/" + rundir.LeafName(e.action, 1)
	prepare := func() {
		if err := os.Mkdir(leaf, 0o755); err != nil {
			t.Fatal(err)
		}
		e.write(t, rundir.LockFile, string(rundir.AppendHolder(nil, &rundir.Holder{PID: 1 << 22, Leaf: leaf})))
	}
	e.writeSpec(t, "echo ran")
	prepare()
	e.wantNeverBegan(t)
	if _, err := os.Stat(leaf); err == nil {
		t.Errorf("leaf %s is left", leaf)
	}
	if err := e.runner.Remove(e.action); err != nil {
		t.Fatal(err)
	}
	e.writeSpec(t, "echo ran")
	prepare()
	if code := e.supervise(t); code != 0 {
		t.Errorf("supervisor ended with %d", code)
	}
	e.wantOutput(t, rundir.Stdout, []byte("ran\n"))
	e.wantNothingLeft(t)
}

func testStartOfOtherBoot(t *testing.T, e *env) {
	e.writeSpec(t, "echo ran")
	e.writeStart(t, "another-boot", "")
	e.wantVerdict(t, runner.Rebooted)
	e.wantTaken(t)
}

func testExitOfOtherBoot(t *testing.T, e *env) {
	e.writeSpec(t, "echo ran")
	e.writeStart(t, "another-boot", "")
	if err := e.dir().PublishExit(&rundir.Exit{Code: 5}); err != nil {
		t.Fatal(err)
	}
	if found := e.wantVerdict(t, runner.Exited); found.Exit.Code != 5 {
		t.Errorf("%+v", found.Exit)
	}
	e.wantTaken(t)
}

// A record that cannot be understood is a problem that is told, and never a
// reason to run the command again.
func testDamaged(t *testing.T, e *env) {
	for _, name := range []string{rundir.StartFile, rundir.ExitFile} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, e.Harness)
			e.writeSpec(t, "echo ran")
			e.write(t, name, `{"version":1,`)
			if found := e.wantVerdict(t, runner.Died); found.Problem == nil || found.Emptied {
				t.Errorf("%+v", found)
			}
			e.wantTaken(t)
			if e.dir().Has("stdout") {
				t.Error("a supervisor has run")
			}
		})
	}
}

// A power failure may leave the record of the end damaged, and then it is as if
// there was none.
func testDamagedInOtherBoot(t *testing.T, e *env) {
	e.writeSpec(t, "echo ran")
	e.writeStart(t, "another-boot", "")
	e.write(t, rundir.ExitFile, "")
	if found := e.wantVerdict(t, runner.Rebooted); found.Problem == nil || !found.Emptied {
		t.Errorf("%+v", found)
	}
	e.wantTaken(t)
}

// Whoever holds the lock keeps supervisors out, and says nothing of itself yet.
func testLockHeld(t *testing.T, e *env) {
	e.writeSpec(t, "echo ran")
	lock, err := e.dir().Lock()
	if err != nil {
		t.Fatal(err)
	}
	e.wantTaken(t)
	if e.dir().Has(rundir.StartFile) || e.dir().Has("stdout") {
		t.Error("a supervisor without the lock has written")
	}
	if err := e.runner.Remove(e.action); err == nil {
		t.Error("removed although the lock is held")
	}
	rundir.Unlock(lock)
	if code := e.supervise(t); code != 0 {
		t.Errorf("supervisor ended with %d", code)
	}
	e.wantOutput(t, rundir.Stdout, []byte("ran\n"))
}

func testListRemove(t *testing.T, e *env) {
	run := e.start(t, e.spec(`echo ready; exec sleep "$1"`, e.mark()))
	follow(t, run, "ready")
	if err := e.runner.Remove(e.action); err == nil {
		t.Error("removed although it runs")
	}
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := e.runner.Sizes()
	if err != nil {
		t.Fatal(err)
	}
	next := e.spec("head -c 1000000 /dev/urandom")
	next.Attempt = 2
	e.do(t, next)
	if sizes, err := e.runner.Sizes(); err != nil || sizes[e.action]-before[e.action] < 1_000_000 || sizes[e.action]-before[e.action] > 1_100_000 {
		t.Errorf("Sizes = %v, %v, before the million %v", sizes, err, before)
	}
	ids, err := e.runner.List()
	want := []runner.ID{{Action: e.action, Attempt: 1}, {Action: e.action, Attempt: 2}}
	if err != nil || !slices.Equal(ids, want) {
		t.Errorf("List = %v, %v, want %v", ids, err, want)
	}
	e.awaitUnlocked(t, 1)
	e.awaitUnlocked(t, 2)
	for range 2 {
		if err := e.runner.Remove(e.action); err != nil {
			t.Fatal(err)
		}
	}
	if ids, err := e.runner.List(); err != nil || len(ids) != 0 {
		t.Errorf("List = %v, %v after Remove", ids, err)
	}
	if sizes, err := e.runner.Sizes(); err != nil || len(sizes) != 0 {
		t.Errorf("Sizes = %v, %v after Remove", sizes, err)
	}
}

func testRemoveCutShort(t *testing.T, e *env) {
	half := e.root + "/.removed-" + e.action
	if err := os.MkdirAll(half+"/1", 0o700); err != nil {
		t.Fatal(err)
	}
	if ids, err := e.runner.List(); err != nil || len(ids) != 0 {
		t.Errorf("List = %v, %v", ids, err)
	}
	e.open(t)
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("the half-removed action is left: %v", err)
	}
}
