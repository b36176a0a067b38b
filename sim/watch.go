package sim

import (
	"github.com/hostler-io/hostler/fence"
)

// watch is the observer of fences. It knows what is really so, and asks nothing of the code
// that decides.
type watch struct {
	*play
	fenced  map[*host]bool  // an operation for it was begun since it was heard last
	heard   map[*host]int64 // since when it is heard without a break
	last    map[*host]int64 // when it was heard last
	started int64           // when the coordinator began to run last; 0: with the play
	// cutMS and joined are when our own side failed last, and came back; 0: it never did.
	cutMS, joined int64
}

func newWatch(p *play) *watch {
	return &watch{play: p, fenced: make(map[*host]bool), heard: make(map[*host]int64), last: make(map[*host]int64)}
}

// came notes that the coordinator has heard a host.
func (w *watch) came(x *host) {
	if w.last[x] == 0 || w.now-w.last[x] >= w.Timing.TTL.Milliseconds() {
		w.heard[x] = w.now
	}
	w.last[x] = w.now
	delete(w.fenced, x)
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
	if w.fenced[x] && !failed {
		w.violated("%s is fenced a second time for one loss", d.Host)
	}
	w.fenced[x] = true
	if w.head.cut {
		w.violated("%s is fenced while our own side has failed", d.Host)
	}
	ttl := w.Timing.TTL.Milliseconds()
	well := x.on && x.agent && !x.dead && !x.cut && !x.paused && w.last[x] > w.cutMS-ttl/2
	if well && w.joined > w.last[x] && w.now-w.joined < ttl {
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
	back := w.last[x] > 0 && w.now-w.last[x] < w.Timing.TTL.Milliseconds() && w.now-w.heard[x] > slack
	if o.Cause == fence.CauseLost && back {
		w.violated("an off is sent to %s, which has been heard again", o.Host)
	}
}
