package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// TestLook: what is seen of a supervisor that answers, that is stopped, that goes on,
// and that was killed.
func TestLook(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs")
	r, err := runner.New(runner.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	action := "look-" + strconv.Itoa(os.Getpid())
	spec := runner.Spec{Spec: rundir.Spec{Action: action, Attempt: 1, Argv: []string{"/bin/sleep", "1000"}}, Supervisor: []string{build(t)}}
	run, err := r.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // should anything have failed
		_ = r.Abandon(action, 1)
		if start, err := rundir.Dir(filepath.Join(root, action, "1")).Start(); err == nil {
			_ = rundir.Leaf(start.Leaf).Kill()
		}
	})
	<-run.Started()
	look := func(fits func(runner.Sight) bool) (s runner.Sight) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; {
			s, err := r.Look(t.Context(), action, 1)
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("%+v, %v", s, err)
			}
			if fits(s) {
				return s
			}
		}
	}
	s := look(func(s runner.Sight) bool {
		return s.Supervisor.PID != 0 && !s.Silent && s.StartedMS > 0 && len(s.Alive) == 1 && s.Alive[0].State == 'S'
	})
	for range 2 { // the second time, one that does not listen yet
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGCONT} {
			if err := unix.Kill(s.Supervisor.PID, sig); err != nil {
				t.Fatal(err)
			}
			look(func(s runner.Sight) bool { return s.Silent == (sig == unix.SIGSTOP) })
		}
		if err := os.RemoveAll(filepath.Join(root, action, "1", rundir.CtlFile)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Abandon(action, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); !errors.Is(err, runner.ErrDied) {
		t.Errorf("Wait: %v, want ErrDied", err)
	}
	look(func(s runner.Sight) bool { return s.Supervisor == runner.Process{} && len(s.Alive) == 1 })
	boot, err := runner.Boot()
	if err != nil {
		t.Fatal(err)
	}
	if found, err := r.Recover(t.Context(), action, 1, boot); err != nil || found.Verdict != runner.Died || !found.Emptied {
		t.Errorf("%+v, %v", found, err)
	}
	if err := r.Abandon(action, 1); err != nil {
		t.Errorf("again: %v", err)
	}
}

// TestLookBeforeTheStart: a supervisor that hangs before it has declared the start, and
// so before it listens, is silent.
func TestLookBeforeTheStart(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs")
	r, err := runner.New(runner.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := rundir.Dir(filepath.Join(root, "hangs", "1"))
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer rundir.Unlock(lock)
	ticks, err := rundir.StartTicks(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := rundir.WriteHolder(lock, &rundir.Holder{PID: os.Getpid(), StartTicks: ticks}); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Look(t.Context(), "hangs", 1); err != nil || !s.Silent || s.Supervisor.PID != os.Getpid() {
		t.Errorf("%+v, %v; want it silent", s, err)
	}
}
