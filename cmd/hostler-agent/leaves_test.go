package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/fsck"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// TestLeavesAreSwept: the start of the built agent removes the empty control group of a
// command that it does not know.
func TestLeavesAreSwept(t *testing.T) {
	at, err := supervise.FindCgroup2(os.Getpid())
	if err != nil || at == "" {
		t.Fatalf("a cgroup2 tree is needed: %q, %v", at, err)
	}
	leaf := filepath.Join(at, rundir.LeafName("01890a5d-ac96-774b-bcce-b302099a80ff", 1))
	old := time.Now().Add(-time.Minute)
	if err := errors.Join(os.Mkdir(leaf, 0o755), os.Chtimes(leaf, old, old)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rundir.Leaf(leaf).Remove() }) // it is gone
	newSite(t).start(t)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	end := time.After(fsck.LeafAge + time.Minute)
	for _, err := os.Stat(leaf); !errors.Is(err, fs.ErrNotExist); _, err = os.Stat(leaf) {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("%s is left: %v", leaf, err)
		}
	}
}
