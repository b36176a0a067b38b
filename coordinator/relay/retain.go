package relay

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
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/protocol"
)

const (
	// lookEvery is how often all kept output is looked at although little of it is
	// new: that takes a look at each of its files. lookShare is which share of what
	// may be kept is much.
	lookEvery = time.Hour
	lookShare = 32
)

// Tidy removes the output of ended actions that is too old, or too much, if it is
// time to look, or if much has come since the last look. It is called once a
// minute, by one goroutine.
func (m *Outputs) Tidy(ctx context.Context) error {
	// By the date alone, as the age of what is kept: one that was set moves both.
	now := m.base.Now().Round(0)
	if at, err := space.Of(m.cfg.OutputDir); (err != nil || !at.Tight()) && now.Sub(m.tidied).Abs() < lookEvery && m.fresh.Load() < m.cfg.OutputTotal/lookShare {
		return nil
	}
	m.fresh.Store(0)
	err := m.RemoveOld(ctx)
	if m.tidied = now; err != nil {
		m.tidied = time.Time{} // at the next turn
	}
	return err
}

// room is an error while output would take the room that the store needs. It comes
// again when older output was removed.
func (m *Outputs) room() error {
	at, err := space.Of(m.cfg.OutputDir)
	if err != nil || at.Spare() {
		return nil // a write tells what is wrong
	}
	select {
	case m.pressed <- struct{}{}:
	default:
	}
	return fmt.Errorf("%w: the disk is nearly full", core.ErrUnavailable)
}

// Pressed delivers when output found no room: then it is time for Tidy.
func (m *Outputs) Pressed() <-chan struct{} { return m.pressed }

// Low reports whether the disk has hardly any room left, of what output leaves free.
func (m *Outputs) Low() bool {
	at, err := space.Of(m.cfg.OutputDir)
	return err == nil && at.Low()
}

// keptOutput is the output of one action.
type keptOutput struct {
	id      protocol.ActionID
	streams []outputID
	bytes   int64 // on the disk
	ended   int64 // Unix milliseconds
}

// RemoveOld removes the output of ended actions that is older than is kept,
// and then that of those which ended first, until no more is left than is kept, and
// than the disk has room for.
// That of an action that has not ended, or that is being read, is never removed.
// A later request for removed output learns that it was there.
func (m *Outputs) RemoveOld(ctx context.Context) error {
	all, err := m.keptOutputs(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b keptOutput) int { return cmp.Compare(a.ended, b.ended) })
	var total int64
	for _, k := range all {
		total += k.bytes
	}
	at, err := space.Of(m.cfg.OutputDir)
	if err != nil {
		return err
	}
	most := at.Budget(total, m.cfg.OutputTotal)
	oldest := m.base.NowMS() - m.cfg.OutputAge.Milliseconds()
	for _, k := range all {
		if k.ended > 0 && (k.ended < oldest || total > most) {
			removed, err := m.remove(ctx, k)
			if errors.Is(err, core.ErrUnavailable) && m.reserve.Spend() {
				removed, err = m.remove(ctx, k)
			}
			if err != nil {
				return err
			}
			if removed {
				total -= k.bytes
			}
		}
	}
	if m.Low() {
		return nil
	}
	return m.reserve.Fill()
}

// keptOutputs lists what is on the disk. What belongs to no action that is known
// is removed at once; it has no owner.
func (m *Outputs) keptOutputs(ctx context.Context) (all []keptOutput, err error) {
	dirs, err := os.ReadDir(m.cfg.OutputDir)
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
		if err := k.measure(filepath.Join(m.cfg.OutputDir, d.Name())); err != nil {
			return nil, err
		}
		a, err := m.cfg.Action(ctx, k.id)
		switch {
		case errors.Is(err, core.ErrNotFound):
			if err := os.RemoveAll(filepath.Join(m.cfg.OutputDir, d.Name())); err != nil {
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

// remove makes durable that the output of an action is gone, and then
// removes it. It reports whether it did: output that is being read stays.
func (m *Outputs) remove(ctx context.Context, k keptOutput) (bool, error) {
	a, err := m.cfg.Action(ctx, k.id)
	if err != nil {
		return false, err
	}
	// No reader begins meanwhile.
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range k.streams {
		if o := m.known[a.Host][id]; o != nil && o.refs > 0 {
			return false, nil
		}
	}
	if err := m.base.Update(ctx, failpoint.OutputRemoved, func(tx core.Tx) error {
		for _, id := range k.streams {
			held, err := tx.Outputs.Get(id.action, id.attempt, id.fd)
			if err != nil {
				return err
			}
			if held.Removed() {
				continue
			}
			held.Action, held.Attempt, held.FD, held.RemovedMS = id.action, id.attempt, id.fd, m.base.NowMS()
			if err := tx.Outputs.Put(held); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return false, fmt.Errorf("removing the output of action %s: %w", k.id, err)
	}
	for _, id := range k.streams {
		delete(m.known[a.Host], id)
	}
	return true, os.RemoveAll(filepath.Join(m.cfg.OutputDir, k.id.String()))
}

// Remove calls forget with those of some actions whose output is not being read, and
// lets no reader begin meanwhile. Then it removes the output of those that
// forget returns.
func (m *Outputs) Remove(all []core.Action, forget func(unread []core.Action) ([]core.Action, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone, err := forget(slices.DeleteFunc(slices.Clone(all), m.isRead))
	if err != nil {
		return err
	}
	for _, a := range gone {
		for id := range m.known[a.Host] {
			if id.action == a.ID {
				delete(m.known[a.Host], id)
			}
		}
		if err := os.RemoveAll(filepath.Join(m.cfg.OutputDir, a.ID.String())); err != nil {
			return err
		}
	}
	return nil
}

// isRead reports whether output of an action is being read. It is called with mu
// held.
func (m *Outputs) isRead(a core.Action) bool {
	for id, o := range m.known[a.Host] {
		if id.action == a.ID && o.refs > 0 {
			return true
		}
	}
	return false
}
