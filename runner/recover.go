package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Verdict is what Recover found.
type Verdict string

// The verdicts, in the order in which they are tried.
const (
	// Exited: the end is recorded in Found.Exit, in whichever boot it was.
	Exited Verdict = "exited"
	// Rebooted: the run belongs to another boot and its end is not known.
	Rebooted Verdict = "rebooted"
	// Adopted: the supervisor lives; Found.Run is watched again.
	Adopted Verdict = "adopted"
	// Died: the supervisor died without a record. What was in the leaf has
	// been killed; Found.Emptied says whether nothing is left for certain.
	Died Verdict = "died"
	// NeverBegan: nothing was executed, nothing will be. Recover has recorded
	// that in exit.json, which shuts out a supervisor that comes late.
	NeverBegan Verdict = "never_began"
)

// Found is the answer of Recover.
type Found struct {
	Verdict Verdict
	// Exit is the record, for Exited and NeverBegan.
	Exit *rundir.Exit
	// Run is the watched run, for Adopted.
	Run *Run
	// Emptied: no process of the command is left, seen for certain. For Died,
	// false means that the run had no leaf and processes of it may live.
	Emptied bool
	// Problem says which file of the run directory could not be understood,
	// if one could not. The verdict is then Died, and Emptied false; or
	// Rebooted, when it was the record of the end in another boot.
	Problem error
}

// retryHolder is for the few microseconds between a supervisor's taking the lock
// and its naming itself there, and between its death and the lock's release.
const retryHolder = 10 * time.Millisecond

// Recover finds out what became of a run after a restart. boot is the present
// boot (see Boot). Whatever it returns without an error is final: calling it
// again gives the same, except that NeverBegan stays, Adopted may have become
// Exited or Died, and Died stays Died. It waits until a killed leaf is empty, or
// until ctx ends.
func (r *Runner) Recover(ctx context.Context, action string, attempt int, boot string) (Found, error) {
	if !rundir.ValidAction(action) || attempt < 1 || boot == "" {
		return Found{}, fmt.Errorf("recovering run %q/%d: no such run, or no boot", action, attempt)
	}
	found, err := r.recover(ctx, r.dir(action, attempt), ID{action, attempt}, boot)
	if err != nil {
		return Found{}, fmt.Errorf("recovering run %s/%d: %w", action, attempt, err)
	}
	return found, nil
}

func (r *Runner) recover(ctx context.Context, dir rundir.Dir, id ID, boot string) (Found, error) {
	if err := makeDir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return Found{}, err
	}
	for {
		if found, ok, err := recorded(dir, boot); ok || err != nil {
			return found, err
		}
		lock, err := dir.Lock()
		if err == nil {
			defer rundir.Unlock(lock)
			return judge(ctx, dir, boot)
		}
		if !errors.Is(err, rundir.ErrLocked) {
			return Found{}, err
		}
		run, err := r.adopt(dir, id)
		if err != nil {
			return Found{}, err
		}
		if run != nil {
			return Found{Verdict: Adopted, Run: run}, nil
		}
		select {
		case <-time.After(retryHolder):
		case <-ctx.Done():
			return Found{}, context.Cause(ctx)
		}
	}
}

// recorded looks for exit.json.
func recorded(dir rundir.Dir, boot string) (found Found, ok bool, err error) {
	exit, err := dir.Exit()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Found{}, false, nil
	case damaged(err):
		if start, startErr := dir.Start(); startErr == nil && start.Boot != boot {
			// Most likely it was being written when the power failed.
			found := rebooted(start)
			found.Problem = err
			return found, true, nil
		}
		return Found{Verdict: Died, Problem: err}, true, nil
	case err != nil:
		return Found{}, false, err
	case exit.NeverBegan && exit.Reason == rundir.ReasonNotStarted:
		return Found{Verdict: NeverBegan, Exit: exit, Emptied: true}, true, nil
	}
	return Found{Verdict: Exited, Exit: exit, Emptied: exit.Emptied}, true, nil
}

// damaged reports whether a file was read and will never be understood. Another
// error, such as too many open files, says nothing about the run.
func damaged(err error) bool {
	return errors.Is(err, rundir.ErrFormat) || errors.Is(err, rundir.ErrVersion) || errors.Is(err, rundir.ErrTooLarge)
}

// judge decides under the lock, so that no supervisor can begin meanwhile.
func judge(ctx context.Context, dir rundir.Dir, boot string) (Found, error) {
	if found, ok, err := recorded(dir, boot); ok || err != nil {
		return found, err
	}
	start, err := dir.Start()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return neverBegan(dir)
	case damaged(err):
		return Found{Verdict: Died, Problem: err}, nil
	case err != nil:
		return Found{}, err
	case start.Boot != boot:
		return rebooted(start), nil
	case start.Leaf == "":
		return Found{Verdict: Died}, nil
	}
	leaf := rundir.Leaf(start.Leaf)
	if err := leaf.End(ctx); err != nil {
		return Found{}, err
	}
	return Found{Verdict: Died, Emptied: true}, leaf.Remove()
}

// rebooted is the verdict on what began in another boot and has no end.
func rebooted(start *rundir.Start) Found {
	if start.Leaf != "" {
		// Of a guest that was restarted alone it may stand there, empty.
		_ = rundir.Leaf(start.Leaf).Remove()
	}
	return Found{Verdict: Rebooted, Emptied: true}
}

// neverBegan records that nothing was executed, which nobody can change any more.
func neverBegan(dir rundir.Dir) (Found, error) {
	if holder, err := dir.Holder(); err == nil && holder.Leaf != "" {
		// Made just before the supervisor died. No process was ever in it.
		if err := rundir.Leaf(holder.Leaf).Remove(); err != nil {
			return Found{}, err
		}
	}
	now := clock.BootMS()
	exit := &rundir.Exit{
		Code: rundir.CodeNeverBegan, NeverBegan: true, Emptied: true,
		Reason: rundir.ReasonNotStarted, StartedMS: now, EndedMS: now,
	}
	// The directory may have been made a moment ago. If a power failure takes it
	// back, the same will be found again.
	if err := dir.PublishExit(exit); err != nil {
		return Found{}, err
	}
	return Found{Verdict: NeverBegan, Exit: exit, Emptied: true}, nil
}

// adopt watches the run whose lock is held. It returns nil when the holder is
// not known yet, or has just ended.
func (r *Runner) adopt(dir rundir.Dir, id ID) (*Run, error) {
	pidfd, err := openHolder(dir)
	if err != nil || pidfd < 0 {
		return nil, err
	}
	supervisor, err := newProcess(pidfd)
	if err != nil {
		return nil, err
	}
	run, err := r.newRun(id.Action, id.Attempt)
	if err != nil {
		supervisor.close()
		return nil, err
	}
	run.settle(false) // it may have ended before the watch began
	r.follow(run, supervisor, func() {})
	return run, nil
}
