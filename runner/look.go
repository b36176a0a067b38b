package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// answerTime is how long a supervisor has for an answer: it does nothing else that
// would keep it from one.
const answerTime = 5 * time.Second

// A Process is one that lives. State is as ps shows it: D waits for a device and
// cannot be ended, T is stopped, Z has ended.
type Process struct {
	PID   int
	State byte
}

// Sight is what a run looks like from outside.
type Sight struct {
	// Supervisor is zero if none lives.
	Supervisor Process
	// Silent: the supervisor is stopped, or does not answer.
	Silent bool
	// StartedMS is when the start was declared, on the boot clock; 0 is not yet.
	StartedMS int64
	// Alive are the processes of the command that can be found, by their leaf.
	Alive []Process
}

// Look tells what a run that is not over looks like. It takes some seconds if the
// supervisor does not answer.
func (r *Runner) Look(ctx context.Context, action string, attempt int) (Sight, error) {
	if !rundir.ValidAction(action) || attempt < 1 {
		return Sight{}, fmt.Errorf("looking at run %q/%d: no such run", action, attempt)
	}
	s, err := r.look(ctx, r.dir(action, attempt))
	if err != nil {
		return Sight{}, fmt.Errorf("looking at run %s/%d: %w", action, attempt, err)
	}
	return s, nil
}

func (r *Runner) look(ctx context.Context, dir rundir.Dir) (s Sight, err error) {
	start, err := dir.Start()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if start != nil && start.Leaf != "" {
		pids, err := rundir.Leaf(start.Leaf).Processes()
		if err != nil {
			return s, err
		}
		for _, pid := range pids {
			if state := processState(pid); state != 0 {
				s.Alive = append(s.Alive, Process{pid, state})
			}
		}
	}
	if start != nil {
		s.StartedMS = start.StartedMS
	}
	holder, err := dir.Holder()
	if err != nil {
		return s, nil // there was none, or it is about to write its name
	}
	if ticks, err := rundir.StartTicks(holder.PID); err != nil || ticks != holder.StartTicks {
		return s, nil
	}
	s.Supervisor = Process{holder.PID, processState(holder.PID)}
	switch s.Supervisor.State {
	case 0, 'Z':
		s.Supervisor = Process{}
	case 'T', 't':
		s.Silent = true
	default:
		s.Silent = r.silent(ctx, dir, start != nil)
	}
	return s, nil
}

// silent asks the supervisor for something that it refuses, so that nothing comes
// of it. One that has not declared the start may not listen yet, but not for long: what
// it looks at may lie where nobody answers.
func (r *Runner) silent(ctx context.Context, dir rundir.Dir, started bool) bool {
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	retry := time.NewTicker(askAgain)
	defer retry.Stop()
	for {
		_, err := (&Run{dir: dir, runner: r}).request(limited, rundir.Request{Op: rundir.OpNone})
		switch {
		case err == nil || ctx.Err() != nil:
			return false
		case limited.Err() != nil || errors.Is(err, unix.EAGAIN):
			return true
		case started || !errors.Is(err, fs.ErrNotExist) || dir.Has(rundir.ExitFile):
			return false
		}
		select {
		case <-retry.C:
		case <-limited.Done():
		}
	}
}

// Abandon kills the supervisor of a run. What is left of the command is for Recover,
// which those who wait for the run are sent to by ErrDied. None is no error.
func (r *Runner) Abandon(action string, attempt int) error {
	if !rundir.ValidAction(action) || attempt < 1 {
		return fmt.Errorf("abandoning run %q/%d: no such run", action, attempt)
	}
	pidfd, err := openHolder(r.dir(action, attempt))
	if err != nil || pidfd < 0 {
		return err
	}
	defer unix.Close(pidfd)
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}

// openHolder returns a pidfd of the supervisor that has named itself in the lock file;
// below zero if that does not live, or has not named itself yet.
func openHolder(dir rundir.Dir) (pidfd int, err error) {
	holder, err := dir.Holder()
	if err != nil {
		return -1, nil
	}
	pidfd, err = unix.PidfdOpen(holder.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return -1, nil
	}
	if err != nil {
		return -1, os.NewSyscallError("pidfd_open", err)
	}
	// After the pidfd was opened: the pid cannot change its owner any more.
	if ticks, err := rundir.StartTicks(holder.PID); err != nil || ticks != holder.StartTicks {
		unix.Close(pidfd)
		return -1, nil
	}
	return pidfd, nil
}

// processState is the state of a process; 0 if there is none.
func processState(pid int) byte {
	fields, err := rundir.Stat(pid)
	if err != nil {
		return 0
	}
	return fields[0][0]
}
