// Package helper is the side of LXC that is bound to the C library. Only
// cmd/hostler-lxc imports it; package lxc says why it is a program of its own.
//
// # Operations
//
// Run reads one request (package lxc/internal/wire), does it and writes one
// answer. A process that has started a container does the next start as well, if it is
// asked to: executing it and loading liblxc takes longer than what it does. Each call of
// the library uses a container object of its own, because an object's methods wait for
// each other. Nothing is kept between operations: what is remembered stands beside the
// container, in hostler.json.
//
// # The record
//
// hostler.json in the container's directory makes it ours and carries its CTID.
// Its state makes creation and destruction safe against a crash at any line:
//
//	(nothing) → creating → ready → destroying → (nothing)
//
// The directory appears under its name by one rename, with the record in it, so
// a directory without a record is never ours. A container whose
// record says creating or destroying is only there for create and
// destroy, which remove what is left of it first.
//
// A rename sets a mark in the record, renames the directory, has the configuration
// follow and takes the mark away. An operation that starts or stops a container that is
// marked has its configuration follow first.
//
// # Locks
//
// Every operation that changes a container holds an flock on a file named after
// its CTID, or its name if it is foreign, from its first to its last step. The
// lock belongs to this process, so it ends with the operation and not with the
// agent that asked for it. The process ends after an operation that failed, and ends
// itself soon after the time that one was given, so that a hung operation does not keep
// the lock for ever.
//
// # Commands
//
// Supervise is the supervisor of one command (package runner/supervise). It
// enters the container by liblxc's attach with an entry function of its own, since
// the library's ready-made calls do not tell with which errno the command could
// not be executed, and it lets liblxc move nothing between control groups.
//
// A move of a process waits for all processors (an RCU grace period, 10 to 30 ms),
// except in two cases: a process that is cloned into its cgroup2 directory, and a
// thread that moves itself in a version 1 hierarchy. So attach is called by a
// process that was cloned into the leaf and has joined the container's other
// groups by itself, and the command inherits all of it. A copy of a process with
// threads may not call the C library; therefore hostler-lxc supervise begins, before
// there is a Go runtime, with forking a stem (entry.c), of which that process is a
// copy. The command becomes a child of the supervisor, a subreaper, when both have
// ended; so a killed one is seen as killed.
//
// Without cgo the package is empty and the program is not built.
package helper
