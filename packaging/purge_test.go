package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakePodman knows containers by files of its directory: the name, and in it the state of one
// that Hostler made.
const fakePodman = `#!/bin/sh
cd "$(dirname "$0")/pods"
case "$1" in
ps)
	for word; do case "$word" in name=*) name=${word#name=^}; name=${name%$}; esac; done
	[ "$*" = "ps --all --filter name=^$name\$ --filter label=hostler.ctid --format {{.Names}}" ] || exit 125
	[ ! -s "$name" ] || echo "$name"
	;;
container) [ "$1 $2 $3 $4" = "container inspect --format {{.State.Status}}" ] && cat "$5" ;;
rm) [ "$1 $2" = "rm --volumes" ] && grep -q exited "$3" && rm "$3" ;;
esac
`

// TestPurge: a purge removes of the containers that are named those that Hostler made and that
// do not run: of LXC where the configuration had them, and of podman. It runs as dpkg runs it,
// with an empty /var/lib of its own.
func TestPurge(t *testing.T) {
	dir := t.TempDir()
	agent := packages()[slices.IndexFunc(packages(), func(p pkg) bool { return p.name == "hostler-agent" })]
	s, err := (&build{work: dir, version: "1.2.3"}).scripts(agent, "deb")
	if err != nil {
		t.Fatal(err)
	}
	lxc, bin := filepath.Join(dir, "ct"), filepath.Join(dir, "bin")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"web", "db", "other"} {
		write(filepath.Join(lxc, name, "hostler.json"), "{}")
	}
	write(filepath.Join(lxc, "theirs", "config"), "")
	write(filepath.Join(bin, "pods", "pod"), "exited\n")
	write(filepath.Join(bin, "pods", "runs"), "running\n")
	write(filepath.Join(bin, "pods", "alien"), "") // one without the label
	write(filepath.Join(bin, "podman"), fakePodman)
	write(filepath.Join(bin, "deb-systemd-invoke"), "#!/bin/sh\n")
	write(filepath.Join(bin, "hostler-agent"), "#!/bin/sh\nprintf 'state_dir = /var/lib/hostler/agent\\nlxc.path = "+lxc+"\\nlxc.ids = 7\\n'\n")
	runs, err := net.Listen("unix", "@"+filepath.Join(lxc, "web", "command")) // as one of LXC that runs has it
	if err != nil {
		t.Fatal(err)
	}
	defer runs.Close()
	do := func(first, names string) string {
		t.Helper()
		line := "mount -t tmpfs none /var/lib; mount -t tmpfs none /run; " + first + "; export HOSTLER_PURGE_CONTAINERS='" + names + "'; sh " + s.PostRemove + " remove; sh " + s.PostRemove + " purge; ! test -e /var/lib/hostler; ls /var/lib/lxc 2>/dev/null || true"
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-ec", line)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "DPKG_MAINTSCRIPT_PACKAGE=hostler-agent") // as dpkg sets it
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	const state = "mkdir -p /var/lib/hostler/agent /var/lib/lxc/old /var/lib/lxc/web; touch /var/lib/lxc/old/hostler.json /var/lib/lxc/web/hostler.json; "
	said := do(state+"sh "+s.PreRemove+" remove", "web db theirs ../x pod runs alien old")
	for _, want := range []string{"container web runs; stop it", "theirs is no container that Hostler made", "../x is no name", "container runs is running; stop it", "alien is no container that Hostler made", "old is no container that Hostler made, neither in " + lxc + " nor of podman", "\nold\nweb\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("a purge does not say %q: %s", want, said)
		}
	}
	for path, stays := range map[string]bool{"ct/web": true, "ct/db": false, "ct/other": true, "ct/theirs": true, "bin/pods/pod": false, "bin/pods/runs": true, "bin/pods/alien": true} {
		if _, err := os.Stat(filepath.Join(dir, path)); (err == nil) != stays {
			t.Errorf("after the purge of %s: %v, want it there: %t", path, err, stays)
		}
	}
	if said := do(state+"true", "old"); strings.Contains(said, "old") || !strings.Contains(said, "web") { // an older package has noted nothing
		t.Errorf("without a note of the path: %s", said)
	}
	if _, err := os.Stat(filepath.Join(dir, "ct/other")); err != nil {
		t.Error(err)
	}
}
