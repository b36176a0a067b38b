// Package cgroup limits what containers use, whatever their runtime: by the files of
// control groups of version 1, of version 2, or of both on a hybrid machine.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// ErrUnsupported: this machine has no controller for the resource.
var ErrUnsupported = errors.New("unsupported")

// ErrBelowUse: the container uses more than it would be limited to.
var ErrBelowUse = errors.New("below present use")

// period is that of shares of processors, in microseconds: the kernel's own default.
const period = 100_000

// maxFile bounds what is read of a file.
const maxFile = 1 << 20

// Group is the control group of a whole container, in all hierarchies.
type Group struct {
	dirs map[string]string // by controller; "" is version 2
}

// Of finds the group of a container by its first process.
func Of(init int) (Group, error) {
	all, err := supervise.Cgroups(strconv.Itoa(init))
	if err != nil {
		return Group{}, fmt.Errorf("find the control groups of process %d: %w", init, err)
	}
	g := Group{dirs: make(map[string]string)}
	for controllers, dir := range all {
		whole, ok := payload(dir)
		if !ok {
			continue // nobody limits what is not a container's own
		}
		for c := range strings.SplitSeq(controllers, ",") {
			g.dirs[c] = whole
		}
	}
	return g, nil
}

// payload cuts a directory down to that of the whole container: its first process may
// be in one of its own below it.
func payload(dir string) (string, bool) {
	parts := strings.Split(dir, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "lxc.payload") || strings.HasPrefix(p, "libpod-") && !strings.HasPrefix(p, "libpod-conmon-") {
			return strings.Join(parts[:i+1], "/"), true
		}
	}
	return "", false
}

// Payload is the component of a control group's path by which all processes of a container
// are known, by its first process.
func Payload(init int) (string, error) {
	g, err := Of(init)
	if err != nil {
		return "", err
	}
	for _, dir := range g.dirs {
		return path.Base(dir), nil
	}
	return "", fmt.Errorf("process %d is in no control group of a container", init)
}

// Supported are the resources that can be limited on this machine, sorted: those whose
// controllers are there.
func Supported() (all []limit.Resource) {
	dirs, err := supervise.Cgroups("1")
	if err != nil {
		return nil
	}
	there := make(map[string]bool)
	for controllers, dir := range dirs {
		for c := range strings.SplitSeq(controllers, ",") {
			there[c] = true
		}
		if controllers == "" {
			for c := range strings.FieldsSeq(read(filepath.Join(dir, "cgroup.controllers"))) {
				there[c] = true
			}
		}
	}
	for _, r := range []limit.Resource{limit.CPU, limit.CPUSet, limit.Memory, limit.PIDs} {
		if there[string(r)] {
			all = append(all, r)
		}
	}
	return all
}

// file is where a resource is limited, and how a limit is written there.
type file struct {
	controller, name string // of version 1; the name in version 2 is another field
	v2               string
}

var files = map[limit.Resource]file{
	limit.CPU:    {"cpu", "cpu.cfs_quota_us", "cpu.max"},
	limit.Memory: {"memory", "memory.limit_in_bytes", "memory.max"},
	limit.PIDs:   {"pids", "pids.max", "pids.max"},
	limit.CPUSet: {"cpuset", "cpuset.cpus", "cpuset.cpus"},
}

// path is the file that limits a resource, and whether it is of version 2, which comes
// first: where its file is, its controller is.
func (g Group) path(r limit.Resource) (path string, v2 bool, err error) {
	f, known := files[r]
	if dir := g.dirs[""]; known && dir != "" {
		path = filepath.Join(dir, f.v2)
		if _, err := os.Stat(path); err == nil {
			return path, true, nil
		}
	}
	if dir := g.dirs[f.controller]; known && dir != "" {
		return filepath.Join(dir, f.name), false, nil
	}
	return "", false, fmt.Errorf("%w: %s cannot be limited on this machine", ErrUnsupported, r)
}

// Limit limits a container from now on. Nothing is changed if one of the limits is not
// possible, or, unless force, below what the container uses now ([ErrBelowUse]).
func (g Group) Limit(limits limit.Limits, force bool) error {
	for r, value := range limits {
		if _, _, err := g.path(r); err != nil {
			return err
		}
		if used, ok := g.use(r); ok && !force && value != limit.None {
			if n, err := limit.Number(r, value); err == nil && n < used {
				return fmt.Errorf("%w: it uses %d, and %s=%s is less", ErrBelowUse, used, r, value)
			}
		}
	}
	for _, text := range limits.Strings() {
		name, value, _ := strings.Cut(text, "=")
		if err := g.set(limit.Resource(name), value); err != nil {
			return fmt.Errorf("limit %s: %w", text, err)
		}
	}
	return nil
}

func (g Group) set(r limit.Resource, value string) error {
	path, v2, err := g.path(r)
	if err != nil {
		return err
	}
	free := value == limit.None
	n := int64(0)
	if !free && r != limit.CPUSet {
		if n, err = limit.Number(r, value); err != nil {
			return err
		}
	}
	switch r {
	case limit.CPU:
		quota := strconv.FormatInt(n*period/100, 10)
		switch {
		case v2 && free:
			value = "max " + strconv.Itoa(period)
		case v2:
			value = quota + " " + strconv.Itoa(period)
		case free:
			value = "-1"
		default:
			value = quota
			if err := write(filepath.Join(filepath.Dir(path), "cpu.cfs_period_us"), strconv.Itoa(period)); err != nil {
				return err
			}
		}
	case limit.CPUSet:
		if free && v2 {
			value = "\n"
		} else if free {
			value = read(filepath.Join(filepath.Dir(filepath.Dir(path)), "cpuset.cpus"))
		}
	default:
		value = strconv.FormatInt(n, 10)
		if free && (v2 || r == limit.PIDs) {
			value = "max"
		} else if free {
			value = "-1"
		}
	}
	return write(path, value)
}

// write writes what the kernel takes as a whole or not at all. It creates nothing.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// read returns a file without the white space around; empty if it cannot be read.
func read(path string) string {
	b, err := rundir.ReadCapped(path, maxFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// noLimit is from where on version 1 means that there is none: it writes the largest
// number of whole pages.
const noLimit = 1 << 62

// Effective are the limits that the kernel keeps, as it tells them.
func (g Group) Effective() (limit.Limits, error) {
	out := make(limit.Limits)
	for r := range files {
		path, v2, err := g.path(r)
		if err != nil {
			continue
		}
		b, err := rundir.ReadCapped(path, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if value := effective(r, strings.TrimSpace(string(b)), v2, read(filepath.Join(filepath.Dir(path), "cpu.cfs_period_us"))); value != "" {
			out[r] = value
		}
	}
	return out, nil
}

// effective is what a file says, as a limit; empty is none.
func effective(r limit.Resource, text string, v2 bool, v1period string) string {
	switch r {
	case limit.CPUSet:
		return text
	case limit.CPU:
		quota, p, _ := strings.Cut(text, " ")
		if !v2 {
			p = v1period
		}
		q, err := strconv.ParseInt(quota, 10, 64)
		per, err2 := strconv.ParseInt(p, 10, 64)
		if err != nil || err2 != nil || q <= 0 || per <= 0 {
			return ""
		}
		return strconv.FormatInt(q*100/per, 10) + "%"
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n >= noLimit {
		return ""
	}
	if r == limit.Memory {
		return bytes(n)
	}
	return strconv.FormatInt(n, 10)
}

// bytes writes an amount of memory in the largest unit of which it is a whole number.
func bytes(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n > 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// use is what a container uses of a resource that it cannot give back at once.
func (g Group) use(r limit.Resource) (int64, bool) {
	path, v2, err := g.path(r)
	if err != nil {
		return 0, false
	}
	dir := filepath.Dir(path)
	current := map[limit.Resource]string{limit.PIDs: "pids.current", limit.Memory: "memory.usage_in_bytes"}[r]
	cache := "total_inactive_file"
	if v2 && r == limit.Memory {
		current, cache = "memory.current", "inactive_file"
	}
	n, err := strconv.ParseInt(read(filepath.Join(dir, current)), 10, 64)
	if current == "" || err != nil {
		return 0, false
	}
	if r == limit.Memory {
		for line := range strings.Lines(read(filepath.Join(dir, "memory.stat"))) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == cache {
				c, _ := strconv.ParseInt(f[1], 10, 64)
				n = max(0, n-c)
			}
		}
	}
	return n, true
}
