package supervise

import (
	"bytes"
	"path"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/runner/rundir"
)

// An oomCounter watches how often the out-of-memory killer struck where the
// command's memory is accounted.
type oomCounter struct {
	file   string // "" when nobody counts
	exact  bool   // it counts for this command alone
	before int64
}

// newOOMCounter finds the counter of a command that has just been forked: of the
// leaf, if the memory controller is on there, else of the nearest cgroup above,
// else of the version 1 hierarchy.
func newOOMCounter(pid int, leaf rundir.Leaf) oomCounter {
	c := oomCounter{file: memoryEvents(string(leaf))}
	c.exact = leaf != "" && path.Dir(c.file) == string(leaf)
	if c.file == "" {
		if dir, err := findCgroup(pid, "memory"); err == nil && dir != "" {
			c.file = dir + "/memory.oom_control"
		}
	}
	c.before = c.count()
	return c
}

func memoryEvents(dir string) string {
	for ; dir != ""; dir = strings.TrimSuffix(path.Dir(dir), "/") {
		if _, err := rundir.Mode(dir + "/cgroup.procs"); err != nil {
			return "" // above the tree
		}
		if _, err := rundir.Mode(dir + "/memory.events"); err == nil {
			return dir + "/memory.events"
		}
	}
	return ""
}

func (c oomCounter) count() int64 {
	if c.file == "" {
		return 0
	}
	b, err := rundir.ReadCapped(c.file, 4096)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "oom_kill "); ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

// struck reports whether it has struck since. A counter that others share is
// believed when the main process died of a KILL that was not ours.
func (c oomCounter) struck(killed bool) bool {
	return c.count() > c.before && (c.exact || killed)
}
