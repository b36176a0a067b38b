package supervise

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/runner/rundir"
)

// The tree of a machine with cgroup2 alone, of which the counters are played.
func TestOOMCounter(t *testing.T) {
	root := t.TempDir()
	leaf := filepath.Join(root, "service", "hostler.a.1")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{root, filepath.Dir(leaf), leaf} {
		write(dir, "cgroup.procs", "")
	}
	write(filepath.Dir(leaf), "memory.events", "oom 9\noom_kill 2\n")
	shared := newOOMCounter(os.Getpid(), rundir.Leaf(leaf))
	if shared.struck(true) {
		t.Error("struck before it did")
	}
	write(filepath.Dir(leaf), "memory.events", "oom 9\noom_kill 3\n")
	if !shared.struck(true) || shared.struck(false) {
		t.Error("a shared counter is believed of a killed command, and of no other")
	}
	write(leaf, "memory.events", "oom 0\noom_kill 0\noom_group_kill 7\n")
	own := newOOMCounter(os.Getpid(), rundir.Leaf(leaf))
	if own.struck(true) {
		t.Error("struck before it did")
	}
	write(leaf, "memory.events", "oom 1\noom_kill 1\n")
	if !own.struck(false) {
		t.Error("the leaf's own counter is believed")
	}
}
