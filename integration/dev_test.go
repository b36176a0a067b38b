//go:build integration

package integration

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// lab is a world whose coordinator and hosts are machines of their own, made by
// hostler dev up.
type lab struct {
	*world
	name  string
	nodes map[string]labNode
	took  time.Duration // until all hosts were online
}

// labNode is a node as hostler dev up -o json tells of it.
type labNode struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Address string `json:"address"`
	PID     int    `json:"pid"`
	Cable   string `json:"cable"`
	Socket  string `json:"socket"`
	Log     string `json:"log"`
}

// newLab brings a fleet up, which ends with the test.
func newLab(t testing.TB, hosts string) *lab {
	t.Helper()
	w := &world{t: t, bin: programs(t), logs: t.ArtifactDir()}
	dir, err := os.MkdirTemp("/tmp", "hl-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // containers' own users pass through it
	}
	if err != nil {
		t.Fatal(err)
	}
	w.dir = dir
	t.Cleanup(w.close)
	mkdir(t, w.path("operator"))
	l := &lab{world: w, name: "t" + strings.ToLower(rand.Text()[:6]), nodes: map[string]labNode{}}
	w.fleet = l.name
	t.Cleanup(func() { l.end(t) })
	begun := time.Now()
	out := l.dev(t, "up", "--hosts", hosts, "-o", "json").exits(t, 0).stdout
	l.took = time.Since(begun)
	if most := within(15*time.Second, time.Minute); l.took > most {
		t.Errorf("dev up took %v, want %v at most", l.took, most)
	}
	var status struct {
		Nodes []labNode `json:"nodes"`
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatalf("hostler dev up: %v:\n%s", err, out)
	}
	for _, n := range status.Nodes {
		l.nodes[n.Name] = n
	}
	w.follow(t)
	return l
}

// dev runs hostler dev with the name of the lab.
func (l *lab) dev(t testing.TB, args ...string) result {
	t.Helper()
	return l.cli(t, append(append([]string{"dev"}, args...), "--name", l.name)...)
}

// end takes the fleet down, if the test has not, and checks that nothing is
// left of it.
func (l *lab) end(t testing.TB) {
	if t.Failed() {
		for _, n := range l.nodes {
			if b, err := os.ReadFile(n.Log); err == nil {
				t.Logf("--- the end of %s\n%s", n.Log, b[max(0, len(b)-1500):])
			}
		}
	}
	if r := l.dev(t, "down"); r.code != 0 {
		t.Errorf("hostler dev down: exit code %d: %s", r.code, r.stderr)
	}
	for _, left := range l.remains(t) {
		t.Errorf("left behind: %s", left)
	}
}

// remains is what this machine has of the fleet.
func (l *lab) remains(t testing.TB) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{
		"/var/lib/hostler-dev/" + l.name, l.path("operator/hostler/fleets/*"), l.path("operator/hostler/config.toml"),
		"/sys/fs/cgroup/hostler-dev-" + l.name, "/sys/fs/cgroup/*/hostler-dev-" + l.name,
	} {
		match, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, match...)
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range links {
		if strings.HasPrefix(i.Name, "hd-"+l.name) {
			found = append(found, "link "+i.Name)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), l.name) {
		found = append(found, "a mount")
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		group, _ := os.ReadFile(d + "/cgroup") // it may be gone
		status, _ := os.ReadFile(d + "/status")
		dead := strings.Contains(string(status), "State:\tZ") // and waits for this machine's init
		if strings.Contains(string(group), "hostler-dev-"+l.name) && !dead {
			found = append(found, "process "+filepath.Base(d))
		}
	}
	return found
}

// connectivity waits until the coordinator says that of a host, since a position
// of the events.
func (l *lab) connectivity(t testing.TB, from int, host, word string) {
	t.Helper()
	l.event(t, from, host+" is "+word, func(e api.Event) bool { return e.Type == "host."+word && e.Host == host })
}

// steady fails if another host than the one that is named has been anything
// but online since a position.
func (l *lab) steady(t testing.TB, from int, but string) {
	t.Helper()
	for _, e := range l.events.since(from) {
		if e.Host != but && (e.Type == "host.late" || e.Type == "host.offline") {
			t.Errorf("%s is %s, and nobody touched it", e.Host, e.Type)
		}
	}
}

// TestDevUp: a fleet of three hosts is up as soon as is promised.
func TestDevUp(t *testing.T) {
	t.Parallel()
	t.Logf("three hosts are online after %s", newLab(t, "3").took.Round(10*time.Millisecond))
}

// TestDev takes a development fleet through everything that can be done to it.
func TestDev(t *testing.T) {
	t.Parallel()
	l := newLab(t, "3")
	for _, h := range []string{"edge-01", "edge-02", "edge-03"} {
		if got := strings.TrimSpace(l.must(t, "run", h, "--", "hostname")); got != h {
			t.Errorf("the host name of %s is %q", h, got)
		}
		l.must(t, "ct", "create", h+"/web", "--template", "busybox")
		l.must(t, "ct", "start", h+"/web")
		if got := strings.TrimSpace(l.must(t, "exec", h+"/web", "--", "hostname")); got != "web" {
			t.Errorf("the host name in %s/web is %q", h, got)
		}
	}
	// For a container with users of its own podman unmounts what the table has there.
	if mounts := read(t, fmt.Sprintf("/proc/%d/mountinfo", l.nodes["edge-01"].PID)); strings.Count(mounts, " /sys ") != 1 || strings.Contains(mounts, " /sys/kernel/") {
		t.Errorf("the machine's /sys lies under that of the host:\n%s", mounts)
	}
	t.Run("a second of that name is refused", func(t *testing.T) {
		l.dev(t, "up").exits(t, 1, "the fleet is up already", "hostler dev down --name "+l.name)
	})
	t.Run("one that is cut off is missed, alone, and comes back", func(t *testing.T) {
		from := l.events.mark()
		id := l.submit(t, "edge-02", "sleep", "10")
		l.state(t, id, "RUNNING")
		l.dev(t, "partition", "edge-02").exits(t, 0)
		l.connectivity(t, from, "edge-02", "late")
		if got := strings.TrimSpace(l.must(t, "run", "edge-01", "--", "hostname")); got != "edge-01" {
			t.Errorf("meanwhile edge-01 says %q", got)
		}
		l.steady(t, from, "edge-02")
		back := l.events.mark()
		l.dev(t, "heal", "edge-02").exits(t, 0)
		l.connectivity(t, back, "edge-02", "online")
		l.done(t, id)
		l.steady(t, from, "edge-02")
	})
	t.Run("power fails", func(t *testing.T) {
		id := l.submit(t, "edge-03", "sh", "-c", `echo begun >"$0"; exec sleep 600`, l.path("begun"))
		fileUntil(t, l.path("begun"), "the command begins", func(s string) bool { return s == "begun\n" })
		from := l.events.mark()
		l.dev(t, "kill", "edge-03").exits(t, 0)
		if left, _ := filepath.Glob("/sys/fs/cgroup/unified/hostler-dev-" + l.name + "/edge-03"); len(left) > 0 {
			t.Errorf("the dead host has control groups: %q", left)
		}
		l.dev(t, "partition", "edge-03").exits(t, 1, "the host is dead")
		l.dev(t, "heal", "edge-03").exits(t, 0)
		if got := l.ended(t, id)[id]; got != "FAILED interrupted" {
			t.Errorf("the command that ran is %s, want FAILED interrupted: it is another boot", got)
		}
		l.container(t, "edge-03/web", "runs again", func(c ct) bool { return c.State == "running" })
		l.steady(t, from, "edge-03")
	})
	t.Run("no such host", func(t *testing.T) {
		l.dev(t, "kill", "edge-99").exits(t, 3, "edge-99")
	})
	t.Run("nothing is left, whatever was killed before", func(t *testing.T) {
		for _, n := range l.nodes {
			if n.Name != "edge-03" { // which has become another process since
				endProcess(n.PID)
			}
		}
		l.dev(t, "down").exits(t, 0)
		if left := l.remains(t); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		l.dev(t, "down").exits(t, 0, "There is no fleet "+l.name)
		l.dev(t, "kill", "edge-01").exits(t, 3, "the fleet is not up")
	})
}

// TestDevUpKilled kills hostler dev up half-way: down finds what there is.
func TestDevUpKilled(t *testing.T) {
	t.Parallel()
	w := &world{t: t, bin: programs(t), logs: t.ArtifactDir(), dir: t.TempDir()}
	for i, step := range []string{"bridge", "making fleet", "the coordinator serves", "is online"} {
		l := &lab{world: w, name: "k" + strings.ToLower(rand.Text()[:5]) + string(rune('a'+i))}
		p := l.start(t, "hostler", "dev", "up", "--name", l.name)
		p.says(t, p.talk, step)
		p.end(t, kill)
		l.end(t)
	}
	// SIGTERM does the same by itself.
	l := &lab{world: w, name: "k" + strings.ToLower(rand.Text()[:6])}
	p := l.start(t, "hostler", "dev", "up", "--name", l.name)
	p.says(t, p.talk, "the coordinator serves")
	p.signal(t, term)
	p.finish(t).exits(t, 143)
	for _, left := range l.remains(t) {
		t.Errorf("left behind by an interrupted up: %s", left)
	}
}
