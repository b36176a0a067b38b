// Package supervise is the process side of a supervised command: what a
// supervisor program does from its first line to its last.
//
// A supervisor serves one run directory (package rundir) and then ends. Its
// program is a few lines: build a Launcher, call Run with the directory, turn
// the error into an exit code. cmd/hostler-run does it for commands of the
// host with the Host launcher; the supervisor of commands in LXC containers
// does it with a launcher of its own.
//
// # What Run does
//
//  1. Takes the lock without waiting, and gives up with ErrTaken, having done
//     nothing, when it is held or when start.json or exit.json exists.
//  2. Reads spec.json; asks the launcher to Prepare.
//  3. Makes the leaf: a directory of the cgroup2 tree that will hold every
//     process of the command and never the supervisor.
//  4. Writes start.json durably. From here on the command may have run.
//  5. Listens on ctl.sock, becomes the subreaper of what the command orphans,
//     asks the launcher to Fork.
//  6. Drains the pipes into stdout and stderr, with or without a reader; or the
//     terminal into stdout, and types in it what comes over ctl.sock.
//  7. On the time limit or on a cancel request: TERM to the leaf, the grace,
//     KILL by cgroup.kill, also while Fork has not returned. When nobody was at the terminal for as long as the spec
//     says: HUP, the grace, KILL.
//  8. When the main process has ended: kills the rest of the leaf, waits until
//     it is empty, drains the pipes for at most two seconds more.
//  9. Writes exit.json durably, answers the cancel requests, ends.
//
// Whatever goes wrong after the lock was taken ends in exit.json with a reason;
// if even that cannot be written, Run returns the error.
//
// # Writing a Launcher
//
// Prepare is called once, with the lock held and before start.json, so it must
// not start anything; it is the place to refuse: resolve the user (LookupUser
// with the root of the container's files), see that the container runs, find
// the parent of the leaf (FindCgroup2). Fork is called once, afterwards.
// Errors that should be told apart are a *Refusal; others are recorded as
// rundir.ReasonSetup.
//
// The package links no fmt and no net, because a supervisor lives as long as
// its command and there may be many.
package supervise

import (
	"errors"
	"os"

	"github.com/hostler-io/hostler/runner/rundir"
)

// A Launcher starts the command where it belongs. Its methods are called one after
// the other, each once, Prepare first.
type Launcher interface {
	// Prepare checks everything that can be checked before a process exists
	// and returns the directory of the cgroup2 tree (absolute path) below
	// which Run makes the leaf; "" means that there is none, and then the
	// command runs but cannot be cancelled. For a container it is the
	// container's own cgroup, lxc.payload.<name>.
	Prepare(spec *rundir.Spec) (parent string, err error)

	// OpenTerminal makes a pseudoterminal where the command will run, so that
	// the command finds it by its name, and gives its end to the command's user.
	// It is called for specs that ask for one, between Prepare and Fork. Neither
	// end may become the terminal of this process. Run closes both. Where only what
	// forks the command can make it, it returns neither, and Fork hands over the
	// master by Child.Took.
	OpenTerminal() (master, slave *os.File, err error)

	// Fork starts the command and returns the pid of its main process, which
	// must be a child of this process: Run waits for it with wait4. When Fork
	// returns, the process and whatever it has forked by then must be inside
	// the leaf. The process gets the three files of c as its fds 0 to 2 and no
	// other fd of the supervisor, a session of its own, default signal
	// handling, and the spec's argv, environment, directory and user. Fork must
	// not close the files. A program that cannot be executed is a *Refusal
	// (Refuse(rundir.ReasonNotFound, …)), or a process that ends with code 126
	// or 127 when it is found out too late. After an error there must be no
	// process. It may take for ever, where a directory or a program lies on a file
	// system that does not answer: the time limit and a cancel then kill what is in
	// the leaf and every child of this process, by which it must return.
	Fork(c Child) (pid int, err error)
}

// Child is what Run hands to Fork.
type Child struct {
	Spec *rundir.Spec
	// Stdin, Stdout and Stderr become fds 0, 1 and 2. If the spec asks for a
	// terminal they are all its slave's end, and it must become the controlling
	// terminal of the command's session. They are nil if OpenTerminal made none.
	Stdin, Stdout, Stderr *os.File
	// Took is called by Fork, before it returns, with the master of a terminal that
	// OpenTerminal did not make: non-blocking, of the size that the spec asks for. It
	// is nil in all other cases.
	Took func(master *os.File)
	// Leaf is the open directory of the leaf, fit for CLONE_INTO_CGROUP; nil
	// when there is none. Its Name is the absolute path, where writing a pid
	// to the file cgroup.procs moves a process.
	Leaf *os.File
	// Commit must be called right before the first process is made. After an error
	// none may be made: the command is not wanted any more.
	Commit func() error
}

// A Refusal is an error of a Launcher with a reason of its own.
type Refusal struct {
	Reason string // one of rundir.Reason…
	Err    error
}

// Refuse returns err as a Refusal for reason.
func Refuse(reason string, err error) error { return &Refusal{reason, err} }

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// ErrTaken is returned by Run when the directory is, or was, another
// supervisor's: its lock is held, or start.json or exit.json exists. Nothing
// was done.
var ErrTaken = errors.New("run directory is taken")
