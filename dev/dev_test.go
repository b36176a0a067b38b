//go:build linux

package dev

import (
	"context"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewRefuses(t *testing.T) {
	good := Config{Name: "dev", Bin: "/usr/bin"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"a name that is too long for links": func(c *Config) { c.Name = "abcdefghi" },
		"a name that leads elsewhere":       func(c *Config) { c.Name = "../etc" },
		"a name with a capital":             func(c *Config) { c.Name = "Dev" },
		"a name that is a number":           func(c *Config) { c.Name = "1" },
		"programs nowhere":                  func(c *Config) { c.Bin = "" },
		"a relative root":                   func(c *Config) { c.Root = "dev" },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// What belongs to a fleet follows from its name and its record, so that it is
// found again by whoever takes it down.
func TestNames(t *testing.T) {
	f, err := New(Config{Name: "lastlong", Bin: "/usr/bin", Root: "/r"})
	if err != nil {
		t.Fatal(err)
	}
	all := f.nodes(record{Subnet: netip.MustParsePrefix("10.209.7.0/24"), Hosts: MaxHosts})
	if len(all) != MaxHosts+1 {
		t.Fatalf("%d nodes of %d hosts", len(all), MaxHosts)
	}
	seen := map[string]bool{}
	for _, n := range all {
		for _, s := range []string{n.name, n.cable(), n.addr.String()} {
			if seen[s] {
				t.Errorf("%s has %s, and another has, too", n.name, s)
			}
			seen[s] = true
		}
		if len(n.cable()) > 15 {
			t.Errorf("%q is too long for a link", n.cable())
		}
		if n.addr.Masked().String() != "10.209.7.0/24" || n.addr.Addr().String() == "10.209.7.1" {
			t.Errorf("%s has the address %s", n.name, n.addr)
		}
		if len(n.socket()) > 100 {
			t.Errorf("%q is too long for a socket", n.socket())
		}
	}
	got := []string{all[0].name, all[3].name, all[3].cable(), all[3].state(), string(hierarchy{Mount: "/c"}.group("lastlong", all[3].name))}
	want := []string{"coordinator", "edge-03", "hd-lastlong.3", filepath.Join("/r", "lastlong", "edge-03"), "/c/hostler-dev-lastlong/edge-03"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestHierarchies(t *testing.T) {
	for _, c := range []struct {
		name, mountinfo string
		want            []hierarchy
	}{
		{"cgroup2 alone", "25 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n", []hierarchy{{Mount: "/sys/fs/cgroup"}}},
		{"hybrid", `24 1 8:1 / / rw - ext4 /dev/vda rw
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw shared:4 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/agent,name=systemd
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`, []hierarchy{{"/sys/fs/cgroup/cpu", "cpu,cpuacct"}, {"/sys/fs/cgroup/systemd", "none,name=systemd"}, {Mount: "/sys/fs/cgroup/unified"}}},
		{"a container's share, and the same again", `33 30 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
34 30 0:29 /lxc.payload.web /var/lib/lxc/web/sys rw - cgroup2 cgroup2 rw
35 30 0:29 / /mnt rw - cgroup2 cgroup2 rw
`, []hierarchy{{Mount: "/sys/fs/cgroup"}}},
		{"none", "24 1 8:1 / / rw - ext4 /dev/vda rw\nbroken\n", nil},
	} {
		if diff := cmp.Diff(c.want, parseHierarchies([]byte(c.mountinfo))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestPrograms: packages put the programs that people do not start into another directory.
func TestPrograms(t *testing.T) {
	for bin, want := range map[string]string{
		"/usr/bin":       "/usr/bin/hostler-agent /usr/libexec/hostler/hostler-run",
		"/usr/local/bin": "/usr/local/bin/hostler-agent /usr/local/bin/hostler-run",
	} {
		f, err := New(Config{Bin: bin})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.program("hostler-agent") + " " + f.program("hostler-run"); got != want {
			t.Errorf("programs beside %s: %s, want %s", bin, got, want)
		}
	}
}

// TestEnding: who has typed Ctrl-C reads of it, and not of a failure.
func TestEnding(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if got := ending(ctx); got != "that failed" {
		t.Errorf("a failure is told as %q", got)
	}
	cancel()
	if got := ending(ctx); got != "interrupted" {
		t.Errorf("an interrupt is told as %q", got)
	}
}
