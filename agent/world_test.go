package agent_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
)

const (
	host      = protocol.HostID("edge-07")
	fleetName = protocol.FleetName("lab")
)

var fleet = protocol.FleetID{7}

// key signs so that whoever has its id can check: the tests are about what is
// done with signatures, not about how they are made.
type key byte

func (k key) Key() protocol.KeyID { return protocol.KeyID{byte(k)} }
func (k key) Sign(body []byte) ([]byte, error) {
	sum := sha256.Sum256(append([]byte{byte(k)}, body...))
	return sum[:], nil
}
func (k key) CheckForm(sig []byte) error {
	if len(sig) != sha256.Size {
		return errors.New("not a signature")
	}
	return nil
}
func (k key) Verify(sig, body []byte) error {
	if want, _ := k.Sign(body); !bytes.Equal(sig, want) {
		return errors.New("it does not fit")
	}
	return nil
}

const (
	hostKey        key = 1
	coordinatorKey key = 2
)

// ring is a Trust and a Keyring. Its number moves when it is told to.
type ring struct {
	mu      sync.Mutex
	number  uint64
	offered uint64 // what a fetch finds
}

func (r *ring) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	switch k {
	case hostKey.Key():
		return protocol.Principal{Roles: []protocol.Role{protocol.RoleHost}, Host: host, Key: hostKey}, true
	case coordinatorKey.Key():
		return protocol.Principal{Roles: []protocol.Role{protocol.RoleCoordinator}, Key: coordinatorKey}, true
	}
	return protocol.Principal{}, false
}
func (r *ring) Keyring() protocol.Keyring { return r }
func (r *ring) Ring() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.number
}
func (r *ring) Owners() int                           { return 1 }
func (r *ring) Advance(context.Context, []byte) error { return nil }
func (r *ring) Revoke(context.Context, []byte) error  { return nil }
func (r *ring) Fetch(_ context.Context, n uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.offered < n {
		return errors.New("nobody has that ring")
	}
	r.number = r.offered
	return nil
}

// line is a Link and a Bulk to the coordinator of a test. It may lose, repeat
// and reorder.
type line struct {
	mu      sync.Mutex
	coord   *peer
	session *uplink.Opening
	cut     chan struct{}
	down    bool // no connection can be made
	chaos   *rand.Rand
	late    [2][]func() // up, down
	holds   protocol.Channel
	held    []func() // what has come down on it
}

func (l *line) Run(ctx context.Context, open func(uint64) (uplink.Opening, error)) error {
	for conn := uint64(1); ; conn++ {
		s, err := open(conn)
		if err != nil {
			return err
		}
		l.mu.Lock()
		down, cut := l.down, make(chan struct{})
		if !down {
			l.session, l.cut = &s, cut
		}
		l.mu.Unlock()
		if !down {
			s.Up(nil)
			select {
			case <-cut:
				l.coord.take(s.WillTopic, s.Will)
			case <-ctx.Done():
			}
			l.mu.Lock()
			l.session = nil
			l.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// breaks ends the connection; with stay no other can be made until heal.
func (l *line) breaks(stay bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = stay
	if l.session != nil {
		l.session = nil
		close(l.cut)
	}
}

func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// carry does what the line does to a message, then f.
func (l *line) carry(way int, f func()) {
	l.mu.Lock()
	var now []func()
	switch roll := l.roll(); {
	case roll < 20: // lost
	case roll < 30:
		now = append(now, f, f)
	case roll < 40:
		l.late[way] = append(l.late[way], f)
	default:
		now = append(append(now, f), l.late[way]...)
		l.late[way] = nil
	}
	l.mu.Unlock()
	for _, f := range now {
		f()
	}
}

func (l *line) roll() int {
	if l.chaos == nil {
		return 100
	}
	return l.chaos.IntN(100)
}

func (l *line) Publish(_ context.Context, topic string, payload []byte, _ bool) error {
	l.mu.Lock()
	up := l.session != nil
	l.mu.Unlock()
	if !up {
		return errors.New("offline")
	}
	l.carry(0, func() { l.coord.take(topic, payload) })
	return nil
}

// bulk is the other connection of the line.
type bulk struct{ *line }

func (bulk) Connect(context.Context) error { return nil }

func (bulk) Pace(context.Context) (uint64, int, time.Duration, error) { return 1, 1 << 30, 0, nil }

func (b bulk) Publish(ctx context.Context, topic string, payload []byte) error {
	return b.line.Publish(ctx, topic, payload, false)
}

// hold keeps back what comes down on a channel, until release.
func (l *line) hold(c protocol.Channel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = c
}

// release delivers what was kept back: the first that was said alone, as the
// others say the same.
func (l *line) release() {
	l.mu.Lock()
	first := l.held[0]
	l.holds, l.held = "", nil
	l.mu.Unlock()
	first()
}

// deliver brings a message down.
func (l *line) deliver(topic string, payload []byte) {
	l.mu.Lock()
	hold := l.holds != "" && strings.HasSuffix(topic, string(l.holds))
	l.mu.Unlock()
	arrive := func() {
		l.mu.Lock()
		s := l.session
		l.mu.Unlock()
		if s != nil {
			s.Handle(topic, payload)
		}
	}
	if hold {
		l.mu.Lock()
		l.held = append(l.held, arrive)
		l.mu.Unlock()
		return
	}
	l.carry(1, arrive)
}

// world is a host with its coordinator. The host may restart.
type world struct {
	t     *testing.T
	path  string
	line  *line
	coord *peer
	ring  *ring
	cmds  *shell
	lxc   *containertest.Fake
	boot  string
	tune  func(*agent.Config)
	begun time.Time

	agent *agent.Agent
	queue *queue.Queue
	stop  context.CancelFunc
	ended chan error
}

func newWorld(t *testing.T, tune func(*agent.Config)) *world {
	w := &world{t: t, path: filepath.Join(t.TempDir(), "queue.db"), ring: &ring{number: 1, offered: 1}, line: &line{},
		cmds: newCommands(), lxc: containertest.NewFake(container.KindLXC), boot: "boot-1", tune: tune, begun: time.Now()}
	w.coord = newPeer(t, w.line, w.ring)
	w.line.coord = w.coord
	q, err := queue.Create(t.Context(), queue.Config{Path: w.path}, protocol.StoreID{1})
	if err != nil {
		t.Fatal(err)
	}
	w.run(q)
	return w
}

// run starts the agent on a queue.
func (w *world) run(q *queue.Queue) {
	w.t.Helper()
	cfg := agent.Config{
		Host: host, Fleet: fleet, FleetName: fleetName, Queue: q, Link: w.line, Bulk: bulk{w.line}, Signer: hostKey, Trust: w.ring, Policies: rights.Policies{Keep: func(rights.Record) error { return nil }},
		Runtimes: []container.Runtime{w.lxc}, Commands: w.cmds, RunDirs: w.cmds, Supervisor: []string{"/usr/lib/hostler/hostler-run"}, Boot: w.boot,
		BootMS: func() int64 { return time.Since(w.begun).Milliseconds() },
		Log:    slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if w.tune != nil {
		w.tune(&cfg)
	}
	a, err := agent.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.agent, w.queue, w.stop, w.ended = a, q, stop, make(chan error, 1)
	go func() { w.ended <- a.Run(ctx) }() // waited for by down
}

// down ends the agent.
func (w *world) down() {
	w.t.Helper()
	w.stop()
	if err := <-w.ended; !errors.Is(err, context.Canceled) {
		w.t.Errorf("Run returned %v", err)
	}
	if err := w.queue.Close(); err != nil {
		w.t.Error(err)
	}
}

// up starts it again.
func (w *world) up() {
	w.t.Helper()
	q, err := queue.Open(context.Background(), queue.Config{Path: w.path})
	if err != nil {
		w.t.Fatal(err)
	}
	w.run(q)
}

func (w *world) restart() { w.t.Helper(); w.down(); w.up() }

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// in runs a test in a bubble of its own time and ends the agent afterwards.
func in(t *testing.T, tune func(*agent.Config), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tune)
		defer w.end()
		w.pass(time.Second)
		test(t, w)
	})
}

// end ends the agent and whatever of its commands still runs.
func (w *world) end() {
	w.down()
	w.cmds.mu.Lock()
	defer w.cmds.mu.Unlock()
	for _, runs := range w.cmds.runs {
		for _, r := range runs {
			r.once.Do(func() { close(r.cancel) })
		}
	}
}

func (w *world) expect(id protocol.ActionID, want ...string) {
	w.t.Helper()
	if got := w.coord.told(id); !slices.Equal(got, want) {
		w.t.Fatalf("reports %q, want %q", got, want)
	}
}

func actionID(n byte) protocol.ActionID { return protocol.NewActionID(int64(n), [10]byte{n}) }
func ctid(n byte) protocol.CTID         { return protocol.NewCTID(int64(n), [10]byte{n}) }

func command(argv ...string) protocol.Spec {
	return protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: argv}, TimeLimit: protocol.TimeLimit{TimeoutMS: protocol.NoTimeout}}}
}

func on(kind protocol.Kind, n byte) protocol.Spec { return protocol.Spec{Kind: kind, Target: ctid(n)} }

func creation(n byte, start bool) protocol.Spec {
	return protocol.Spec{Kind: protocol.KindCreate, Target: ctid(n), Name: protocol.ContainerName(fmt.Sprintf("ct-%d", n)), Args: &protocol.CreateArgs{Template: "busybox", Start: start}}
}

// state is the state of a container as its runtime has it.
func (w *world) state(n byte) container.State {
	w.t.Helper()
	info, err := w.lxc.Inspect(context.Background(), fmt.Sprintf("ct-%d", n))
	if errors.Is(err, container.ErrNotFound) {
		return ""
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return info.State
}
