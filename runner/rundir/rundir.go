// Package rundir is the contract of one run directory: the only thing that the
// agent and the supervisor of a command share.
//
// Every command has a supervisor process: its parent, the owner of its pipes,
// the keeper of its limits and the recorder of its end. The agent starts the
// supervisor and from then on only watches a directory, so an agent that is
// killed, restarted or upgraded touches no command:
//
//	runs/<action>/<attempt>/
//	    lock        flock held by the supervisor while it lives; names its holder (Holder)
//	    spec.json   what to run (Spec), written by the agent before the supervisor starts
//	    stdin       optional: what the command reads; without it /dev/null
//	    start.json  proof that a command may have begun (Start), durable before the fork
//	    stdout      the command's output, each byte at its true offset of the stream (Keep);
//	                missing as long as there is none
//	    stderr      likewise
//	    recording   what its terminal has printed, and when, if that is recorded
//	    ctl.sock    where the supervisor takes requests (Request, Reply), and what is
//	                typed in the command's terminal if it has one
//	    exit.json   how it ended (Exit), durable and the last thing that is written
//	    note        optional: what the command itself says of what it did, under the name in
//	                its variable HOSTLER_NOTE; nothing but the agent's own commands is asked to
//
// The files are read as follows, which is what makes a crash at any line safe:
//
//   - exit.json is there: the run is over, and this is its end.
//   - lock is held: the supervisor lives.
//   - start.json and a free lock: the supervisor died; the leaf that start.json
//     names holds whatever is left of the command.
//   - no start.json and a free lock: nothing was ever started. Who holds the
//     lock then may write exit.json (never_began), and no supervisor will start.
//
// Files have mode 0600, directories 0700. All JSON is strict in both directions:
// one version, no unknown, repeated or missing field (but those that were added and
// are left out when they say nothing), a size cap per file. The
// package is small on purpose (no fmt, no encoding/json, no net), because the
// supervisor of every single command links it.
package rundir

import "errors"

// Version is the version of the contract that this package reads and writes.
//
//	1: the first.
const Version = 1

// Names of the files of a run directory.
const (
	LockFile  = "lock"
	SpecFile  = "spec.json"
	StdinFile = "stdin"
	StartFile = "start.json"
	ExitFile  = "exit.json"
	CtlFile   = "ctl.sock"
	NoteFile  = "note"
	LogFile   = "supervisor.log" // the supervisor's own stderr
)

// NoteVariable names the file of a command's note to the command.
const NoteVariable = "HOSTLER_NOTE"

// Later stands in a supervisor's arguments where the run directory would: the
// supervisor is started before there is a run for it. It reads the path from its
// standard input, up to the end, and serves that directory as if it had been
// started with it, its standard error in LogFile. If it reads nothing it ends, for
// nobody is there any more who could give it a run.
const Later = "-"

// Caps of what is read from a run directory, in bytes.
const (
	MaxSpec   = 2 << 20 // the kernel takes about as much for argv and environment
	MaxRecord = 64 << 10
)

// Output streams of a command, by file descriptor.
const (
	Stdout = 1
	Stderr = 2
	// Recording is no descriptor of the command: it is what a terminal has printed,
	// and when, as an asciicast.
	Recording = 3
)

// StreamFile returns the name of the file of stream fd.
func StreamFile(fd int) string {
	switch fd {
	case Stderr:
		return "stderr"
	case Recording:
		return "recording"
	}
	return "stdout"
}

var (
	// ErrFormat is what every malformed file or message of the contract gives.
	ErrFormat = errors.New("malformed")
	// ErrVersion is a well-formed file of another version.
	ErrVersion = errors.New("unsupported version of the run directory")
	// ErrTooLarge is a file above its cap.
	ErrTooLarge = errors.New("too large")
	// ErrLocked means that another process holds the lock.
	ErrLocked = errors.New("run directory is locked")
)
