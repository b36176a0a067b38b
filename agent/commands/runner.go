package commands

import (
	"context"
	"errors"
	"io"

	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
)

// Runner runs commands under supervisors that outlive the agent: each attempt has
// a run directory in which its supervisor records what happens. [NewSupervisors]
// makes it of a [runner.Runner]. It is safe for concurrent use, but calls about
// one action do not overlap.
type Runner interface {
	// Start writes the directory of an attempt, from 1, and starts its supervisor,
	// with the contract's own grace. An error means that nothing of the command
	// began and nothing will.
	Start(ctx context.Context, action protocol.ActionID, attempt int, spec runner.Spec) (Run, error)
	// Recover tells what became of an attempt whose start is durable, and makes
	// sure of it: an attempt that it calls never begun will never begin, and of an
	// attempt that died it has ended all processes that can be found.
	Recover(ctx context.Context, action protocol.ActionID, attempt int) (Found, error)
	// Look tells what an attempt that is under way looks like, whether or not its
	// supervisor answers.
	Look(ctx context.Context, action protocol.ActionID, attempt int) (runner.Sight, error)
	// Abandon kills the supervisor of an attempt: Wait fails with
	// [runner.ErrDied], and Recover ends what is left.
	Abandon(action protocol.ActionID, attempt int) error
}

// RunDirs are the run directories, which stay when their commands have ended. It
// is safe for concurrent use.
type RunDirs interface {
	// Output opens what an output stream has so far. It fails with
	// [io/fs.ErrNotExist] for an attempt that left nothing, or no longer does.
	Output(action protocol.ActionID, attempt int, fd protocol.FD) (Output, error)
	// Note returns the note that a command has left of what it did, if it was
	// let. It fails with [io/fs.ErrNotExist] if there is none.
	Note(action protocol.ActionID, attempt int) ([]byte, error)
	// List returns the newest attempt of each action that has directories.
	List() (map[protocol.ActionID]int, error)
	// Sizes returns how many bytes of the disk the directories of each action
	// take.
	Sizes() (map[protocol.ActionID]int64, error)
	// Space tells how much of their file system is free.
	Space() (space.Space, error)
	// Remove removes the directories of the actions whose processes have all ended. A
	// missing directory is no error. An action with a living process is an error, and the
	// directories of the other actions go all the same.
	Remove(actions ...protocol.ActionID) error
}

// Run is an attempt that lives. It is safe for concurrent use.
type Run interface {
	// Wait waits for the end and tells it. [runner.ErrDied]: the supervisor left
	// no record, and Recover must say what is left. It ends early with ctx.
	Wait(ctx context.Context) (End, error)
	// Cancel ends the command: TERM, the grace, KILL. It returns nil when nothing
	// of it is left; Wait then tells how it ended. [runner.ErrUnsupported]: this
	// host cannot end a command as a whole, and has done nothing.
	Cancel(ctx context.Context) error
	// Credit tells the supervisor that all before these offsets is safe elsewhere,
	// and that the command is followed: if it waits, it goes on. [rundir.NotTaken]:
	// that stream is not followed. After an error the supervisor may be told again.
	Credit(ctx context.Context, stdout, stderr int64) error
	// Attach opens the way to the command's terminal, waiting until its supervisor
	// listens: Write takes one packet of package terminal, Read waits for
	// acknowledgements, and one goroutine may do each.
	// [runner.ErrNoTerminal]: it has none, or has ended.
	Attach(ctx context.Context) (io.ReadWriteCloser, error)
	// Changed is closed at the next change of the output, and for good at the
	// end. To miss nothing, take it before reading.
	Changed() <-chan struct{}
	// Started is closed when the start of the command is durable, or when there
	// will be none. What begins after it finds the command begun.
	Started() <-chan struct{}
	// Done is closed at the end.
	Done() <-chan struct{}
}

// Found is what became of an attempt.
type Found struct {
	Verdict runner.Verdict
	End     End // of what exited; of what died, Output alone
	Run     Run // of what was adopted
	// Emptied tells that certainly no process of it is left.
	Emptied bool
}

// End is how an attempt ended.
type End struct {
	Exit   protocol.Exit
	Output []protocol.Output
	// NeverBegan tells that no process of the command was ever made; Exit.Error
	// says why.
	NeverBegan bool
	// Emptied tells that no process of it was left at the end.
	Emptied bool
}

// Output is an output stream that may still grow. ReadAt fails with a
// [runner.DroppedError] at a part that was dropped, and with io.EOF at the
// present end. It belongs to one goroutine.
type Output interface {
	io.ReaderAt
	io.Closer
	// Size is how many bytes the command has written, dropped ones included.
	Size() (int64, error)
}

// Dropped reports whether a read came to a part that was dropped, and the offset
// at which reading goes on.
func Dropped(err error) (to int64, ok bool) {
	d, ok := errors.AsType[*runner.DroppedError](err)
	if !ok {
		return 0, false
	}
	return d.To, true
}
