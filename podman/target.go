package podman

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// target tells the supervisor of a command which container it is for. It travels as a
// table of strings in the run directory's specification.
type target struct {
	ID, Name string // of the container
	Program  string // the runtime below podman, by absolute path
	Config   string // the container's configuration as the runtime has it, by absolute path
	// InitPID and InitTicks are the container's first process when the command was
	// ordered, and when it started, as rundir.StartTicks.
	InitPID   int
	InitTicks int64
}

// The names of the table.
const (
	targetID      = "id"
	targetName    = "name"
	targetProgram = "program"
	targetConfig  = "config"
	targetInit    = "init_pid"
	targetTicks   = "init_ticks"
)

func (t target) table() map[string]string {
	return map[string]string{
		targetID: t.ID, targetName: t.Name, targetProgram: t.Program, targetConfig: t.Config,
		targetInit: strconv.Itoa(t.InitPID), targetTicks: strconv.FormatInt(t.InitTicks, 10),
	}
}

// parseTarget reads the table and checks it.
func parseTarget(m map[string]string) (t target, err error) {
	t = target{ID: m[targetID], Name: m[targetName], Program: m[targetProgram], Config: m[targetConfig]}
	if len(m) != len(t.table()) {
		return target{}, fmt.Errorf("target of %d entries, want %d", len(m), len(t.table()))
	}
	if len(t.ID) != 64 || strings.Trim(t.ID, "0123456789abcdef") != "" {
		return target{}, fmt.Errorf("target container %.80q is no id of podman", t.ID)
	}
	if !filepath.IsAbs(t.Program) || !filepath.IsAbs(t.Config) {
		return target{}, fmt.Errorf("target paths %.80q and %.80q: want absolute ones", t.Program, t.Config)
	}
	if t.InitPID, err = strconv.Atoi(m[targetInit]); err != nil || t.InitPID <= 0 {
		return target{}, fmt.Errorf("target process %.40q is not a process id", m[targetInit])
	}
	if t.InitTicks, err = strconv.ParseInt(m[targetTicks], 10, 64); err != nil || t.InitTicks <= 0 {
		return target{}, fmt.Errorf("target start %.40q is not a time", m[targetTicks])
	}
	return t, nil
}
