package agent_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// fleetTrust is what the coordinator knows: one ring and one host. The rest of
// its interface is never asked for.
type fleetTrust struct {
	core.Keys
	core.RingStore
	core.HostKeys
	core.ViewerKeys
	*ring
}

func (f fleetTrust) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	return f.ring.Principal(k)
}
func (f fleetTrust) Ring() uint64                          { return f.ring.Ring() }
func (f fleetTrust) Revoked() uint64                       { return 0 }
func (f fleetTrust) AddHost(protocol.HostID, []byte) error { return nil }
func (f fleetTrust) PinHost(protocol.HostID, []byte) error { return nil }
func (f fleetTrust) RingInForce() (uint64, protocol.Digest) {
	return f.ring.Ring(), protocol.Digest{1}
}

// broker carries messages between the real coordinator and one agent.
type broker struct {
	mu       sync.Mutex
	coord    *coordinator.Coordinator
	session  *uplink.Opening
	retained map[string][]byte
	bulk     func() uplink.Opening
	// carry is what the line does to a message; nil is nothing.
	carry func(topic string, arrive func()) []func()
}

func (b *broker) Publish(topic string, payload []byte, retained bool) error {
	b.mu.Lock()
	if retained {
		b.retained[topic] = payload
	}
	s := b.session
	carry, bulk := b.carry, b.bulk
	b.mu.Unlock()
	if s == nil {
		return nil
	}
	arrive := func() { s.Handle(topic, payload) }
	if strings.Contains(topic, "/in/") {
		arrive = func() { bulk().Handle(topic, payload) }
	}
	if carry == nil {
		arrive()
		return nil
	}
	for _, f := range carry(topic, arrive) {
		f()
	}
	return nil
}

func (b *broker) Disconnect(san.Name) {}

// wire is the agent's side of the broker.
type wire struct{ *broker }

func (w wire) Run(ctx context.Context, open func(uint64) (uplink.Opening, error)) error {
	s, err := open(1)
	if err != nil {
		return err
	}
	s.Up(nil)
	w.mu.Lock()
	w.session = &s
	kept := maps.Clone(w.retained)
	w.mu.Unlock()
	for topic, payload := range kept {
		s.Handle(topic, payload)
	}
	<-ctx.Done()
	w.mu.Lock()
	w.session = nil
	w.mu.Unlock()
	return context.Cause(ctx)
}

func (w wire) Publish(_ context.Context, topic string, payload []byte, _ bool) error {
	w.mu.Lock()
	carry := w.carry
	w.mu.Unlock()
	if carry == nil {
		return w.coord.Ingest(topic, payload)
	}
	for _, f := range carry(topic, func() { _ = w.coord.Ingest(topic, payload) }) { // what is refused is lost
		f()
	}
	return nil
}

// airwave is the other connection.
type airwave struct{ wire }

func (airwave) Connect(context.Context) error { return nil }

func (airwave) Pace(context.Context) (uint64, int, time.Duration, error) { return 1, 1 << 30, 0, nil }

func (a airwave) Publish(ctx context.Context, topic string, payload []byte) error {
	return a.wire.Publish(ctx, topic, payload, false)
}

// TestWithTheRealCoordinator has both engines talk to each other: what one
// promises is what the other understands.
func TestWithTheRealCoordinator(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) { talk(t, w, f.coord) })
}

// fleetOf is the coordinator's side of a test with both engines.
type fleetOf struct {
	*broker
	dir   string // of payloads
	stop  func()
	start func()
}

// withFleet runs a test with a real coordinator and a real agent.
func withFleet(t *testing.T, test func(t *testing.T, w *world, f *fleetOf)) {
	b := &broker{retained: make(map[string][]byte)}
	inputs := t.TempDir()
	tune := func(c *agent.Config) {
		if b.coord != nil {
			c.Link, c.Bulk = wire{b}, airwave{wire{b}}
		}
		var err error
		if c.Payloads, err = blob.Open(inputs, failpoint.InputPlaced, 0); err != nil {
			t.Fatal(err)
		}
	}
	in(t, tune, func(t *testing.T, w *world) {
		b.bulk = func() uplink.Opening { return w.agent.BulkSession() }
		f := &fleetOf{broker: b, dir: t.TempDir()}
		// This agent has spoken to the peer of the other tests: a new one follows
		// that knows nobody.
		w.down()
		store := storetest.NewMem(storetest.Faults{})
		err := store.Update(t.Context(), func(tx core.Tx) error {
			return tx.Hosts.Put(core.Host{ID: host, State: core.HostApproved, Key: hostKey.Key(), PublicKey: []byte{1}, ApprovedBy: "ann"})
		})
		if err != nil {
			t.Fatal(err)
		}
		output := t.TempDir()
		f.start = func() {
			coord, err := coordinator.New(t.Context(), coordinator.Config{
				Store: store, Fleet: fleet, FleetName: fleetName, Signer: coordinatorKey, Trust: fleetTrust{ring: w.ring}, Rings: fleetTrust{ring: w.ring}, HostKeys: fleetTrust{ring: w.ring}, Viewers: fleetTrust{ring: w.ring},
				Authority: struct{ core.Authority }{}, Broker: b, OutputDir: output, PayloadDir: f.dir,
				Now: time.Now, Boot: func() int64 { return time.Since(w.begun).Milliseconds() }, Rand: rand.Reader,
				Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
			if err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			b.coord = coord
			b.mu.Unlock()
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- coord.Run(ctx) }() // waited for by stop
			f.stop = func() {
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		}
		f.start()
		defer func() { f.stop() }()
		w.up()
		w.pass(2 * time.Second)
		test(t, w, f)
	})
}

// talk asks for something of each kind and reads what it came to.
func talk(t *testing.T, w *world, coord *coordinator.Coordinator) {
	ann := core.Actor{Name: "ann", Role: core.RoleAdmin}
	ask := func(spec string) protocol.ActionID {
		t.Helper()
		act, err := coord.Actions().Propose(t.Context(), ann, actions.Request{Host: host, Spec: []byte(spec)})
		if err != nil {
			t.Fatal(err)
		}
		return act.ID
	}
	expect := func(id protocol.ActionID, state protocol.State, reason protocol.Reason) core.Action {
		t.Helper()
		act, err := coord.Actions().Get(t.Context(), id)
		if err != nil || act.State != state || act.Reason != reason {
			t.Errorf("%s %s (%s), %v, want %s %s", act.State, act.Reason, act.Detail, err, state, reason)
		}
		return act
	}
	ping, bad := ask(`{"kind":"host.ping"}`), ask(`{"kind":"host.run","argv":["false"]}`)
	print := ask(`{"kind":"host.run","argv":["bytes","3145728"]}`)
	hang := ask(`{"kind":"host.run","argv":["hang"],"timeout_ms":-1}`)
	create := ask(`{"kind":"container.create","target":"` + ctid(1).String() + `","name":"ct-1","template":"busybox","start":true}`)
	gone := ask(`{"kind":"container.start","target":"` + ctid(7).String() + `"}`)
	w.pass(2 * time.Second)
	expect(ping, protocol.StateDone, protocol.ReasonOK)
	if act := expect(bad, protocol.StateFailed, protocol.ReasonExit); act.Exit == nil || act.Exit.Code != 1 {
		t.Errorf("exit %+v", act.Exit)
	}
	expect(create, protocol.StateDone, protocol.ReasonOK)
	expect(gone, protocol.StateFailed, protocol.ReasonTargetGone)
	expect(hang, protocol.StateRunning, "")
	if _, err := coord.Actions().Cancel(t.Context(), ann, hang); err != nil {
		t.Error(err)
	}
	if act := expect(print, protocol.StateDone, protocol.ReasonOK); len(act.Output) != 2 || act.Output[0].Bytes != 3<<20 {
		t.Errorf("output %+v", act.Output)
	}
	total := 0
	_, err := coord.Relay().Output.Read(t.Context(), relay.Reading{Action: print, FD: protocol.Stdout, Follow: true}, func(p []byte) error {
		total += len(p)
		return nil
	})
	if err != nil || total != 3<<20 {
		t.Errorf("%d bytes of output were read, want %d; %v", total, 3<<20, err)
	}
	w.pass(10 * time.Second)
	expect(hang, protocol.StateCancelled, protocol.ReasonCancelled)

	w.restart()
	local, err := w.agent.Propose(t.Context(), protocol.ActionID{}, []byte(`{"kind":"host.run","argv":["true"]}`), "root")
	if err != nil {
		t.Fatal(err)
	}
	w.pass(10 * time.Second)
	expect(local.ID, protocol.StateDone, protocol.ReasonOK)
	view, err := coord.Members().Host(t.Context(), host)
	if err != nil || len(view.Inventory.Containers) != 1 || view.Inventory.Containers[0].State != "running" {
		t.Errorf("%+v, %v", view, err)
	}
	for code, n := range w.agent.Metrics().Refused {
		if n != 0 {
			t.Errorf("%d messages of the coordinator were refused: %s", n, code)
		}
	}
	if s, err := w.agent.Status(t.Context()); err != nil || s.Unsent != 0 || !s.Connected {
		t.Errorf("%+v, %v", s, err)
	}
}
