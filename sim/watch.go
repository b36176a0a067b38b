package sim

import (
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/unique"
)

// Invariants are what must never be, each in a sentence of its own. The observer looks for
// every one of them.
func Invariants() []string {
	return []string{
		"never two copies at one time, and never a lower epoch after a higher one",
		"never one epoch on two hosts",
		"never a start without a grant that may still be good",
		"never a new epoch while a host runs an older one",
		"never a decision about a host in maintenance",
		"never a placement before those after which a container starts, nor on a host that is kept closed",
		"never a placement on a host that is back and has not told what it has since",
		"never a fence of a host that was back or was fenced already, nor while our own side had failed",
		"never a lower level of devices after a higher one, nor more tries than a device may have",
		"never a host that counts as off, and is on",
		"never a workload that runs nowhere for longer than a takeover and a start take, after one fault, where each host proves its end and has room",
	}
}

// watch is the observer of fences and grants. It knows what is really so, and asks nothing of the code
// that decides.
type watch struct {
	*play
	fenced []bool  // of each host: an operation for it was begun since it was heard last
	heard  []int64 // since when it is heard without a break
	last   []int64 // when it was heard last
	// listed is when it told last what it has, and back when it was heard last after a silence in
	// which its lease ended; 0: never.
	listed, back []int64
	started      int64 // when the coordinator began to run last; 0: with the play
	// cutMS and joined are when our own side failed last, and came back; 0: it never did.
	cutMS, joined int64
	// grants are the newest ones that were sent to each host, by workload; nil for a host
	// that was granted nothing. steps are those of operations that were sent last.
	grants [][]granted
	steps  map[string]fence.Step
}

// granted is a grant of a workload.
type granted struct {
	epoch uint64
	at    int64
}

func newWatch(p *play) *watch {
	n := len(p.hosts)
	return &watch{play: p, fenced: make([]bool, n), heard: make([]int64, n), last: make([]int64, n), listed: make([]int64, n), back: make([]int64, n), grants: make([][]granted, n), steps: make(map[string]fence.Step)}
}

// granted notes that a grant which names a workload was sent.
func (w *watch) granted(x *host, i int, epoch uint64) {
	if w.grants[x.n] == nil {
		w.grants[x.n] = make([]granted, len(w.names))
	}
	w.grants[x.n][i] = granted{epoch, w.now}
}

// starts looks at a start. A grant is good for no longer than from when it was sent on, by
// the slowest clock. The clock of a host that is paused stands still.
func (w *watch) starts(x *host, i int, epoch uint64) {
	if x.Pausable {
		return
	}
	good := w.Timing.TTL.Milliseconds()*1000/(1000-w.Timing.DriftPermille) + 1
	if g := w.grants[x.n]; g == nil || g[i].epoch != epoch || w.now-g[i].at > good {
		w.violated("%s starts %s under epoch %d without a grant", x.Name, w.names[i], epoch)
	}
}

// decided looks at a decision about a workload.
func (w *watch) decided(x *host, i int, next unique.Phase) {
	if x.maintenance {
		w.violated("%s is %s, and %s is in maintenance", w.names[i], next, x.Name)
	}
	if on := w.really[i].on; next == unique.Free && len(on) > 0 {
		w.violated("%s gets a new epoch while %s runs it", w.names[i], on[0].host.Name)
	}
}

// placed looks at a host that is given a workload.
func (w *watch) placed(x *host, i int) {
	switch {
	case x.maintenance:
		w.violated("%s is placed on %s, which is in maintenance", w.names[i], x.Name)
	case w.head.fencer.closed(x.id):
		w.violated("%s is placed on %s, which is kept closed", w.names[i], x.Name)
	case w.started > 0 && w.last[x.n] < w.started:
		w.violated("%s is placed on %s, which was not heard since the coordinator has started", w.names[i], x.Name)
	case w.listed[x.n] < max(w.back[x.n], w.started):
		w.violated("%s is placed on %s, which has not told what it has since it is back", w.names[i], x.Name)
	}
}

// came notes that the coordinator has heard a host.
func (w *watch) came(x *host) {
	if w.last[x.n] == 0 || w.now-w.last[x.n] >= w.Timing.TTL.Milliseconds() {
		w.heard[x.n] = w.now
		if w.last[x.n] > 0 {
			w.back[x.n] = w.now
		}
	}
	w.last[x.n] = w.now
	w.fenced[x.n] = false
}

// begun looks at an operation that begins.
func (w *watch) begun(d fence.Verdict, f *fencer) {
	x := w.byName[d.Host]
	failed := true
	for _, o := range f.ops {
		if o.Host == d.Host {
			failed = o.State == fence.Failed
		}
	}
	if w.fenced[x.n] && !failed {
		w.violated("%s is fenced a second time for one loss", d.Host)
	}
	w.fenced[x.n] = true
	if x.maintenance {
		w.violated("%s is fenced, and is in maintenance", d.Host)
	}
	if w.head.cut {
		w.violated("%s is fenced while our own side has failed", d.Host)
	}
	ttl := w.Timing.TTL.Milliseconds()
	well := x.on && x.agent && !x.dead && !x.cut && !x.paused && w.last[x.n] > w.cutMS-ttl/2
	// A shorter outage takes one or two leases of each host. A host that is lost then has lost
	// others by itself.
	if seen := w.joined-w.cutMS >= ttl/2+tick; well && seen && w.joined > w.last[x.n] && w.now-w.joined < ttl {
		w.violated("%s is fenced although our own side has just come back", d.Host)
	}
	if w.started > 0 && w.now-w.started < w.Timing.Takeover().Milliseconds() {
		w.violated("%s is fenced although the coordinator has just started", d.Host)
	}
}

// slack is how long a host must be heard before an off counts as late, ms: what it has said
// is on its way to those that decide.
const slack = 2000

// sent looks at an off that is sent.
func (w *watch) sent(o fence.Op) {
	x := w.byName[o.Host]
	back := w.last[x.n] > 0 && w.now-w.last[x.n] < w.Timing.TTL.Milliseconds() && w.now-w.heard[x.n] > slack
	if o.Cause == fence.CauseLost && back {
		w.violated("an off is sent to %s, which has been heard again", o.Host)
	}
	if x.maintenance {
		w.violated("an off is sent to %s, which is in maintenance", o.Host)
	}
	step := o.Steps[o.At]
	if before, ok := w.steps[o.ID]; ok && step.Level < before.Level {
		w.violated("level %d of the devices of %s follows level %d", step.Level, o.Host, before.Level)
	}
	if o.Try > step.Tries {
		w.violated("device %s is told to switch %s off for the time %d, and may be %d times", step.Device, o.Host, o.Try, step.Tries)
	}
	w.steps[o.ID] = step
}

// proved looks at a host that is said to be off.
func (w *watch) proved(o fence.Op) {
	if x := w.byName[o.Host]; x.on {
		w.violated("%s counts as off, and is on", x.Name)
	}
}
