package metrics

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// families are the cgroup hierarchies that are mounted: of version 1 one for each
// controller, of version 2 one for all. A hybrid host has both, and then each quantity
// is read where its controller is.
type families struct {
	unified string            // mount point; empty for none
	v1      map[string]string // from controller to mount point
}

func (c *Collector) families() families {
	f := families{v1: make(map[string]string)}
	for _, m := range c.mounts {
		switch {
		case m.Root != "/":
		case m.FSType == "cgroup2":
			f.unified = m.MountPoint
		case m.FSType == "cgroup":
			for option := range m.SuperOptions {
				f.v1[option] = m.MountPoint
			}
		}
	}
	return f
}

// group is where a container stands in the hierarchies: the directories of its control
// group.
type group struct {
	unified string            // empty for none
	v1      map[string]string // from controller to directory
}

// payload cuts a cgroup down to that of the whole container: its first process may
// have moved into one of its own, as systemd does. It reports false if the path is of no
// container, so that the figures of the host are not taken for those of a container.
func payload(path string) (string, bool) {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "lxc.payload") || strings.HasPrefix(p, "libpod-") && !strings.HasPrefix(p, "libpod-conmon-") {
			return strings.Join(parts[:i+1], "/"), true
		}
	}
	return "", false
}

// of reads /proc/PID/cgroup of the first process, lines of "number:controllers:path".
func (f families) of(cgroups string) group {
	g := group{v1: make(map[string]string, len(f.v1))}
	for line := range strings.Lines(cgroups) {
		number, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, found := strings.Cut(rest, ":")
		path, ours := payload(path)
		if !found || !ours {
			continue
		}
		if number == "0" && f.unified != "" {
			g.unified = filepath.Join(f.unified, path)
		}
		for controller := range strings.SplitSeq(controllers, ",") {
			if at := f.v1[controller]; controller != "" && at != "" {
				g.v1[controller] = filepath.Join(at, path)
			}
		}
	}
	return g
}

// everywhere is in place of a controller for what version 2 has without one.
const everywhere = ""

// v2 and file read a file of the container's group. What a controller of version 1 has is
// not in version 2: it is not looked for there.
func (g group) v2(controller, name string) (string, bool) {
	if _, elsewhere := g.v1[controller]; elsewhere || g.unified == "" {
		return "", false
	}
	b, err := readSmall(g.unified + "/" + name)
	return b, err == nil
}

func (g group) file(controller, name string) (string, bool) {
	dir, ok := g.v1[controller]
	if !ok {
		return "", false
	}
	b, err := readSmall(dir + "/" + name)
	return b, err == nil
}

// number reads a file of one number; "max" is none.
func number(text string, ok bool) (float64, bool) {
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	return float64(n), err == nil
}

// field reads a number of a file of lines "name number".
func field(text, name string) (float64, bool) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok && strings.HasPrefix(value, " ") {
			return number(value, true)
		}
	}
	return 0, false
}

// container measures one container. Version 2 comes first: where its file exists, its
// controller is there, and cpu.stat and pressure are there without one.
func (c *Collector) container(ct Container, f families, now time.Duration) {
	proc := filepath.Join(c.cfg.Proc, strconv.Itoa(ct.InitPID))
	cgroups, err := readSmall(proc + "/cgroup")
	if err != nil {
		return
	}
	g := f.of(cgroups)
	of := func(m Metric, part string) Series { return Series{ct.Name, m, part} }
	if stat, ok := g.v2(everywhere, "cpu.stat"); ok {
		if us, ok := field(stat, "usage_usec"); ok {
			c.rate(of(CPU, ""), us/1e6, 100, now)
		}
	} else if ns, ok := number(g.file("cpuacct", "cpuacct.usage")); ok {
		c.rate(of(CPU, ""), ns/1e9, 100, now)
	}
	c.memory(of, g)
	events, ok := g.v2("memory", "memory.events")
	if !ok { // version 1 counts what was killed in the group itself, and not in those below
		events, _ = g.file("memory", "memory.oom_control")
	}
	if n, ok := field(events, "oom_kill"); ok {
		c.grown(of(OOM, ""), n, now)
	}
	if n, ok := field(events, "oom"); ok { // version 2 alone counts that
		c.grown(of(OOMLimit, ""), n, now)
	}
	if n, ok := number(g.v2("pids", "pids.current")); ok {
		c.set(of(Tasks, ""), n)
	} else if n, ok := number(g.file("pids", "pids.current")); ok {
		c.set(of(Tasks, ""), n)
	}
	if in, out, ok := blocks(g); ok {
		c.rate(of(DiskRead, ""), in, 1, now)
		c.rate(of(DiskWritten, ""), out, 1, now)
	}
	for _, wait := range waits {
		if text, ok := g.v2(everywhere, wait.resource+".pressure"); ok {
			if us, ok := total(text); ok {
				c.rate(of(wait.metric, ""), us/1e6, 100, now)
			}
		}
	}
	if ct.Inodes > 0 {
		c.set(of(Disk, ""), float64(ct.Disk))
		c.set(of(Inodes, ""), float64(ct.Inodes))
	}
	// Who shares the host's network has no interfaces of its own.
	if ns, err := os.Readlink(proc + "/ns/net"); err == nil && ns != c.own {
		c.interfaces(ct.Name, proc+"/net/dev", now)
	}
}

// memory sets the working set: what the kernel could not take back without writing. It sets
// the swap, too, on a host that has some.
func (c *Collector) memory(of func(Metric, string) Series, g group) {
	used, ok := number(g.v2("memory", "memory.current"))
	stat, _ := g.v2("memory", "memory.stat")
	limit, limited := number(g.v2("memory", "memory.max"))
	inactive, swap := "inactive_file", g.swap
	if !ok {
		used, ok = number(g.file("memory", "memory.usage_in_bytes"))
		stat, _ = g.file("memory", "memory.stat")
		limit, limited = number(g.file("memory", "memory.limit_in_bytes"))
		inactive, swap = "total_inactive_file", func() (float64, float64, bool) { return swapV1(stat) }
	}
	if !ok {
		return
	}
	cache, _ := field(stat, inactive)
	c.set(of(Memory, ""), max(0, used-cache))
	if limited && limit < unlimited {
		c.set(of(MemoryMax, ""), limit)
	}
	if c.swap == 0 {
		return
	}
	if swapped, most, ok := swap(); ok {
		c.set(of(Swap, ""), swapped)
		c.set(of(SwapMax, ""), min(most, c.swap))
	}
}

// unlimited is more than any limit: version 1 writes "no limit" as the largest number of
// whole pages.
const unlimited = math.MaxInt64 / 2

// swap returns how much of the host's swap a container of version 2 has, and may have.
func (g group) swap() (used, most float64, ok bool) {
	used, ok = number(g.v2("memory", "memory.swap.current"))
	most, limited := number(g.v2("memory", "memory.swap.max"))
	if !limited {
		most = unlimited
	}
	return used, most, ok
}

// swapV1 is the same of the memory.stat of version 1. It limits memory and swap together: a
// container that has all the memory of its limit may have the rest as swap. A kernel that
// does not count the swap of control groups has none of these lines.
func swapV1(stat string) (used, most float64, ok bool) {
	used, ok = field(stat, "total_swap")
	memory, _ := field(stat, "hierarchical_memory_limit")
	both, limited := field(stat, "hierarchical_memsw_limit")
	if !limited || both >= unlimited {
		return used, unlimited, ok
	}
	return used, max(0, both-memory), ok
}

// blocks returns the bytes that were read from disks and written to them.
func blocks(g group) (in, out float64, ok bool) {
	if text, ok := g.v2("blkio", "io.stat"); ok { // "8:0 rbytes=1 wbytes=2 …"
		for _, f := range strings.Fields(text) {
			name, value, _ := strings.Cut(f, "=")
			n, _ := number(value, true)
			switch name {
			case "rbytes":
				in += n
			case "wbytes":
				out += n
			}
		}
		return in, out, true
	}
	text, ok := g.file("blkio", "blkio.throttle.io_service_bytes") // "8:0 Read 1"
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		n, _ := number(f[2], true)
		switch f[1] {
		case "Read":
			in += n
		case "Write":
			out += n
		}
	}
	return in, out, ok
}

// total returns the microseconds of the line "some … total=N" of a pressure file.
func total(text string) (float64, bool) {
	for line := range strings.Lines(text) {
		if _, n, found := strings.Cut(line, "total="); found && strings.HasPrefix(line, "some ") {
			return number(n, true)
		}
	}
	return 0, false
}
