package sim

import (
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// host is a host of a play: machine, agent, guard, and what runs there.
type host struct {
	*play
	Host
	n  int // its place among the hosts
	id protocol.HostID

	on, paused, cut, unkillable, maintenance bool
	mains, outlet                            bool // the mains have failed, a device has switched it off
	agent                                    bool // the agent does its work
	dead                                     bool // it was killed, and must begin anew
	inc                                      int  // counts processes of the agent: older timers are void
	chain                                    int  // counts chains of leases: the older one has ended
	boots                                    int  // counts boots, and pauses: older deadlines are void
	base, since                              int64

	sent  []int64  // boot clock at which each lease of this process was sent, from the first
	grant grant    // the newest
	until int64    // boot clock
	kept  []uint64 // highest epoch of each workload, on the disk
	runs  []*process
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
	h.sent, h.grant, h.until = nil, grant{}, 0
	h.chain++
	h.ask(h.chain)
}

func (h *host) powerOff() {
	h.on, h.agent = false, false
	h.inc++
	h.boots++
	for w, x := range h.runs {
		if x != nil {
			h.play.stopped(h, w, "the machine is off")
		}
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
	for w, x := range h.runs {
		if x != nil {
			h.watch(w, x)
		}
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
	h.sent = append(h.sent, h.clock())
	inc, number, took := h.inc, len(h.sent), h.grant.seq
	if !h.cut {
		held := make([]holding, len(h.runs))
		for w, x := range h.runs {
			switch {
			case x != nil:
				held[w] = running
			case h.grant.epoch(w) > 0:
				held[w] = waiting
			}
		}
		h.play.send(h, func() { h.play.head.heard(h, inc, number, held, took) })
	}
}

// tell has a host tell what it has, at which time the observer learns.
func (h *host) tell(inc int, arrived func(at int64)) {
	if at := h.play.now; h.inc == inc && h.on && !h.paused && h.agent && !h.cut {
		h.play.send(h, func() { arrived(at) })
	}
}

// nudged asks at once: something may wait for a grant.
func (h *host) nudged() {
	h.chain++
	h.ask(h.chain)
}

// holding is what a host says of a workload.
type holding uint8

const (
	waiting holding = iota + 1 // it may run there, and does not
	running
)

// grant is what a coordinator lets a host hold.
type grant struct {
	seq    int
	epochs []uint64 // of each workload; 0: it is not granted
}

// epoch is that of workload w; 0 if it is not granted.
func (g *grant) epoch(w int) uint64 {
	if g.epochs == nil {
		return 0
	}
	return g.epochs[w]
}

// granted takes a grant that answers lease number of process inc.
func (h *host) granted(inc, number int, g grant) {
	if h.inc != inc || !h.on || h.paused || !h.agent || g.seq <= h.grant.seq {
		return
	}
	at := h.sent[number-1]
	if h.fromReceipt {
		at = h.clock()
	}
	h.grant, h.until = g, at+h.Timing.TTL.Milliseconds()
	for w, epoch := range g.epochs {
		if epoch == 0 {
			continue
		}
		if x := h.runs[w]; x != nil {
			if x.epoch == epoch {
				x.until = h.until
			}
			continue
		}
		h.play.in(h.rand.Int64N(2000), func() { h.startOne(inc, w, epoch) }) // a start takes its time
	}
}

// mayRun is what a start asks: this workload and epoch, in the newest grant that is good.
func (h *host) mayRun(w int, epoch uint64) bool {
	return h.grant.epoch(w) == epoch && h.clock() < h.until && (epoch >= h.kept[w] || h.anyGrant)
}

func (h *host) startOne(inc, w int, epoch uint64) {
	if !h.on || h.inc != inc || h.runs[w] != nil {
		return
	}
	if h.paused || !h.agent && !h.dead { // it goes on where it was
		h.play.in(tick/5, func() { h.startOne(inc, w, epoch) })
		return
	}
	if h.dead || !h.noRecheck && !h.mayRun(w, epoch) {
		return
	}
	h.kept[w] = max(epoch, h.kept[w])
	x := &process{epoch: epoch, until: h.until, keeps: h.head.all[w].Keeps}
	h.runs[w] = x
	h.play.ran(h, w, epoch)
	h.watch(w, x)
}

// watch kills a workload at the end of its grant: the agent, or the guard if the host has
// one, which holds the same deadline.
func (h *host) watch(w int, x *process) {
	boots := h.boots
	h.play.in(h.real(x.until-h.clock()), func() {
		switch {
		case h.boots != boots || h.runs[w] != x || h.paused || x.keeps:
		case h.clock() < x.until:
			h.watch(w, x)
		case h.agent || h.Fence.AtLeast(unique.FenceGuard):
			h.kill(w, x, boots)
		default: // nothing outlives the agent
			h.play.in(tick, func() { h.watch(w, x) })
		}
	})
}

// kill takes a while, at most the time that it may. What cannot be killed takes the
// machine with it, where its guard restarts the machine, and else lives on.
func (h *host) kill(w int, x *process, boots int) {
	h.play.in(h.real(h.rand.Int64N(h.Timing.Kill.Milliseconds()-1)), func() {
		if h.boots != boots || h.runs[w] != x {
			return
		}
		if h.unkillable && !h.Fence.AtLeast(unique.FenceReboot) {
			h.play.log("%s cannot kill %s, and tries again", h.Name, h.names[w])
			h.play.in(h.real(h.Timing.Kill.Milliseconds()), func() { h.watch(w, x) })
			return
		}
		if h.unkillable {
			h.play.log("%s cannot kill %s, and resets itself", h.Name, h.names[w])
			h.powerOff()
			h.play.in(h.real(h.Timing.TTL.Milliseconds()), h.power)
			return
		}
		h.runs[w] = nil
		h.play.stopped(h, w, "its lease has ended")
	})
}

// stop ends a workload because the coordinator asks for it.
func (h *host) stop(w int) {
	if x := h.runs[w]; x != nil && h.on && h.agent && !h.paused && !h.unkillable {
		h.runs[w] = nil
		h.play.stopped(h, w, "it is to move")
	}
}
