package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

const fleetName protocol.FleetName = "lab"

var fleet = protocol.FleetID{1}

// errEnd is why processes end here.
var errEnd = errors.New("the schedule ended it")

// disk is the coordinator's store as one process sees it: it takes its time,
// and once the process is dead it takes nothing.
type disk struct {
	core.Store
	mu    sync.Mutex
	r     *rand.Rand
	stall time.Time // nothing is written before
	dead  atomic.Bool
}

// past is time.After without a timer where there is nothing to wait for. With the
// race detector, goroutines of one bubble that take from timers which have expired
// share, in Go 1.26, what belongs to one thread, and can crash.
func past(d time.Duration) <-chan time.Time {
	if d > 0 {
		return time.After(d)
	}
	now := make(chan time.Time)
	close(now)
	return now
}

func (d *disk) Update(ctx context.Context, fn func(core.Tx) error) error {
	d.mu.Lock()
	before, after := time.Duration(d.r.IntN(8))*time.Millisecond, time.Duration(d.r.IntN(4))*time.Millisecond
	before += max(0, time.Until(d.stall))
	d.mu.Unlock()
	<-past(before)
	if d.dead.Load() {
		return errEnd
	}
	err := d.Store.Update(ctx, fn)
	<-past(after)
	if d.dead.Load() {
		return errEnd // whether it was written is not known to the dead
	}
	return err
}

// center is the coordinator's side: what survives its processes, and the
// present one.
type center struct {
	w     *world
	store *storetest.Mem
	dir   string
	wires []*wire

	backup    *storetest.Mem // the newest; nil if there is none
	recovered bool           // it went on from a backup

	disk  *disk
	coord *coordinator.Coordinator // nil while there is none
	stop  context.CancelCauseFunc
	ended chan error
}

// wire is the way of one coordinator's process to the broker.
type wire struct {
	b    *broker
	dead atomic.Bool
}

// Publish implements [core.Broker].
func (w *wire) Publish(topic string, payload []byte, retained bool) error {
	if w.dead.Load() {
		return errOffline
	}
	return w.b.publish(topic, payload, retained)
}

// Disconnect implements [core.Broker].
func (w *wire) Disconnect(name san.Name) {
	if !w.dead.Load() && name.Kind == san.Host {
		w.b.cut(protocol.HostID(name.ID))
	}
}

func (c *center) start() {
	c.disk = &disk{Store: c.store, r: rand.New(rand.NewPCG(c.w.seed, 11))}
	wire := &wire{b: c.w.broker}
	coord, err := coordinator.New(context.Background(), coordinator.Config{
		Store: c.disk, Fleet: fleet, FleetName: fleetName, Signer: coordinatorKey, Trust: trust{ring: c.w.ring}, Rings: trust{ring: c.w.ring}, HostKeys: trust{ring: c.w.ring}, Viewers: trust{ring: c.w.ring},
		Authority: struct{ core.Authority }{}, Broker: wire, OutputDir: c.dir, PayloadDir: filepath.Join(c.dir, "payloads"),
		Now: time.Now, Boot: func() int64 { return time.Since(c.w.begun).Milliseconds() }, Rand: c.w.dice,
		Log: c.w.log.With("process", "coordinator"),
	})
	if err != nil {
		c.w.t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	c.coord, c.stop, c.ended, c.wires = coord, stop, make(chan error, 1), append(c.wires, wire)
	go func() { c.ended <- coord.Run(ctx) }() // waited for by end
	c.w.broker.greet(coord)
}

// end ends the process. Killed, it says and writes nothing more.
func (c *center) end(killed bool) {
	if killed {
		c.disk.dead.Store(true)
		c.wires[len(c.wires)-1].dead.Store(true)
	}
	c.w.broker.mu.Lock()
	c.w.broker.coord = nil
	c.w.broker.mu.Unlock()
	c.stop(errEnd)
	if err := <-c.ended; !errors.Is(err, errEnd) {
		c.w.t.Errorf("the coordinator ended: %v", err)
	}
	c.disk.dead.Store(true) // requests that it had not answered end with it
	c.coord = nil
}

// host is a host: what survives the processes of its agent, and the present
// one.
type host struct {
	w       *world
	id      protocol.HostID
	path    string
	machine *machine
	lxc     *containertest.Fake
	boots   int
	booted  time.Time

	queue *queue.Queue
	agent *agent.Agent // nil while there is none
	link  *link
	stop  context.CancelCauseFunc
	ended chan error
}

func newHost(w *world, id protocol.HostID, n uint64) *host {
	h := &host{w: w, id: id, path: filepath.Join(w.dir, string(id)+".db"), machine: newMachine(w.seed + n),
		lxc: containertest.NewFake(container.KindLXC), booted: time.Now()}
	q, err := queue.Create(context.Background(), queue.Config{Path: h.path}, protocol.StoreID{byte(n + 1)})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (h *host) boot() string { return fmt.Sprintf("boot-%d", h.boots) }

func (h *host) bootMS() int64 { return time.Since(h.booted).Milliseconds() }

func (h *host) start() {
	var err error
	if h.queue, err = queue.Open(context.Background(), queue.Config{Path: h.path}); err != nil {
		h.w.t.Fatal(err)
	}
	h.link = &link{b: h.w.broker, host: h.id, r: rand.New(rand.NewPCG(h.w.seed, 5))}
	h.agent, err = agent.New(agent.Config{
		Host: h.id, Fleet: fleet, FleetName: fleetName, Queue: h.queue, Link: h.link, Bulk: bulk{h.link}, Signer: key(h.id), Trust: h.w.ring,
		Policies: rights.Policies{Keep: func(rights.Record) error { return nil }},
		Runtimes: []container.Runtime{h.lxc}, Commands: h.machine, RunDirs: h.machine, Supervisor: []string{"/usr/lib/hostler/hostler-run"},
		Boot: h.boot(), BootMS: h.bootMS, Rand: h.w.dice, Drain: time.Second, Log: h.w.log.With("process", h.id),
	})
	if err != nil {
		h.w.t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	h.stop, h.ended = stop, make(chan error, 1)
	a := h.agent
	go func() { h.ended <- a.Run(ctx) }() // waited for by end
}

// end ends the agent. Killed, it says nothing more.
func (h *host) end(killed bool) {
	if killed {
		h.link.kill()
	}
	h.stop(errEnd)
	if err := <-h.ended; !errors.Is(err, errEnd) {
		h.w.t.Errorf("the agent of %s ended: %v", h.id, err)
	}
	if err := h.queue.Close(); err != nil {
		h.w.t.Error(err)
	}
	h.agent = nil
}

// collapse ends the containers of the host, which start again badly for a
// while, or well.
func (h *host) collapse(r *rand.Rand) {
	var mu sync.Mutex
	often := r.IntN(100)
	h.lxc.SetFault(func(op containertest.Op, _ string) (applied bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		if op == containertest.OpStart && r.IntN(100) < often {
			return r.IntN(2) == 0, errors.New("it does not start today")
		}
		return false, nil
	})
	for _, name := range []string{"ct-1", "ct-2"} {
		_ = h.lxc.Enter(name, container.StateStopped) // it need not be there
	}
}

// reboot ends everything on the host.
func (h *host) reboot() {
	h.end(true)
	h.machine.reboot()
	h.w.broker.mu.Lock() // which dates what it hears
	defer h.w.broker.mu.Unlock()
	h.boots++
	h.booted = time.Now()
}
