// Package coordinator decides what is allowed and remembers what it was told.
//
// It tracks which hosts are approved, which actions were requested, who must
// agree to them, and what became of them. It never decides what happened: only
// signed reports of a host move an action beyond PENDING_SCHEDULE.
//
// The package itself is the root: it lets hosts in and out, makes the rooms, gives
// each what it needs of the others as a small interface, and runs them. Each room
// is a package below it that owns its state and never points back. All build on
// package core: the Store, the records in it, the clocks and the wake-ups.
//
// All state that must survive is in a [core.Store]; everything that is only true of
// this process (which hosts are connected, their challenges, who follows
// which output) lives in memory and is found again by the hello of each host.
// Requests and verified messages become one transaction each. What becomes of a
// request, what releases it, what a host's words lead to, and which actions get
// numbers is decided by pure functions: the shell reads in the transaction, calls the
// decision, and writes what it returned.
// Effects (publishing, waking a waiter) follow only after the transaction is
// durable.
//
// The package knows nothing of HTTP, MQTT, SQL or OpenPGP: those come in as
// small interfaces.
package coordinator
