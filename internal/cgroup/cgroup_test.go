package cgroup

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/protocol/limit"
)

// group makes the files of a machine, by their paths.
func group(t *testing.T, dirs map[string]string, files map[string]string) (Group, func(path string) string) {
	t.Helper()
	root := t.TempDir()
	g := Group{dirs: make(map[string]string)}
	for c, dir := range dirs {
		g.dirs[c] = filepath.Join(root, dir)
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return g, func(path string) string { return read(filepath.Join(root, path)) }
}

// machines are what a container's files look like, before anything is limited.
var machines = map[string]struct {
	dirs, files map[string]string
	cpu         string // the file of the limit
}{
	"version 1": {
		map[string]string{"cpu": "cpu/c", "memory": "memory/c", "pids": "pids/c", "cpuset": "cpuset/c", "blkio": "blkio/c"},
		map[string]string{
			"cpu/c/cpu.cfs_quota_us": "-1", "cpu/c/cpu.cfs_period_us": "50000", "memory/c/memory.limit_in_bytes": "9223372036854771712",
			"memory/c/memory.usage_in_bytes": "30000000", "memory/c/memory.stat": "total_inactive_file 10000000\n",
			"pids/c/pids.max": "max", "pids/c/pids.current": "5", "cpuset/c/cpuset.cpus": "0-1", "cpuset/cpuset.cpus": "0-1",
			"blkio/c/" + readBytes: "", "blkio/c/" + writeBytes: "",
		}, "cpu/c/cpu.cfs_quota_us",
	},
	"version 2": {
		map[string]string{"": "c"},
		map[string]string{
			"c/cpu.max": "max 100000", "c/memory.max": "max", "c/memory.current": "30000000", "c/memory.stat": "inactive_file 10000000\n",
			"c/pids.max": "max", "c/pids.current": "5", "c/cpuset.cpus": "", "c/io.max": "",
		}, "c/cpu.max",
	},
	"hybrid": {
		map[string]string{"": "unified/c", "cpu": "cpu/c", "memory": "memory/c", "pids": "pids/c", "cpuset": "cpuset/c", "blkio": "blkio/c"},
		map[string]string{
			"unified/c/cpu.max": "max 100000", "memory/c/memory.limit_in_bytes": "9223372036854771712", "memory/c/memory.usage_in_bytes": "30000000",
			"memory/c/memory.stat": "total_inactive_file 10000000\n", "pids/c/pids.max": "max", "pids/c/pids.current": "5",
			"cpuset/c/cpuset.cpus": "0-1", "cpuset/cpuset.cpus": "0-1", "blkio/c/" + readBytes: "", "blkio/c/" + writeBytes: "",
		}, "unified/c/cpu.max",
	},
}

func TestLimits(t *testing.T) {
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			g, file := group(t, m.dirs, m.files)
			free, err := g.Effective()
			if err != nil || free["cpu"] != "" || free["memory"] != "" || free["pids"] != "" {
				t.Errorf("without limits: %v, %v", free, err)
			}
			want := limit.Limits{"cpu": "150%", "memory": "256MiB", "pids": "200", "cpuset": "0", "io": "2MiB"}
			if err := g.Limit(want, false); err != nil {
				t.Fatal(err)
			}
			if got, err := g.Effective(); err != nil || !maps.Equal(got, want) {
				t.Errorf("%v are %v, %v", want, got, err)
			}
			cpu := file(m.cpu)
			for r, value := range (limit.Limits{"memory": "19MB", "pids": "4"}) {
				err := g.Limit(limit.Limits{"cpu": "1%", r: value}, false)
				if !errors.Is(err, ErrBelowUse) || file(m.cpu) != cpu {
					t.Errorf("%s=%s, below what is used: %v, cpu is %s", r, value, err, file(m.cpu))
				}
			}
			if err := g.Limit(limit.Limits{"memory": "21MB", "pids": "5"}, false); err != nil {
				t.Errorf("as much as it uses: %v", err)
			}
			if err := g.Limit(limit.Limits{"pids": "1"}, true); err != nil {
				t.Errorf("forced: %v", err)
			}
			if err := g.Limit(limit.Limits{"disk": "1GiB", "cpu": "7%"}, true); !errors.Is(err, ErrUnsupported) || file(m.cpu) != cpu {
				t.Errorf("disk: %v, cpu is %s", err, file(m.cpu))
			}
			none := limit.None
			if err := g.Limit(limit.Limits{"cpu": none, "pids": none, "cpuset": none}, false); err != nil {
				t.Error(err)
			}
			if got, err := g.Effective(); err != nil || got["cpu"] != "" || got["pids"] != "" || got["cpuset"] != free["cpuset"] {
				t.Errorf("without limits again: %v, %v", got, err)
			}
		})
	}
}

// TestOnlyContainers: a process that is in no container's group limits nobody.
func TestOnlyContainers(t *testing.T) {
	g, err := Of(os.Getpid())
	if err == nil {
		err = g.Limit(limit.Limits{"pids": "100000"}, true)
	}
	if !errors.Is(err, ErrUnsupported) {
		t.Errorf("limits of this process: %v", err)
	}
	for dir, want := range map[string]string{
		"/sys/fs/cgroup/lxc.payload.web/init.scope":           "/sys/fs/cgroup/lxc.payload.web",
		"/sys/fs/cgroup/machine.slice/libpod-0a.scope/x":      "/sys/fs/cgroup/machine.slice/libpod-0a.scope",
		"/sys/fs/cgroup/machine.slice/libpod-conmon-0a.scope": "", "/sys/fs/cgroup": "",
	} {
		if got, _ := payload(dir); got != want {
			t.Errorf("%s is of %q, want %q", dir, got, want)
		}
	}
}
