package wire

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/hostler-io/hostler/container"
)

// Target tells the supervisor of a command which container it is for. It
// travels as a table of strings in the run directory's specification.
type Target struct {
	LXCPath string
	Name    string
	// InitPID is the container's first process when the command was ordered.
	InitPID int
	// InitTicks is when that process started, as rundir.StartTicks; 0 if it is not
	// known.
	InitTicks int64
}

// The names of the table. All are required, but for the last.
const (
	targetPath  = "lxc_path"
	targetName  = "name"
	targetInit  = "init_pid"
	targetTicks = "init_ticks"
)

// Map returns the table.
func (t Target) Map() map[string]string {
	m := map[string]string{targetPath: t.LXCPath, targetName: t.Name, targetInit: strconv.Itoa(t.InitPID)}
	if t.InitTicks != 0 {
		m[targetTicks] = strconv.FormatInt(t.InitTicks, 10)
	}
	return m
}

// ParseTarget reads the table and checks it.
func ParseTarget(m map[string]string) (Target, error) {
	t := Target{LXCPath: m[targetPath], Name: m[targetName]}
	var err error
	if ticks, ok := m[targetTicks]; ok {
		if t.InitTicks, err = strconv.ParseInt(ticks, 10, 64); err != nil || t.InitTicks <= 0 {
			return Target{}, fmt.Errorf("target start %.40q is not a time", ticks)
		}
	}
	if len(m) != len(t.Map()) {
		return Target{}, fmt.Errorf("target of %d entries, want %d", len(m), len(t.Map()))
	}
	if !filepath.IsAbs(t.LXCPath) {
		return Target{}, fmt.Errorf("target path %.80q is not absolute", t.LXCPath)
	}
	if err := container.CheckReference(t.Name); err != nil {
		return Target{}, err
	}
	if t.InitPID, err = strconv.Atoi(m[targetInit]); err != nil || t.InitPID <= 0 {
		return Target{}, fmt.Errorf("target process %.40q is not a process id", m[targetInit])
	}
	return t, nil
}
