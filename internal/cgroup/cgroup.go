// Package cgroup limits what containers use, whatever their runtime: by the files of
// control groups of version 1, of version 2, or of both on a hybrid machine.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/container"
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
			continue // what is not a container's own is not limited
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
	there := make(map[string]bool)
	for c := range controllers() {
		there[c] = true
	}
	for _, r := range []limit.Resource{limit.CPU, limit.CPUSet, limit.IO, limit.Memory, limit.PIDs} {
		if there[string(r)] || there[files[r].controller] {
			all = append(all, r)
		}
	}
	return all
}

// controllers are those of this machine, and whether each is one of version 2.
func controllers() map[string]bool {
	dirs, err := supervise.Cgroups("1")
	if err != nil {
		return nil
	}
	all := make(map[string]bool)
	for names, dir := range dirs {
		for c := range strings.SplitSeq(names, ",") {
			if c != "" {
				all[c] = false
			}
		}
		if names == "" {
			for c := range strings.FieldsSeq(read(filepath.Join(dir, "cgroup.controllers"))) {
				all[c] = true
			}
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
	limit.IO:     {"blkio", readBytes, "io.max"},
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
				return fmt.Errorf("%w: it uses %d, and %s=%s is less; --force sets it all the same", ErrBelowUse, used, r, value)
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
	if r == limit.CPUSet && value == limit.None && !v2 {
		value = read(filepath.Join(filepath.Dir(filepath.Dir(path)), "cpuset.cpus"))
	}
	all, err := lines(r, value, v2)
	if err != nil {
		return err
	}
	for _, l := range all {
		if err := write(filepath.Join(filepath.Dir(path), l.Name), l.Value); err != nil {
			return err
		}
	}
	return nil
}

// Files of input and output of version 1, which limit each direction on its own.
const (
	readBytes  = "blkio.throttle.read_bps_device"
	writeBytes = "blkio.throttle.write_bps_device"
)

// lines is how a limit is written, in this order.
func lines(r limit.Resource, value string, v2 bool) (all []container.GroupFile, err error) {
	free := value == limit.None
	n := int64(0)
	if !free && r != limit.CPUSet {
		if n, err = limit.Number(r, value); err != nil {
			return nil, err
		}
	}
	with := func(name, value string) { all = append(all, container.GroupFile{Name: name, Value: value, V2: v2}) }
	number := strconv.FormatInt(n, 10)
	switch r {
	case limit.CPU:
		quota := strconv.FormatInt(n*period/100, 10)
		switch {
		case v2 && free:
			with("cpu.max", "max "+strconv.Itoa(period))
		case v2:
			with("cpu.max", quota+" "+strconv.Itoa(period))
		case free:
			with("cpu.cfs_quota_us", "-1")
		default:
			with("cpu.cfs_period_us", strconv.Itoa(period))
			with("cpu.cfs_quota_us", quota)
		}
	case limit.CPUSet:
		if free {
			value = "\n"
		}
		with("cpuset.cpus", value)
	case limit.IO:
		if free && v2 {
			number = "max"
		}
		for _, d := range disks() {
			if v2 {
				with("io.max", d+" rbps="+number+" wbps="+number)
				continue
			}
			with(readBytes, d+" "+number) // 0 is none
			with(writeBytes, d+" "+number)
		}
	default:
		if free && (v2 || r == limit.PIDs) {
			number = "max"
		} else if free {
			number = "-1"
		}
		if f := files[r]; v2 {
			with(f.v2, number)
		} else {
			with(f.name, number)
		}
	}
	return all, nil
}

// Files are how the control groups of a container that is about to be started are to be
// written, for limits that these can keep. The others are left out.
func Files(limits limit.Limits) (all []container.GroupFile, err error) {
	there := controllers()
	for _, r := range slices.Sorted(maps.Keys(limits)) {
		f, known := files[r]
		if !known {
			continue
		}
		v2, ok := there[f.controller]
		if !ok {
			v2, ok = there[string(r)]
		}
		if !ok {
			return nil, fmt.Errorf("%w: %s cannot be limited on this machine", ErrUnsupported, r)
		}
		some, err := lines(r, limits[r], v2)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Write writes files of the group of a process that is to be a container's first one.
func Write(init int, all []container.GroupFile) error {
	if len(all) == 0 {
		return nil
	}
	g, err := Of(init)
	if err != nil {
		return err
	}
	for _, f := range all {
		controller, _, _ := strings.Cut(f.Name, ".")
		if f.V2 {
			controller = ""
		}
		dir := g.dirs[controller]
		if dir == "" {
			return fmt.Errorf("%w: the container has no control group for %s", ErrUnsupported, f.Name)
		}
		if err := write(filepath.Join(dir, f.Name), f.Value); err != nil {
			return fmt.Errorf("write %q into %s: %w", f.Value, f.Name, err)
		}
	}
	return nil
}

// disks are the numbers of the host's disks, as 8:0. Devices that are made of files or of
// memory are none: what is stored in files goes to the disk below.
func disks() (all []string) {
	found, err := filepath.Glob("/sys/block/*/dev")
	if err != nil {
		return nil
	}
	for _, path := range found {
		dir := filepath.Dir(path)
		virtual := slices.ContainsFunc([]string{"loop", "ram", "zram"}, func(kind string) bool { return strings.HasPrefix(filepath.Base(dir), kind) })
		if size := read(filepath.Join(dir, "size")); !virtual && size != "" && size != "0" {
			all = append(all, read(path))
		}
	}
	return all
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
	case limit.IO:
		return slowest(text)
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
		return limit.Bytes(n)
	}
	return strconv.FormatInt(n, 10)
}

// slowest is the lowest rate of bytes that a file has for any disk; empty is none.
func slowest(text string) string {
	least := int64(0)
	for line := range strings.Lines(text) {
		for i, word := range strings.Fields(line) {
			n, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimPrefix(word, "rbps="), "wbps="), 10, 64)
			if i > 0 && err == nil && n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
	}
	if least == 0 {
		return ""
	}
	return limit.Bytes(least)
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
