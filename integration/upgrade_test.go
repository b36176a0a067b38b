//go:build integration

package integration

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// newer is the version of the agent that most tests upgrade to.
var newer = newerVersion(1)

// built stands in the agent that tests build, where the version is. It is as long as
// every version that they give it.
const built = "0.2.0-777000777"

// builtAgent builds the agent of today once, with the tags of the other programs.
var builtAgent = sync.OnceValues(func() ([]byte, error) {
	info, err := buildinfo.ReadFile(filepath.Join(os.Getenv("HOSTLER_BIN"), "hostler-agent"))
	if err != nil {
		return nil, err
	}
	tags := ""
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			tags = s.Value
		}
	}
	dir, err := os.MkdirTemp("", "hostler-newer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "build", "-tags", tags, "-trimpath", "-ldflags", "-s -w -X github.com/hostler-io/hostler/internal/buildinfo.Version="+built, "-o", dir+"/", "./cmd/hostler-agent")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "hostler-agent"))
})

// newerVersion is the nth version that is newer than today's.
func newerVersion(n int) string { return fmt.Sprintf("0.2.0-%09d", n) }

// newerAgent is the agent of today as another version.
func newerAgent(t testing.TB, version string) string {
	t.Helper()
	b, err := builtAgent()
	if err != nil {
		t.Fatal(err)
	}
	if len(version) != len(built) || !bytes.Contains(b, []byte(built)) {
		t.Fatalf("%q cannot stand for %q", version, built)
	}
	path := filepath.Join(t.TempDir(), "hostler-agent")
	write(t, path, string(bytes.ReplaceAll(b, []byte(built), []byte(version))))
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// upgrades is a fleet whose ring names a release key, with hosts that have programs of
// their own.
type upgrades struct {
	*world
	key      string // the fingerprint of the release key
	packages int
}

func newUpgrades(t *testing.T) *upgrades {
	t.Helper()
	u := &upgrades{world: newWorld(t)}
	u.trust(t)
	return u
}

// trust makes the release key, and has an owner put it into the ring.
func (u *upgrades) trust(t *testing.T) {
	t.Helper()
	u.key = strings.TrimSpace(u.must(t, "key", "generate", "releases", "--no-passphrase"))
	u.must(t, "fleet", "ring", "add-release-key", "releases", "releases", "--out", u.path("ring-3"))
	u.must(t, "fleet", "ring", "publish")
}

// addHost lets a host in that has its programs in a directory of its own.
func (u *upgrades) addHost(t *testing.T, name string, network bool) *host {
	t.Helper()
	h := u.newHost(t, name, network)
	u.ownPrograms(t, h)
	p, words := h.join(t, u.invite(t))
	u.must(t, "host", "approve", name, "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	return h
}

// ownPrograms gives a host programs of its own, which can be replaced.
func (u *upgrades) ownPrograms(t *testing.T, h *host) {
	t.Helper()
	h.bin = u.path(h.name + "-bin")
	mkdir(t, h.bin)
	for _, p := range []string{"hostler-agent", "hostler-run", "hostler-lxc"} {
		if b, err := exec.Command("cp", filepath.Join(u.bin, p), h.bin).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
}

// pack builds packages with an agent, and signs them. agent is the text of a script; the
// newer agent if it is empty.
func (u *upgrades) pack(t *testing.T, version, agent string) (args []string) {
	t.Helper()
	for _, file := range u.build(t, version, newerAgent(t, newer), agent) {
		args = append(args, "--package", file)
	}
	return args
}

// build builds packages with a program as the agent, or with a script, and signs them.
func (u *upgrades) build(t *testing.T, version, program, agent string) (files []string) {
	t.Helper()
	u.packages++
	for name, content := range map[string]map[string]string{
		"hostler-agent":     {"usr/bin/hostler-agent": program, "usr/libexec/hostler/hostler-run": filepath.Join(u.bin, "hostler-run")},
		"hostler-agent-lxc": {"usr/libexec/hostler/hostler-lxc": filepath.Join(u.bin, "hostler-lxc")},
	} {
		tree := u.path(fmt.Sprintf("%s-%d", name, u.packages))
		for to, from := range content {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, to)), 0o755); err != nil {
				t.Fatal(err)
			}
			if b, err := exec.Command("cp", from, filepath.Join(tree, to)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
		}
		if agent != "" && name == "hostler-agent" {
			write(t, filepath.Join(tree, "usr/bin/hostler-agent"), agent)
		}
		if err := os.Mkdir(filepath.Join(tree, "DEBIAN"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(tree, "DEBIAN/control"), fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: tests\nDescription: a test\n", name, version, runtime.GOARCH))
		if b, err := exec.Command("dpkg-deb", "-Zgzip", "-z1", "--build", tree, tree+".deb").CombinedOutput(); err != nil {
			t.Fatalf("dpkg-deb: %v: %s", err, b)
		}
		u.must(t, "key", "sign", tree+".deb", "--key", "releases")
		files = append(files, tree+".deb")
	}
	return files
}

// upgrade asks hosts to upgrade.
func (u *upgrades) upgrade(t *testing.T, args ...string) result {
	t.Helper()
	return u.cli(t, append([]string{"host", "upgrade"}, args...)...)
}

// tells waits until a host has told which version its agent is.
func (u *upgrades) tells(t *testing.T, name, version string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); elapse(t, 100*time.Millisecond) {
		// A host that has just come back has told none yet.
		if got = show[api.Host](t, u.world, "host", "show", name).Version; got == version {
			return
		}
	}
	t.Errorf("%s tells version %s, want %s", name, got, version)
}

// newest is the newest action of a host.
func (u *upgrades) newest(t *testing.T, name string) api.Action {
	t.Helper()
	return u.action(t, strings.TrimSpace(u.must(t, "action", "ls", name, "-o", "name", "--limit", "1")))
}

// older is the version of the built programs.
func (u *upgrades) older(t *testing.T) string {
	t.Helper()
	return strings.Fields(u.mustRun(t, "hostler-agent", "version"))[1]
}

// TestUpgradeHost upgrades a host under a running command and a running container, and
// then refuses to go back.
func TestUpgradeHost(t *testing.T) {
	t.Parallel()
	u := newUpgrades(t)
	h := u.addHost(t, "edge-01", true)
	u.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	init := func() string {
		t.Helper()
		out, err := exec.Command("lxc-info", "-P", h.path("lxc"), "-n", "web", "-pH").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	web := init()
	stop := u.path("enough")
	id := strings.TrimSpace(u.must(t, "run", "edge-01", "--timeout", "10m", "--no-wait", "--", "sh", "-c", ticker, "begun", u.path("tickers"), stop))
	u.state(t, id, "RUNNING")

	u.upgrade(t, append(u.pack(t, newer, ""), "edge-01")...).exits(t, 0)
	act := u.newest(t, "edge-01")
	if want := fmt.Sprintf("version %s → %s, signed by releases", u.older(t), newer); act.State != "DONE" || !strings.HasPrefix(act.Detail, want) {
		t.Errorf("the upgrade is %s %s: %q, want %q", act.State, act.Reason, act.Detail, want)
	}
	u.tells(t, "edge-01", newer)
	if got := u.action(t, id); got.State != "RUNNING" {
		t.Errorf("the command is %s %s after the upgrade", got.State, got.Reason)
	}
	if now := init(); now != web {
		t.Errorf("the container was process %s and is %s", web, now)
	}
	write(t, stop, "")
	u.unnoticed(t, id)
	if got := read(t, u.path("tickers")); got != "begun\n" {
		t.Errorf("the command has begun: %q", got)
	}

	again := u.upgrade(t, append(u.pack(t, newer, ""), "edge-01")...).exits(t, 0)
	if !strings.Contains(again.stderr, "already: edge-01") {
		t.Errorf("a host that has the version: %s", again.stderr)
	}

	back := u.pack(t, newerVersion(0), "")
	if r := u.upgrade(t, append(back, "edge-01")...).exits(t, 0); !strings.Contains(r.stderr, "already: edge-01") {
		t.Errorf("a host that has a newer version: %s", r.stderr)
	}
}

// TestBrokenUpgrade tries releases that are broken in two ways. The old agent goes on
// as if nothing had been.
func TestBrokenUpgrade(t *testing.T) {
	t.Parallel()
	u := newUpgrades(t)
	h := u.addHost(t, "edge-01", false)
	pid, before := h.agent.pid(), u.older(t)
	for agent, want := range map[string]string{
		"#!/bin/sh\necho it is broken >&2\nexit 7\n": "it did not start, or ended: exit status 7; its last words: it is broken",
		"#!/bin/sh\nexec sleep 600\n":                "the coordinator did not answer it within 2s",
		"#!/bin/sh\nexit 0\n":                        "did not say that version " + newer + " was answered",
		"no program":                                 "exec format error",
	} {
		stop, tickers := filepath.Join(t.TempDir(), "enough"), filepath.Join(t.TempDir(), "tickers")
		id := strings.TrimSpace(u.must(t, "run", "edge-01", "--timeout", "10m", "--no-wait", "--", "sh", "-c", ticker, "begun", tickers, stop))
		u.state(t, id, "RUNNING")
		u.upgrade(t, append(u.pack(t, newer, agent), "edge-01", "--probation", "2s")...).exits(t, 1)
		act := u.newest(t, "edge-01")
		if act.State != "FAILED" || !strings.Contains(act.Detail, want) || !strings.Contains(act.Detail, "was tried 2 times") {
			t.Errorf("the upgrade is %s: %q, want %q", act.State, act.Detail, want)
		}
		if now := h.agent.pid(); now != pid || h.agent.ended() {
			t.Errorf("the agent was process %d and is %d, ended: %t", pid, now, h.agent.ended())
		}
		u.tells(t, "edge-01", before)
		write(t, stop, "")
		u.unnoticed(t, id)
		u.must(t, "run", "edge-01", "--", "true")
	}
	if left, err := filepath.Glob(h.path("upgrade/*")); err != nil || len(left) != 1 || filepath.Base(left[0]) != "record.json" {
		t.Errorf("the upgrades have left %q, %v", left, err)
	}
	u.upgrade(t, append(u.pack(t, newer, ""), "edge-01")...).exits(t, 0)
	u.tells(t, "edge-01", newer)
}

// TestUpgradeWithoutCoordinator ends the coordinator while a new agent is tried. Nothing
// is decided by that, and all is well when it is back.
func TestUpgradeWithoutCoordinator(t *testing.T) {
	t.Parallel()
	u := newUpgrades(t)
	h := u.addHost(t, "edge-01", false)
	begun, goOn := u.path("trial-begun"), u.path("trial-goes-on")
	program := filepath.Join(h.bin, "hostler-agent-itself") // beside the helpers
	if err := os.Rename(newerAgent(t, newer), program); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = trial ]; then\n\ttouch %s\n\twhile [ ! -e %s ]; do sleep 0.05; done\nfi\nexec %s \"$@\"\n", begun, goOn, program)
	asked := u.start(t, "hostler", append([]string{"host", "upgrade", "edge-01", "--probation", "3s"}, u.pack(t, newer, script)...)...)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); elapse(t, 20*time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
	}
	u.coordinator.end(t, kill)
	write(t, goOn, "")
	h.agent.says(t, h.agent.talk, "the new agent did not prove itself")
	h.local(t, "run", "--", "true").exits(t, 0) // the old agent looks after the host
	u.startCoordinator(t)
	asked.finish(t).exits(t, 0)
	if act := u.newest(t, "edge-01"); act.State != "DONE" {
		t.Errorf("the upgrade is %s %s: %s", act.State, act.Reason, act.Detail)
	}
	u.tells(t, "edge-01", newer)
	u.must(t, "run", "edge-01", "--", "true")
}

// TestForeignUpgrade offers packages that the host must not take.
func TestForeignUpgrade(t *testing.T) {
	t.Parallel()
	u := newUpgrades(t)
	u.addHost(t, "edge-01", false)
	u.must(t, "key", "generate", "stranger", "--no-passphrase")
	sign := func(args []string, key string) {
		t.Helper()
		for _, a := range args {
			if strings.HasSuffix(a, ".deb") {
				u.must(t, "key", "sign", a, "--key", key)
			}
		}
	}
	fails := func(args []string, want string) {
		t.Helper()
		u.upgrade(t, append(args, "edge-01")...).exits(t, 1)
		if act := u.newest(t, "edge-01"); act.State != "FAILED" || !strings.Contains(act.Detail, want) {
			t.Errorf("the upgrade is %s: %q, want %q", act.State, act.Detail, want)
		}
	}
	foreign := u.pack(t, newer, "")
	sign(foreign, "stranger")
	fails(foreign, "not signed by a release key of this fleet: the signature is by another key")

	changed := u.pack(t, newer, "")
	const date = 24 // in the archive: of its first file, which nobody looks at
	b := []byte(read(t, changed[1]))
	b[date] ^= 1
	write(t, changed[1], string(b))
	fails(changed, "not signed by a release key of this fleet: the signature does not fit")

	other := u.pack(t, newerVersion(2), "") // its agent says that it is another
	fails(other, "did not say that version "+newerVersion(2))

	alone := u.pack(t, newer, "")
	for i, a := range alone {
		if strings.Contains(a, "hostler-agent-lxc-") {
			alone = slices.Delete(alone, i-1, i+1)
			break
		}
	}
	fails(alone, "add the package hostler-agent-lxc")

	if err := os.Remove(alone[1] + ".sig"); err != nil {
		t.Fatal(err)
	}
	if r := u.upgrade(t, append(alone, "edge-01")...).exits(t, 3); !strings.Contains(r.stderr, "there is no signature of") {
		t.Errorf("a package without a signature: %s", r.stderr)
	}
	u.must(t, "fleet", "ring", "remove-release-key", u.key, "--out", u.path("ring-4"))
	u.must(t, "fleet", "ring", "publish")
	fails(u.pack(t, newer, ""), "names none")
	u.tells(t, "edge-01", u.older(t))
}

// TestUpgradeWaves upgrades a fleet in which hosts are away, and halts where a release
// is broken: the waves, and those that come later, in their turns.
func TestUpgradeWaves(t *testing.T) {
	t.Parallel()
	u := newUpgrades(t)
	u.addHost(t, "edge-01", false)
	u.addHost(t, "edge-02", false)
	away := u.addHost(t, "edge-03", false)
	later := u.addHost(t, "edge-04", false)
	away.agent.end(t, term)
	later.agent.end(t, term)

	bad := u.pack(t, newer, "#!/bin/sh\nexit 1\n")
	broken := u.upgrade(t, append(bad, "-A", "--batch", "1", "--canary", "edge-02")...).exits(t, 1)
	if !strings.Contains(broken.stderr, "wave 1 of 2 did not succeed, so 3 more hosts were not asked") {
		t.Errorf("a broken release: %s", broken.stderr)
	}
	for name, want := range map[string]int{"edge-01": 0, "edge-02": 1, "edge-03": 0, "edge-04": 0} {
		if n := strings.Count(u.must(t, "action", "ls", name, "-o", "name"), "\n"); n != want {
			t.Errorf("%s was asked %d times, want %d", name, n, want)
		}
	}

	u.upgrade(t, append(bad, "edge-03", "edge-04", "--batch", "1")...).exits(t, 0)
	first, second := u.newest(t, "edge-03").ID, u.newest(t, "edge-04").ID
	later.start(t)
	u.state(t, second, "FAILED")
	u.state(t, first, "CANCELLED")
	if act := u.action(t, first); act.Reason != "halted" || !strings.Contains(act.Detail, "host edge-04") {
		t.Errorf("after a failure, a host that is away was not let off: %s, %s", act.Reason, act.Detail)
	}
	later.agent.end(t, term)

	u.upgrade(t, append(u.pack(t, newer, ""), "-A", "--batch", "1", "--canary", "edge-02")...).exits(t, 0)
	u.tells(t, "edge-01", newer)
	u.tells(t, "edge-02", newer)
	if act := u.newest(t, "edge-03"); act.State != "PENDING_SCHEDULE" {
		t.Errorf("the upgrade of a host that is away is %s", act.State)
	}
	away.start(t)
	later.start(t)
	for _, name := range []string{"edge-03", "edge-04"} {
		u.tells(t, name, newer)
		u.state(t, u.newest(t, name).ID, "DONE")
	}
}
