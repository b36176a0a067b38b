package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

const (
	// keepEvery is how often it is looked whether there is something to remove.
	keepEvery = time.Minute
	// lookEvery is how often all kept output is looked at although little of it is
	// new: that takes a look at each of its files. lookShare is which share of what
	// may be kept is much.
	lookEvery = time.Hour
	lookShare = 32
)

// keepLoop removes the output of ended actions that is too old, or too much, and
// then what is remembered of them: one after the other, for neither expects the
// other to take away what it looks at.
func (c *Coordinator) keepLoop(ctx context.Context) error {
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	var looked time.Time
	for {
		// By the date alone, as the age of what is kept: one that was set moves both.
		if now := c.cfg.Now().Round(0); now.Sub(looked).Abs() >= lookEvery || c.outputs.fresh.Load() >= c.cfg.OutputTotal/lookShare {
			c.outputs.fresh.Store(0)
			looked = now
			if err := c.RemoveOutput(ctx); err != nil && ctx.Err() == nil {
				looked = time.Time{} // at the next turn
				c.log.ErrorContext(ctx, "cannot remove old output; it is tried again", "err", err)
			}
		}
		if err := c.journal.Forget(ctx); err != nil && ctx.Err() == nil {
			c.log.ErrorContext(ctx, "cannot forget what ended long ago; it is tried again", "err", err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// keptOutput is the output of one action.
type keptOutput struct {
	id      protocol.ActionID
	streams []outputID
	bytes   int64 // on the disk
	ended   int64 // Unix milliseconds
}

// RemoveOutput removes the output of ended actions that is older than is kept,
// and then that of those which ended first, until no more is left than is kept.
// That of an action that has not ended, or that somebody reads, is never removed.
// Whoever asks for it later is told that it was there.
func (c *Coordinator) RemoveOutput(ctx context.Context) error {
	all, err := c.keptOutputs(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b keptOutput) int { return cmp.Compare(a.ended, b.ended) })
	var total int64
	for _, k := range all {
		total += k.bytes
	}
	oldest := c.base.NowMS() - c.cfg.OutputAge.Milliseconds()
	for _, k := range all {
		if k.ended > 0 && (k.ended < oldest || total > c.cfg.OutputTotal) {
			removed, err := c.removeOutput(ctx, k)
			if err != nil {
				return err
			}
			if removed {
				total -= k.bytes
			}
		}
	}
	return nil
}

// keptOutputs lists what is on the disk. What belongs to no action that is known
// is removed at once; it is nobody's.
func (c *Coordinator) keptOutputs(ctx context.Context) (all []keptOutput, err error) {
	dirs, err := os.ReadDir(c.outputs.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was ever kept
	}
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		k := keptOutput{}
		if k.id, err = protocol.ParseActionID(d.Name()); err != nil {
			continue // not ours
		}
		if err := k.measure(filepath.Join(c.outputs.dir, d.Name())); err != nil {
			return nil, err
		}
		a, err := c.Action(ctx, k.id)
		switch {
		case errors.Is(err, core.ErrNotFound):
			if err := os.RemoveAll(filepath.Join(c.outputs.dir, d.Name())); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case a.State.Final():
			k.ended = max(a.EndedMS, 1)
		}
		all = append(all, k)
	}
	return all, nil
}

// measure looks at the files of an action.
func (k *keptOutput) measure(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		attempt, fd, _ := strings.Cut(f.Name(), ".")
		n, err := strconv.Atoi(attempt)
		if err != nil {
			continue
		}
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, f.Name()), &st); err != nil {
			return err
		}
		k.bytes += st.Blocks * 512
		k.streams = append(k.streams, outputID{k.id, n, protocol.FD(fd)})
	}
	return nil
}

// removeOutput makes durable that the output of an action is gone, and then
// removes it. It reports whether it did: what somebody reads stays.
func (c *Coordinator) removeOutput(ctx context.Context, k keptOutput) (bool, error) {
	a, err := c.Action(ctx, k.id)
	if err != nil {
		return false, err
	}
	// Nobody begins to read it meanwhile.
	c.outputs.mu.Lock()
	defer c.outputs.mu.Unlock()
	for _, id := range k.streams {
		if o := c.outputs.known[a.Host][id]; o != nil && o.refs > 0 {
			return false, nil
		}
	}
	if err := c.base.Update(ctx, failpoint.OutputRemoved, func(tx core.Tx) error {
		for _, id := range k.streams {
			held, err := tx.Outputs.Get(id.action, id.attempt, id.fd)
			if err != nil {
				return err
			}
			if held.Removed() {
				continue
			}
			held.Action, held.Attempt, held.FD, held.RemovedMS = id.action, id.attempt, id.fd, c.base.NowMS()
			if err := tx.Outputs.Put(held); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return false, fmt.Errorf("removing the output of action %s: %w", k.id, err)
	}
	for _, id := range k.streams {
		delete(c.outputs.known[a.Host], id)
	}
	return true, os.RemoveAll(filepath.Join(c.outputs.dir, k.id.String()))
}
