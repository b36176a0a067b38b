//go:build linux && cgo

package helper

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHome(t *testing.T) {
	const hybrid = "30 29 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" +
		"32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
		"33 30 0:29 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n" +
		"34 30 0:31 /docker/1 /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
	got := parseHome("9:name=systemd:/a b:c\n5:pids:/docker/1/x\n4:cpu,cpuacct:/\n3:memory:/gone\n0::/system.slice/x\n", hybrid)
	want := home{
		"name=systemd": "/sys/fs/cgroup/systemd/a b:c/cgroup.procs",
		"pids":         "/sys/fs/cgroup/pids/x/cgroup.procs",
		"cpu,cpuacct":  "/sys/fs/cgroup/cpu,cpuacct/cgroup.procs",
		"":             "/sys/fs/cgroup/unified/system.slice/x/cgroup.procs",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if outside := parseHome("5:pids:/elsewhere\n", hybrid); len(outside) != 0 {
		t.Errorf("a path outside of the mount gave %v", outside)
	}
}

// TestComingHome moves this process and back.
func TestComingHome(t *testing.T) {
	before, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	h, err := findHome()
	if err != nil {
		t.Fatal(err)
	}
	if len(h) == 0 {
		t.Fatal("no hierarchy is mounted")
	}
	away := make(home)
	for hierarchy, procs := range h {
		if strings.Contains(hierarchy, "cpuset") {
			continue // a new one there takes nobody until it was configured
		}
		dir := filepath.Join(filepath.Dir(procs), "hlt-home-test")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		away[hierarchy] = filepath.Join(dir, "cgroup.procs")
	}
	t.Cleanup(func() { h.enter() })
	if err := away.enter(); err != nil {
		t.Fatal(err)
	}
	if moved, err := os.ReadFile("/proc/self/cgroup"); err != nil || strings.Count(string(moved), "hlt-home-test") != len(away) {
		t.Fatalf("not moved: %s, %v", moved, err)
	}
	if err := h.enter(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile("/proc/self/cgroup"); err != nil || string(after) != string(before) {
		t.Errorf("from\n%sback to\n%s%v", before, after, err)
	}
}
