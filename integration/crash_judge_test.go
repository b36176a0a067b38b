//go:build integration && hostlertest

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/integration/historytest"
	"github.com/hostler-io/hostler/protocol"
)

// judge waits until everything that was acknowledged has ended, and holds the
// fleet to its promises.
func (c *wreck) judge(t testing.TB) {
	t.Helper()
	var wg sync.WaitGroup
	for _, id := range c.history.Acked() {
		wg.Go(func() {
			c.insist(t, "the end of "+id.String(), func(ctx context.Context) error {
				seen, err := c.see(ctx, id, "10s")
				if err == nil && seen.State != protocol.StateNone && !seen.State.Final() {
					err = fmt.Errorf("%w: it is %s", errUnfinished, seen)
				}
				return err
			})
		})
	}
	wg.Wait()
	for _, a := range show[[]api.Action](t, c.world, "action", "ls", "--limit", "0") {
		c.note(t, c.history.Coordinator, a)
	}
	for _, l := range c.limbs {
		c.readHost(t, l)
	}
	c.readJournal(t)
	for _, s := range c.history.Check() {
		t.Error(s)
	}
	for _, l := range c.limbs {
		c.clean(t, l)
	}
}

// note keeps how an action looks to one side.
func (c *wreck) note(t testing.TB, side map[protocol.ActionID]historytest.Seen, a api.Action) {
	t.Helper()
	id, err := protocol.ParseActionID(a.ID)
	if err != nil {
		t.Fatal(err)
	}
	side[id] = historytest.Seen{State: protocol.State(a.State), Reason: protocol.Reason(a.Reason)}
}

// readHost reads what a host knows, and what its commands have written.
func (c *wreck) readHost(t testing.TB, l *limb) {
	t.Helper()
	if p := l.process(); p != nil && !p.ended() {
		var actions []api.Action
		out := l.local(t, "action", "ls", "--limit", "0", "-o", "json").exits(t, 0).stdout
		if err := json.Unmarshal([]byte(out), &actions); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, a := range actions {
			c.note(t, c.history.Hosts, a)
		}
	}
	for line := range strings.Lines(read(t, l.witness)) {
		what, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		id, err := protocol.ParseActionID(text)
		switch {
		case err != nil:
			t.Errorf("the witness of %s holds %q", l.host.name, line)
		case what == "b":
			c.history.Begun[id]++
		case what == "e":
			c.history.Ended[id]++
		}
	}
}

// readJournal reads the events of all actions, up to their ends.
func (c *wreck) readJournal(t testing.TB) {
	t.Helper()
	open := make(map[string]bool)
	for id := range c.history.Coordinator {
		open[id.String()] = true
	}
	if len(open) == 0 {
		return // nothing was ordered
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := c.api.Events(ctx, 0, func(e api.Event) error {
		if e.Type != "action.state" {
			return nil
		}
		id, err := protocol.ParseActionID(e.Object)
		if err != nil {
			return err
		}
		word := func(name string) string { s, _ := e.Data[name].(string); return s }
		c.history.Journal = append(c.history.Journal, historytest.Transition{
			Action: id, From: historytest.Seen{State: protocol.State(word("from"))},
			To: historytest.Seen{State: protocol.State(word("state")), Reason: protocol.Reason(word("reason"))},
		})
		if final(word("state")) {
			if delete(open, e.Object); len(open) == 0 {
				return errEnough
			}
		}
		return nil
	})
	if len(open) > 0 && !errors.Is(err, errEnough) {
		t.Errorf("the journal lacks the ends of %d actions: %v", len(open), err)
	}
}

var errEnough = errors.New("enough")

// clean looks for what a host has left behind: processes, control groups, run
// directories, locks, mounts and links.
func (c *wreck) clean(t testing.TB, l *limb) {
	t.Helper()
	for pid, line := range l.started("hostler-run", "hostler-lxc") {
		if l.spare(pid, line) {
			continue
		}
		stays := func() bool { return l.started("hostler-run", "hostler-lxc")[pid] == line }
		if h, ok := hold(pid, stays); ok {
			h.await()
		}
		if stays() {
			t.Errorf("%s: process %d stays, a child of %d (%s): %s: %s", l.host.name, pid, parent(pid), place(parent(pid)), line, place(pid))
		}
	}
	for _, leaf := range l.leaves() {
		gone(t, leaf)
	}
	l.unlocked(t)
	for _, e := range entriesOf(t, l.path("runs")) {
		id, err := protocol.ParseActionID(e)
		if _, known := c.history.Coordinator[id]; err != nil || !known {
			t.Errorf("%s: run directory %s belongs to no action", l.host.name, e)
		}
	}
	left := entriesOf(t, l.path("lxc"))
	if len(left) > 0 {
		t.Errorf("%s: in the directory of containers: %v", l.host.name, left)
	}
	for _, e := range entriesOf(t, l.path("hostler-volumes")) {
		t.Errorf("%s: volume %s stays", l.host.name, e)
	}
	for _, e := range entriesOf(t, l.path("ct")) {
		t.Errorf("%s: lock %s stays", l.host.name, e)
	}
	if l.bridge != "" {
		if ports, err := os.ReadDir(filepath.Join("/sys/class/net", l.bridge, "brif")); err == nil && len(ports) > 0 {
			t.Errorf("%s: on its bridge: %v", l.host.name, ports)
		}
	}
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		if strings.Contains(line, l.host.dir+"/") {
			t.Errorf("%s: a mount stays: %s", l.host.name, line)
		}
	}
}

// leaves are the control groups of all commands that the host has begun, or was
// about to begin.
func (l *limb) leaves() []string {
	var leaves []string
	for _, name := range []string{"start.json", "lock"} {
		files, _ := filepath.Glob(l.path("runs/*/*/" + name))
		for _, f := range files {
			var named struct {
				Leaf string `json:"leaf"`
			}
			if b, err := os.ReadFile(f); err == nil && json.Unmarshal(b, &named) == nil && named.Leaf != "" {
				leaves = append(leaves, named.Leaf)
			}
		}
	}
	slices.Sort(leaves)
	return slices.Compact(leaves)
}

// started are the processes of these programs that the host's agent, or one of
// its predecessors, has started: they carry the name of its failpoints.
func (l *limb) started(programs ...string) map[int]string {
	found := make(map[int]string)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		line, err := os.ReadFile(d + "/cmdline")
		if err != nil {
			continue
		}
		program, _, _ := bytes.Cut(line, []byte{0})
		if !slices.Contains(programs, filepath.Base(string(program))) {
			continue
		}
		env, err := os.ReadFile(d + "/environ")
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), l.environ()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			found[pid] = string(bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
		}
	}
	return found
}

// spare reports whether a supervisor, or the process that one keeps for the way
// into a container, waits for the next command of an agent that lives.
func (l *limb) spare(pid int, line string) bool {
	agent := l.process().pid()
	return strings.HasSuffix(strings.TrimSpace(line), " -") && (parent(pid) == agent || parent(parent(pid)) == agent)
}

// parent is the pid of a process's parent; 0 if there is no such process.
func parent(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // state, parent
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return ppid
}

// place tells where in the kernel a process is, what it has open and which control
// group it is in.
func place(pid int) string {
	var text strings.Builder
	for _, name := range []string{"cmdline", "wchan", "cgroup"} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)) // it may have ended
		fmt.Fprintf(&text, "%s %q ", name, b)
	}
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range open {
		to, _ := os.Readlink(fd)
		fmt.Fprintf(&text, "%s→%s ", filepath.Base(fd), to)
	}
	return text.String()
}

// appears waits until there is a file in a directory that is there.
func appears(t testing.TB, path string, within time.Duration) bool {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatalf("inotify: %v", err)
	}
	watch := os.NewFile(uintptr(fd), "inotify")
	defer watch.Close()
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		t.Fatalf("inotify: %s: %v", filepath.Dir(path), err)
	}
	if err := watch.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	events := make([]byte, 4096)
	for {
		if _, err := os.Lstat(path); err == nil {
			return true
		}
		if _, err := watch.Read(events); err != nil {
			_, err := os.Lstat(path)
			return err == nil
		}
	}
}

// query is a set of values by name.
func query(pairs ...string) url.Values {
	v := make(url.Values)
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}
