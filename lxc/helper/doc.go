// Package helper is the side of LXC that is bound to the C library. Only
// cmd/hostler-lxc imports it; package lxc says why it is a program of its own.
//
// # Operations
//
// Run reads one request (package lxc/internal/wire), does it and writes one
// answer. Each call of the library uses a container object of its own, because
// an object's methods wait for each other. Nothing is kept between operations:
// what is remembered stands beside the container, in hostler.json.
//
// # The record
//
// hostler.json in the container's directory makes it ours and carries its CTID.
// Its state makes creation and destruction safe against a crash at any line:
//
//	(nothing) → creating → ready → destroying → (nothing)
//
// The directory appears under its name by one rename, with the record in it, so
// a directory without a record is always somebody else's. A container whose
// record says creating or destroying is not there for anybody but create and
// destroy, which remove what is left of it first.
//
// # Locks
//
// Every operation that changes a container holds an flock on a file named after
// its CTID, or its name if it is foreign, from its first to its last step. The
// lock belongs to this process, so it ends with the operation and not with the
// agent that asked for it; and this process ends itself soon after the time it
// was given, so that a hung operation does not keep the lock for ever.
//
// # Commands
//
// Supervise is the supervisor of one command (package runner/supervise). It
// enters the container by liblxc's attach with an entry function of its own, for
// two things that the library's ready-made calls do not give: the command puts
// itself into its leaf before it can fork, and what keeps it from being executed
// is told with its errno. The command is a child of the supervisor, so a killed
// one is seen as killed.
//
// Without cgo the package is empty and the program is not built.
package helper
