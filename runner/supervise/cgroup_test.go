package supervise

import (
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
