//go:build heavy

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// releases are the others than Debian 12 on which the packages are tried: Debian 11 and 13,
// and Ubuntu 24.04.
var releases = []string{"bullseye", "trixie", "noble"}

// withoutLXC are the releases whose C library is too old for the program that uses liblxc.
var withoutLXC = []string{"bullseye"}

// otherPackages are what containers of LXC need on any of them: the library has another
// name in each release, and comes along.
var otherPackages = []string{"lxc", "busybox-static", "sudo", "procps"}

// TestReleases installs the packages on other releases, lets a host join there, upgrades
// them under a command and a container, removes them and purges them. Where there can be no
// containers of LXC, dpkg says so.
func TestReleases(t *testing.T) {
	newer := future(t)
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			t.Setenv("SUITE", release)
			remove(t, "hostler-test0")
			m := boot(t, "full-"+release, otherPackages, release, "hostler-test0", "10.77.0.1/24")
			m.give(dist)
			all, lxc := "/packages/hostler.deb /packages/hostler-agent.deb /packages/hostler-coordinator.deb", !slices.Contains(withoutLXC, release)
			if out, err := m.try("dpkg --dry-run -i " + all + " /packages/hostler-agent-lxc.deb </dev/null && dpkg -i " + all + " /packages/hostler-agent-lxc.deb </dev/null"); (err == nil) != lxc || !lxc && !strings.Contains(out, "libc6 (>= 2.34)") {
				t.Fatalf("%v: %s", err, out)
			}
			if lxc {
				all += " /packages/hostler-agent-lxc.deb"
			} else {
				m.do("dpkg --purge hostler-agent-lxc </dev/null")
			}
			install := func() { m.do("DEBIAN_FRONTEND=noninteractive dpkg -i --force-confold " + all + " </dev/null") }
			install()
			m.do("systemctl is-active hostler-coordinator && test \"$(systemctl is-enabled hostler-agent)\" = disabled")
			m.do("hostler fleet init demo --coordinator /var/lib/hostler/coordinator >/root/fleet")
			m.until("systemctl show -p StatusText --value hostler-coordinator | grep 'serves fleet demo'")
			m.do("hostler login https://127.0.0.1:8443 <<<\"$(sed -n 's/^token: //p' /root/fleet)\"")
			m.do("hostler host invite >/root/join && (sh /root/join >/root/joined 2>&1 &)")
			m.until("grep -q '^words: ' /root/joined")
			m.do("hostler host approve " + release + " --words \"$(sed -n 's/^words: //p' /root/joined)\"")
			m.until("systemctl is-enabled hostler-agent && systemctl is-active hostler-agent && grep -q 'the agent runs now' /root/joined")
			if out := m.do("hostler run " + release + " -- uname -n"); !strings.HasSuffix(out, release) {
				t.Errorf("a command printed %q", out)
			}
			alive := []func(){m.sleeper("hostler run "+release+" --no-wait --timeout none --", "1007")}
			if lxc {
				m.do("hostler ct create " + release + "/web --template busybox --start")
				if out := m.do("hostler exec " + release + "/web -- hostname"); !strings.HasSuffix(out, "web") {
					t.Errorf("a command in a container printed %q", out)
				}
				alive = append(alive, m.sleeper("hostler exec "+release+"/web --no-wait --timeout none --", "1008"))
			}

			m.do("mv /packages /older")
			m.give(newer)
			install()
			m.until("hostler-agent version | grep -F ' 999.0.0' && systemctl is-active hostler-agent hostler-coordinator && hostler run " + release + " -- true")
			if out, err := m.try("dpkg -i --force-downgrade /older/hostler-agent.deb </dev/null"); err == nil || !strings.Contains(out, "may not understand its state") {
				t.Errorf("it goes back: %v: %s", err, out)
			}
			m.do("dpkg -r hostler-agent-lxc hostler-agent hostler-coordinator </dev/null")
			m.do("test -e /var/lib/hostler/agent/queue.db && ! systemctl is-active hostler-agent")
			install()
			m.do("systemctl is-enabled hostler-agent && systemctl is-active hostler-agent")
			for _, same := range alive {
				same()
			}
			m.do("dpkg --purge hostler-agent-lxc hostler-agent hostler-coordinator </dev/null")
			m.do("! test -e /var/lib/hostler && ! test -e /etc/hostler && ! ls /etc/systemd/system/multi-user.target.wants | grep hostler")
			if _, err := os.Stat(filepath.Join(m.dir, m.name, "root/var/lib/lxc/web/config")); lxc && err != nil {
				t.Errorf("the container did not outlive the packages: %v", err)
			}
			b, err := os.ReadFile(filepath.Join(m.dir, m.name, "root/etc/os-release"))
			if err != nil || !strings.Contains(string(b), release) {
				t.Errorf("it is not %s: %v: %s", release, err, b)
			}
		})
	}
}
