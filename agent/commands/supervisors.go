package commands

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Supervisors are the [Runner] and the [RunDirs] of a host: a [runner.Runner] in
// the words of the protocol.
type Supervisors struct {
	runner *runner.Runner
	boot   string
}

var (
	_ Runner  = (*Supervisors)(nil)
	_ RunDirs = (*Supervisors)(nil)
)

// NewSupervisors lets r run commands. boot is the present boot, by [runner.Boot].
// The caller closes r after the agent has ended.
func NewSupervisors(r *runner.Runner, boot string) *Supervisors { return &Supervisors{r, boot} }

// Start implements [Runner].
func (c *Supervisors) Start(_ context.Context, action protocol.ActionID, attempt int, spec runner.Spec) (Run, error) {
	spec.Action, spec.Attempt, spec.GraceMS = action.String(), attempt, -1
	run, err := c.runner.Start(spec)
	if err != nil {
		return nil, err
	}
	return supervised{run, c, action, attempt}, nil
}

// Recover implements [Runner].
func (c *Supervisors) Recover(ctx context.Context, action protocol.ActionID, attempt int) (Found, error) {
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

// Look implements [Runner].
func (c *Supervisors) Look(ctx context.Context, action protocol.ActionID, attempt int) (runner.Sight, error) {
	return c.runner.Look(ctx, action.String(), attempt)
}

// Abandon implements [Runner].
func (c *Supervisors) Abandon(action protocol.ActionID, attempt int) error {
	return c.runner.Abandon(action.String(), attempt)
}

// left is the account of what an attempt wrote that left none itself. A stream
// that cannot be read has none.
func (c *Supervisors) left(action protocol.ActionID, attempt int) (all []protocol.Output) {
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
func (c *Supervisors) recording(action protocol.ActionID, attempt int, ended string) (protocol.Output, bool) {
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

// Output implements [RunDirs].
func (c *Supervisors) Output(action protocol.ActionID, attempt int, fd protocol.FD) (Output, error) {
	return c.runner.Output(action.String(), attempt, Index(fd)+1)
}

// Note implements [RunDirs].
func (c *Supervisors) Note(action protocol.ActionID, attempt int) ([]byte, error) {
	return c.runner.Note(action.String(), attempt)
}

// List implements [RunDirs].
func (c *Supervisors) List() (map[protocol.ActionID]int, error) {
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

// Sizes implements [RunDirs].
func (c *Supervisors) Sizes() (map[protocol.ActionID]int64, error) {
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

// Space implements [RunDirs].
func (c *Supervisors) Space() (space.Space, error) { return c.runner.Space() }

// Remove implements [RunDirs].
func (c *Supervisors) Remove(actions ...protocol.ActionID) error {
	names := make([]string, len(actions))
	for i, id := range actions {
		names[i] = id.String()
	}
	return c.runner.Remove(names...)
}

// supervised is a run of the runner.
type supervised struct {
	*runner.Run
	supervisors *Supervisors
	action      protocol.ActionID
	attempt     int
}

// Wait shadows the runner's, whose record is of its own contract.
func (s supervised) Wait(ctx context.Context) (End, error) {
	exit, err := s.Run.Wait(ctx)
	if err != nil {
		return End{}, err
	}
	end := endOf(runner.Found{Exit: exit})
	if r, ok := s.supervisors.recording(s.action, s.attempt, exit.RecordingEnded); ok {
		end.Output = append(end.Output, r)
	}
	return end, nil
}

// endOf translates a record of the run directory.
func endOf(found runner.Found) End {
	x := found.Exit
	end := End{
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
