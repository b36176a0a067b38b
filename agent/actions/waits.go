package actions

import (
	"slices"

	"github.com/hostler-io/hostler/protocol"
)

// Waits tells of the actions that a question names why they have not begun. Of
// what is not accepted it knows only the ring that the orders wait for; 0 is none.
func (a *Actions) Waits(ids []protocol.ActionID, ring uint64) map[protocol.ActionID]protocol.Waits {
	all := make(map[protocol.ActionID]protocol.Waits)
	var ready []protocol.ActionID
	for i, id := range ids {
		j := a.jobs[id]
		switch {
		case j == nil && ring != 0:
			all[id] = protocol.Waits{For: protocol.WaitsRing, Count: ring}
			continue
		case j == nil || j.act.State != protocol.StateNew:
			continue
		}
		if i == 0 || ready == nil {
			ready = a.lanes.ready()
		}
		w, ok := a.lanes.behind(id)
		switch {
		case a.loop.Degraded() != "":
			w = protocol.Waits{For: protocol.WaitsDisk}
		case a.loop.Stopping():
			w = protocol.Waits{For: protocol.WaitsStop}
		case slices.Contains(ready, id) || !ok:
			continue // it is about to begin
		}
		if a.jobs[w.Action] == nil {
			w.Action = protocol.ActionID{} // a correction of the agent itself
		}
		all[id] = w
	}
	return all
}

// behind returns what keeps a waiting action from beginning, and false if it is
// not there, runs, or has nothing in front of it. Of several it is the one that was
// accepted first, and one that runs comes before one that waits.
func (l *lanes) behind(id protocol.ActionID) (protocol.Waits, bool) {
	at := slices.IndexFunc(l.entries, func(e laneEntry) bool { return e.id == id })
	if at < 0 || l.entries[at].running {
		return protocol.Waits{}, false
	}
	e := &l.entries[at]
	if e.lacks {
		return protocol.Waits{For: protocol.WaitsInput}, true
	}
	before, running := l.before(at)
	switch e.lane {
	case protocol.LaneHost:
		return behindCount(before[:running], protocol.LaneHost, protocol.WaitsRuns)
	case protocol.LaneSession:
		return behindCount(before[:running], protocol.LaneSession, protocol.WaitsSessions)
	case protocol.LaneExclusive:
		if o := find(before, func(o *laneEntry) bool { return o.lane == protocol.LaneExclusive }); o != nil {
			return protocol.Waits{For: protocol.WaitsExclusive, Action: o.id}, true
		}
		if o := find(before, func(o *laneEntry) bool {
			return o.lane == protocol.LaneContainer && !(e.upgrade && o.command)
		}); o != nil {
			return protocol.Waits{For: protocol.WaitsShared, Action: o.id}, true
		}
		return protocol.Waits{}, false
	case protocol.LaneContainer:
		if o := find(before, func(o *laneEntry) bool { return o.lane == protocol.LaneExclusive }); o != nil {
			return protocol.Waits{For: protocol.WaitsExclusive, Action: o.id}, true
		}
		if o := find(before, e.sharesKey); o != nil {
			return protocol.Waits{For: protocol.WaitsLane, Action: o.id}, true
		}
		return behindCount(before[:running], protocol.LaneContainer, protocol.WaitsPlaces)
	}
	return protocol.Waits{}, false
}

// before returns the actions that may keep the one at a place from beginning: first
// those that run, and how many these are, then those that have waited for longer.
func (l *lanes) before(at int) (all []*laneEntry, running int) {
	for i := range l.entries {
		if o := &l.entries[i]; o.running {
			all = append(all, o)
		}
	}
	running = len(all)
	for i := range l.entries[:at] {
		if o := &l.entries[i]; !o.running && !o.lacks {
			all = append(all, o)
		}
	}
	return all, running
}

// behindCount is for what waits until fewer of its lane run.
func behindCount(running []*laneEntry, lane protocol.Lane, word protocol.WaitsFor) (protocol.Waits, bool) {
	w := protocol.Waits{For: word}
	for _, o := range running {
		if o.lane == lane {
			w.Count++
		}
	}
	return w, w.Count > 0
}

func find(all []*laneEntry, fits func(*laneEntry) bool) *laneEntry {
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i]
	}
	return nil
}

// sharesKey reports whether two actions exclude each other by what they are about.
func (e *laneEntry) sharesKey(o *laneEntry) bool {
	return slices.ContainsFunc(e.keys, func(k string) bool { return slices.Contains(o.keys, k) })
}
