package sim

import (
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// host is a host of a play: machine, agent, guard, and what runs there.
type host struct {
	*play
	Host
	id protocol.HostID

	on, paused, cut, unkillable, maintenance bool
	mains, outlet                            bool // the mains have failed, a device has switched it off
	agent                                    bool // the agent does its work
	dead                                     bool // it was killed, and must begin anew
	inc                                      int  // counts processes of the agent: older timers are void
	chain                                    int  // counts chains of leases: the older one has ended
	boots                                    int  // counts boots, and pauses: older deadlines are void
	base, since                              int64

	sent  map[int]int64 // boot clock at which each lease of this process was sent
	lease int
	grant grant             // the newest
	until int64             // boot clock
	kept  map[string]uint64 // highest epoch of each workload, on the disk
	runs  map[string]*process
}

// process is a workload that runs, with the end of the grant that lets it.
type process struct {
	epoch uint64
	until int64 // boot clock
	keeps bool
}

// clock is the boot clock, which stands still while the machine is paused.
func (h *host) clock() int64 {
	if h.paused {
		return h.base
	}
	return h.base + (h.play.now-h.since)*(1000+h.DriftPermille)/1000
}

// real is how long it takes until the boot clock has gone on by ms, never less.
func (h *host) real(ms int64) int64 { return max(0, ms)*1000/(1000+h.DriftPermille) + 1 }

// power has the machine boot if it has power.
func (h *host) power() {
	if !h.mains && !h.outlet {
		h.boot()
	}
}

func (h *host) boot() {
	h.powerOff() // it may have come back before, from another fault
	h.on, h.paused = true, false
	h.base, h.since = 0, h.play.now
	h.begin()
}

// begin is a new process of the agent. What runs is taken over from the guard.
func (h *host) begin() {
	if !h.on {
		return
	}
	h.agent, h.dead = true, false
	h.inc++
	h.sent, h.lease, h.grant, h.until = make(map[int]int64), 0, grant{}, 0
	h.chain++
	h.ask(h.chain)
}

func (h *host) powerOff() {
	h.on, h.agent = false, false
	h.inc++
	h.boots++
	for _, name := range names(h.runs) {
		h.play.stopped(h, name, "the machine is off")
	}
	clear(h.runs)
}

func (h *host) pause() {
	h.base, h.paused = h.clock(), true
}

func (h *host) resume() {
	if !h.paused {
		return // it was switched off meanwhile
	}
	h.paused, h.since = false, h.play.now
	for _, name := range names(h.runs) {
		h.watch(name, h.runs[name])
	}
	h.chain++
	h.ask(h.chain)
}

// ask sends a lease, three times within its time.
func (h *host) ask(chain int) {
	if h.chain != chain || !h.on || h.dead || h.paused {
		return
	}
	h.play.in(h.real(h.Timing.TTL.Milliseconds()/3), func() { h.ask(chain) })
	if !h.agent {
		return
	}
	h.lease++
	inc, number, held := h.inc, h.lease, make(map[string]bool)
	for name := range h.grant.names {
		held[name] = h.runs[name] != nil
	}
	for name := range h.runs {
		held[name] = true
	}
	h.sent[number] = h.clock()
	took := h.grant.seq
	if !h.cut {
		h.play.send(h, func() { h.play.head.heard(h, inc, number, held, took) })
	}
}

// nudged asks at once: something may wait for a grant.
func (h *host) nudged() {
	h.chain++
	h.ask(h.chain)
}

// grant is what a coordinator lets a host hold.
type grant struct {
	seq   int
	names map[string]uint64
}

// granted takes a grant that answers lease number of process inc.
func (h *host) granted(inc, number int, g grant) {
	at, ok := h.sent[number]
	if h.inc != inc || !h.on || h.paused || !h.agent || !ok || g.seq <= h.grant.seq {
		return
	}
	if h.fromReceipt {
		at = h.clock()
	}
	h.grant, h.until = g, at+h.Timing.TTL.Milliseconds()
	for _, name := range names(g.names) {
		epoch := g.names[name]
		if x := h.runs[name]; x != nil {
			if x.epoch == epoch {
				x.until = h.until
			}
			continue
		}
		h.play.in(h.rand.Int64N(2000), func() { h.startOne(inc, name, epoch) }) // a start takes its time
	}
}

// mayRun is what a start asks: this workload and epoch, in the newest grant that is good.
func (h *host) mayRun(name string, epoch uint64) bool {
	return h.grant.names[name] == epoch && h.clock() < h.until && (epoch >= h.kept[name] || h.anyGrant)
}

func (h *host) startOne(inc int, name string, epoch uint64) {
	if !h.on || h.inc != inc || h.runs[name] != nil {
		return
	}
	if h.paused || !h.agent && !h.dead { // it goes on where it was
		h.play.in(tick/5, func() { h.startOne(inc, name, epoch) })
		return
	}
	if h.dead || !h.noRecheck && !h.mayRun(name, epoch) {
		return
	}
	h.kept[name] = max(epoch, h.kept[name])
	x := &process{epoch: epoch, until: h.until, keeps: h.head.keeps[name]}
	h.runs[name] = x
	h.play.ran(h, name, epoch)
	h.watch(name, x)
}

// watch kills a workload at the end of its grant: the agent, or the guard if the host has
// one, which holds the same deadline.
func (h *host) watch(name string, x *process) {
	boots := h.boots
	h.play.in(h.real(x.until-h.clock()), func() {
		switch {
		case h.boots != boots || h.runs[name] != x || h.paused || x.keeps:
		case h.clock() < x.until:
			h.watch(name, x)
		case h.agent || h.Fence.AtLeast(unique.FenceGuard):
			h.kill(name, x, boots)
		default: // nothing outlives the agent
			h.play.in(tick, func() { h.watch(name, x) })
		}
	})
}

// kill takes a while, at most the time that it may. What cannot be killed takes the
// machine with it.
func (h *host) kill(name string, x *process, boots int) {
	h.play.in(h.real(h.rand.Int64N(h.Timing.Kill.Milliseconds()-1)), func() {
		if h.boots != boots || h.runs[name] != x {
			return
		}
		if h.unkillable {
			h.play.log("%s cannot kill %s, and resets itself", h.Name, name)
			h.powerOff()
			h.play.in(h.real(h.Timing.TTL.Milliseconds()), h.power)
			return
		}
		delete(h.runs, name)
		h.play.stopped(h, name, "its lease has ended")
	})
}

// stop ends a workload because the coordinator asks for it.
func (h *host) stop(name string) {
	if x := h.runs[name]; x != nil && h.on && h.agent && !h.paused && !h.unkillable {
		delete(h.runs, name)
		h.play.stopped(h, name, "it is to move")
	}
}
