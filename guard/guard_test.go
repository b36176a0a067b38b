package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/runner/supervise"
)

// killer notes what is killed, and fails as often as it is told.
type killer struct {
	mu    sync.Mutex
	fails int
	dead  chan string
}

func newKiller(fails int) *killer { return &killer{fails: fails, dead: make(chan string, 100)} }

func (k *killer) kill(_ context.Context, group string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fails > 0 {
		k.fails--
		return errors.New("it does not die")
	}
	k.dead <- group
	return nil
}

// run runs a guard until the test ends.
func run(t *testing.T, k *killer) *Guard {
	t.Helper()
	g := New(k.kill, slog.New(slog.NewTextHandler(t.Output(), nil)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // waited for below
		defer close(done)
		_ = g.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return g
}

func hold(id string, in time.Duration) Hold {
	return Hold{ID: id, Group: "group." + id, UntilMS: clock.BootMS() + in.Milliseconds()}
}

// TestKillsAtTheDeadline: what is over is killed, as often as it takes; what was given more
// time is not.
func TestKillsAtTheDeadline(t *testing.T) {
	k := newKiller(2)
	g := run(t, k)
	if _, err := g.Set(Table{Holds: []Hold{hold("late", 1500*time.Millisecond), hold("soon", 20*time.Millisecond), hold("longer", time.Second)}}); err != nil {
		t.Fatal(err)
	}
	later := g.state().Holds
	later[2].UntilMS += time.Hour.Milliseconds()
	if _, err := g.Set(Table{Holds: later}); err != nil {
		t.Fatal(err)
	}
	if got := []string{<-k.dead, <-k.dead}; !slices.Equal(slices.Sorted(slices.Values(got)), []string{"group.late", "group.soon"}) {
		t.Errorf("killed %v", got)
	}
	for len(g.state().Holds) > 1 { // the last one leaves the table after its kill
		select {
		case extra := <-k.dead:
			t.Fatalf("%s was killed", extra)
		default:
		}
	}
	if s := g.state(); s.Holds[0].ID != "longer" || !slices.Equal(slices.Sorted(slices.Values(s.Killed)), []string{"late", "soon"}) {
		t.Errorf("%+v", s)
	}
}

// TestTablesAreBounded: a table that cannot be held leaves the one before as it is.
func TestTablesAreBounded(t *testing.T) {
	g := New(newKiller(0).kill, slog.New(slog.DiscardHandler))
	if _, err := g.Set(Table{Holds: []Hold{hold("a", time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]Table{
		"too many":    {Holds: slices.Repeat([]Hold{hold("b", time.Hour)}, MaxHolds+1)},
		"no id":       {Holds: []Hold{{Group: "g", UntilMS: 1}}},
		"no group":    {Holds: []Hold{{ID: "b", UntilMS: 1}}},
		"no deadline": {Holds: []Hold{{ID: "b", Group: "g"}}},
		"a long name": {Holds: []Hold{{ID: "b", Group: strings.Repeat("g", 256), UntilMS: 1}}},
		"a long path": {Holds: []Hold{hold("b", time.Hour)}, Watchdog: strings.Repeat("w", 256)},
	} {
		if _, err := g.Set(table); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := g.take([]byte("{")); err == nil {
		t.Error("half a table was taken")
	}
	if _, err := g.take(nil); err != nil {
		t.Errorf("a question was not taken: %v", err)
	}
	if s := g.state(); len(s.Holds) != 1 || s.Holds[0].ID != "a" {
		t.Errorf("%+v", s)
	}
}

// TestFollowerKillsWhenTheGuardIsGone: at once, whatever the deadlines.
func TestFollowerKillsWhenTheGuardIsGone(t *testing.T) {
	k := newKiller(1)
	g := New(k.kill, slog.New(slog.DiscardHandler))
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Follow(context.Background(), g, in) }() // waited for below
	fmt.Fprintf(out, `{"holds":[{"id":"a","group":"ga","until_ms":%d}]}`+"\n", clock.BootMS()+time.Hour.Milliseconds())
	out.Close()
	if got := <-k.dead; got != "ga" {
		t.Errorf("killed %s", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestSecondProcessOutlivesFailures: a guard that ends because it holds nothing takes the
// table away from its second process first. One that ends because it failed does not.
func TestSecondProcessOutlivesFailures(t *testing.T) {
	for name, c := range map[string]struct {
		why  error
		want int // tables
	}{"idle": {ErrIdle, 2}, "failed": {errors.New("no socket any more"), 1}} {
		t.Run(name, func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			g := New(newKiller(0).kill, slog.New(slog.DiscardHandler))
			if _, err := g.Set(Table{Holds: []Hold{hold("a", time.Hour)}}); err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() { // waited for below
				ended <- g.Twin(ctx, []string{"sh", "-c", "exec cat >" + pipe}, func() error { end(c.why); return nil })
			}()
			got, err := os.ReadFile(pipe)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, c.why) {
				t.Error(err)
			}
			if strings.Count(string(got), "\n") != c.want {
				t.Errorf("the second process was told\n%s", got)
			}
		})
	}
}

// TestClient: a table that the client was told is there is held by the guard, and stays
// there when the connection ends.
func TestClient(t *testing.T) {
	g := run(t, newKiller(0))
	path := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	starts := 0
	start := func(context.Context) error {
		starts++
		l, err := Listen(path)
		if err == nil {
			served.Go(func() { _ = g.Serve(ctx, l) })
		}
		return err
	}
	t.Cleanup(func() { cancel(); served.Wait() })
	c := NewClient(path, Resort{}, start)
	if err := c.Set(ctx, []Hold{hold("a", time.Hour)}); err == nil || !strings.Contains(err.Error(), "no second process") {
		t.Errorf("without a second process: %v", err)
	}
	g.mu.Lock()
	g.twin = true
	g.mu.Unlock()
	if err := c.Set(ctx, []Hold{hold("b", time.Hour)}); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if all, err := c.Held(ctx); err != nil || len(all) != 1 || all[0].ID != "b" {
		t.Errorf("%v, %v", all, err)
	}
	if err := c.Set(ctx, []Hold{{}}); err == nil || !strings.Contains(err.Error(), "refuses") {
		t.Errorf("a table that cannot be held: %v", err)
	}
	if starts != 1 {
		t.Errorf("%d guards were started", starts)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another guard") {
		t.Errorf("a second guard at one path: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != os.ModeSocket {
		t.Errorf("%v, %v", info, err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// TestGuardThatEnds: a guard that is about to end resets connections until it is gone. It is
// asked again, and the next one answers.
func TestGuardThatEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	g := run(t, newKiller(0))
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	t.Cleanup(func() { cancel(); l.Close(); served.Wait() })
	served.Go(func() {
		for range 3 {
			conn, err := l.Accept()
			if err != nil {
				return // the test has ended before
			}
			conn.Close()
		}
		_ = g.Serve(ctx, l)
	})
	c := NewClient(path, Resort{}, nil)
	if _, err := c.Held(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestKillEndsAGroup kills real processes of a real control group, children and all, and
// no other.
func TestKillEndsAGroup(t *testing.T) {
	root, err := supervise.FindCgroup2(os.Getpid())
	if err != nil || root == "" {
		t.Fatal("a cgroup2 tree is needed: ", err)
	}
	dir, err := os.MkdirTemp(root, "hostler.guardtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside := exec.CommandContext(t.Context(), "sh", "-c", "sleep 600 & sleep 600 & wait")
	inside.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	beside := exec.CommandContext(t.Context(), "sleep", "600")
	for _, cmd := range []*exec.Cmd{inside, beside} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := Kill(t.Context(), filepath.Base(dir)); err != nil {
		t.Fatal(err)
	}
	if err := inside.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the first process: %v", err)
	}
	if left, err := members(filepath.Base(dir)); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	if err := beside.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("what is beside the group: %v", err)
	}
	_ = beside.Process.Kill()
	_ = beside.Wait()
	if err := Kill(t.Context(), "hostler.no-such-group"); err != nil {
		t.Errorf("a group that is not there: %v", err)
	}
}

// TestSettled: what a settled process has is in memory for good, and the kernel kills others
// first when there is none left. It runs as a process of its own, so that this one stays as
// it is.
func TestSettled(t *testing.T) {
	const settles = "HOSTLER_TEST_SETTLES"
	if os.Getenv(settles) != "" {
		settled := Settle()
		score, err := os.ReadFile("/proc/self/oom_score_adj")
		// Not every machine lets root of a container keep a process from being killed.
		if err != nil || strings.TrimSpace(string(score)) != "-1000" && !errors.Is(settled, os.ErrPermission) {
			t.Errorf("oom_score_adj is %q, %v: %v", score, err, settled)
		}
		before := lockedKiB(t)
		later, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		if after := lockedKiB(t); before == 0 || after < before+8<<10 {
			t.Errorf("%d KiB are locked, and %d when it has 8 MiB more", before, after)
		}
		if err := unix.Munmap(later); err != nil {
			t.Error(err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSettled$")
	cmd.Env = append(os.Environ(), settles+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// lockedKiB is how much of this process is locked in memory.
func lockedKiB(t *testing.T) (n int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmLck:")
	if _, err := fmt.Sscanf(rest, "%d kB", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// FuzzTake: whatever a connection sends, the guard holds a table within its bounds.
func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"holds":[{"id":"a","group":"lxc.payload.web","until_ms":5}]}`))
	f.Add([]byte(`{"holds":null}`))
	f.Add([]byte(`{"holds":[{"id":"a","group":"g","until_ms":5}],"watchdog":"/dev/none"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		g := New(newKiller(0).kill, slog.New(slog.DiscardHandler))
		g.dog.open = new(bowl).open // no device of this machine
		_, _ = g.take(line)
		for _, h := range g.state().Holds {
			if h.ID == "" || h.Group == "" || h.UntilMS < 1 {
				t.Errorf("%+v is held", h)
			}
		}
	})
}

// TestGroupsOfOthers: the root of a container may make control groups below that of the
// container, and call them as that of another one. What it puts there is no part of the other
// container: its death would be waited for in vain, and the machine restarted for it.
func TestGroupsOfOthers(t *testing.T) {
	for _, c := range []struct {
		path, own, group string
		want             bool
	}{
		{"/lxc.payload.web", "/system.slice/a.service", "lxc.payload.web", true},
		{"/lxc.payload.web/system.slice/x.service", "/system.slice/a.service", "lxc.payload.web", true},
		{"/machine.slice/libpod-12.scope/container", "/", "libpod-12.scope", true},
		{"/lxc.payload.evil/lxc.payload.web", "/system.slice/a.service", "lxc.payload.web", false},
		{"/lxc.payload.evil/x/libpod-12.scope", "/", "libpod-12.scope", false},
		{"/machine.slice/libpod-34.scope/lxc.payload.web", "/", "lxc.payload.web", false},
		{"/machine.slice/libpod-conmon-12.scope", "/", "libpod-12.scope", false},
		{"/system.slice/a.service/hostler.selftest-X", "/system.slice/a.service", "hostler.selftest-X", true},
		// This host is itself a container, and sees the groups around it.
		{"/lxc.payload.host/lxc.payload.web", "/lxc.payload.host/system.slice/a.service", "lxc.payload.web", true},
		{"/lxc.payload.host/lxc.payload.evil/lxc.payload.web", "/lxc.payload.host/system.slice/a.service", "lxc.payload.web", false},
		{"/lxc.payload.web", "", "lxc.payload.web", true},
	} {
		if got := below(c.path, c.own, c.group); got != c.want {
			t.Errorf("%s in %s, for a guard in %s: %v", c.path, c.group, c.own, got)
		}
	}
}

// TestMonitorOfAnotherStart: when a container was started anew, the end of the monitor that it
// had before says nothing of the new one, which may just not be seen yet.
func TestMonitorOfAnotherStart(t *testing.T) {
	type look struct {
		init   int
		seen   sight
		before bool
		kill   bool
	}
	for name, looks := range map[string][]look{
		"dead":                {{5, attended, false, false}, {5, orphaned, true, true}},
		"started anew":        {{5, attended, false, false}, {7, orphaned, true, false}, {7, attended, false, false}},
		"started anew, dead":  {{5, attended, false, false}, {7, orphaned, true, false}, {7, orphaned, false, true}, {7, orphaned, false, true}},
		"never seen":          {{5, orphaned, false, false}, {5, orphaned, false, true}},
		"stopped and started": {{5, orphaned, false, false}, {0, absent, false, false}, {7, orphaned, false, false}},
	} {
		m := &monitor{fd: -1}
		for i, l := range looks {
			if got := m.sees(-1, l.init, l.seen, l.before); got != l.kill {
				t.Errorf("%s: look %d kills: %v", name, i+1, got)
			}
		}
	}
}
