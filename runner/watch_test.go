package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/runner/rundir"
)

// TestPreparationWakesNobody: what a supervisor makes before the command writes is
// no news for those who follow its output.
func TestPreparationWakesNobody(t *testing.T) {
	r, err := New(Config{Root: filepath.Join(t.TempDir(), "runs")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	dir := r.dir("a", 1)
	if err := makeDir(dir); err != nil {
		t.Fatal(err)
	}
	run, err := r.newRun("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run.release)
	// Events come in their order, so what was written before the last was noticed.
	last := make(chan struct{}, 1)
	remove, err := r.watch.add(string(dir), func(name string) {
		if name == "last" {
			last <- struct{}{}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	rename := func(name string) {
		t.Helper()
		tmp := dir.Path(name + ".new")
		if err := os.WriteFile(tmp, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, dir.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	changed := run.Changed()
	for _, name := range []string{rundir.LogFile, rundir.LockFile, rundir.StartFile, "exit.json.tmp"} {
		rename(name)
	}
	rename("last")
	<-last
	select {
	case <-changed:
		t.Error("somebody was woken")
	default:
	}
	for _, name := range []string{rundir.CtlFile, rundir.StreamFile(rundir.Stdout), rundir.StreamFile(rundir.Stderr)} {
		changed := run.Changed()
		rename(name)
		<-changed
	}
}
