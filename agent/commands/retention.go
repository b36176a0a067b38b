package commands

import (
	"context"
	"errors"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// ErrGone: the output was removed, because it was old or there was too much.
var ErrGone = errors.New("no longer available")

// Ended is an ended action whose command may have left something.
type Ended struct {
	ID    protocol.ActionID
	AtMS  int64 // Unix milliseconds of its end
	Owed  bool  // the coordinator may still fetch its output
	bytes int64 // that it takes on the disk
}

// outdated returns the actions whose runs are to be removed, of those in all, which
// ended in that order: first the runs that ended before oldest, then the oldest
// until the sum of all is at most most; total is what other runs take. Output that
// the coordinator may still fetch is removed only if that is not enough, and never
// for its age.
func outdated(all []Ended, total, most, oldest int64) (gone []protocol.ActionID) {
	for _, k := range all {
		total += k.bytes
	}
	for _, owed := range []bool{false, true} {
		for _, k := range all {
			if k.Owed == owed && (total > most || !owed && k.AtMS < oldest) {
				gone = append(gone, k.ID)
				total -= k.bytes
			}
		}
	}
	return gone
}

// Retain removes what is too old or too much of what ended commands have left,
// beside the loop. all are the actions with commands that have ended, in the order
// of their ends. What such an action came to stays known, and a request for its
// output is answered with [ErrGone].
func (a *Active) Retain(all []Ended, most int64, age time.Duration) {
	oldest := a.cfg.Now().UnixMilli() - age.Milliseconds()
	a.loop.Beside(func(context.Context) func() {
		sizes, err := a.cfg.RunDirs.Sizes()
		if err != nil {
			a.cfg.Log.Warn("what runs take cannot be seen; nothing of it is removed", "error", err)
			return nil
		}
		left := all[:0]
		for _, k := range all {
			if size, ok := sizes[k.ID]; ok {
				k.bytes = size
				left = append(left, k)
				delete(sizes, k.ID)
			}
		}
		var others int64
		for _, size := range sizes {
			others += size
		}
		a.remove(outdated(left, others, most, oldest))
		return nil
	})
}

// Forget removes what the commands of forgotten actions have left, beside the loop.
func (a *Active) Forget(gone []protocol.ActionID) {
	a.loop.Beside(func(context.Context) func() { a.remove(gone); return nil })
}

// remove removes the runs of actions that have ended.
func (a *Active) remove(gone []protocol.ActionID) {
	for _, id := range gone {
		if err := a.cfg.RunDirs.Remove(id); err != nil {
			a.cfg.Log.Warn("the output of an old action stays", "action", id.String(), "error", err)
		}
	}
}

// Sweep ends and removes runs of unknown actions, whose acceptance a failing disk
// has lost. known tells which actions are known.
func (a *Active) Sweep(ctx context.Context, known func(context.Context, []protocol.ActionID) (map[protocol.ActionID]bool, error)) {
	runs, err := a.cfg.RunDirs.List()
	if err != nil {
		a.cfg.Log.Warn("runs cannot be listed", "error", err)
		return
	}
	ids := make([]protocol.ActionID, 0, len(runs))
	for id := range runs {
		ids = append(ids, id)
	}
	has, err := known(ctx, ids)
	if err != nil {
		return // without knowing whose they are, none is touched
	}
	for id, attempt := range runs {
		if has[id] || ctx.Err() != nil {
			continue
		}
		if err := a.end(ctx, id, attempt); err != nil {
			a.cfg.Log.Warn("a run of an unknown action stays", "action", id.String(), "error", err)
		}
	}
}

// end ends a run of an unknown action and removes it.
func (a *Active) end(ctx context.Context, id protocol.ActionID, attempt int) error {
	f, err := a.cfg.Runner.Recover(ctx, id, attempt)
	if err != nil {
		return err
	}
	if f.Run != nil {
		if err := f.Run.Cancel(ctx); err != nil {
			return err
		}
	}
	return a.cfg.RunDirs.Remove(id)
}
