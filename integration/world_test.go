//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hostler-io/hostler/api"
)

// world is a fleet with everything that belongs to it.
type world struct {
	t     testing.TB // of the test that made it
	dir   string     // everything that the programs write
	logs  string     // what they say, kept as artifacts
	bin   string     // the programs
	fleet string

	served      []string // what the coordinator's environment holds beside the usual
	http, mqtt  string   // addresses
	token       string   // of an admin
	coordinator *process
	follower    *process // which keeps the events
	events      events

	mu        sync.Mutex
	processes []*process
	hosts     []*host
	disks     []*disk // touched by the test alone
}

// newWorld makes a fleet, and a coordinator that runs. What is to be prepared
// before any program starts, the caller says.
func newWorld(t testing.TB, prepare ...func(*world)) *world {
	t.Helper()
	w := &world{t: t, bin: programs(t), fleet: "lab", logs: t.ArtifactDir()}
	if os.Geteuid() != 0 {
		t.Fatal("containers, links and control groups need root")
	}
	// A short path: it becomes a part of those of unix sockets.
	dir, err := os.MkdirTemp("/tmp", "hi-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // containers' own users pass through it
	}
	if err != nil {
		t.Fatal(err)
	}
	w.dir = dir
	t.Cleanup(w.close)
	w.http, w.mqtt = freeAddress(t), freeAddress(t)
	for _, d := range []string{"operator", "coordinator"} {
		mkdir(t, w.path(d))
	}
	for _, p := range prepare {
		p(w)
	}
	w.initFleet(t)
	w.startCoordinator(t)
	w.must(t, "login", w.url(), "--token", w.token, "--ca", w.path("coordinator/ca.crt"))
	w.follow(t)
	return w
}

// programs is where the built programs are.
func programs(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("HOSTLER_BIN")
	if dir == "" {
		t.Fatal("HOSTLER_BIN names no directory with the built programs: run make integration")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }
func (w *world) url() string             { return "https://" + w.http }

// env is the environment of every program: nothing of the tester's own.
func (w *world) env(more ...string) []string {
	return append([]string{
		"PATH=" + w.bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + w.dir, "XDG_CONFIG_HOME=" + w.path("operator"), "GNUPGHOME=" + w.path("gnupg"), "LC_ALL=C",
	}, more...)
}

// initFleet takes the first steps, as an owner and a coordinator take them.
func (w *world) initFleet(t testing.TB) {
	t.Helper()
	write(t, w.path("coordinator.toml"), fmt.Sprintf("state_dir = %q\n[http]\nlisten = %q\n[mqtt]\nlisten = %q\n", w.path("coordinator"), w.http, w.mqtt))
	code := field(t, w.must(t, "fleet", "init", w.fleet), "code")
	made := w.mustRun(t, "hostler-coordinator", "--config", w.path("coordinator.toml"), "init", "--fleet", code)
	w.token = field(t, made, "token")
	w.must(t, "fleet", "ring", "add-coordinator", field(t, made, "request"), "--out", w.path("ring-2"))
	w.mustRun(t, "hostler-coordinator", "--config", w.path("coordinator.toml"), "init", "--ring", w.path("ring-2"))
}

// startCoordinator starts the coordinator and waits until it serves.
func (w *world) startCoordinator(t testing.TB) {
	t.Helper()
	w.coordinator = w.spawn(t, "coordinator", w.env(w.served...), filepath.Join(w.bin, "hostler-coordinator"), "--config", w.path("coordinator.toml"), "run")
	w.coordinator.says(t, w.coordinator.talk, "serving")
}

// field is the value of a line "name: value".
func field(t testing.TB, text, name string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatalf("there is no line %s: … in\n%s", name, text)
	return ""
}

// given holds the addresses and subnets that the tests under way have: whoever has
// one does not use it yet, or not while a program of theirs is down.
var given sync.Map

// give takes what a test wants until its end, unless another has it.
func give(t testing.TB, what any) bool {
	if _, taken := given.LoadOrStore(what, t.Name()); taken {
		return false
	}
	t.Cleanup(func() { given.Delete(what) })
	return true
}

// freeAddress is an address on loopback that nobody uses, outside of the range
// that the kernel gives to connections: it must be free again after a restart.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(20000+rand.IntN(10000)))
		if err != nil {
			continue
		}
		l.Close()
		if a := l.Addr().String(); give(t, a) {
			return a
		}
	}
	t.Fatal("found no free port")
	return ""
}

// freeSubnet is a /24 that no interface of this machine knows, nor another test.
func freeSubnet(t testing.TB) netip.Prefix {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(64 + rand.IntN(128)), byte(rand.IntN(256)), 0}), 24)
		if !slices.ContainsFunc(addrs, func(a net.Addr) bool {
			q, err := netip.ParsePrefix(a.String())
			return err == nil && q.Overlaps(p)
		}) && give(t, p) {
			return p
		}
	}
}

// events are those of the fleet so far.
type events struct {
	change
	mu  sync.Mutex
	all []api.Event
}

// Write takes lines of JSON, as hostler events prints them.
func (e *events) Write(b []byte) (int, error) {
	e.mu.Lock()
	for line := range bytes.Lines(b) {
		var ev api.Event
		if err := json.Unmarshal(line, &ev); err != nil {
			e.mu.Unlock()
			return 0, fmt.Errorf("event %q: %w", line, err)
		}
		e.all = append(e.all, ev)
	}
	e.mu.Unlock()
	e.fire()
	return len(b), nil
}

// since are the events from a position on.
func (e *events) since(n int) []api.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all[n:])
}

// mark is the position of the next event.
func (e *events) mark() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.all)
}

// follow keeps the events of the fleet, over every restart of the coordinator. It
// would give up if nobody were there when it asks first, so it is waited for.
func (w *world) follow(t testing.TB) {
	t.Helper()
	p := w.spawn(t, "events", w.env(), filepath.Join(w.bin, "hostler"), "events", "--after", "0", "-o", "json")
	w.follower = p
	go func() { // ends with the process
		taken := 0
		for {
			changed := p.out.next()
			lines := p.out.lines()
			for _, line := range lines[taken:] {
				_, _ = w.events.Write([]byte(line)) // what is no event never satisfies a wait
			}
			taken = len(lines)
			if p.ended() {
				return
			}
			<-changed
		}
	}()
	p.connects(t)
}

// event waits for an event from a position on and returns the first that ok
// accepts.
func (w *world) event(t testing.TB, from int, what string, ok func(api.Event) bool) api.Event {
	t.Helper()
	var found api.Event
	until(t, &w.events.change, what, func() bool {
		for _, e := range w.events.since(from) {
			if ok(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// final reports whether an action with that state has ended.
func final(state string) bool {
	return slices.Contains([]string{"DONE", "FAILED", "CANCELLED", "LOST"}, state)
}

// ended waits until all actions have ended and returns the state and reason of
// each, "DONE ok".
func (w *world) ended(t testing.TB, ids ...string) map[string]string {
	t.Helper()
	states := make(map[string]string)
	seen := 0
	until(t, &w.events.change, fmt.Sprintf("%d actions end", len(ids)), func() bool {
		for _, e := range w.events.since(seen) {
			seen++
			if state, _ := e.Data["state"].(string); e.Type == "action.state" && final(state) && slices.Contains(ids, e.Object) {
				states[e.Object] = strings.TrimSpace(fmt.Sprint(state, " ", e.Data["reason"]))
			}
		}
		return len(states) == len(ids)
	})
	return states
}

// state waits until an action has come to a state or has ended.
func (w *world) state(t testing.TB, id, state string) {
	t.Helper()
	w.event(t, 0, "action "+id+" is "+state, func(e api.Event) bool {
		s, _ := e.Data["state"].(string)
		if e.Type == "action.state" && e.Object == id && final(s) && s != state {
			t.Fatalf("action %s is %s %v, wanted %s", id, s, e.Data["reason"], state)
		}
		return e.Type == "action.state" && e.Object == id && s == state
	})
}

// close takes everything down that the world has made. It asks nobody's help,
// as the test may have failed anywhere, and goes on over its own failures.
func (w *world) close() {
	if w.t.Failed() {
		w.report()
	}
	w.mu.Lock()
	processes, hosts := slices.Clone(w.processes), slices.Clone(w.hosts)
	w.mu.Unlock()
	for _, p := range slices.Backward(processes) {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	}
	for _, h := range hosts {
		h.takeDown()
	}
	for range 20 {
		left := w.relatives()
		if len(left) == 0 {
			break
		}
		for pid, line := range left {
			if h, ok := hold(pid, func() bool { return w.relative(pid) == line }); ok {
				h.end()
			}
		}
	}
	for pid, line := range w.relatives() {
		w.t.Errorf("cannot get rid of process %d: %s", pid, line)
	}
	for _, h := range hosts {
		h.dropBridge()
	}
	for _, d := range w.disks {
		if err := d.close(); err != nil {
			w.t.Errorf("taking a disk away: %v", err)
		}
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Errorf("cleaning up: %v", err)
	}
}

// report shows the end of what everybody said.
func (w *world) report() {
	files, _ := filepath.Glob(filepath.Join(w.logs, "*.log"))
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && len(b) > 0 {
			b = b[max(0, len(b)-1500):]
			w.t.Logf("--- the end of %s\n%s", filepath.Base(f), strings.Map(printable, string(b)))
		}
	}
}

// printable keeps what a command has written from spoiling the report.
func printable(r rune) rune {
	if r == '\n' || unicode.IsPrint(r) && r != utf8.RuneError {
		return r
	}
	return '.'
}

// relatives are the processes of this machine that have to do with the world:
// its directory stands in their command lines, or in the name of a supervisor's
// log. Those of containers do not show it; they end with the container's init.
func (w *world) relatives() map[int]string {
	found := make(map[int]string)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil && pid != os.Getpid() {
			if line := w.relative(pid); line != "" {
				found[pid] = line
			}
		}
	}
	return found
}

// relative is the command line of a process that has to do with the world, and else
// empty.
func (w *world) relative(pid int) string {
	d := fmt.Sprintf("/proc/%d", pid)
	b, err := os.ReadFile(d + "/cmdline")
	if err != nil {
		return ""
	}
	line := string(bytes.ReplaceAll(b, []byte{0}, []byte(" ")))
	// A supervisor that was started in advance has no run in its arguments,
	// but its log.
	if log, err := os.Readlink(d + "/fd/2"); err == nil && filepath.Base(log) == "supervisor.log" {
		line += log
	}
	if !strings.Contains(line, w.dir) {
		return ""
	}
	return line
}

// awaitRelative waits until a process that was found is gone.
func (w *world) awaitRelative(pid int, line string) {
	if h, ok := hold(pid, func() bool { return w.relative(pid) == line }); ok {
		h.await()
	}
}

// leaves are the control groups of all commands that the world has begun.
func (w *world) leaves() []string {
	var leaves []string
	_ = filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "start.json" {
			return nil
		}
		var start struct {
			Leaf string `json:"leaf"`
		}
		if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &start) == nil && start.Leaf != "" {
			leaves = append(leaves, start.Leaf)
		}
		return nil
	})
	return leaves
}

// tool runs a program of this machine, which has to succeed.
func (w *world) tool(t testing.TB, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = w.env(), w.dir
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, b)
	}
	return string(b)
}
