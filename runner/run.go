package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/runner/rundir"
)

// askAgain bounds how long a change in the run directory is waited for before the
// supervisor is asked again: a full backlog of ctl.sock makes no event.
const askAgain = 100 * time.Millisecond

// A Run is one command under its supervisor, watched. Its methods may be called
// from any goroutine.
type Run struct {
	ID
	dir    rundir.Dir
	runner *Runner
	done   chan struct{}
	began  chan struct{}
	once   sync.Once // closes began

	mu      sync.Mutex
	changed chan struct{}
	remove  func()
	exit    *rundir.Exit
	err     error
	settled bool
}

// newRun begins to watch a run directory that exists.
func (r *Runner) newRun(action string, attempt int) (*Run, error) {
	run := &Run{
		ID: ID{action, attempt}, dir: r.dir(action, attempt), runner: r,
		done: make(chan struct{}), changed: make(chan struct{}), began: make(chan struct{}),
	}
	remove, err := r.watch.add(string(run.dir), run.noticed)
	if err != nil {
		return nil, err
	}
	run.mu.Lock()
	run.remove = remove
	settled := run.settled
	run.mu.Unlock()
	if settled {
		run.release()
	}
	run.lookStarted()
	return run, nil
}

// noticed takes a change of the directory. A supervisor makes a dozen before the
// command has begun; nobody is woken for one that tells nothing.
func (run *Run) noticed(name string) {
	switch name {
	case "":
		run.settle(false)
		run.lookStarted()
		run.broadcast()
	case rundir.StartFile:
		run.lookStarted()
	case rundir.ExitFile:
		run.settle(false)
	case rundir.CtlFile, rundir.StreamFile(rundir.Stdout), rundir.StreamFile(rundir.Stderr):
		run.broadcast()
	}
}

// release ends the watching of the directory.
func (run *Run) release() {
	run.mu.Lock()
	remove := run.remove
	run.remove = nil
	run.mu.Unlock()
	if remove != nil {
		remove()
	}
}

func (run *Run) broadcast() {
	run.mu.Lock()
	defer run.mu.Unlock()
	if !run.settled {
		close(run.changed)
		run.changed = make(chan struct{})
	}
}

// settle ends the run if exit.json is there, or if the supervisor is gone.
func (run *Run) settle(gone bool) {
	run.mu.Lock()
	settled := run.settled
	run.mu.Unlock()
	if settled {
		return // the end is told twice as a rule: by its record, and by the supervisor's end
	}
	exit, err := run.dir.Exit()
	if errors.Is(err, fs.ErrNotExist) {
		if !gone {
			return
		}
		err = ErrDied
	}
	run.mu.Lock()
	if run.settled {
		run.mu.Unlock()
		return
	}
	run.settled, run.exit, run.err = true, exit, err
	close(run.changed)
	close(run.done)
	run.mu.Unlock()
	run.once.Do(func() { close(run.began) })
	run.release()
}

func (run *Run) recorded() bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.exit != nil
}

// lookStarted notes that the start was declared, if it was.
func (run *Run) lookStarted() {
	if run.dir.Has(rundir.StartFile) {
		run.once.Do(func() { close(run.began) })
	}
}

// Started is closed when the supervisor has declared the start of the command, or
// when the run is over without one.
func (run *Run) Started() <-chan struct{} { return run.began }

// Done is closed when the run is over: its end is recorded, or its supervisor
// died without a record.
func (run *Run) Done() <-chan struct{} { return run.done }

// Wait returns how the run ended. ErrDied means that the supervisor was killed:
// the command may still run, and Recover must be called. ErrClosed means that
// the Runner was closed before the end.
func (run *Run) Wait(ctx context.Context) (*rundir.Exit, error) {
	select {
	case <-run.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-run.runner.closed:
		return nil, ErrClosed
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.err != nil {
		return nil, fmt.Errorf("run %s/%d: %w", run.Action, run.Attempt, run.err)
	}
	return run.exit, nil
}

// Changed returns a channel that is closed at the next change of the output, and
// for good when the run is over. To miss nothing, take the channel before
// reading. It may be closed without a change.
func (run *Run) Changed() <-chan struct{} {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.changed
}

// Output opens a stream of the run; see Runner.Output.
func (run *Run) Output(fd int) (*Output, error) {
	return run.runner.Output(run.Action, run.Attempt, fd)
}

// Cancel asks the supervisor to end the command (TERM, the grace, KILL) and
// returns nil when nothing of it is left and the end is recorded; Wait then says
// whether it was cancelled or had ended by itself before. When ctx ends first,
// the cancelling goes on. ErrUnsupported: it cannot be cancelled here. ErrDied,
// ErrClosed: as for Wait.
func (run *Run) Cancel(ctx context.Context) error {
	return run.ask(ctx, func() (answered bool, err error) {
		result, err := run.request(ctx, rundir.Request{Op: rundir.OpCancel})
		switch {
		case ctx.Err() != nil:
			return true, context.Cause(ctx)
		case err != nil:
			return false, err
		case result == rundir.ResultEnded:
			_, err := run.Wait(ctx)
			return true, err
		case result == rundir.ResultUnsupported:
			return true, ErrUnsupported
		}
		return true, fmt.Errorf("cancelling run %s/%d: supervisor answered %q", run.Action, run.Attempt, result)
	})
}

// ask asks the supervisor for something until it has answered: it may not listen yet,
// have too many peers, or have just ended. When the run is over it gives what Wait
// gives.
func (run *Run) ask(ctx context.Context, try func() (answered bool, err error)) error {
	for {
		changed := run.Changed()
		select {
		case <-run.done:
			_, err := run.Wait(ctx)
			return err
		default:
		}
		if answered, err := try(); answered {
			return err
		}
		select {
		case <-changed:
		case <-time.After(askAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-run.runner.closed:
			return ErrClosed
		}
	}
}

// Credit tells the supervisor that all before these offsets of stdout and stderr
// is safe elsewhere and may be dropped, and that a client follows: a command that
// waits goes on (see rundir.Spec.WaitMS). The highest that was ever told counts.
// [rundir.NotTaken] is for a stream that nobody follows.
// An error means that the supervisor was not reached: it does not listen yet, or
// the run is over.
func (run *Run) Credit(ctx context.Context, stdout, stderr int64) error {
	result, err := run.request(ctx, rundir.Request{Op: rundir.OpCredit, Taken: [2]int64{stdout, stderr}})
	if err == nil && result != rundir.ResultTaken {
		err = fmt.Errorf("supervisor answered %q", result)
	}
	if err != nil {
		return fmt.Errorf("telling run %s/%d how much output was read: %w", run.Action, run.Attempt, err)
	}
	return nil
}

// request sends one request to ctl.sock and returns the result of the reply.
func (run *Run) request(ctx context.Context, r rundir.Request) (string, error) {
	conn, err := run.dial()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	answered := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(answered)
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-run.runner.closed:
		case <-answered:
			return
		}
		_ = conn.SetDeadline(time.Unix(1, 0)) // ends Write and Read
	})
	return exchange(conn, r)
}

// dial connects to ctl.sock.
func (run *Run) dial() (*net.UnixConn, error) {
	dir, err := os.OpenFile(string(run.dir), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: rundir.SocketPath(dir, rundir.CtlFile), Net: "unixpacket"})
}

// exchange sends one request and returns the result of the reply.
func exchange(conn *net.UnixConn, r rundir.Request) (string, error) {
	if _, err := conn.Write(rundir.AppendRequest(nil, r)); err != nil {
		return "", err
	}
	buf := make([]byte, rundir.MaxPacket+1)
	n, err := conn.Read(buf)
	if err != nil {
		return "", err
	}
	reply, err := rundir.ParseReply(buf[:n])
	return reply.Result, err
}
