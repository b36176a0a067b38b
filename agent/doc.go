// Package agent decides what one host does: it accepts actions, runs them, keeps
// containers as users want them, and reports, whether or not a coordinator is
// connected.
//
// # Rooms
//
// The package itself has the loop and the wiring (rooms.go). What it does is done in
// packages that each own their state, and know no [Agent]: what a room needs of
// another is a small interface of its own, what it decides comes back as a value.
//
//   - agent/loop: the one goroutine that decides, as the rooms see it.
//   - agent/uplink: the conversation with the coordinator.
//   - agent/lease: leases and grants, in a goroutine that no disk holds up.
//   - agent/actions: which actions are here, when each begins, and how it ends; one
//     handler per kind says what it does.
//   - agent/rights: what takes whose approval, by the policy in force.
//   - agent/commands: commands under their supervisors.
//   - agent/containers: containers as their users want them.
//   - agent/relay: the bytes of actions: output up, input down, terminals.
//   - agent/wire: how the host signs, numbers and judges messages.
//   - agent/queue: the memory of all of them.
//
// # One owner
//
// One goroutine, the loop, owns all state that changes. Everything else is a
// goroutine that feeds it: the link brings messages, workers bring results, watchers
// bring changes of containers, and calls of the local API are functions that the
// loop runs. [Agent.Run] lists the goroutines in one place. The one exception is the
// lease, which must be in time even when a disk hangs.
//
// # Persist, then act; persist, then report
//
// What the agent promises is in its queue first: an order is receipted after the
// commit that holds it, a command starts after the commit that says so, and a report
// is sent from rows that the commit of the end has written. What several rooms have
// to store of one event is one transaction: the room of actions commits what its
// handler wants stored. So the agent may be killed at any line, and its start path is
// its recovery path: it reads what is RUNNING, asks what became of it, and goes on.
package agent
