//go:build linux && cgo

package helper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// home is where a process stands in the cgroup hierarchies: the files to write
// to in order to come back there, by hierarchy.
type home map[string]string

// findHome returns the present place of this process.
func findHome() (home, error) {
	membership, err := os.ReadFile("/proc/self/cgroup")
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
