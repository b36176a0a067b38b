// Package actions keeps the actions of a host that have not ended: it takes them
// in, begins each when its lane lets it, and makes their ends durable.
//
// # What belongs where
//
// What an action of a kind does is said by the [Handler] of its kind. This package
// decides when it begins (lanes.go), how many attempts it gets, what a cancel and a
// stop that may not wait do to it (preempt.go), and stores what becomes of it, with
// what its handler wants stored, in one transaction of the queue.
//
//	decide.go   what is to become of orders; pure
//	accept.go   orders become actions, several in one transaction
//	start.go    actions that wait begin, or expire
//	end.go      attempts end: the action with them, or another attempt begins
//	saga.go     attempts of several durable steps with one commit point
//
// Everything belongs to the agent's loop, but for [Counters].
package actions

import (
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// Host is what the other rooms of the agent answer, and hear, about actions. All of
// it is called by the loop.
type Host interface {
	// ContainerName is the present name of a container; empty if there is none.
	ContainerName(id protocol.CTID) protocol.ContainerName
	// Misnamed refuses what calls its container by a name that it never had, and
	// will not have when what was accepted before is done: pending.
	Misnamed(s *protocol.Spec, pending iter.Seq[*protocol.Spec]) error
	// Applied follows a change that is durable.
	Applied(c queue.Change)
	// Reported tells that reports up to a number are durable.
	Reported(n uint64)
	// Moved tells that an action has moved, or is new.
	Moved()
	// Ended tells that an action has ended and left its lane.
	Ended(act *queue.Action, s *protocol.Spec)
	// Spare sees to it that nothing begins, nor is accepted, without space for its
	// end.
	Spare()
}

// Policy says who may do what on this host. The loop asks it.
type Policy interface {
	// Allowed holds an order against the policy in force. An error is a final
	// refusal, or [queue.ErrDisk] if what was learnt could not be kept: then the
	// order is not taken in.
	Allowed(id protocol.ActionID, s *protocol.Spec, o *queue.Order, approvals []protocol.OrderApproval) error
	// AllowedHere does so for a request of the host's own people.
	AllowedHere(s *protocol.Spec, o *queue.Order) error
}

// Inputs bring what actions read to the host. They are called by the loop.
type Inputs interface {
	// Lacks reports whether an action cannot begin because its input is not here.
	Lacks(s *protocol.Spec) bool
	// Sent is why an action cannot be asked for here by such a requester, who has not sent
	// its input; nil if it can.
	Sent(requester string, s *protocol.Spec) error
	// Keep keeps the input of an action, or has it fetched if the action lacks it,
	// until the action has ended: [Actions.Supplied] or its end follows.
	Keep(id protocol.ActionID, s *protocol.Spec, lacks bool)
}

// Config is what actions are kept with. All of it is required.
type Config struct {
	Host     protocol.HostID
	Boot     string
	Loop     *loop.Loop
	Store    *queue.Queue
	Rooms    Host
	Policy   Policy
	Inputs   Inputs
	Handlers map[protocol.Kind]Handler // of every kind
	Random   func() ([10]byte, error)  // of new ids
	// Lanes is how many actions on containers run at a time, HostRuns how many
	// commands of the host, and Sessions how many interactive sessions. MaxOpen is
	// how many actions may not have ended.
	Lanes, HostRuns, Sessions, MaxOpen int
	Log                                *slog.Logger
}

// Actions are the actions that have not ended.
type Actions struct {
	Counters Counters

	cfg     Config
	loop    *loop.Loop
	jobs    map[protocol.ActionID]*Job
	lanes   lanes
	changes map[protocol.ActionID]chan struct{} // closed at the next change of an action
	newest  uint64                              // accept_seq of the newest action
	ends    []ending                            // of this turn of the loop, not durable yet
	unsaved []ending                            // ends that the disk did not take
	unbegun []protocol.ActionID                 // attempts whose beginning the disk did not take
	untold  untold
	expiry  *loop.Timer
	slow    *loop.Timer
}

// Counters count since New. They may be read by any goroutine.
type Counters struct {
	Accepted atomic.Uint64
	ended    map[protocol.State]*atomic.Uint64
}

// Ended is how many actions have ended, by final state.
func (c *Counters) Ended() map[protocol.State]uint64 {
	all := make(map[protocol.State]uint64, len(c.ended))
	for s, n := range c.ended {
		all[s] = n.Load()
	}
	return all
}

// New returns the room of actions, without any.
func New(cfg Config) *Actions {
	a := &Actions{
		cfg: cfg, loop: cfg.Loop,
		jobs:    make(map[protocol.ActionID]*Job),
		changes: make(map[protocol.ActionID]chan struct{}),
		lanes:   lanes{limit: cfg.Lanes, hostRuns: cfg.HostRuns, sessions: cfg.Sessions},
	}
	a.Counters.ended = make(map[protocol.State]*atomic.Uint64)
	for _, s := range protocol.States() {
		if s.Final() {
			a.Counters.ended[s] = new(atomic.Uint64)
		}
	}
	a.expiry, a.slow = cfg.Loop.Timer(a.expire), cfg.Loop.Timer(a.lookAtSlow)
	a.untold = untold{actions: a, soon: cfg.Loop.Timer(a.untold.tell)}
	return a
}

// Load takes up the actions that an earlier process has left. newest is the
// accept_seq of the newest action of all.
func (a *Actions) Load(open []queue.Action, newest uint64) {
	a.newest = newest
	clear(a.jobs)
	a.lanes.entries, a.untold.ids = nil, nil
	for _, act := range open {
		a.adopt(act)
	}
}

// adopt takes an action of an earlier process into the loop's state.
func (a *Actions) adopt(act queue.Action) {
	j := &Job{actions: a, act: act, recovered: act.State == protocol.StateRunning}
	var err error
	if j.spec, err = protocol.DecodeSpec(act.Spec); err != nil {
		// It could be read when it was accepted: this is an older program.
		a.cfg.Log.Error("an accepted action cannot be read by this version", "action", act.ID.String(), "error", err)
		return
	}
	e := a.entryOf(act.ID, &j.spec)
	e.running = j.recovered
	e.lacks = !e.running && a.cfg.Inputs.Lacks(&j.spec)
	a.jobs[act.ID] = j
	a.lanes.add(e)
	a.untold.add(j)
}

// entryOf returns the entry of an action that would be accepted now.
func (a *Actions) entryOf(id protocol.ActionID, s *protocol.Spec) laneEntry {
	return a.lanes.naming(a.lanes.strict(laneOf(id, s)), s, a.cfg.Rooms.ContainerName(s.Target))
}

// Resume goes on with what an earlier process had begun.
func (a *Actions) Resume() {
	// What ends at once takes itself out of the list, so it is a copy that is walked.
	for _, e := range slices.Clone(a.lanes.entries) {
		j := a.jobs[e.id]
		a.cfg.Inputs.Keep(e.id, &j.spec, e.lacks)
		if e.running {
			j.begin()
		}
	}
}

// Job returns an action that has not ended; nil if there is none of that id.
func (a *Actions) Job(id protocol.ActionID) *Job { return a.jobs[id] }

// Running returns what the action asks for that runs in the lane of a container; nil if none
// does.
func Running(a *Actions, id protocol.CTID) *protocol.Spec {
	for _, j := range a.jobs {
		if j.spec.Target == id && j.act.State == protocol.StateRunning && j.kind().Lane == protocol.LaneContainer {
			return &j.spec
		}
	}
	return nil
}

// Open is how many actions have not ended.
func (a *Actions) Open() int { return len(a.jobs) }

// Waiting is how many actions have not begun.
func (a *Actions) Waiting() int { return a.lanes.waiting }

// AcceptSeq is the accept_seq of the newest action.
func (a *Actions) AcceptSeq() uint64 { return a.newest }

// Needed are the digests of the inputs that actions read which have not ended.
func (a *Actions) Needed() map[protocol.Digest]bool {
	needed := make(map[protocol.Digest]bool)
	for _, j := range a.jobs {
		needed[j.spec.Input().StdinSHA256] = true
	}
	return needed
}

// Supplied notes that what an action reads is here.
func (a *Actions) Supplied(id protocol.ActionID) { a.lanes.supplied(id) }

// Idle reports whether no action is about a container, nor waits to be, and the
// host is not held by one action alone.
func (a *Actions) Idle(id protocol.CTID) bool { return a.lanes.free(id.String()) }

// Hold keeps the lane of a container, for what the agent does to it by itself,
// until Release.
func (a *Actions) Hold(id protocol.CTID) {
	a.lanes.add(laneEntry{id: protocol.ActionID(id), lane: protocol.LaneContainer, keys: []string{id.String()}, running: true})
}

// Release gives back a lane that was held.
func (a *Actions) Release(id protocol.CTID) { a.lanes.remove(protocol.ActionID(id)) }

// LeaveLane lets others begin that an action excludes, although it goes on: a
// daemon that has started.
func (a *Actions) LeaveLane(id protocol.ActionID) { a.lanes.remove(id) }

// News is closed at the next change of an action; nil for one that has ended.
func (a *Actions) News(id protocol.ActionID) <-chan struct{} {
	if a.jobs[id] == nil {
		return nil
	}
	c := a.changes[id]
	if c == nil {
		c = make(chan struct{})
		a.changes[id] = c
	}
	return c
}

// Changed wakes the callers that wait for news of an action.
func (a *Actions) Changed(id protocol.ActionID) {
	if c := a.changes[id]; c != nil {
		close(c)
		delete(a.changes, id)
	}
	a.cfg.Rooms.Moved()
}

// moved takes an action as a step has left it.
func (j *Job) moved(act queue.Action) {
	j.act = act
	j.actions.cfg.Rooms.Reported(act.ReportN)
	j.actions.Changed(act.ID)
}
