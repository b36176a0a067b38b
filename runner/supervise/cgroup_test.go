package supervise

import (
	"os"
	"testing"
)

func TestCgroupMount(t *testing.T) {
	const info = "25 1 0:23 / /sys rw - sysfs sysfs rw\n" +
		"30 25 0:26 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n" +
		"31 25 0:27 /a\\040b /sys/fs/cgroup/uni\\040fied rw,nosuid shared:10 master:2 - cgroup2 cgroup2 rw\n"
	if mount, root := cgroupMount([]byte(info), ""); mount != "/sys/fs/cgroup/uni fied" || root != "/a b" {
		t.Errorf("got %q, %q", mount, root)
	}
	if mount, root := cgroupMount([]byte(info), "pids"); mount != "/sys/fs/cgroup/pids" || root != "/" {
		t.Errorf("got %q, %q", mount, root)
	}
	if mount, _ := cgroupMount([]byte("garbage\n - cgroup2 \n"), ""); mount != "" {
		t.Errorf("got %q of garbage", mount)
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
