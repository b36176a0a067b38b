package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler-io/hostler/runner/rundir"
)

// obedient is a program that keeps what it was told in a file and ends. It says
// its arguments, too: rundir.Later is the last.
func obedient(t *testing.T) (argv []string, file string) {
	file = filepath.Join(t.TempDir(), "told")
	return []string{"/bin/sh", "-c", `read -r dir; [ "$1$dir" != - ] || exit; printf '%s\n%s' "$1" "$dir" >"$0.tmp"; mv "$0.tmp" "$0"`, file}, file
}

func awaitEnd(t *testing.T, s *supervisor) {
	t.Helper()
	if !s.wait(nil) {
		t.Fatal("its end cannot be waited for")
	}
	_ = s.cmd.Wait()
	s.close()
}

func TestSpareIsTold(t *testing.T) {
	argv, file := obedient(t)
	var m spares
	t.Cleanup(m.close)
	if m.take(argv) != nil {
		t.Fatal("there is one before the first run")
	}
	m.refill(argv)
	m.refill(argv)
	s := m.take(argv)
	if s == nil || m.take(argv) != nil {
		t.Fatal("want one spare, and no second one")
	}
	if !s.serve(rundir.Dir("/run/dir")) {
		t.Fatal("it was not told")
	}
	awaitEnd(t, s)
	got, err := os.ReadFile(file)
	if want := rundir.Later + "\n/run/dir"; err != nil || string(got) != want {
		t.Errorf("it was told %q, %v; want %q", got, err, want)
	}
}

// One that dies unused is not given a run, and is not started again: that would
// cost a process for each run. Dismissed ones are waited for.
func TestSpareThatDies(t *testing.T) {
	argv := []string{"/bin/sh", "-c", "exit 2"}
	var m spares
	t.Cleanup(m.close)
	m.refill(argv)
	m.mu.Lock()
	dead := m.idle[spareKey(argv)]
	m.mu.Unlock()
	if !dead.wait(nil) {
		t.Fatal("its end cannot be waited for")
	}
	if m.take(argv) != nil {
		t.Error("a dead process was taken")
	}
	m.refill(argv)
	if m.take(argv) != nil {
		t.Error("it was started again")
	}
	if err := dead.cmd.Process.Signal(os.Interrupt); err != os.ErrProcessDone {
		t.Errorf("signalling the dead: %v, want %v", err, os.ErrProcessDone)
	}
}

// Between the look at it and the order it may die as well.
func TestSpareDiesBeforeTheOrder(t *testing.T) {
	argv, _ := obedient(t)
	var m spares
	t.Cleanup(m.close)
	m.refill(argv)
	s := m.take(argv)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.wait(nil)
	if s.serve("/run/dir") {
		t.Error("the dead took an order")
	}
}

func TestSparesClose(t *testing.T) {
	argv, file := obedient(t)
	var m spares
	m.refill(argv)
	m.mu.Lock()
	s := m.idle[spareKey(argv)]
	m.mu.Unlock()
	m.close()
	if s.cmd.ProcessState == nil {
		t.Error("the spare process was not waited for")
	}
	m.refill(argv)
	if m.take(argv) != nil {
		t.Error("one was started after close")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the dismissed one was told something")
	}
}

// TestRunsUseSpares: after the first run there is a spare sooner or later, and it
// is used. Close ends the last one.
func TestRunsUseSpares(t *testing.T) {
	// What supervisors are told by is a file here: where nobody reads the run
	// directory, the runner sees one that has died, which is all the same.
	argv, file := obedient(t)
	r, err := New(Config{Root: filepath.Join(t.TempDir(), "runs")})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for n := 1; ; n++ {
		run, err := r.Start(Spec{Supervisor: argv, Spec: rundir.Spec{Action: "spare", Attempt: n, Argv: []string{"x"}}})
		if err != nil {
			t.Fatal(err)
		}
		<-run.Done()
		told, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(told) == rundir.Later+"\n"+string(run.dir) {
			break
		}
		if string(told) != string(run.dir)+"\n" || time.Now().After(deadline) {
			t.Fatalf("run %d: the supervisor was told %q", n, told)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if len(r.spares.idle) > 0 {
		t.Errorf("after Close there is %v", r.spares.idle)
	}
}
