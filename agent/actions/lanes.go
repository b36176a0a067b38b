package actions

import (
	"slices"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// lanes decides which actions may run together: a readers–writer lock in the
// order of acceptance.
//
//   - Actions on containers share the host, one at a time for each container
//     (and for the name that a new one will have), and no more than limit in
//     all. With limit 1 they run strictly one after the other, and commands of
//     the host among them.
//   - An exclusive action takes the host alone: it waits for all before it, and
//     all after it wait for it. An upgrade of the agent does not wait for commands in
//     containers: they go on without an agent, and may never end.
//   - Commands of the host are in no lane: they run beside everything, no more
//     than hostRuns at a time, in their own order.
//   - A stop that preempts never waits; later actions on its container wait for
//     it. It ends the actions that it runs beside: see preempt.
//   - Interactive sessions are in no lane either: no more than sessions run at a
//     time, in their own order.
//   - An action that excludes no other never waits.
//   - An action that lacks its input waits beside the lanes. It enters them when its
//     input is here, at the place that its acceptance gave it.
//   - A daemon leaves its lane when it has begun.
//
// It is pure: it knows no clock and starts nothing. The zero value has limits
// of zero; it belongs to one goroutine.
type lanes struct {
	limit    int // actions on containers at a time
	hostRuns int // commands of the host at a time
	sessions int // interactive sessions at a time
	entries  []laneEntry
	waiting  int  // entries that do not run
	moved    bool // something has changed since ready was asked
}

// laneEntry is an action that waits or runs, in the order of acceptance.
type laneEntry struct {
	id      protocol.ActionID
	lane    protocol.Lane
	keys    []string // what it excludes others from: container ids and names
	running bool
	lacks   bool // it cannot begin: what it reads is not here
	command bool // it is a command in a container, which needs no agent while it runs
	upgrade bool // it replaces the agent
}

// laneOf returns the entry of an action.
func laneOf(id protocol.ActionID, s *protocol.Spec) laneEntry {
	info, _ := protocol.KindOf(s.Kind)
	e := laneEntry{id: id, lane: info.Lane, command: s.Kind == protocol.KindExec, upgrade: s.Kind == protocol.KindHostUpgrade}
	if protocol.ArgsOf[protocol.CommandArgs](s).Exclusive {
		e.lane = protocol.LaneExclusive
	}
	if e.lane != protocol.LaneContainer && e.lane != protocol.LanePreempt {
		return e
	}
	e.keys = []string{s.Target.String()}
	if source := protocol.ArgsOf[protocol.CloneArgs](s).Source; source != "" {
		e.keys = append(e.keys, source)
	}
	if name := s.Renames(); name != "" {
		e.keys = append(e.keys, nameKey(name))
	}
	return e
}

// strict puts commands of the host in line with all others where one action is to
// run after the other.
func (l *lanes) strict(e laneEntry) laneEntry {
	if l.limit == 1 && e.lane == protocol.LaneHost {
		e.lane = protocol.LaneContainer
	}
	return e
}

// nameKey is what keeps a name of a container from being given twice at a time.
func nameKey(n protocol.ContainerName) string { return nameKeys + string(n) }

const nameKeys = "name "

// naming adds the names that the container of an action has, or may have when it
// begins, if the action frees them: an action that gives such a name comes after it.
func (l *lanes) naming(e laneEntry, s *protocol.Spec, name protocol.ContainerName) laneEntry {
	if info, _ := protocol.KindOf(s.Kind); info.Creates || !info.Removes && s.Renames() == "" {
		return e
	}
	add := func(k string) {
		if !slices.Contains(e.keys, k) {
			e.keys = append(e.keys, k)
		}
	}
	if name != "" {
		add(nameKey(name))
	}
	for _, o := range l.entries {
		if !slices.Contains(o.keys, s.Target.String()) {
			continue
		}
		for _, k := range o.keys {
			if strings.HasPrefix(k, nameKeys) {
				add(k)
			}
		}
	}
	return e
}

// add puts an action behind all others.
func (l *lanes) add(e laneEntry) {
	l.entries = append(l.entries, e)
	l.moved = true
	if !e.running {
		l.waiting++
	}
}

// remove takes out an action that ended.
func (l *lanes) remove(id protocol.ActionID) {
	l.entries = slices.DeleteFunc(l.entries, func(e laneEntry) bool {
		if e.id == id && !e.running {
			l.waiting--
		}
		return e.id == id
	})
	l.moved = true
}

// running marks an action as begun.
func (l *lanes) running(id protocol.ActionID) {
	for i := range l.entries {
		if e := &l.entries[i]; e.id == id && !e.running {
			e.running = true
			l.waiting--
		}
	}
}

// supplied notes that what an action reads is here.
func (l *lanes) supplied(id protocol.ActionID) {
	for i := range l.entries {
		if e := &l.entries[i]; e.id == id {
			e.lacks = false
			l.moved = true
		}
	}
}

// fits reports whether the action could begin now if it were added.
func (l *lanes) fits(e laneEntry) bool {
	w := l.walk()
	for i := range l.entries {
		if o := &l.entries[i]; !o.running && !o.lacks {
			w.admit(o)
		}
	}
	return !e.lacks && w.admit(&e)
}

// free reports whether no action holds, or waits for, any of the keys, and none
// holds the host alone.
func (l *lanes) free(keys ...string) bool {
	return !slices.ContainsFunc(l.entries, func(e laneEntry) bool {
		return !e.lacks && e.lane == protocol.LaneExclusive ||
			!e.lacks && slices.ContainsFunc(keys, func(k string) bool { return slices.Contains(e.keys, k) })
	})
}

// ready returns the actions that may begin now, all together, in the order of
// acceptance.
func (l *lanes) ready() []protocol.ActionID {
	w := l.walk()
	var ready []protocol.ActionID
	for i := range l.entries {
		if e := &l.entries[i]; !e.running && !e.lacks && w.admit(e) {
			ready = append(ready, e.id)
		}
	}
	return ready
}

// walk begins a pass over the entries that wait: those that run hold what they have.
func (l *lanes) walk() walk {
	w := walk{held: make(map[string]bool), places: l.limit, hostRuns: l.hostRuns, sessions: l.sessions}
	for i := range l.entries {
		w.hold(&l.entries[i])
	}
	return w
}

// walk is one pass over the entries, from the oldest to the newest.
type walk struct {
	places   int  // left for actions on containers
	hostRuns int  // left for commands of the host
	sessions int  // left for interactive sessions
	shared   bool // an action runs, or waits, in a container lane, and is no command
	commands bool // a command runs, or waits, in a container lane
	alone    bool // an action runs, or waits, exclusively
	full     bool // an action waits for a place
	held     map[string]bool
}

// hold counts what an action has that runs.
func (w *walk) hold(e *laneEntry) {
	if !e.running {
		return
	}
	switch e.lane {
	case protocol.LaneHost:
		w.hostRuns--
	case protocol.LaneSession:
		w.sessions--
	case protocol.LaneExclusive:
		w.alone = true
	case protocol.LaneContainer:
		w.share(e)
		w.places--
		w.claim(e)
	case protocol.LanePreempt:
		w.shared = true
		w.claim(e)
	}
}

// share notes that an action shares the host with others.
func (w *walk) share(e *laneEntry) {
	w.shared, w.commands = w.shared || !e.command, w.commands || e.command
}

func (w *walk) claim(e *laneEntry) {
	for _, k := range e.keys {
		w.held[k] = true
	}
}

// admit judges an action that waits, and makes those behind it wait for it if
// it cannot begin.
func (w *walk) admit(e *laneEntry) bool {
	switch e.lane {
	case protocol.LaneHost:
		w.hostRuns--
		return w.hostRuns >= 0
	case protocol.LaneSession:
		w.sessions--
		return w.sessions >= 0
	case protocol.LaneExclusive:
		ok := !w.alone && !w.shared && (e.upgrade || !w.commands)
		w.alone = true
		return ok
	case protocol.LaneContainer:
		ok := !w.alone && !w.full && !slices.ContainsFunc(e.keys, func(k string) bool { return w.held[k] })
		if ok && w.places <= 0 {
			ok, w.full = false, true
		}
		if ok {
			w.places--
		}
		w.share(e)
		w.claim(e)
		return ok
	case protocol.LanePreempt:
		w.shared = true
		w.claim(e)
	}
	return true
}
