package workloads

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// Fencing knows which hosts are switched off. It is safe for concurrent use, and calls
// nothing of the room.
type Fencing interface {
	// Closed says why nothing is granted to a host; empty if it may be.
	Closed(protocol.HostID) string
	// Off tells what shows that a host runs nothing: a device, or the word of a person. It
	// holds from the moment on at which nothing was granted any more.
	Off(protocol.HostID) (device, person bool)
	// Offs lists the hosts that Off reports to be off.
	Offs() []protocol.HostID
}

// holderOf is what unique is asked with about a workload. The caller holds the lock.
func (r *Room) holderOf(w *workload) unique.Holder {
	h := r.host(w.Host)
	off, confirmed := r.cfg.Fencing.Off(w.Host)
	return unique.Holder{HeardMS: h.heardMS, Fence: h.Fence, Pausable: h.Pausable, Unsure: h.Ring < r.cfg.Removed(), Quiet: w.quiet, Off: off, Confirmed: confirmed, Maintenance: h.availability.State == core.Maintenance, Blocked: r.resolved[w.CTID].Blocked != ""}
}

// Heard is when a host was heard last, by the boot clock; when it was there anew last: it
// said hello, or was heard after a silence in which its lease had ended; and when it told
// last what it has. 0: not since the process began.
func (r *Room) Heard(host protocol.HostID) (lastMS, anewMS, toldMS int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.hosts[host]; h != nil {
		return h.heardMS, h.backMS, h.toldMS
	}
	return 0, 0, 0
}

// Maintenance reports whether nothing is decided about a host.
func (r *Room) Maintenance(host protocol.HostID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hosts[host]
	return h != nil && h.availability.State == core.Maintenance
}

// Lease is how a host stands.
type Lease struct {
	Fence    unique.SelfFence // what it has shown; empty if it was not heard
	Pausable bool
	LeftMS   int64    // of its lease, as far as is known here; 0 if it has ended
	Features []string // that it has told of; nil if it was not heard since the start
}

// Standing tells how a host stands.
func (r *Room) Standing(host protocol.HostID) (l Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hosts[host]
	if h == nil {
		return l
	}
	l = Lease{Fence: h.Fence, Pausable: h.Pausable, Features: h.features}
	if h.heardMS > 0 {
		l.LeftMS = max(0, h.heardMS+r.cfg.Timing.TTL.Milliseconds()-r.base.Boot())
	}
	return l
}

// OurSide says whether the room has just begun, and why it may be our side that failed.
func (r *Room) OurSide() (settling bool, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.view()
	if r.ourSide(v) {
		why = ourSideWhy
	}
	return v.Settling(), why
}

// ourSideWhy is why no host is fenced, and why hosts that are gone keep their workloads.
const ourSideWhy = "half of the hosts went at once, or none was heard for a while, so our own side may be what failed"

// spares says why nothing is taken from a host that is gone now; empty if nothing stands in
// the way. The caller holds the lock.
func spares(r *Room, v unique.View) string {
	switch {
	case v.Settling():
		return "it stays with its host for now: the coordinator has just started"
	case r.ourSide(v):
		return "it stays with its host for now: " + ourSideWhy
	}
	return ""
}

// Suspects lists the hosts that may run what is withheld from them, or would be if our own
// side were not suspected, by name.
func (r *Room) Suspects() []fence.Host {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.view()
	found := make(map[protocol.HostID]*fence.Host)
	for _, w := range (index{r}).unsettled(v) {
		h := r.holderOf(w)
		lost := v.NowMS-max(h.HeardMS, v.StartedMS) >= v.Timing.TTL.Milliseconds()
		// What its user has stopped runs nowhere, and no host is switched off for it.
		if w.Phase == unique.Free || w.Phase == unique.Held && (!lost || w.stopped) {
			continue
		}
		proof, why := unique.Proof(w.Workload.Workload, h, v)
		if proof != "" {
			continue
		}
		f := found[w.Host]
		if f == nil {
			f = &fence.Host{ID: w.Host, Lost: lost, Silent: time.Duration(v.NowMS-max(h.HeardMS, v.StartedMS)) * time.Millisecond, Goodbye: r.cfg.Left(w.Host), Maintenance: h.Maintenance}
			found[w.Host] = f
		}
		since := max(w.shutMS, v.StartedMS)
		f.Work = append(f.Work, fence.Work{
			CTID: w.CTID.String(), Name: string(w.Name), Why: why, ByLease: unique.ByLease(w.Workload.Workload, h, v), Runs: !w.idle,
			Stuck: !lost && w.Phase == unique.Withheld && !w.idle && v.NowMS-since > v.Timing.Takeover().Milliseconds(),
		})
	}
	var all []fence.Host
	for _, id := range slices.Sorted(maps.Keys(found)) {
		slices.SortFunc(found[id].Work, func(a, b fence.Work) int { return cmp.Compare(a.CTID, b.CTID) })
		all = append(all, *found[id])
	}
	return all
}
