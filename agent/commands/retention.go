package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
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

// Retain is Shrink beside the loop, unless it is under way already.
func (a *Active) Retain(all []Ended, most int64, age time.Duration) {
	if a.shrinking {
		return
	}
	a.shrinking = true
	a.loop.Beside(func(context.Context) func() {
		gone := a.Shrink(all, most, age)
		return func() {
			a.shrinking = false
			if len(gone) > 0 {
				a.cfg.Emptied(gone)
			}
		}
	})
}

// Shrink removes what is too old of what ended commands have left, and what is more
// than most bytes or than the file system has room for. It needs no free space. all
// are the actions with commands whose ends are durable, in the order of their ends.
// What such an action came to stays known, and a request for its output is answered
// with [ErrGone]. It returns them, and may be called by any goroutine.
func (a *Active) Shrink(all []Ended, most int64, age time.Duration) (gone []protocol.ActionID) {
	sizes, err := a.cfg.RunDirs.Sizes()
	at, err2 := a.cfg.RunDirs.Space()
	if err := errors.Join(err, err2); err != nil {
		a.cfg.Log.Warn("what runs take cannot be seen; nothing of it is removed", "error", err)
		return nil
	}
	var total int64
	for _, size := range sizes {
		total += size
	}
	most = at.Budget(total, most)
	left := all[:0]
	for _, k := range all {
		if size, ok := sizes[k.ID]; ok {
			k.bytes = size
			total -= size
			left = append(left, k)
		}
	}
	gone = outdated(left, total, most, a.cfg.Now().UnixMilli()-age.Milliseconds())
	a.remove(gone)
	return gone
}

// Room is [queue.ErrDisk] while the file system has no room for runs.
func (a *Active) Room() error {
	at, err := a.cfg.RunDirs.Space()
	if err == nil && at.Low() {
		err = errors.New("too little is free for the directories of commands")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", queue.ErrDisk, err)
	}
	return nil
}

// Tight reports whether it is time to look what can be removed of what commands have
// left.
func (a *Active) Tight() bool {
	at, err := a.cfg.RunDirs.Space()
	return err == nil && at.Tight()
}

// Forget removes what the commands of forgotten actions have left, beside the loop.
func (a *Active) Forget(gone []protocol.ActionID) {
	a.loop.Beside(func(context.Context) func() { a.remove(gone); return nil })
}

// remove removes the runs of actions that have ended.
func (a *Active) remove(gone []protocol.ActionID) {
	if err := a.cfg.RunDirs.Remove(gone...); err != nil {
		a.cfg.Log.Warn("the output of old actions stays", "error", err)
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
