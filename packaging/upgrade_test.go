//go:build heavy

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestUpgrade installs, upgrades while a command and a container run, refuses to go
// back, removes, and purges.
func TestUpgrade(t *testing.T) {
	m := full(t)
	const all = "/packages/hostler.deb /packages/hostler-agent.deb /packages/hostler-agent-lxc.deb /packages/hostler-coordinator.deb"
	install := func() {
		t.Helper()
		m.do("DEBIAN_FRONTEND=noninteractive dpkg -i --force-confdef --force-confold " + all + " </dev/null")
	}
	install()
	m.do("hostler --local ct create web --template busybox --start")
	m.do("hostler --local ct create db --template busybox")
	onHost := m.sleeper("hostler --local run --no-wait --timeout none --", "1002")
	inside := m.sleeper("hostler --local exec web --no-wait --timeout none --", "1003")
	init := m.do("lxc-info -P /var/lib/lxc -n web -pH")
	m.do("echo '# mine' >>/etc/hostler/agent.toml")
	old := m.do("dpkg-query -W -f '${Version}' hostler-agent")
	agent := m.pid("hostler-agent")

	newer := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	tree := filepath.Join(t.TempDir(), "tree")
	output(t, "git", "clone", "-q", "..", tree)
	output(t, "sed", "-i", `s/^var Version = ".*"/var Version = "999.0.0"/`, filepath.Join(tree, "internal/buildinfo/buildinfo.go"))
	if err := run(t.Context(), tree, newer, []string{"amd64"}); err != nil {
		t.Fatal(err)
	}
	m.do("mv /packages /older")
	m.give(newer)
	install()
	check := func() {
		t.Helper()
		onHost()
		inside()
		if now := m.do("lxc-info -P /var/lib/lxc -n web -pH"); now != init {
			t.Errorf("the container was process %s and is %s", init, now)
		}
	}
	check()
	if now := m.pid("hostler-agent"); now == agent {
		t.Error("the agent of before runs on")
	}
	m.do("hostler-agent version | grep 999.0.0 && tail -n 1 /etc/hostler/agent.toml | grep mine")
	if n := m.do("hostler --local action ls | grep -c running"); n != "2" {
		t.Errorf("%s actions run, want 2: the queue", n)
	}

	if out, err := m.try("DEBIAN_FRONTEND=noninteractive dpkg -i --force-downgrade /older/hostler-agent.deb /older/hostler-agent-lxc.deb </dev/null"); err == nil || !strings.Contains(out, "may not understand its state") {
		t.Errorf("%s after %s: %v\n%s", old, "999.0.0", err, out)
	}
	m.do("hostler-agent version | grep 999.0.0 && systemctl is-active hostler-agent")
	check()

	m.do("dpkg -r hostler-agent-lxc hostler-agent hostler-coordinator </dev/null")
	m.do("test -e /var/lib/hostler/agent/queue.db && test -e /etc/hostler/agent.toml && ! systemctl is-active hostler-agent")
	check()
	if out, err := m.try("dpkg -i /older/hostler-agent.deb </dev/null"); err == nil {
		t.Errorf("an older package takes the state that was left: %s", out)
	}
	install()
	check()
	m.do("hostler --local ct ls | grep web | grep running")

	m.do("mkdir /var/lib/lxc/theirs")
	m.do("dpkg -r hostler-agent-lxc </dev/null; HOSTLER_PURGE_CONTAINERS='db web theirs ../x' dpkg --purge hostler-agent hostler-agent-lxc hostler-coordinator </dev/null >/root/purge 2>&1")
	said := m.do("cat /root/purge")
	for _, want := range []string{"container web runs", "theirs is no container that Hostler made", "../x is no name"} {
		if !strings.Contains(said, want) {
			t.Errorf("purge does not say %q: %s", want, said)
		}
	}
	m.do("! test -e /var/lib/hostler && ! test -e /var/lib/lxc/db && test -d /var/lib/lxc/theirs && test -e /var/lib/lxc/web/hostler.json")
	if now := m.do("lxc-info -P /var/lib/lxc -n web -pH"); now != init {
		t.Errorf("a purge touched a container that runs: %s, %s", init, now)
	}
	m.do("! test -e /etc/hostler && ! ls /etc/systemd/system/multi-user.target.wants | grep hostler")
}
