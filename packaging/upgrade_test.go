//go:build heavy

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/files"
)

// clone copies a commit of the tree to a place of its own.
func clone(t *testing.T, commit string) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	output(t, "git", "clone", "-q", "..", tree)
	output(t, "git", "-C", tree, "checkout", "-q", commit)
	return tree
}

// previous builds the packages of the release before this one as that one built them: of
// $HOSTLER_PREVIOUS or, where that had none yet, of the newest commit of an earlier day.
func previous(t *testing.T) string {
	t.Helper()
	has := func(commit string) bool {
		return commit != "" && exec.CommandContext(t.Context(), "git", "cat-file", "-e", commit+":packaging/main.go").Run() == nil
	}
	commit := os.Getenv("HOSTLER_PREVIOUS")
	if !has(commit) {
		day := strings.TrimSpace(output(t, "git", "log", "-1", "--format=%cs"))
		commit = strings.TrimSpace(output(t, "git", "rev-list", "-1", "--before="+day+" 00:00", "HEAD"))
		t.Logf("commit %q of HOSTLER_PREVIOUS builds no packages: upgrading from %s", os.Getenv("HOSTLER_PREVIOUS"), commit)
	}
	if !has(commit) {
		t.Fatalf("commit %q builds no packages: name one as HOSTLER_PREVIOUS", commit)
	}
	dir := t.TempDir()
	output(t, "go", "run", "-C", filepath.Join(clone(t, commit), "packaging"), ".", "-out", dir, "-arch", "amd64")
	return dir
}

// TestUpgrade installs, upgrades while a command and a container run, refuses to go
// back, removes, and purges.
func TestUpgrade(t *testing.T) {
	m := full(t)
	m.do("mv /packages /newer")
	m.give(previous(t))
	const all = "/packages/hostler.deb /packages/hostler-agent.deb /packages/hostler-agent-lxc.deb /packages/hostler-coordinator.deb"
	install := func() {
		t.Helper()
		m.do("DEBIAN_FRONTEND=noninteractive dpkg -i --force-confdef --force-confold " + all + " </dev/null")
	}
	install()
	m.do("systemctl enable --now hostler-agent")
	m.do("hostler --local ct create web --template busybox --start")
	m.do("hostler --local ct create db --template busybox")
	onHost := m.sleeper("hostler --local run --no-wait --timeout none --", "1002")
	inside := m.sleeper("hostler --local exec web --no-wait --timeout none --", "1003")
	init := m.do("lxc-info -P /var/lib/lxc -n web -pH")
	m.do("echo '# mine' >>/etc/hostler/agent.toml")
	old := m.do("dpkg-query -W -f '${Version}' hostler-agent")
	agent := m.pid("hostler-agent")

	m.do("mv /packages /older && mv /newer /packages")
	version := m.do("dpkg-deb -f /packages/hostler-agent.deb Version")
	is := "hostler-agent version | grep -F ' " + version + " '"
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
	m.do(is + " && tail -n 1 /etc/hostler/agent.toml | grep mine")
	if n := m.do("hostler --local action ls | grep -c running"); n != "2" {
		t.Errorf("%s actions run, want 2: the queue", n)
	}

	if out, err := m.try("DEBIAN_FRONTEND=noninteractive dpkg -i --force-downgrade /older/hostler-agent.deb /older/hostler-agent-lxc.deb </dev/null"); err == nil || !strings.Contains(out, "may not understand its state") {
		t.Errorf("%s after %s: %v\n%s", old, version, err, out)
	}
	m.do(is + " && systemctl is-active hostler-agent")
	check()

	m.do("dpkg -r hostler-agent-lxc hostler-agent hostler-coordinator </dev/null")
	m.do("test -e /var/lib/hostler/agent/queue.db && test -e /etc/hostler/agent.toml && ! systemctl is-active hostler-agent")
	m.do("grep -x /var/lib/lxc /var/lib/hostler/agent/lxc-path") // for a purge, which has no configuration left
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
	for _, want := range []string{"container web runs", "theirs is no container that Hostler made, neither in /var/lib/lxc nor of podman", "../x is no name"} {
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

// future builds the packages of this commit as those of a much later release.
func future(t *testing.T) string {
	t.Helper()
	tree, dir := clone(t, "HEAD"), t.TempDir()
	output(t, "sed", "-i", `s/^var Version = ".*"/var Version = "999.0.0"/`, filepath.Join(tree, "internal/buildinfo/buildinfo.go"))
	if err := run(t.Context(), tree, dir, []string{"amd64"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// repack makes another package of one, whose tree change has changed.
func repack(t *testing.T, from string, change func(tree string)) string {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	output(t, "dpkg-deb", "-R", from, tree)
	change(tree)
	output(t, "dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "-b", tree, filepath.Join(dir, "agent.deb"))
	return filepath.Join(dir, "agent.deb")
}

// upgradePackages are what containers of both runtimes need, and rpm.
var upgradePackages = append(slices.Clone(fullPackages), "podman", "netavark", "runc", "rpm")

// podmanConf is what podman needs in a machine of these: its hybrid hierarchy of control
// groups is none that crun knows, and limits cannot be raised in it.
const podmanConf = `[containers]
default_ulimits=["nofile=1024:1024","nproc=4096:4096"]
[network]
dns_bind_port=0
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
`

// pods gives a machine an image for podman, and starts its service.
func (m *machine) pods() {
	m.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, m.name, "root/etc/containers/containers.conf"), []byte(podmanConf), 0o644); err != nil {
		m.Fatal(err)
	}
	m.do("mkdir -p /root/image/bin && cp /bin/busybox /root/image/bin/ && for name in sh sleep; do ln -s busybox /root/image/bin/$name; done")
	m.do(`tar -C /root/image -c . | podman import -c 'CMD ["/bin/sleep","1000000"]' -c 'STOPSIGNAL SIGKILL' - localhost/box:1`)
	m.do("systemctl enable --now podman.socket")
}

// containers makes one of each runtime on a host and returns a check that both are the
// same processes still, and so is the command in each.
func (m *machine) containers(on *machine) (alive func()) {
	m.Helper()
	m.until("hostler ct create " + on.name + "/web --template busybox --start") // the agent has just been started anew
	m.do("hostler ct create " + on.name + "/pod localhost/box:1 --start")
	firsts := map[string]string{"lxc-info -P /var/lib/lxc -n web -pH": "", "podman inspect -f '{{.State.Pid}}' pod": ""}
	for look := range firsts {
		firsts[look] = on.do(look)
	}
	inside := []func(){
		m.sleeperOn(on, "hostler exec "+on.name+"/web --no-wait --timeout none --", "1005"),
		m.sleeperOn(on, "hostler exec "+on.name+"/pod --no-wait --timeout none --", "1006"),
	}
	return func() {
		m.Helper()
		for look, first := range firsts {
			if now := on.do(look); now != first {
				m.Errorf("%s: it was process %s and is %s", look, first, now)
			}
		}
		for _, alive := range inside {
			alive()
		}
	}
}

// TestHostUpgrade has dpkg put a release in place, on a host whose agent is a service,
// while commands and containers run. Packages that are broken leave all as it was: one
// whose agent does not start, and one that dpkg cannot install.
func TestHostUpgrade(t *testing.T) {
	remove(t, "hostler-test0")
	hub := boot(t, "bare", nil, "hub", "hostler-test0", "10.77.0.1/24")
	edge := boot(t, "upgrade", upgradePackages, "edge-01", "hostler-test0", "10.77.0.2/24")
	for _, m := range []*machine{hub, edge} {
		giveRoot(t, m)
		m.give(dist)
	}
	edge.pods()
	p := &typist{T: t, machines: map[string]*machine{"hub": hub, "edge-01": edge}}
	for _, s := range steps(t, "../README.md", "first ten minutes") {
		p.do(s)
	}
	if err := <-p.joined; err != nil {
		t.Fatalf("join: %v", err)
	}
	edge.do("dpkg -i /packages/hostler-agent-lxc.deb </dev/null")
	u := newUpgrade(hub, edge)
	u.status = func(name string) string { return edge.do("dpkg-query -W -f '${Version} ${db:Status-Status}' " + name) }
	u.sound = "! dpkg --audit | grep ."

	newer := future(t)
	was := edge.do("dpkg-query -W -f '${Version}' hostler-agent")
	find := func(name string) string { return one(t, newer, name+"_*_amd64.deb") }
	good := find("hostler-agent")
	for name, broken := range map[string]string{
		"usr/bin/hostler-agent": "did not start",
		"DEBIAN/preinst":        "was answered, but cannot be put in place",
	} {
		u.breaks(name, broken, was, repack(t, good, func(tree string) {
			if err := os.WriteFile(filepath.Join(tree, name), []byte("#!/bin/sh\necho it is broken >&2\nexit 7\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}), find("hostler-agent-lxc"))
	}
	u.asThePageSays(good, find("hostler-agent-lxc"))
	u.is(strings.TrimSpace(output(t, "dpkg-deb", "-f", good, "Version")))
}

// asThePageSays types what doc/upgrade.md says about packages that are there already.
func (u *hostUpgrade) asThePageSays(agent, lxc string) {
	u.Helper()
	b, err := os.ReadFile("../doc/upgrade.md")
	if err != nil {
		u.Fatal(err)
	}
	u.hub.do("rm -rf /packages && mkdir /packages")
	output(u.T, "cp", agent, lxc, filepath.Join(u.hub.dir, u.hub.name, "root/packages"))
	here := strings.NewReplacer("hostler-agent_0.2.0_amd64.deb", filepath.Base(agent), "hostler-agent-lxc_0.2.0_amd64.deb", filepath.Base(lxc))
	typed := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "hostler key sign ") || strings.HasPrefix(line, "hostler host upgrade -A ") {
			u.hub.do("cd /packages && " + here.Replace(line))
			typed++
		}
	}
	if typed != 2 {
		u.Errorf("%d lines of upgrade.md were typed, want 2", typed)
	}
}

// one is the only file of a directory that a pattern fits.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s of %s: %q, %v", pattern, dir, found, err)
	}
	return found[0]
}

// hostUpgrade is a host under commands and containers that must survive what becomes of
// its agent, and a hub whose release key signs packages.
type hostUpgrade struct {
	*testing.T
	hub, edge *machine
	alive     []func()
	status    func(name string) string // "VERSION installed" of a package
	sound     string                   // succeeds if the package manager has nothing half done
}

func newUpgrade(hub, edge *machine) *hostUpgrade {
	edge.Helper()
	edge.do("echo '# mine' >>/etc/hostler/agent.toml")
	u := &hostUpgrade{T: hub.T, hub: hub, edge: edge}
	u.alive = append(u.alive, hub.containers(edge), hub.sleeperOn(edge, "hostler run edge-01 --no-wait --timeout none --", "1004"))
	hub.do("hostler key generate releases --no-passphrase && hostler fleet ring add-release-key releases releases --out /root/ring && hostler fleet ring publish")
	return u
}

// upgrade signs packages and upgrades the host by them.
func (u *hostUpgrade) upgrade(files ...string) (string, error) {
	u.Helper()
	u.hub.do("rm -rf /packages && mkdir /packages")
	sign, args := "cd /packages && hostler key sign --key releases", ""
	for _, f := range files {
		output(u.T, "cp", f, filepath.Join(u.hub.dir, u.hub.name, "root/packages"))
		sign += " " + filepath.Base(f)
		args += " --package /packages/" + filepath.Base(f)
	}
	u.hub.do(sign)
	return u.hub.try("hostler host upgrade edge-01" + args)
}

// is looks whether the host is at a version, and nothing on it was touched.
func (u *hostUpgrade) is(version string) {
	u.Helper()
	for _, alive := range u.alive {
		alive()
	}
	for _, name := range []string{"hostler-agent", "hostler-agent-lxc"} {
		if now := u.status(name); now != version+" installed" {
			u.Errorf("%s is %s, want %s", name, now, version)
		}
	}
	u.edge.until("systemctl is-active hostler-agent")
	u.edge.do("tail -n 1 /etc/hostler/agent.toml | grep mine && " + u.sound)
	if out := u.hub.do("hostler run edge-01 -- hostler-agent version"); !strings.Contains(out, " "+version+" ") {
		u.Errorf("the agent is %s, want %s", out, version)
	}
}

// breaks upgrades by packages that are broken, which must leave all as it was.
func (u *hostUpgrade) breaks(what, why, was string, files ...string) {
	u.Helper()
	agent := u.edge.pid("hostler-agent")
	if out, err := u.upgrade(files...); err == nil || !strings.Contains(out, why) {
		u.Errorf("with a broken %s: %v: %s", what, err, out)
	}
	if now := u.edge.pid("hostler-agent"); now != agent {
		u.Errorf("with a broken %s the agent was process %s and is %s", what, agent, now)
	}
	u.is(was)
}

// TestHostUpgradeRPM does the same on a host whose agent rpm has installed. What Debian
// does not have as rpm packages, one of ours says to bring.
func TestHostUpgradeRPM(t *testing.T) {
	remove(t, "hostler-test0")
	hub := boot(t, "bare", nil, "hub", "hostler-test0", "10.77.0.1/24")
	edge := boot(t, "upgrade", upgradePackages, "edge-01", "hostler-test0", "10.77.0.2/24")
	giveRoot(t, hub)
	edge.pods()
	rpm := func(dir, name string) string { return one(t, dir, name+"-[0-9]*.x86_64.rpm") }
	into := filepath.Join(edge.dir, edge.name, "root/root")
	output(t, "cp", rpm(dist, "hostler-agent"), rpm(dist, "hostler-agent-lxc"), into)
	write(t, filepath.Join(into, "debian.rpm"), &nfpm.Info{
		Name: "debian", Arch: "noarch", Platform: "linux", Version: "12", Maintainer: maintainer, Description: "what this Debian brings", License: license,
		Overridables: nfpm.Overridables{Provides: []string{"systemd", "lxc-libs", "glibc = 2.36", "/bin/sh"}},
	})
	edge.do("rpm -i /root/debian.rpm /root/hostler-agent*.rpm")

	p := &typist{T: t, machines: map[string]*machine{"hub": hub, "edge-01": edge}}
	for _, s := range steps(t, "../README.md", "first ten minutes") {
		if !strings.HasPrefix(s.line, "apt-get install -y ./hostler-agent_") {
			p.do(s)
		}
	}
	if err := <-p.joined; err != nil {
		t.Fatalf("join: %v", err)
	}
	u := newUpgrade(hub, edge)
	u.status = func(name string) string { return edge.do("rpm -q --queryformat '%{VERSION} installed' " + name) }
	u.sound = "rpm -V --noconfig hostler-agent hostler-agent-lxc"

	newer := future(t)
	was := edge.do("rpm -q --queryformat '%{VERSION}' hostler-agent")
	good, lxc := rpm(newer, "hostler-agent"), rpm(newer, "hostler-agent-lxc")
	script := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho it is broken >&2\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	broken := func(change func(*nfpm.Info)) string {
		t.Helper()
		tree := t.TempDir()
		output(t, "rpm", "--root", tree, "--dbpath", "/db", "-i", "--nodeps", "--noscripts", good)
		info := &nfpm.Info{
			Name: "hostler-agent", Arch: "amd64", Platform: "linux", Version: strings.TrimSpace(output(t, "rpm", "-qp", "--queryformat", "%{VERSION}", good)), VersionSchema: "none", Release: "1",
			Maintainer: maintainer, Description: "broken", License: license, DisableGlobbing: true,
		}
		for _, name := range []string{"/usr/bin/hostler-agent", "/usr/libexec/hostler/hostler-run"} {
			info.Contents = append(info.Contents, &files.Content{Source: filepath.Join(tree, name), Destination: name, FileInfo: &files.ContentFileInfo{Mode: 0o755}})
		}
		change(info)
		file := filepath.Join(t.TempDir(), "hostler-agent.rpm")
		write(t, file, info)
		return file
	}
	u.breaks("agent", "did not start", was, broken(func(i *nfpm.Info) { i.Contents[0].Source = script }), lxc)
	u.breaks("script", "was answered, but cannot be put in place", was, broken(func(i *nfpm.Info) { i.Scripts.PreInstall = script }), lxc)
	if out, err := u.upgrade(one(t, newer, "hostler-agent_*_amd64.deb"), one(t, newer, "hostler-agent-lxc_*_amd64.deb")); err == nil || !strings.Contains(out, "an rpm package brought this host its programs") {
		t.Errorf("debs on a host of rpm packages: %v: %s", err, out)
	}
	if out, err := u.upgrade(one(t, newer, "hostler-agent_*_amd64.deb"), one(t, newer, "hostler-agent-lxc_*_amd64.deb"), good, lxc); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	u.is(strings.TrimSpace(output(t, "rpm", "-qp", "--queryformat", "%{VERSION}", good)))
}

// write writes an rpm package.
func write(t *testing.T, file string, info *nfpm.Info) {
	t.Helper()
	packager, err := nfpm.Get("rpm")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(packager.Package(nfpm.WithDefaults(info), out), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRPMScripts installs, upgrades, goes back and removes with rpm, whose scripts run in a
// Debian that tells what they ask of systemd.
func TestRPMScripts(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	base, root := filepath.Join(cache, "hostler-machines/bare"), filepath.Join(t.TempDir(), "root")
	output(t, script, "base", base)
	output(t, "cp", "-a", filepath.Join(base, "root"), root)
	in := func(name string) string { return filepath.Join(root, name) }
	text := func(name string) string {
		b, err := os.ReadFile(in(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := os.MkdirAll(in("run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(in("bin/systemctl")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in("bin/systemctl"), []byte("#!/bin/sh\necho \"$@\" >>/asked\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	rpm := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "rpm", append([]string{"--root", root, "--dbpath", "/db"}, args...)...).CombinedOutput()
		return string(out), err
	}
	// asks runs rpm and returns what its scripts asked of systemd.
	asks := func(want string, args ...string) {
		t.Helper()
		if out, err := rpm(args...); err != nil {
			t.Fatalf("rpm %q: %v: %s", args, err, out)
		}
		if got := text("asked"); got != want {
			t.Errorf("rpm %q asked systemd for\n%swant\n%s", args, got, want)
		}
		if err := os.Remove(in("asked")); err != nil {
			t.Fatal(err)
		}
	}
	of := func(dir, name string) string { return one(t, dir, name+"-[0-9]*.x86_64.rpm") }
	newer := future(t)
	for _, name := range []string{"hostler-agent", "hostler-coordinator"} {
		conf := "etc/hostler/" + strings.TrimPrefix(name, "hostler-") + ".toml"
		asks(map[string]string{"hostler-agent": "daemon-reload\n", "hostler-coordinator": "daemon-reload\nenable --now hostler-coordinator.service\n"}[name],
			"-i", "--nodeps", of(dist, name))
		state := in("var/lib/hostler/" + strings.TrimPrefix(name, "hostler-"))
		if err := os.MkdirAll(state, 0o700); err != nil {
			t.Fatal(err)
		}
		mine := text(conf) + "# mine\n"
		if err := os.WriteFile(in(conf), []byte(mine), 0o644); err != nil {
			t.Fatal(err)
		}
		asks("daemon-reload\ntry-restart "+name+".service\n", "-U", "--nodeps", of(newer, name))
		if out := output(t, "chroot", root, "/usr/bin/"+name, "version"); !strings.Contains(out, " 999.0.0") || text(conf) != mine {
			t.Errorf("after the upgrade: %s, %s", out, text(conf))
		}
		if out, err := rpm("-U", "--oldpackage", "--nodeps", of(dist, name)); err == nil || !strings.Contains(out, "may not understand its state") {
			t.Errorf("%s goes back: %v: %s", name, err, out)
		}
		if out := output(t, "chroot", root, "/usr/bin/"+name, "version"); !strings.Contains(out, " 999.0.0") {
			t.Errorf("it went back: %s", out)
		}
		asks("disable --now "+name+".service\n", "-e", "--nodeps", name)
		if text(conf+".rpmsave") != mine {
			t.Errorf("the configuration is gone")
		}
		if _, err := os.Stat(state); err != nil {
			t.Errorf("the state is gone: %v", err)
		}
	}
	if users := text("etc/passwd"); !strings.Contains(users, "hostler-coordinator:") {
		t.Errorf("the coordinator's user was not made: %s", users)
	}
}
