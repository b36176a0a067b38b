package runner_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// TestRemoveTakesTheLeafAlong: a leaf that was left empty, by whatever kill, goes with
// the directory that names it.
func TestRemoveTakesTheLeafAlong(t *testing.T) {
	root, leaf := t.TempDir(), filepath.Join(t.TempDir(), "hostler.a.1")
	r, err := runner.New(runner.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := rundir.Dir(filepath.Join(root, "a", "1"))
	start := &rundir.Start{Boot: "b", PID: 1 << 22, StartTicks: 1, Leaf: leaf, Keep: rundir.NewKeep(rundir.MinCap, true)}
	if err := errors.Join(os.MkdirAll(string(dir), 0o700), os.Mkdir(leaf, 0o755), dir.CreateStart(start)); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove("a"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{leaf, string(dir)} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// TestRemoveGoesOn: what still runs stays, and keeps nothing else.
func TestRemoveGoesOn(t *testing.T) {
	root := t.TempDir()
	r, err := runner.New(runner.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, action := range []string{"a", "b", "c"} {
		if err := os.MkdirAll(filepath.Join(root, action, "1"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := rundir.Dir(filepath.Join(root, "b", "1")).Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer rundir.Unlock(lock)
	if err := r.Remove("a", "absent", "b", "../c", "c"); !errors.Is(err, runner.ErrRunning) || !strings.Contains(err.Error(), `"../c"`) {
		t.Errorf("removing what runs, and what is no name: %v", err)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 1 || left[0].Name() != "b" {
		t.Errorf("left are %v, %v; want b", left, err)
	}
}
