// Package coordinator decides what is allowed and remembers what it was told.
//
// It tracks which hosts are approved, which actions were requested, who must
// agree to them, and what became of them. It never decides what happened: only
// signed reports of a host move an action beyond PENDING_SCHEDULE.
//
// All state that must survive is in a [core.Store]; everything that is only true of
// this process (which hosts are connected, their challenges, who follows
// which output) lives in memory and is found again by the hello of each host.
// Deciding code is pure; [Coordinator] is the shell around it: requests and
// verified messages become one transaction each, and effects (publishing,
// waking a waiter) follow only after the transaction is durable.
//
// The package knows nothing of HTTP, MQTT, SQL or OpenPGP: those come in as
// small interfaces.
package coordinator
