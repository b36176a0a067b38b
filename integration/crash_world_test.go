//go:build integration && hostlertest

package integration

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/integration/historytest"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// wreck is a world whose processes are killed: their failpoints can be armed,
// they are started again whenever they have died, and everything that is asked
// of them goes into a history.
type wreck struct {
	*world
	history  *historytest.History
	api      *client.Client
	head     *victim // the coordinator
	clock    string  // file with what is added to the coordinator's clocks
	limbs    []*limb
	policies int // put into force
}

// limb is a host of a wreck.
type limb struct {
	*host
	*victim
	witness string // the file that its commands write to
	ended   counter
}

// counter counts, and tells those who wait for more.
type counter struct {
	change
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	c.fire()
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// victim is a process that is started again whenever it has died.
type victim struct {
	name   string
	points string // directory of its failpoints, and of those that it starts
	spawn  func(t testing.TB) *process

	life    sync.Mutex // held to start it
	retired bool       // it is not to be started again; guarded by life
	mu      sync.Mutex
	now     *process
}

func newVictim(t testing.TB, w *world, name string, spawn func(testing.TB) *process) *victim {
	t.Helper()
	v := &victim{name: name, points: w.path("points-" + name), spawn: spawn}
	mkdir(t, v.points)
	return v
}

func (v *victim) environ() string { return failpoint.Variable + "=" + v.points }

func (v *victim) process() *process {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// revive starts the process, unless it runs, and returns when it serves. It may
// have died, or die while it starts, by a kill and in no other way.
func (v *victim) revive(t testing.TB) {
	t.Helper()
	v.life.Lock()
	defer v.life.Unlock()
	for !v.retired {
		p := v.process()
		if p == nil || p.ended() {
			if p != nil {
				v.died(t)
			}
			p = v.spawn(t)
			v.mu.Lock()
			v.now = p
			v.mu.Unlock()
		}
		until(t, &p.talk.change, v.name+" serves", func() bool { return strings.Contains(p.talk.String(), "serving") || p.ended() })
		if !p.ended() {
			return
		}
	}
}

// retire kills the process for good.
func (v *victim) retire(t testing.TB) {
	t.Helper()
	v.life.Lock()
	defer v.life.Unlock()
	v.retired = true
	v.process().end(t, kill)
}

// died waits for the end of the process, which must be a kill.
func (v *victim) died(t testing.TB) {
	t.Helper()
	p := v.process()
	if code := p.code(t); code != 128+int(kill) {
		t.Fatalf("%s ended by itself, with %d:\n%s%s", v.name, code, p.out.tail(), p.talk.tail())
	}
}

// restart kills the process and starts it again.
func (v *victim) restart(t testing.TB) {
	t.Helper()
	p := v.process()
	p.signal(t, kill)
	p.code(t)
	v.revive(t)
}

// arm lets the process, or one that it starts, die at the nth hit of a point.
func (v *victim) arm(t testing.TB, point string, n int) {
	t.Helper()
	if err := os.Remove(filepath.Join(v.points, point+".hit")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	draft := filepath.Join(v.points, "draft")
	write(t, draft, strconv.Itoa(n))
	if err := os.Rename(draft, filepath.Join(v.points, point)); err != nil {
		t.Fatal(err)
	}
}

// hit waits until a process has died at a point, and returns its pid. It is 0
// if none came there in time; then the point is not armed any more.
func (v *victim) hit(t testing.TB, point string, within time.Duration) int {
	t.Helper()
	told := filepath.Join(v.points, point+".hit")
	if !appears(t, told, within) {
		err := os.Remove(filepath.Join(v.points, point))
		if err == nil {
			return 0
		}
		// Somebody is just taking it: he counts, or he dies.
		if !appears(t, told, time.Second) {
			_ = os.Remove(filepath.Join(v.points, point))
			return 0
		}
	}
	pid, err := strconv.Atoi(read(t, told))
	if err != nil {
		t.Fatal(err)
	}
	if p := v.process(); p != nil && p.pid() == pid {
		p.code(t)
	} else {
		awaitExit(pid)
	}
	return pid
}

// newWreck makes a fleet whose coordinator can be killed at failpoints.
func newWreck(t testing.TB) *wreck {
	t.Helper()
	w := newWorld(t)
	c := &wreck{world: w, history: historytest.New(), clock: w.path("clock")}
	c.head = newVictim(t, w, "coordinator", func(t testing.TB) *process {
		return w.spawn(t, "coordinator", w.env(w.served...), filepath.Join(w.bin, "hostler-coordinator"), "--config", w.path("coordinator.toml"), "run")
	})
	w.served = []string{c.head.environ(), clock.Variable + "=" + c.clock}
	w.follower.end(t, kill) // it gives up if nobody is there when it asks first
	w.coordinator.end(t, kill)
	c.head.revive(t)
	w.follow(t)
	ca, _ := pem.Decode([]byte(read(t, w.path("coordinator/ca.crt"))))
	var err error
	if c.api, err = client.New(client.Config{Address: w.url(), Token: w.token, CA: ca.Bytes, Timeout: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	return c
}

// newLimb prepares a host that has not joined.
func (c *wreck) newLimb(t testing.TB, name string, network bool) *limb {
	t.Helper()
	h := c.newHost(t, name, network)
	l := &limb{host: h, witness: c.path("witness-" + name)}
	l.victim = newVictim(t, c.world, name, func(t testing.TB) *process { return h.spawn(t, name, "run") })
	h.env = c.env(l.environ())
	write(t, l.witness, "")
	c.limbs = append(c.limbs, l)
	return l
}

// addLimb lets a host in and runs its agent.
func (c *wreck) addLimb(t testing.TB, name string, network bool, more ...string) *limb {
	t.Helper()
	l := c.newLimb(t, name, network)
	write(t, l.host.config(), read(t, l.host.config())+strings.Join(more, ""))
	p, words := l.join(t, c.invite(t))
	c.must(t, "host", "approve", name, "--words", words)
	p.finish(t).exits(t, 0)
	from := c.events.mark()
	l.revive(t)
	l.online(t, from)
	return l
}

func (l *limb) path(name string) string { return l.host.path(name) }

// newAction draws the id of an action and notes what it is.
func (c *wreck) newAction(t testing.TB, l *limb, kind protocol.Kind, witnessed bool) protocol.ActionID {
	t.Helper()
	var random [10]byte
	_, _ = rand.Read(random[:])
	id := protocol.NewActionID(time.Now().UnixMilli(), random)
	c.history.Know(id, historytest.Known{Kind: kind, Host: protocol.HostID(l.host.name), Witnessed: witnessed})
	return id
}

// order asks for an action until that is acknowledged.
func (c *wreck) order(t testing.TB, l *limb, id protocol.ActionID, s protocol.Spec) {
	t.Helper()
	spec, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	c.insist(t, "asking for "+id.String(), func(ctx context.Context) error {
		answered := c.history.Call(historytest.Submit, id)
		err := c.api.Post(ctx, "/v1/actions", nil, api.NewAction{ID: id.String(), Host: l.host.name, Spec: spec}, nil)
		if err == nil {
			answered(historytest.Seen{})
		}
		return err
	})
}

// cancel asks for the end of an action until that is acknowledged.
func (c *wreck) cancel(t testing.TB, id protocol.ActionID) {
	t.Helper()
	c.insist(t, "cancelling "+id.String(), func(ctx context.Context) error {
		answered := c.history.Call(historytest.Cancel, id)
		err := c.api.Post(ctx, "/v1/actions/"+id.String()+"/cancel", nil, nil, nil)
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeConflict {
			err = nil // it has ended
		}
		if err == nil {
			answered(historytest.Seen{State: protocol.StatePendingSchedule})
		}
		return err
	})
}

// see looks at an action once, at the latest after a time at which it ends.
func (c *wreck) see(ctx context.Context, id protocol.ActionID, wait string) (historytest.Seen, error) {
	var a api.Action
	answered := c.history.Call(historytest.Observe, id)
	err := c.api.Get(ctx, "/v1/actions/"+id.String(), query("wait", wait), &a)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeNotFound {
		err = nil
	}
	seen := historytest.Seen{State: protocol.State(a.State), Reason: protocol.Reason(a.Reason)}
	if err == nil {
		answered(seen)
	}
	return seen, err
}

// end waits until an action has ended.
func (c *wreck) end(t testing.TB, l *limb, id protocol.ActionID) historytest.Seen {
	t.Helper()
	var seen historytest.Seen
	c.insist(t, "the end of "+id.String(), func(ctx context.Context) (err error) {
		if seen, err = c.see(ctx, id, "5s"); err == nil && !seen.State.Final() {
			err = fmt.Errorf("%w: it is %s", errUnfinished, seen)
		}
		return err
	})
	l.ended.add()
	return seen
}

var errUnfinished = errors.New("it has not ended")

// retryAfter is how long a requester waits for a coordinator that is away.
const retryAfter = 20 * time.Millisecond

// insist tries until it is answered by something else than a coordinator that
// is dead or dying.
func (c *wreck) insist(t testing.TB, what string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	again := time.NewTicker(retryAfter)
	defer again.Stop()
	for {
		err := try(ctx)
		p, refused := errors.AsType[*api.Problem](err)
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			t.Fatalf("%s: in vain: %v", what, err)
		case refused && p.Status < 500 && p.Code != api.CodeRateLimit:
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// command is a command that says when it begins and ends, and writes output. It
// lasts as long as sleep takes.
func (l *limb) command(id protocol.ActionID, seconds string) protocol.Spec {
	const script = `echo b $0 >>"$1"; echo out; echo err >&2; [ "$2" = 0 ] || sleep "$2"; echo e $0 >>"$1"`
	return protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("sh", "-c", script, id.String(), l.witness, seconds)}
}

// runs asks for a command that lasts so many seconds.
func (c *wreck) runs(t testing.TB, l *limb, seconds string) protocol.ActionID {
	t.Helper()
	id := c.newAction(t, l, protocol.KindRun, true)
	c.order(t, l, id, l.command(id, seconds))
	return id
}

// waits asks for a command that people must approve.
func (c *wreck) waits(t testing.TB, l *limb) protocol.ActionID {
	t.Helper()
	id := c.newAction(t, l, protocol.KindRun, true)
	c.history.Know(id, historytest.Known{Kind: protocol.KindRun, Host: protocol.HostID(l.host.name), Witnessed: true, Waits: true})
	c.order(t, l, id, l.command(id, "0"))
	return id
}

// pings asks for an action that does nothing.
func (c *wreck) pings(t testing.TB, l *limb) protocol.ActionID {
	t.Helper()
	id := c.newAction(t, l, protocol.KindPing, false)
	c.order(t, l, id, protocol.Spec{Kind: protocol.KindPing})
	return id
}
