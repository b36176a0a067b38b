package metrics

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// maxValues bounds a sample: a host with 1,000 containers has some 12,000 values.
const maxValues = 30_000

// Container is a container that runs.
type Container struct {
	Name string
	// InitPID is its first process, seen from the host.
	InitPID int
	// Disk and Inodes are what its root directory takes, see [Usage]; 0 is unknown.
	Disk, Inodes int64
	// DiskMax is how much its root directory may take; 0 is no limit.
	DiskMax int64
}

// Config says where a Collector reads. The zero value is the running system.
type Config struct {
	// Proc and Sys are the mount points of procfs and sysfs. Default: /proc, /sys.
	Proc, Sys string
	// Mounts lists what is mounted. Default: procfs.GetMounts.
	Mounts func() ([]*procfs.MountInfo, error)
}

// Collector makes samples. It is used by one goroutine.
type Collector struct {
	cfg      Config
	fs       procfs.FS
	mounts   []*procfs.MountInfo // as they are now
	own      string              // the network namespace of the host
	swap     float64             // what the host has; 0 is none
	last     time.Duration       // on the boot clock
	counters map[Series]counter
	values   []Value
	span     time.Duration
}

// counter is a count of the kernel's, as it was last read.
type counter struct {
	count float64
	at    time.Duration
}

// NewCollector fails if procfs is not there.
func NewCollector(cfg Config) (*Collector, error) {
	cfg.Proc, cfg.Sys = cmp.Or(cfg.Proc, "/proc"), cmp.Or(cfg.Sys, "/sys")
	if cfg.Mounts == nil {
		cfg.Mounts = procfs.GetMounts
	}
	fs, err := procfs.NewFS(cfg.Proc)
	return &Collector{cfg: cfg, fs: fs, counters: make(map[Series]counter)}, err
}

// Collect measures the host and the given containers. now is the boot clock. Rates
// need two samples: the first has none, and neither has a counter that went back,
// because what counted has begun anew. What cannot be read is left out.
func (c *Collector) Collect(at time.Time, now time.Duration, containers []Container) Sample {
	c.swap = 0
	c.values, c.span = make([]Value, 0, len(c.values)+16), now-c.last
	if c.last == 0 {
		c.span = 0
	}
	c.mounts, _ = c.cfg.Mounts() // without them file systems and cgroups are left out
	c.host(now)
	families := c.families()
	c.own, _ = os.Readlink(filepath.Join(c.cfg.Proc, "self/ns/net"))
	for _, ct := range containers {
		c.container(ct, families, now)
		c.limitedDisk(ct)
	}
	for s, was := range c.counters {
		if was.at != now {
			delete(c.counters, s)
		}
	}
	c.last = now
	if c.span == 0 {
		c.span = Interval
	}
	return Sample{At: at, Span: c.span, Values: c.values}
}

func (c *Collector) set(s Series, v float64) {
	if len(c.values) < maxValues {
		c.values = append(c.values, Value{Series: s, Mean: v, Max: v})
	}
}

// rate sets how fast a count has grown, times scale.
func (c *Collector) rate(s Series, count, scale float64, now time.Duration) {
	was, known := c.counters[s]
	if len(c.counters) >= maxValues && !known {
		return
	}
	c.counters[s] = counter{count, now}
	if passed := now - was.at; known && passed > 0 && count >= was.count {
		c.set(s, (count-was.count)/passed.Seconds()*scale)
	}
}

// grown sets by how much a count has grown since the sample before.
func (c *Collector) grown(s Series, count float64, now time.Duration) {
	c.rate(s, count, (now - c.counters[s].at).Seconds(), now)
}

func (c *Collector) host(now time.Duration) {
	of := func(m Metric, part string) Series { return Series{Metric: m, Part: part} }
	if st, err := c.fs.Stat(); err == nil {
		t := st.CPUTotal // seconds; the time of guests is part of user and nice
		c.rate(of(CPU, ""), t.User+t.Nice+t.System+t.IRQ+t.SoftIRQ, 100, now)
		c.rate(of(IOWait, ""), t.Iowait, 100, now)
		c.rate(of(Steal, ""), t.Steal, 100, now)
	}
	if l, err := c.fs.LoadAvg(); err == nil {
		c.set(of(Load1, ""), l.Load1)
		c.set(of(Load5, ""), l.Load5)
		c.set(of(Load15, ""), l.Load15)
	}
	if n, ok := tasks(c.cfg.Proc); ok {
		c.set(of(Tasks, ""), n)
	}
	if m, err := c.fs.Meminfo(); err == nil && m.MemTotalBytes != nil && m.MemAvailableBytes != nil {
		c.set(of(Memory, ""), float64(*m.MemTotalBytes-min(*m.MemAvailableBytes, *m.MemTotalBytes)))
		c.set(of(MemoryMax, ""), float64(*m.MemTotalBytes))
		if m.SwapTotalBytes != nil && m.SwapFreeBytes != nil && *m.SwapTotalBytes > 0 {
			c.set(of(Swap, ""), float64(*m.SwapTotalBytes-min(*m.SwapFreeBytes, *m.SwapTotalBytes)))
			c.swap = float64(*m.SwapTotalBytes)
			c.set(of(SwapMax, ""), c.swap)
		}
	}
	c.disks(now)
	c.fileSystems()
	c.interfaces("", filepath.Join(c.cfg.Proc, "net/dev"), now)
	for _, wait := range waits {
		if p, err := c.fs.PSIStatsForResource(wait.resource); err == nil && p.Some != nil {
			c.rate(of(wait.metric, ""), float64(p.Some.Total)/1e6, 100, now)
		}
	}
	if b, err := readSmall(filepath.Join(c.cfg.Proc, "vmstat")); err == nil {
		if n, ok := field(b, "oom_kill"); ok {
			c.grown(of(OOM, ""), n, now)
		}
	}
	c.heat()
}

// waits are the resources that tasks wait for.
var waits = []struct {
	resource string
	metric   Metric
}{{"cpu", WaitCPU}, {"memory", WaitMemory}, {"io", WaitIO}}

// tasks reads the fourth field of loadavg, "running/all".
func tasks(proc string) (float64, bool) {
	b, err := readSmall(filepath.Join(proc, "loadavg"))
	if err != nil {
		return 0, false
	}
	f := strings.Fields(b)
	if len(f) < 4 {
		return 0, false
	}
	_, n, _ := strings.Cut(f[3], "/")
	v, err := strconv.ParseUint(n, 10, 63)
	return float64(v), err == nil
}

// disks reads diskstats. Partitions and what is made of other disks are left out: each
// byte counts once.
func (c *Collector) disks(now time.Duration) {
	b, err := readSmall(filepath.Join(c.cfg.Proc, "diskstats"))
	if err != nil {
		return
	}
	const sector = 512 // whatever the disk's own are
	for line := range strings.Lines(b) {
		f := strings.Fields(line)
		if len(f) < 10 || !c.isDisk(f[2]) {
			continue
		}
		in, err1 := strconv.ParseUint(f[5], 10, 64)
		out, err2 := strconv.ParseUint(f[9], 10, 64)
		if errors.Join(err1, err2) == nil {
			c.rate(Series{Metric: DiskRead, Part: f[2]}, float64(in)*sector, 1, now)
			c.rate(Series{Metric: DiskWritten, Part: f[2]}, float64(out)*sector, 1, now)
		}
	}
}

func (c *Collector) isDisk(name string) bool {
	if strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") || strings.ContainsAny(name, "/") {
		return false
	}
	dir := filepath.Join(c.cfg.Sys, "block", strings.ReplaceAll(name, "/", "!"))
	if _, err := os.Stat(dir); err != nil {
		return false
	}
	below, err := os.ReadDir(filepath.Join(dir, "slaves"))
	return err != nil || len(below) == 0
}

// fileSystems asks those on disks of this machine only: one behind a network may not
// answer.
func (c *Collector) fileSystems() {
	seen := make(map[string]bool)
	for _, m := range c.mounts {
		if !strings.HasPrefix(m.Source, "/dev/") && m.FSType != "zfs" || strings.HasPrefix(m.Source, "/dev/loop") && m.FSType == "squashfs" ||
			m.FSType == "iso9660" || m.Root != "/" || seen[m.MajorMinorVer] {
			continue
		}
		var st unix.Statfs_t
		if err := unix.Statfs(m.MountPoint, &st); err != nil || st.Blocks == 0 {
			continue
		}
		seen[m.MajorMinorVer] = true
		used := float64(st.Blocks-st.Bfree) * float64(st.Bsize)
		c.set(Series{Metric: Disk, Part: m.MountPoint}, used)
		c.set(Series{Metric: DiskMax, Part: m.MountPoint}, used+float64(st.Bavail)*float64(st.Bsize))
		if st.Files > 0 {
			c.set(Series{Metric: Inodes, Part: m.MountPoint}, float64(st.Files-st.Ffree))
			c.set(Series{Metric: InodesMax, Part: m.MountPoint}, float64(st.Files))
		}
	}
}

// interfaces leaves out loopback, and on the host the ends of containers' cables:
// they come and go, and the container's own end tells the same.
func (c *Collector) interfaces(container, path string, now time.Duration) {
	b, err := readSmall(path)
	if err != nil {
		return
	}
	for line := range strings.Lines(b) { // "eth0: bytes and seven other numbers received, bytes … sent"
		at := strings.LastIndexByte(line, ':')
		f := strings.Fields(line[at+1:])
		name := strings.TrimSpace(line[:max(at, 0)])
		if len(f) < 9 || name == "" || name == "lo" || container == "" && strings.HasPrefix(name, "veth") {
			continue
		}
		in, known := number(f[0], true)
		if out, both := number(f[8], known); both {
			c.rate(Series{container, NetReceived, name}, in, 1, now)
			c.rate(Series{container, NetSent, name}, out, 1, now)
		}
	}
}

// limitedDisk sets what a container that runs may take, and what it takes also before its
// files are counted.
func (c *Collector) limitedDisk(ct Container) {
	if ct.DiskMax == 0 {
		return
	}
	if _, err := os.Stat(filepath.Join(c.cfg.Proc, strconv.Itoa(ct.InitPID))); err != nil {
		return
	}
	if ct.Inodes == 0 {
		c.set(Series{Container: ct.Name, Metric: Disk}, float64(ct.Disk))
	}
	c.set(Series{Container: ct.Name, Metric: DiskMax}, float64(ct.DiskMax))
}

func (c *Collector) heat() {
	zones, _ := filepath.Glob(filepath.Join(c.cfg.Sys, "class/thermal/thermal_zone*"))
	for _, z := range zones {
		b, err := readSmall(filepath.Join(z, "temp"))
		milli, err2 := strconv.ParseInt(strings.TrimSpace(b), 10, 32)
		if errors.Join(err, err2) != nil {
			continue
		}
		name, err := readSmall(filepath.Join(z, "type"))
		if name = strings.TrimSpace(name); err != nil || name == "" {
			name = filepath.Base(z)
		}
		c.set(Series{Metric: Heat, Part: name + "/" + strings.TrimPrefix(filepath.Base(z), "thermal_zone")}, float64(milli)/1000)
	}
}

// maxFile bounds what is read of a file of the kernel's.
const maxFile = 1 << 20

// readSmall returns a file of the kernel's. A sample has thousands of them: they are read
// without the runtime, which would ask for each whether it can be waited for.
func readSmall(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == unix.EINTR {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var piece [4 << 10]byte
	var text string
	for {
		switch n, err := unix.Read(fd, piece[:]); {
		case err == unix.EINTR:
		case err != nil:
			return "", &fs.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return text, nil
		case len(text)+n > maxFile:
			return "", &fs.PathError{Op: "read", Path: path, Err: errors.New("file is too large")}
		default:
			text += string(piece[:n])
		}
	}
}
