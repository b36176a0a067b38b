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
}

// The names of the table; all are required.
const (
	targetPath = "lxc_path"
	targetName = "name"
	targetInit = "init_pid"
)

// Map returns the table.
func (t Target) Map() map[string]string {
	return map[string]string{targetPath: t.LXCPath, targetName: t.Name, targetInit: strconv.Itoa(t.InitPID)}
}

// ParseTarget reads the table and checks it.
func ParseTarget(m map[string]string) (Target, error) {
	t := Target{LXCPath: m[targetPath], Name: m[targetName]}
	if len(m) != len(t.Map()) {
		return Target{}, fmt.Errorf("target of %d entries, want %d", len(m), len(t.Map()))
	}
	if !filepath.IsAbs(t.LXCPath) {
		return Target{}, fmt.Errorf("target path %.80q is not absolute", t.LXCPath)
	}
	if err := container.CheckReference(t.Name); err != nil {
		return Target{}, err
	}
	var err error
	if t.InitPID, err = strconv.Atoi(m[targetInit]); err != nil || t.InitPID <= 0 {
		return Target{}, fmt.Errorf("target process %.40q is not a process id", m[targetInit])
	}
	return t, nil
}
