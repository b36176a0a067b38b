package workloads

import (
	"slices"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// Nearly all workloads are held by a host that is heard, and nothing is under way about
// them. A look each second at all of them would be most of what leases cost a coordinator.
// So a look is about these alone:
//
//   - the workloads that are not settled; [index.note] keeps them in open, after each change
//     of a workload;
//   - the workloads of the hosts that are lost, or that something shows to be off.
//
// What a user wants of a workload is no reason to leave it out: the room does not know that,
// and decide asks the store for it.

// news is what has changed since it was looked at last.
type news struct {
	shown bool // what hosts have shown, or which hosts hold workloads
	// astray are the workloads that hosts tell they run and may not, as far as told says that
	// nothing has changed; with all set, each host is to be looked at.
	astray map[protocol.HostID][]protocol.CTID
	told   map[protocol.HostID]bool // hosts that have told what they run
	all    bool
	// closed are the hosts that are not open for workloads, and ailing those that tell of
	// containers that fail.
	closed, ailing map[protocol.HostID]bool
	back           map[protocol.HostID]bool // hosts that are back, and have not told what they have since
}

func newNews() news {
	return news{
		shown: true, all: true, astray: make(map[protocol.HostID][]protocol.CTID), told: make(map[protocol.HostID]bool),
		closed: make(map[protocol.HostID]bool), ailing: make(map[protocol.HostID]bool), back: make(map[protocol.HostID]bool),
	}
}

// moved notes that a workload is on another host, is free, or is not there any more.
func (n *news) moved() { n.shown, n.all = true, true }

// index is the part of a room that knows which workloads a look is about. The caller of its
// methods holds the lock, but for undecided.
type index struct{ *Room }

// settled reports whether nothing is under way about a workload: as long as its host is heard,
// and nothing shows that to be off, no look changes it.
func (w *workload) settled() bool {
	return w.Phase == unique.Held && !w.shut && w.Pending.IsZero() && len(w.Changes) == 0 &&
		!w.Leaves() && w.Move.To == "" &&
		(w.Epoch.Counter <= 1 || w.named != (protocol.Seq{})) // else it may have to be asked for
}

// note takes a change of a workload, whichever it is.
func (r index) note(w *workload) {
	switch {
	case r.all[w.CTID] != w: // it was forgotten meanwhile
	case w.settled():
		delete(r.open, w.CTID)
	default:
		r.open[w.CTID] = w
	}
}

// hold adds a workload to those of its host.
func (r index) hold(w *workload) {
	r.host(w.Host) // which counts as lost if it is not heard
	r.held.add(w)
	r.news.moved()
	r.note(w)
}

// tells takes the containers that a host tells of.
func (r index) tells(host protocol.HostID, all []protocol.Container) {
	h := r.host(host)
	h.runs, h.ailing = runsOf(all), nil
	for _, c := range all {
		if !c.CTID.IsZero() && r.cfg.Placing.fails(c.Broken, c.Failures) {
			h.ailing = append(h.ailing, c.CTID)
		}
	}
	r.news.told[host] = true
	setIf(r.news.ailing, host, len(h.ailing) > 0)
}

// avail takes whether workloads may be placed on a host.
func (r index) avail(host protocol.HostID, a core.Availability) {
	r.host(host).availability = a
	setIf(r.news.closed, host, a.State != core.Open)
}

func setIf(set map[protocol.HostID]bool, host protocol.HostID, in bool) {
	if delete(set, host); in {
		set[host] = true
	}
}

// fails reports whether a container has failed so often that it is to leave its host: it is
// broken, which says why, or so many starts in a row have failed.
func (rules Placing) fails(broken string, starts int) bool {
	return broken != "" || starts >= rules.Starts
}

// unsettled are the workloads that may be otherwise than before.
func (r index) unsettled(v unique.View) map[protocol.CTID]*workload {
	all := make(map[protocol.CTID]*workload, len(r.open))
	add := func(host protocol.HostID) {
		for _, w := range r.held[host] {
			all[w.CTID] = w
		}
	}
	for id, w := range r.open {
		all[id] = w
	}
	for id, h := range r.hosts {
		if v.NowMS-max(h.heardMS, v.StartedMS) >= v.Timing.TTL.Milliseconds() {
			add(id)
		}
	}
	for _, id := range r.cfg.Fencing.Offs() {
		add(id)
	}
	return all
}

// undecided are the ids of the workloads to decide about, in order.
func (r index) undecided() (ids []protocol.CTID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.unsettled(r.view()) {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, byID)
	return ids
}

// astray lists, by host, the workloads that hosts tell they run and may not. The caller
// changes nothing of it.
func (r index) astray() map[protocol.HostID][]protocol.CTID {
	look := func(host protocol.HostID) {
		delete(r.news.astray, host)
		for id := range r.host(host).runs {
			if w := r.all[id]; w != nil && (w.Host != host || w.Phase == unique.Free) {
				r.news.astray[host] = append(r.news.astray[host], id)
			}
		}
	}
	if r.news.all {
		for host := range r.hosts {
			look(host)
		}
	} else {
		for host := range r.news.told {
			look(host)
		}
	}
	clear(r.news.told)
	r.news.all = false
	return r.news.astray
}

// unplaced reports whether placement has something to do although nothing has changed that it
// asks of: something waits for a host, is on its way or fails, or a host is to be empty.
func (r index) unplaced() bool {
	if len(r.open) > 0 {
		return true
	}
	for host := range r.news.closed {
		if len(r.held[host]) > 0 {
			return true
		}
	}
	for host := range r.news.ailing {
		for _, id := range r.host(host).ailing {
			if w := r.all[id]; w != nil && w.Host == host {
				return true
			}
		}
	}
	return false
}
