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
)

// home is where a process stands in the cgroup hierarchies: the files to write
// to in order to come back there, by hierarchy.
type home map[string]string

// findHome returns the present place of this process.
func findHome() (home, error) { return findPlace("/proc/self/cgroup") }

// findPlace returns the place that a file of /proc tells of.
func findPlace(file string) (home, error) {
	membership, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseHome(string(membership), string(mounts)), nil
}

// parseHome joins the two files. A hierarchy that is not mounted, or of which
// the mount shows another part, is left out.
func parseHome(membership, mounts string) home {
	h := make(home)
	for line := range strings.Lines(membership) {
		// 5:cpu,cpuacct:/path; no controllers for cgroup2
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for mount := range strings.Lines(mounts) {
			if procs, ok := cgroupProcs(mount, fields[1], fields[2]); ok {
				h[fields[1]] = procs
				break
			}
		}
	}
	return h
}

// cgroupProcs returns the file cgroup.procs of a path, if the line of mountinfo
// is a mount of its hierarchy.
func cgroupProcs(mount, controllers, path string) (string, bool) {
	// 36 35 0:30 /root /mount options optional-fields - type source super-options
	place, kind, ok := strings.Cut(mount, " - ")
	at, fs := strings.Fields(place), strings.Fields(kind)
	if !ok || len(at) < 5 || len(fs) < 3 {
		return "", false
	}
	if controllers == "" {
		ok = fs[0] == "cgroup2"
	} else {
		super := "," + fs[2] + ","
		ok = fs[0] == "cgroup"
		for c := range strings.SplitSeq(controllers, ",") {
			ok = ok && strings.Contains(super, ","+c+",")
		}
	}
	below, err := filepath.Rel(at[3], path)
	if !ok || err != nil || strings.HasPrefix(below, "..") {
		return "", false
	}
	return filepath.Join(at[4], below, "cgroup.procs"), true
}

// enter brings this process there, in all hierarchies in which it is elsewhere.
func (h home) enter() error {
	now, err := findHome()
	if err != nil {
		return err
	}
	for hierarchy, procs := range h {
		if now[hierarchy] != procs {
			err = errors.Join(err, os.WriteFile(procs, []byte("0"), 0))
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
	if err := h.enter(); err != nil {
		return err
	}
	for hierarchy, procs := range away {
		if procs != h[hierarchy] {
			_ = unix.Rmdir(filepath.Dir(procs)) // busy while the monitor lives
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
	// liblxc puts containers where the first process of the machine is.
	place, err := findPlace("/proc/1/cgroup")
	if err != nil {
		return
	}
	ours := litterName(name)
	for _, procs := range place {
		dir := strings.TrimSuffix(filepath.Dir(procs), "/init.scope")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !ours.MatchString(e.Name()) {
				continue
			}
			if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > litterAge {
				removeEmpty(filepath.Join(dir, e.Name()))
			}
		}
	}
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
