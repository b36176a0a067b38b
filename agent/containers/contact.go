package containers

import (
	"sync"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol/contract"
)

// Coordinator is what containers know of the coordinator of their host.
type Coordinator struct {
	// HeardMS is when it gave a sign of life last, by the boot clock; 0 before the first.
	// It may be called from any goroutine.
	HeardMS func() int64
	// Keep makes it durable for how long the host was cut off. The loop calls it.
	Keep func(contract.Absence) error
}

// contact knows for how long the host is cut off from its coordinator. Away may be called
// from any goroutine; everything else belongs to the loop.
type contact struct {
	*Containers
	cfg  *Coordinator // nil: there is none to be cut off from
	loop *loop.Loop
	kept contract.Absence // what is durable
	tick *loop.Timer

	mu      sync.Mutex
	absence contract.Absence
}

// lookForContact is how far looks are apart for what a grant, which touches no loop, has
// told.
const lookForContact = 5 * time.Second

// missed is for how long nothing is heard of a coordinator that is there, should one of
// its messages be lost.
const missed = 12 * time.Second

// load takes up what an earlier process has kept.
func (c *contact) load(a contract.Absence) {
	c.kept = a
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absence = a
}

// now is the absence with what was heard since.
func (c *contact) now() contract.Absence {
	c.mu.Lock()
	defer c.mu.Unlock()
	if heard := c.cfg.HeardMS(); heard > 0 {
		c.absence = c.absence.Heard(heard)
	}
	return c.absence
}

// Away is for how long the host is cut off.
func (c *contact) Away() time.Duration {
	if c.cfg == nil {
		return 0
	}
	return c.now().Away(c.loop.BootMS())
}

// keep makes it durable for how long the host is cut off, if it is time for that; with
// force whenever the host is cut off and a contract counts that.
func (c *contact) keep(force, counts bool) {
	if c.cfg == nil {
		return
	}
	now, a := c.loop.BootMS(), c.now()
	gone := a.MS > 0 || a.Away(now) > missed
	if !a.Due(c.kept, now, counts) && !(force && counts && gone) {
		return
	}
	if gone {
		a = a.At(now)
	}
	if c.loop.Disk(c.cfg.Keep(a)) {
		c.kept = a
	}
}

// Heard follows a sign of life of the coordinator: what its absence has stopped is
// started again.
func Heard(c *Containers) {
	c.contact.keep(false, c.contact.counts())
	for _, m := range c.managed {
		if m.held != "" {
			c.again.In(0)
		}
	}
}

// Closing makes it durable at the end of the process for how long the host was cut off.
func Closing(c *Containers) { c.contact.keep(true, c.contact.counts()) }

// counts tells that a contract runs by the absence of the coordinator.
func (c *contact) counts() bool {
	for _, m := range c.managed {
		if o, err := contract.Parse(m.rec.Offline); err == nil && o.StopAfter > 0 {
			return true
		}
	}
	return false
}

// look looks for how long the host is cut off, as long as a contract runs by it.
func (c *contact) look() {
	if c.cfg == nil || !c.counts() {
		return
	}
	c.tick.In(lookForContact)
	c.keep(false, true)
	away, soonest := c.Away(), time.Duration(-1)
	for _, m := range c.managed {
		o, err := contract.Parse(m.rec.Offline)
		if err != nil || o.StopAfter == 0 || m.rec.Intended != queue.Running {
			continue
		}
		if left, _ := o.Left(away); left > 0 && (soonest < 0 || left < soonest) {
			soonest = left
		} else if (left == 0) != (m.held != "") {
			c.again.In(0)
		}
	}
	if soonest >= 0 {
		c.tick.In(soonest)
	}
}

// Preview is what becomes of the containers if the host hears nothing of its coordinator
// for another period, and restarts at the end of it if reboot is set.
func Preview(c *Containers, period time.Duration, reboot bool) []contract.Forecast {
	var all []contract.Workload
	for _, m := range c.sorted() {
		all = append(all, workload(&m.rec, c.cfg.Leases, m.info.State == container.StateRunning))
	}
	return contract.Preview(all, c.contact.Away(), period, reboot)
}
