//go:build linux

package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// hierarchy is a mounted cgroup hierarchy: the cgroup2 tree, or one of version
// 1 on hybrid machines.
type hierarchy struct {
	Mount string `json:"mount"` // where
	// Options of the mount for version 1, its controllers or name; empty for
	// cgroup2.
	Options string `json:"options,omitempty"`
}

func (h hierarchy) v2() bool { return h.Options == "" }

// hierarchies returns those of this machine, each once.
func hierarchies() ([]hierarchy, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	all := parseHierarchies(b)
	if !slices.ContainsFunc(all, hierarchy.v2) {
		return nil, fmt.Errorf("%w: no cgroup2 tree is mounted", ErrUnsupported)
	}
	return all, nil
}

func parseHierarchies(mountinfo []byte) []hierarchy {
	var all []hierarchy
	for line := range bytes.Lines(mountinfo) {
		// 36 35 0:30 /root /mount options optional-fields - type source super-options
		place, kind, ok := strings.Cut(string(line), " - ")
		at, of := strings.Fields(place), strings.Fields(kind)
		if !ok || len(at) < 5 || len(of) < 3 || at[3] != "/" {
			continue // a mount of a part of a hierarchy is a container's
		}
		h := hierarchy{Mount: at[4]}
		switch of[0] {
		case "cgroup2":
		case "cgroup":
			if h.Options = cgroupOptions(of[2]); h.Options == "" {
				continue
			}
		default:
			continue
		}
		if !slices.ContainsFunc(all, func(o hierarchy) bool { return o.Options == h.Options }) {
			all = append(all, h)
		}
	}
	return all
}

// cgroupOptions keeps of the options of a version 1 hierarchy what names it.
func cgroupOptions(super string) string {
	var keep []string
	for o := range strings.SplitSeq(super, ",") {
		switch {
		case strings.HasPrefix(o, "name="):
			return "none," + o
		case o == "rw", o == "ro", o == "xattr", o == "clone_children", o == "noprefix", o == "cpuset_v2_mode", strings.Contains(o, "="):
		default:
			keep = append(keep, o)
		}
	}
	return strings.Join(keep, ",")
}

// groupName is the cgroup of a fleet, in each hierarchy.
func groupName(fleet string) string { return "hostler-dev-" + fleet }

// group returns the cgroup of a fleet, or of one of its nodes.
func (h hierarchy) group(fleet, node string) rundir.Leaf {
	return rundir.Leaf(filepath.Join(h.Mount, groupName(fleet), node))
}

// makeGroup makes the cgroup of a node, able to take processes.
func (h hierarchy) makeGroup(fleet, node string) error {
	for _, dir := range []string{string(h.group(fleet, "")), string(h.group(fleet, node))} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if h.v2() {
			enableControllers(filepath.Dir(dir))
			continue
		}
		// A new group of the version 1 controller cpuset has no processor and no
		// memory, and refuses every process.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(dir, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// enableControllers lets the groups below have what this one has. Where it may
// not, limits have no effect, and everything else works.
func enableControllers(dir string) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, c := range strings.Fields(string(b)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0)
	}
}

// inherit copies a setting from the group above, if there is such a file and
// it is empty.
func inherit(dir, file string) error {
	own, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) || len(bytes.TrimSpace(own)) > 0 {
		return nil
	}
	above, e := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
	if err = errors.Join(err, e); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), above, 0)
}

// enter brings this process into the cgroup of a node.
func (h hierarchy) enter(fleet, node string) error {
	return os.WriteFile(filepath.Join(string(h.group(fleet, node)), "cgroup.procs"), []byte("0"), 0)
}

// mount shows the hierarchy at its place, as the cgroup namespace of this
// process has it.
func (h hierarchy) mount() error {
	if err := os.MkdirAll(h.Mount, 0o755); err != nil {
		return err
	}
	kind := "cgroup"
	if h.v2() {
		kind = "cgroup2"
	}
	if err := unix.Mount(kind, h.Mount, kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, h.Options); err != nil {
		return &fs.PathError{Op: "mount", Path: h.Mount, Err: err}
	}
	return nil
}
