package agent

import (
	"context"
	"errors"
	"io"

	"github.com/hostler-io/hostler/protocol"
)

// Commands runs commands under supervisors that outlive the agent: each attempt
// has a directory in which its supervisor records what happens. It is safe for
// concurrent use.
type Commands interface {
	// Start writes the directory of an attempt and starts its supervisor. An
	// error means that nothing of the command began and nothing will.
	Start(ctx context.Context, c Command) error
	// Recover tells what became of an attempt whose start is durable, and makes
	// sure of it: what it calls dead has no process left, and what it says never
	// began never will.
	Recover(ctx context.Context, action protocol.ActionID, attempt int) (Verdict, CommandEnd, error)
	// Wait waits for the end of an attempt that lives, whoever started it, and
	// tells it. An attempt whose supervisor died without a record is
	// [ErrSupervisorDied]; its processes are gone by then.
	Wait(ctx context.Context, action protocol.ActionID, attempt int) (CommandEnd, error)
	// Cancel ends a command: TERM, the grace, KILL. It returns nil when no
	// process of it is left, and [ErrCancelUnsupported] where that cannot be
	// known. Wait tells how it ended.
	Cancel(ctx context.Context, action protocol.ActionID, attempt int) error
	// Output opens what an output stream has so far.
	Output(action protocol.ActionID, attempt int, fd protocol.FD) (CommandOutput, error)
	// Forget ends whatever is left of an action's attempts and removes them.
	Forget(ctx context.Context, action protocol.ActionID) error
	// List returns the actions that have directories.
	List() ([]protocol.ActionID, error)
}

// Command is one attempt of a command.
type Command struct {
	Action  protocol.ActionID
	Attempt int // from 1
	// Supervisor is its program by absolute path, with leading arguments.
	Supervisor []string
	// Target means something to the supervisor alone.
	Target map[string]string
	Argv   []string
	Env    []string // K=V
	Dir    string   // absolute; empty is /
	User   string   // name or uid[:gid]; empty is root
	// TimeoutMS is the limit on the boot clock; 0 is none.
	TimeoutMS int64
}

// Verdict is what became of an attempt.
type Verdict int

// The verdicts. The zero value is invalid.
const (
	VerdictEnded      Verdict = iota + 1 // its record is there, whatever the boot
	VerdictRebooted                      // it ran in another boot and left no record
	VerdictRunning                       // its supervisor lives
	VerdictDied                          // its supervisor died; nothing of it is left now
	VerdictNeverBegan                    // no supervisor took it up, and none will
)

// CommandEnd is how an attempt ended.
type CommandEnd struct {
	Exit   protocol.Exit
	Output []protocol.Output
	// NeverBegan tells that no process of the command was ever made.
	NeverBegan bool
	// Emptied tells that no process of it was left at the end.
	Emptied bool
}

var (
	// ErrSupervisorDied: a supervisor ended without a record.
	ErrSupervisorDied = errors.New("the supervisor of the command died")
	// ErrCancelUnsupported: this host cannot end a command as a whole.
	ErrCancelUnsupported = errors.New("this host cannot end a command with all its processes")
)

// CommandOutput is an output stream that may still grow. It belongs to one
// goroutine.
type CommandOutput interface {
	io.ReaderAt
	io.Closer
	// Size is how many bytes the command has written, dropped ones included.
	Size() (int64, error)
	// Dropped is the range [from, to) that the cap has removed of a stream of
	// that size; from = to is none.
	Dropped(size int64) (from, to int64)
	// Wait returns when the stream may have grown beyond size, when the
	// command has ended, or when ctx ends.
	Wait(ctx context.Context, size int64) error
}
