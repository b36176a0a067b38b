package metrics_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/hostler-io/hostler/metrics"
)

// machine is a host made of files.
type machine struct {
	t      *testing.T
	dir    string
	mounts []*procfs.MountInfo
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, dir: t.TempDir()}
	m.write("proc/stat", "cpu  0 0 0 0 0 0 0 0 0 0\n")
	m.write("proc/loadavg", "0.50 0.25 0.10 2/345 999\n")
	m.link("net:[1]", "proc/self/ns/net")
	return m
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	path = filepath.Join(m.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) link(to, path string) {
	m.t.Helper()
	path = filepath.Join(m.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) mount(kind, at string, options ...string) {
	super := make(map[string]string)
	for _, o := range options {
		super[o] = ""
	}
	m.mounts = append(m.mounts, &procfs.MountInfo{FSType: kind, Root: "/", MountPoint: filepath.Join(m.dir, at), SuperOptions: super})
}

func (m *machine) collector() *metrics.Collector {
	m.t.Helper()
	c, err := metrics.NewCollector(metrics.Config{
		Proc: filepath.Join(m.dir, "proc"), Sys: filepath.Join(m.dir, "sys"),
		Mounts: func() ([]*procfs.MountInfo, error) { return m.mounts, nil },
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}

// of returns the values of a container, or with "" of the host, by metric and part.
func of(s metrics.Sample, container string) map[string]float64 {
	all := make(map[string]float64)
	for _, v := range s.Values {
		if v.Container == container {
			name := string(v.Metric)
			if v.Part != "" {
				name += " " + v.Part
			}
			all[name] = v.Mean
		}
	}
	return all
}

func check(t *testing.T, what string, got, want map[string]float64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s:\n%v, want\n%v", what, got, want)
	}
}

var day = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestHost(t *testing.T) {
	m := newMachine(t)
	m.write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
	m.write("sys/block/sda/size", "1")
	m.write("sys/block/dm-0/slaves/sda", "")
	m.write("sys/class/thermal/thermal_zone0/temp", "42500\n")
	m.write("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n")
	counters := func(n int) {
		m.write("proc/stat", fmt.Sprintf("cpu  %d 0 0 0 %d 0 0 0 0 0\n", 150*n, 75*n)) // hundredths of a second
		m.write("proc/diskstats", fmt.Sprintf("8 0 sda 1 0 %d 0 1 0 %d 0 0 0 0\n8 1 sda1 1 0 9%d 0 1 0 0 0 0 0 0\n253 0 dm-0 1 0 9%d 0 1 0 0 0 0 0 0\n", 30*n, 60*n, n, n))
		m.write("proc/net/dev", fmt.Sprintf("a\nb\n  lo: %d 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\neth0: %d 0 0 0 0 0 0 0 %d 0 0 0 0 0 0 0\nveth1: 7%d 0 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n", n, 1500*n, 3000*n, n))
		m.write("proc/pressure/cpu", fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", 1_500_000*n))
	}
	steady := map[string]float64{
		"load1": 0.5, "load5": 0.25, "load15": 0.1, "tasks": 345, "memory": 600 << 10, "memory_max": 1000 << 10, "temperature x86_pkg_temp/0": 42.5,
	}
	c := m.collector()
	counters(1)
	check(t, "the first sample has no rates", of(c.Collect(day, time.Hour, nil), ""), steady)

	counters(2)
	want := maps.Clone(steady)
	maps.Copy(want, map[string]float64{
		"cpu": 10, "iowait": 5, "steal": 0, "read sda": 30 * 512 / 15, "written sda": 60 * 512 / 15,
		"received eth0": 100, "sent eth0": 200, "psi_cpu": 10,
	})
	second := c.Collect(day, time.Hour+15*time.Second, nil)
	check(t, "rates by the boot clock", of(second, ""), want)
	if second.Span != 15*time.Second {
		t.Errorf("it covers %v", second.Span)
	}

	counters(4) // the wall clock jumps, and this sample comes late
	for _, m := range []string{"cpu", "iowait", "read sda", "written sda", "received eth0", "sent eth0", "psi_cpu"} {
		want[m] *= 2.0 / 3
	}
	late := of(c.Collect(day.AddDate(-10, 0, 0), time.Hour+60*time.Second, nil), "")
	for m, v := range want {
		if got := late[m]; got < v*0.9999 || got > v*1.0001 {
			t.Errorf("45 s later and ten years before, %s is %v, want %v", m, got, v)
		}
	}

	counters(1)
	check(t, "counters that went back have no rate", of(c.Collect(day, time.Hour+75*time.Second, nil), ""), func() map[string]float64 {
		w := maps.Clone(steady)
		w["steal"] = 0 // which has not moved
		return w
	}())
}

// TestDiskOfContainer: the limit of a container that runs is told beside what it takes, also
// before its files are counted.
func TestDiskOfContainer(t *testing.T) {
	m := newMachine(t)
	m.mount("cgroup2", "cg", "rw")
	m.write("proc/77/stat", "")
	m.write("proc/77/cgroup", "0::/lxc.payload.web\n")
	m.write("cg/lxc.payload.web/pids.current", "1\n")
	s := m.collector().Collect(day, time.Hour, []metrics.Container{
		{Name: "free", InitPID: 77, Disk: 10, Inodes: 2}, {Name: "held", InitPID: 77, Disk: 20, Inodes: 2, DiskMax: 50},
		{Name: "new", InitPID: 77, Disk: 30, DiskMax: 60}, {Name: "gone", InitPID: 78, Disk: 40, DiskMax: 70},
	})
	for name, want := range map[string]map[string]float64{
		"free": {"tasks": 1, "disk": 10, "inodes": 2}, "held": {"tasks": 1, "disk": 20, "disk_max": 50, "inodes": 2},
		"new": {"tasks": 1, "disk": 30, "disk_max": 60}, "gone": {},
	} {
		check(t, name, of(s, name), want)
	}
}

func TestContainer(t *testing.T) {
	const pid = 77
	for name, tc := range map[string]struct {
		prepare func(m *machine)
		count   func(m *machine, n int)
		want    map[string]float64
	}{
		"version 1": {
			prepare: func(m *machine) {
				m.mount("cgroup", "cpu", "rw", "cpu")
				m.mount("cgroup", "acct", "rw", "cpuacct")
				m.mount("cgroup", "mem", "rw", "memory")
				m.mount("cgroup", "pids", "rw", "pids")
				m.mount("cgroup", "blk", "rw", "blkio")
				m.write("proc/77/cgroup", "5:blkio:/lxc.payload.web\n4:pids:/lxc.payload.web\n3:memory:/lxc.payload.web/init.scope\n2:cpuacct:/lxc.payload.web\n1:cpu:/\n")
				m.write("mem/lxc.payload.web/memory.usage_in_bytes", "1000\n")
				m.write("mem/lxc.payload.web/memory.stat", "inactive_file 1\ntotal_inactive_file 300\n")
				m.write("mem/lxc.payload.web/memory.limit_in_bytes", "9223372036854771712\n")
				m.write("pids/lxc.payload.web/pids.current", "4\n")
			},
			count: func(m *machine, n int) {
				m.write("acct/lxc.payload.web/cpuacct.usage", fmt.Sprint(1_500_000_000*n))
				m.write("blk/lxc.payload.web/blkio.throttle.io_service_bytes", fmt.Sprintf("8:0 Read %d\n8:0 Write %d\n8:0 Total 9\nTotal 9\n", 150*n, 300*n))
			},
			want: map[string]float64{"cpu": 10, "memory": 700, "tasks": 4, "read": 10, "written": 20},
		},
		"version 2": {
			prepare: func(m *machine) {
				m.mount("cgroup2", "cg", "rw")
				m.write("proc/77/cgroup", "0::/machine.slice/libpod-0123.scope/container\n")
				m.write("cg/machine.slice/libpod-0123.scope/memory.current", "1000\n")
				m.write("cg/machine.slice/libpod-0123.scope/memory.stat", "anon 1\ninactive_file 400\n")
				m.write("cg/machine.slice/libpod-0123.scope/memory.max", "2000\n")
				m.write("cg/machine.slice/libpod-0123.scope/pids.current", "5\n")
			},
			count: func(m *machine, n int) {
				m.write("cg/machine.slice/libpod-0123.scope/cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 1\n", 3_000_000*n))
				m.write("cg/machine.slice/libpod-0123.scope/io.stat", fmt.Sprintf("8:0 rbytes=%d wbytes=%d rios=1 wios=1\n8:16 rbytes=%d wbytes=0\n", 150*n, 150*n, 150*n))
				m.write("cg/machine.slice/libpod-0123.scope/io.pressure", fmt.Sprintf("some avg10=0.00 total=%d\nfull avg10=0.00 total=9\n", 750_000*n))
			},
			want: map[string]float64{"cpu": 20, "memory": 600, "memory_max": 2000, "tasks": 5, "read": 20, "written": 10, "psi_io": 5},
		},
		"hybrid": { // figures of version 2 that need no controller, and the rest of version 1
			prepare: func(m *machine) {
				m.mount("cgroup2", "cg/unified", "rw")
				m.mount("cgroup", "mem", "rw", "memory")
				m.mount("cgroup", "acct", "rw", "cpuacct")
				m.write("proc/77/cgroup", "3:memory:/lxc.payload.web\n2:cpuacct:/lxc.payload.web\n0::/lxc.payload.web\n")
				m.write("mem/lxc.payload.web/memory.usage_in_bytes", "1000\n")
				m.write("mem/lxc.payload.web/memory.limit_in_bytes", "4000\n")
				m.write("acct/lxc.payload.web/cpuacct.usage", "1\n")
			},
			count: func(m *machine, n int) {
				m.write("cg/unified/lxc.payload.web/cpu.stat", fmt.Sprintf("usage_usec %d\n", 1_500_000*n))
			},
			want: map[string]float64{"cpu": 10, "memory": 1000, "memory_max": 4000},
		},
		"in the cgroups of the host": {
			prepare: func(m *machine) {
				m.mount("cgroup2", "cg", "rw")
				m.write("proc/77/cgroup", "0::/\n")
				m.write("cg/memory.current", "1000\n")
			},
			count: func(*machine, int) {},
			want:  map[string]float64{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			tc.prepare(m)
			m.write("proc/77/stat", "")
			m.link("net:[2]", "proc/77/ns/net")
			c := m.collector()
			web := []metrics.Container{{Name: "web", InitPID: pid}, {Name: "gone", InitPID: 78}}
			want := maps.Clone(tc.want)
			want["received eth0"], want["sent eth0"] = 1, 2
			var s metrics.Sample
			for n := range 2 {
				m.write("proc/77/net/dev", fmt.Sprintf("a\nb\neth0: %d 0 0 0 0 0 0 0 %d 0 0 0 0 0 0 0\n", 15*n, 30*n))
				tc.count(m, n+1)
				s = c.Collect(day, time.Hour+time.Duration(n)*15*time.Second, web)
			}
			check(t, "the container", of(s, "web"), want)
			check(t, "one that ended", of(s, "gone"), map[string]float64{})
		})
	}
}

// TestSwapOfContainer: a container has a share of the host's swap, or of its own limit if that
// is less; on a host without swap there is none to have.
func TestSwapOfContainer(t *testing.T) {
	const none = "9223372036854771712"
	for name, tc := range map[string]struct {
		host  int // kB
		v2    bool
		files map[string]string
		want  map[string]float64
	}{
		"version 2, without a limit": {8, true, map[string]string{"memory.swap.current": "1024", "memory.swap.max": "max"}, map[string]float64{"swap": 1024, "swap_max": 8192}},
		"version 2, with one":        {8, true, map[string]string{"memory.swap.current": "1024", "memory.swap.max": "4096"}, map[string]float64{"swap": 1024, "swap_max": 4096}},
		"more than the host has":     {8, true, map[string]string{"memory.swap.current": "0", "memory.swap.max": "65536"}, map[string]float64{"swap": 0, "swap_max": 8192}},
		"it may have none":           {8, true, map[string]string{"memory.swap.current": "0", "memory.swap.max": "0"}, map[string]float64{"swap": 0, "swap_max": 0}},
		"the host has none":          {0, true, map[string]string{"memory.swap.current": "0", "memory.swap.max": "4096"}, nil},
		"the kernel does not count":  {8, true, nil, nil},
		"version 1, without a limit": {8, false, map[string]string{"memory.stat": "swap 1\nhierarchical_memory_limit 4096\nhierarchical_memsw_limit " + none + "\ntotal_swap 1024"}, map[string]float64{"swap": 1024, "swap_max": 8192}},
		"version 1, with one":        {8, false, map[string]string{"memory.stat": "swap 1\nhierarchical_memory_limit 4096\nhierarchical_memsw_limit 6144\ntotal_swap 1024"}, map[string]float64{"swap": 1024, "swap_max": 2048}},
		"version 1, not counted":     {8, false, map[string]string{"memory.stat": "cache 1\nhierarchical_memory_limit 4096"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write("proc/meminfo", fmt.Sprintf("MemTotal: 9 kB\nMemAvailable: 4 kB\nSwapTotal: %d kB\nSwapFree: %d kB\n", tc.host, tc.host))
			want := map[string]float64{"memory": 1}
			maps.Copy(want, tc.want)
			if tc.v2 {
				m.mount("cgroup2", "cg", "rw")
				m.write("proc/77/cgroup", "0::/lxc.payload.web\n")
				m.write("cg/lxc.payload.web/memory.current", "1\n")
			} else {
				m.mount("cgroup", "cg", "rw", "memory")
				m.write("proc/77/cgroup", "3:memory:/lxc.payload.web\n")
				m.write("cg/lxc.payload.web/memory.usage_in_bytes", "1\n")
			}
			for file, text := range tc.files {
				m.write("cg/lxc.payload.web/"+file, text+"\n")
			}
			m.write("proc/77/stat", "")
			s := m.collector().Collect(day, time.Hour, []metrics.Container{{Name: "web", InitPID: 77}})
			check(t, "the container", of(s, "web"), want)
		})
	}
}

// TestThisMachine reads what the kernel really writes.
func TestThisMachine(t *testing.T) {
	c, err := metrics.NewCollector(metrics.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c.Collect(time.Now(), time.Second, nil)
	got := of(c.Collect(time.Now(), 2*time.Second, nil), "")
	for _, m := range []string{"cpu", "load1", "tasks", "memory", "memory_max"} {
		if _, ok := got[m]; !ok {
			t.Errorf("%s is missing in %v", m, got)
		}
	}
	if got["memory"] <= 0 || got["memory"] >= got["memory_max"] {
		t.Errorf("%v of %v bytes of memory are in use", got["memory"], got["memory_max"])
	}
}

func TestTable(t *testing.T) {
	seen := make(map[metrics.Metric]bool)
	for _, i := range metrics.Metrics() {
		if seen[i.Metric] || i.Doc == "" || !i.OfHost && !i.OfContainer {
			t.Errorf("%+v", i)
		}
		seen[i.Metric] = true
		if got, ok := metrics.InfoOf(i.Metric); !ok || got != i {
			t.Errorf("%s is described as %+v", i.Metric, got)
		}
	}
	if _, ok := metrics.InfoOf("nothing"); ok {
		t.Error("an unknown metric is described")
	}
}
