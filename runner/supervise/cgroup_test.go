package supervise

import (
	"maps"
	"os"
	"testing"
)

func TestCgroupPath(t *testing.T) {
	const machine = "25 1 0:23 / /sys rw - sysfs sysfs rw\n" +
		"30 25 0:26 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n" +
		"31 25 0:27 /a\\040b /sys/fs/cgroup/uni\\040fied rw,nosuid shared:10 master:2 - cgroup2 cgroup2 rw\n"
	const node = "95 85 0:38 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" +
		"197 186 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" +
		"198 186 0:38 / /mnt/bind ro - cgroup2 cgroup2 rw\n"
	for _, c := range []struct{ mounts, controller, dir, want string }{
		{machine, "", "/a b/c", "/sys/fs/cgroup/uni fied/c"},
		{machine, "", "/elsewhere", ""},
		{machine, "pids", "/c", "/sys/fs/cgroup/pids/c"},
		{machine, "cpu", "/c", ""},
		{node, "", "/init.scope", "/sys/fs/cgroup/init.scope"},
		{"garbage\n - cgroup2 \n", "", "/", ""},
	} {
		if got := cgroupPath([]byte(c.mounts), c.controller, c.dir); got != c.want {
			t.Errorf("%s of %q: got %q, want %q", c.dir, c.controller, got, c.want)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		p, root, want string
		ok            bool
	}{
		{"/a/b", "/", "/a/b", true},
		{"/a/b", "/a", "/b", true},
		{"/a", "/a", "", true},
		{"/ab", "/a", "b", false},
		{"/../x", "/", "", false},
	} {
		if got, ok := below(c.p, c.root); got != c.want || ok != c.ok {
			t.Errorf("below(%q, %q) = %q, %v", c.p, c.root, got, ok)
		}
	}
}

func TestFindCgroup2(t *testing.T) {
	dir, err := FindCgroup2(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/cgroup.procs"); err != nil {
		t.Error(err)
	}
}

func TestParseCgroups(t *testing.T) {
	const hybrid = "30 29 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" +
		"32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
		"33 30 0:29 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n" +
		"34 30 0:31 /docker/1 /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
	all := func(string) bool { return true }
	got := parseCgroups([]byte("9:name=systemd:/a b:c\n5:pids:/docker/1/x\n4:cpu,cpuacct:/\n3:memory:/gone\n0::/system.slice/x\n"), []byte(hybrid), all)
	want := map[string]string{
		"name=systemd": "/sys/fs/cgroup/systemd/a b:c",
		"pids":         "/sys/fs/cgroup/pids/x",
		"cpu,cpuacct":  "/sys/fs/cgroup/cpu,cpuacct",
		"":             "/sys/fs/cgroup/unified/system.slice/x",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if outside := parseCgroups([]byte("5:pids:/elsewhere\n"), []byte(hybrid), all); len(outside) != 0 {
		t.Errorf("a path outside of the mount gave %v", outside)
	}
}
