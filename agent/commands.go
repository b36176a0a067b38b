package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Commands runs commands under supervisors that outlive the agent: each attempt
// has a directory in which its supervisor records what happens. [NewCommands]
// makes it of a [runner.Runner]. It is safe for concurrent use, but calls about
// one action do not overlap.
type Commands interface {
	// Start writes the directory of an attempt and starts its supervisor. An
	// error means that nothing of the command began and nothing will.
	Start(ctx context.Context, c Command) (Run, error)
	// Recover tells what became of an attempt whose start is durable, and makes
	// sure of it: what it calls never begun never will, and of what died it has
	// ended all that can be found.
	Recover(ctx context.Context, action protocol.ActionID, attempt int) (Found, error)
	// Look tells what an attempt that is under way looks like, whether or not its
	// supervisor answers.
	Look(ctx context.Context, action protocol.ActionID, attempt int) (runner.Sight, error)
	// Abandon kills the supervisor of an attempt: Wait fails with
	// [runner.ErrDied], and Recover ends what is left.
	Abandon(action protocol.ActionID, attempt int) error
	// Output opens what an output stream has so far. It fails with
	// [io/fs.ErrNotExist] for an attempt that left nothing, or no longer does.
	Output(action protocol.ActionID, attempt int, fd protocol.FD) (CommandOutput, error)
	// Note returns what a command has left of what it did, if it was let. It fails
	// with [io/fs.ErrNotExist] if that is nothing.
	Note(action protocol.ActionID, attempt int) ([]byte, error)
	// List returns the newest attempt of each action that has directories.
	List() (map[protocol.ActionID]int, error)
	// Sizes returns how many bytes of the disk the directories of each action
	// take.
	Sizes() (map[protocol.ActionID]int64, error)
	// Remove removes all directories of an action of which nothing lives; none
	// is no error.
	Remove(action protocol.ActionID) error
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
	// Stdin is the file that it reads, by absolute path; empty is none.
	Stdin string
	// SecretEnv are more variables, which are written to no file.
	SecretEnv []string
	// Daemon lets the main process end before the others that it has made.
	Daemon bool
	// WaitMS is for how long the command waits for those who follow it before the
	// middle of its output is dropped; 0 never waits.
	WaitMS int64
	// Terminal is that of a session; nil is none.
	Terminal *rundir.Terminal
	// Login runs the login shell of User. Argv is empty then.
	Login bool
	// Note lets the command leave a note of what it did.
	Note bool
}

// Run is an attempt that lives. It is safe for concurrent use.
type Run interface {
	// Wait waits for the end and tells it. [runner.ErrDied]: the supervisor left
	// no record, and Recover must say what is left. It ends early with ctx.
	Wait(ctx context.Context) (CommandEnd, error)
	// Cancel ends the command: TERM, the grace, KILL. It returns nil when nothing
	// of it is left; Wait then tells how it ended. [runner.ErrUnsupported]: this
	// host cannot end a command as a whole, and has done nothing.
	Cancel(ctx context.Context) error
	// Credit tells the supervisor that all before these offsets is safe elsewhere,
	// and that somebody follows: a command that waits goes on. [rundir.NotTaken]:
	// nobody follows that stream. An error means that it was not heard, and may be
	// told again.
	Credit(ctx context.Context, stdout, stderr int64) error
	// Attach opens the way to the command's terminal, waiting until its supervisor
	// listens. [runner.ErrNoTerminal]: it has none, or has ended.
	Attach(ctx context.Context) (Attachment, error)
	// Changed is closed at the next change of the output, and for good at the
	// end. To miss nothing, take it before reading.
	Changed() <-chan struct{}
	// Started is closed when the start of the command is durable, or when there
	// will be none. What begins after it finds the command begun.
	Started() <-chan struct{}
	// Done is closed at the end.
	Done() <-chan struct{}
}

// Attachment is a way to the terminal of a session. Send takes one packet of package
// terminal, Read waits for acknowledgements; both may be used at the same time, each
// by one goroutine. Close ends them, and nothing else.
type Attachment interface {
	Send(packet []byte) error
	io.ReadCloser
}

// Found is what became of an attempt.
type Found struct {
	Verdict runner.Verdict
	End     CommandEnd // of what exited; of what died, Output alone
	Run     Run        // of what was adopted
	// Emptied tells that no process of it is left for certain.
	Emptied bool
}

// CommandEnd is how an attempt ended.
type CommandEnd struct {
	Exit   protocol.Exit
	Output []protocol.Output
	// NeverBegan tells that no process of the command was ever made; Exit.Error
	// says why.
	NeverBegan bool
	// Emptied tells that no process of it was left at the end.
	Emptied bool
}

// CommandOutput is an output stream that may still grow. ReadAt fails with a
// [runner.DroppedError] at a part that was dropped, and with io.EOF at the
// present end. It belongs to one goroutine.
type CommandOutput interface {
	io.ReaderAt
	io.Closer
	// Size is how many bytes the command has written, dropped ones included.
	Size() (int64, error)
}

// NewCommands lets a Runner run the agent's commands. boot is the present boot,
// by [runner.Boot]. The caller closes the Runner after [Agent.Run].
func NewCommands(r *runner.Runner, boot string) Commands { return commands{r, boot} }

type commands struct {
	runner *runner.Runner
	boot   string
}

func (c commands) Start(ctx context.Context, cmd Command) (Run, error) {
	s := runner.Spec{Supervisor: cmd.Supervisor}
	s.Action, s.Attempt, s.Target = cmd.Action.String(), cmd.Attempt, cmd.Target
	s.StdinFile = cmd.Stdin
	s.Argv, s.Env, s.Dir, s.User = cmd.Argv, cmd.Env, cmd.Dir, cmd.User
	s.TimeoutMS, s.GraceMS = cmd.TimeoutMS, -1 // the contract's own grace
	s.Daemon, s.SecretEnv = cmd.Daemon, cmd.SecretEnv
	s.WaitMS = cmd.WaitMS
	s.Terminal, s.Login, s.Note = cmd.Terminal, cmd.Login, cmd.Note
	run, err := c.runner.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	return supervised{run, c, cmd.Action, cmd.Attempt}, nil
}

func (c commands) Recover(ctx context.Context, action protocol.ActionID, attempt int) (Found, error) {
	found, err := c.runner.Recover(ctx, action.String(), attempt, c.boot)
	if err != nil {
		return Found{}, err
	}
	f := Found{Verdict: found.Verdict, Emptied: found.Emptied}
	switch f.Verdict {
	case runner.Died, runner.Rebooted:
		f.End.Output = c.left(action, attempt)
	}
	if found.Exit != nil {
		f.End = endOf(found)
	}
	ended := ""
	if found.Exit != nil {
		ended = found.Exit.RecordingEnded
	}
	if r, ok := c.recording(action, attempt, ended); ok && f.Run == nil {
		f.End.Output = append(f.End.Output, r)
	}
	if found.Run != nil {
		f.Run = supervised{found.Run, c, action, attempt}
	}
	return f, nil
}

func (c commands) Look(ctx context.Context, action protocol.ActionID, attempt int) (runner.Sight, error) {
	return c.runner.Look(ctx, action.String(), attempt)
}

func (c commands) Abandon(action protocol.ActionID, attempt int) error {
	return c.runner.Abandon(action.String(), attempt)
}

// left is the account of what an attempt wrote that left none itself. A stream
// that cannot be read has none.
func (c commands) left(action protocol.ActionID, attempt int) (all []protocol.Output) {
	for i, fd := range []protocol.FD{protocol.Stdout, protocol.Stderr} {
		o, err := c.runner.Output(action.String(), attempt, i+1)
		if err != nil {
			continue
		}
		if x, err := o.Account(); err == nil {
			all = append(all, size(fd, x.Bytes, x.DroppedAt, x.DroppedBytes, x.LostBytes))
		}
		_ = o.Close() // it was only read
	}
	return all
}

// recording is the account of the recording of a session that has ended, if there is
// one: its digest is what both audit logs have of it. ended is why it ended before
// its session.
func (c commands) recording(action protocol.ActionID, attempt int, ended string) (protocol.Output, bool) {
	o, err := c.runner.Output(action.String(), attempt, rundir.Recording)
	if err != nil {
		return protocol.Output{}, false
	}
	defer o.Close()
	size, err := o.Size()
	if err != nil || size == 0 {
		return protocol.Output{}, false
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(o, 0, size))
	if err != nil || n != size {
		return protocol.Output{FD: protocol.Recording, Bytes: size, Ended: "it cannot be read on its host"}, true
	}
	return protocol.Output{FD: protocol.Recording, Bytes: size, SHA256: protocol.Digest(sum.Sum(nil)), Ended: ended}, true
}

func (c commands) Output(action protocol.ActionID, attempt int, fd protocol.FD) (CommandOutput, error) {
	return c.runner.Output(action.String(), attempt, index(fd)+1)
}

func (c commands) Note(action protocol.ActionID, attempt int) ([]byte, error) {
	return c.runner.Note(action.String(), attempt)
}

func (c commands) List() (map[protocol.ActionID]int, error) {
	ids, err := c.runner.List()
	if err != nil {
		return nil, err
	}
	newest := make(map[protocol.ActionID]int)
	for _, id := range ids {
		action, err := protocol.ParseActionID(id.Action)
		if err != nil {
			return nil, fmt.Errorf("a run that is not ours: %w", err)
		}
		newest[action] = max(newest[action], id.Attempt)
	}
	return newest, nil
}

func (c commands) Sizes() (map[protocol.ActionID]int64, error) {
	sizes, err := c.runner.Sizes()
	if err != nil {
		return nil, err
	}
	all := make(map[protocol.ActionID]int64, len(sizes))
	for name, size := range sizes {
		if id, err := protocol.ParseActionID(name); err == nil {
			all[id] = size
		}
	}
	return all, nil
}

func (c commands) Remove(action protocol.ActionID) error { return c.runner.Remove(action.String()) }

// supervised is a run of the runner.
type supervised struct {
	*runner.Run
	commands commands
	action   protocol.ActionID
	attempt  int
}

// Wait shadows the runner's, whose record is of its own contract.
func (s supervised) Wait(ctx context.Context) (CommandEnd, error) {
	exit, err := s.Run.Wait(ctx)
	if err != nil {
		return CommandEnd{}, err
	}
	end := endOf(runner.Found{Exit: exit})
	if r, ok := s.commands.recording(s.action, s.attempt, exit.RecordingEnded); ok {
		end.Output = append(end.Output, r)
	}
	return end, nil
}

// Attach shadows the runner's, to return an interface.
func (s supervised) Attach(ctx context.Context) (Attachment, error) {
	at, err := s.Run.Attach(ctx)
	if err != nil {
		return nil, err // and not a nil Attachment that is none
	}
	return at, nil
}

// endOf translates a record of the run directory.
func endOf(found runner.Found) CommandEnd {
	x := found.Exit
	end := CommandEnd{
		Exit: protocol.Exit{Code: x.Code, Signal: x.Signal, OOM: x.OOM, TimedOut: x.TimedOut, Cancelled: x.Cancelled, HungUp: x.HungUp, Unrecorded: x.Unrecorded,
			RunMS: max(0, x.EndedMS-x.StartedMS)},
		NeverBegan: x.NeverBegan || x.Reason != "",
		Emptied:    x.Emptied,
	}
	if x.Reason != "" {
		end.Exit.Error = x.Reason
		if x.Detail != "" {
			end.Exit.Error += ": " + x.Detail
		}
	}
	end.Output = []protocol.Output{
		size(protocol.Stdout, x.Stdout.Bytes, x.Stdout.DroppedAt, x.Stdout.DroppedBytes, x.Stdout.LostBytes),
		size(protocol.Stderr, x.Stderr.Bytes, x.Stderr.DroppedAt, x.Stderr.DroppedBytes, x.Stderr.LostBytes),
	}
	return end
}

// size is the account of one output stream. What the disk had no room for is
// missing at its end, what the cap dropped before that.
func size(fd protocol.FD, written, droppedAt, dropped, lost int64) protocol.Output {
	if dropped == 0 && lost > 0 {
		droppedAt = written - lost
	}
	return protocol.Output{FD: fd, Bytes: written, Dropped: dropped + lost, DropAt: droppedAt}
}

// isDropped reports whether a read came to a part that is not kept, and where
// reading goes on.
func isDropped(err error) (to int64, ok bool) {
	d, ok := errors.AsType[*runner.DroppedError](err)
	if !ok {
		return 0, false
	}
	return d.To, true
}
