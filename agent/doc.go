// Package agent decides what one host does: it accepts actions, runs them,
// keeps containers as users want them, and reports, with or without anybody who
// listens.
//
// # One owner
//
// One goroutine, the loop (agent.go), owns all state that changes. Everything else
// is a goroutine that feeds it: the link brings messages, workers bring
// results, watchers bring changes of containers, and calls of the local API are
// functions that the loop runs. [Agent.Run] lists them all in one place. The
// one exception is the lease (package agent/lease): it must be in time even when a disk
// hangs, so it touches neither disk nor loop and shares one small structure,
// voice, with them.
//
// # Persist, then act; persist, then report
//
// Whatever the agent promises is in its queue (package agent/queue) first: an
// order is receipted after the commit that holds it, a command starts after the
// commit that says so, and a report is sent from rows that the commit of the
// end has written. So the agent may be killed at any line, and its start path
// is its recovery path: it reads what is RUNNING, asks what became of it, and
// goes on.
//
// # The parts
//
//   - lanes.go: which actions may run together; pure.
//   - orders.go: what comes down: orders, controls, receipts.
//   - work.go: what runs: commands (package agent/commands) and steps of a container's life
//     (lifecycle.go).
//   - keeper.go: containers are what users want; retry.go decides when to try
//     again, and when to give up; pure.
//   - link.go, send.go: the conversation with the coordinator.
//   - package agent/relay: the bytes of actions, up and down.
//   - api.go: what the host's own people may ask for.
//
// # Policy
//
// What needs whose approval is said by the policy in force on the host (package
// policy): root's own file, else the newest signed one that was taken, else the
// built-in one, by which what operators and admins ask for needs nobody's. The
// agent holds each order against it, by the keys of its own ring and nothing
// that the coordinator says, before the order is taken in; what is refused is
// refused for good (policy.go).
package agent
