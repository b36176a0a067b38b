//go:build linux && cgo

package helper

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/supervise"
)

// home is where a process stands in the cgroup hierarchies: a directory of each.
type home map[string]string

// findHome returns the present place of this process.
func findHome() (home, error) { return supervise.Cgroups("self") }

// enter brings this process there, in all hierarchies in which it is elsewhere now.
func (h home) enter(now home) (err error) {
	for hierarchy, dir := range h {
		if now[hierarchy] != dir {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0))
		}
	}
	return err
}

// comeBack enters home and removes the cgroups that were left if nobody else is
// in them. A monitor that ends does the same: it leaves its cgroup, then removes
// it. Whichever of the two tries last finds nobody inside, so none stays.
func (h home) comeBack() error {
	away, err := findHome()
	if err != nil {
		return err
	}
	if err := h.enter(away); err != nil {
		return err
	}
	for hierarchy, dir := range away {
		if dir != h[hierarchy] {
			_ = unix.Rmdir(dir) // busy while the monitor lives
		}
	}
	return nil
}

// litterAge is how old an abandoned cgroup must be. liblxc names cgroups after
// the container alone, wherever its files are, and enters those of a start some
// milliseconds after it made them: a younger one may be a namesake's.
const litterAge = 10 * time.Second

// sweep removes the cgroups of a stopped container that nobody is in: what stays
// behind when a start or a monitor is killed. liblxc would number around them, up
// to a thousand. It is tidying and does not fail: what is busy is not litter.
func sweep(name string, now time.Time) {
	for _, dir := range litter(name, now) {
		removeEmpty(dir)
	}
}

// litter returns the cgroups of a stopped container that are old enough to be abandoned.
func litter(name string, now time.Time) (dirs []string) {
	// liblxc puts containers where the first process of the machine is.
	place, err := supervise.Cgroups("1")
	if err != nil {
		return nil
	}
	ours := litterName(name)
	for _, dir := range place {
		dir = strings.TrimSuffix(dir, "/init.scope")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !ours.MatchString(e.Name()) {
				continue
			}
			if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > litterAge {
				dirs = append(dirs, filepath.Join(dir, e.Name()))
			}
		}
	}
	return dirs
}

// litterName matches the cgroups that liblxc makes for a container of that
// name, and for one that is called like its second to thousandth.
func litterName(name string) *regexp.Regexp {
	return regexp.MustCompile(`^lxc\.(monitor|payload)\.` + regexp.QuoteMeta(name) + `(-[1-9][0-9]{0,2})?$`)
}

// removeEmpty removes a cgroup with all that are below it, if no process is in
// any of them.
func removeEmpty(top string) {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		procs, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err == nil && len(bytes.TrimSpace(procs)) > 0 {
			err = fs.ErrExist
		}
		dirs = append(dirs, path)
		return err
	})
	if err != nil {
		return
	}
	for _, dir := range slices.Backward(dirs) {
		if unix.Rmdir(dir) != nil {
			return
		}
	}
}
