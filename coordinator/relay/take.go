package relay

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

// Lose ends what is awaited of a host that will never send again.
func (m *Outputs) Lose(host protocol.HostID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, o := range m.known[host] {
		if o.refs == 0 { // it would never be forgotten
			delete(m.known[host], id)
			continue
		}
		o.mu.Lock()
		o.col.Lose()
		o.mu.Unlock()
		m.base.Wake.Fire(id)
	}
}

// Take takes a chunk of output of a host. Flush must follow.
func (m *Outputs) Take(host protocol.HostID, chunk protocol.Message) error {
	h := chunk.Header
	o, err := m.outputOf(host, h)
	if err != nil {
		return err
	}
	switch {
	case h.Gone > 0:
		o.jump(h.Offset, h.Gone)
	case h.Size == 0:
		o.lose(h.Offset)
		m.base.Wake.Fire(o.id)
		m.release(o)
		return nil
	default:
		if err = m.room(); err == nil {
			err = o.write(h.Offset, chunk.Attachment)
		}
		m.fresh.Add(h.Size)
	}
	if err != nil {
		m.release(o)
		return fmt.Errorf("keep output: %w", err)
	}
	// Who follows needs no disk: what is lost here is asked for again, and is
	// the same then.
	m.base.Wake.Fire(o.id)
	m.written(o)
	return nil
}

// outputOf returns the stream of a chunk, if it was asked for.
func (m *Outputs) outputOf(host protocol.HostID, h protocol.Header) (*output, error) {
	id := outputID{h.Action, h.Attempt, h.FD}
	if o := m.inUse(host, id); o != nil {
		return o, nil
	}
	a, err := m.cfg.Action(m.base.Ctx, h.Action)
	switch {
	case errors.Is(err, core.ErrNotFound) || err == nil && a.Host != host:
		return nil, fmt.Errorf("%w: no action %s of this host has output", protocol.ErrAction, h.Action)
	case err != nil:
		return nil, err
	}
	// The beginning of an attempt comes unasked, perhaps before the report of
	// its start. A host cannot make files of attempts that it invents.
	if (h.Attempt < a.Attempt || h.Attempt > a.Attempt+1) && !m.isKnown(host, id) {
		return nil, fmt.Errorf("%w: attempt %d of action %s was not requested", protocol.ErrAction, h.Attempt, h.Action)
	}
	return m.use(m.base.Ctx, a, id)
}

// inUse returns a stream that is in use, as of each chunk but the first.
func (m *Outputs) inUse(host protocol.HostID, id outputID) *output {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.known[host][id]
	if o == nil || o.refs == 0 {
		return nil
	}
	o.refs++
	return o
}

// syncing is the output of one host that was written and is not durable yet.
// Outputs.mu guards it.
type syncing struct {
	written []*output // by the present batch of chunks
	ready   []*output // of earlier batches
	running bool      // a goroutine is at it
}

func (m *Outputs) written(o *output) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.syncs == nil {
		m.syncs = make(map[protocol.HostID]*syncing)
	}
	s := m.syncs[o.host]
	if s == nil {
		s = &syncing{}
		m.syncs[o.host] = s
	}
	s.written = append(s.written, o)
}

// Flush gives what a batch of chunks of a host has written to the goroutine that
// makes it durable, so that the next chunks are taken meanwhile.
func (m *Outputs) Flush(host protocol.HostID) {
	m.mu.Lock()
	s := m.syncs[host]
	begin := s != nil && len(s.written) > 0 && !s.running
	if s != nil {
		s.ready, s.written = append(s.ready, s.written...), nil
		s.running = s.running || begin
	}
	m.mu.Unlock()
	if begin && !m.cfg.Start(func() { m.sync(host) }) {
		m.sync(host) // it is the end: what can be kept is kept
	}
}

// ready returns what is to be made durable, nothing at the end.
func (m *Outputs) ready(host protocol.HostID) []*output {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.syncs[host]
	ready := s.ready
	s.ready, s.running = nil, len(ready) > 0
	if len(ready)+len(s.written) == 0 {
		delete(m.syncs, host)
	}
	return ready
}

// sync makes durable what was written until nothing is left.
func (m *Outputs) sync(host protocol.HostID) {
	for {
		written := m.ready(host)
		if len(written) == 0 {
			return
		}
		held := m.commit(host, written)
		m.cfg.Receipts.SendOwed(host)
		for _, h := range held {
			if err := punch(h.output.file, h.now, h.before); err != nil {
				m.base.Log.Warn("cannot give back the space of output that is not kept", "action", h.output.id.action, "err", err)
			}
		}
		for _, o := range written {
			m.release(o)
		}
	}
}

// heldOutput is a stream of which more is durable, and what is not kept of it.
type heldOutput struct {
	output      *output
	now, before []window.Range
}

// commit makes what was written durable, and only then asks for more: the
// host may forget what it is not asked for any more. What is not kept may be
// dropped after that.
func (m *Outputs) commit(host protocol.HostID, written []*output) (held []heldOutput) {
	var states []core.OutputState
	var done []*output
	for _, o := range written {
		if slices.Contains(done, o) {
			continue // another of its chunks; what comes meanwhile is the next batch's
		}
		st, dirty := m.syncFile(o)
		if !dirty {
			continue
		}
		if st == nil {
			m.base.Log.Error("cannot sync output; it will come again", "action", o.id.action)
			continue
		}
		states, done = append(states, *st), append(done, o)
	}
	if len(done) == 0 {
		return nil
	}
	err := m.keepOffsets(states)
	for i, o := range done {
		o.mu.Lock()
		if err != nil {
			o.col.Undo(m.now())
		} else {
			held = append(held, heldOutput{o, states[i].Gone, o.col.Held().Gone})
			o.col.Commit(states[i].Held, m.now())
		}
		o.mu.Unlock()
		if err == nil {
			m.base.Wake.Fire(o.id)
			m.goOn(o)
		}
	}
	if err != nil {
		m.base.Log.Error("cannot keep the offsets of output; it will come again", "host", host, "err", err)
	}
	return held
}

// syncFile makes the file durable up to the state that it returns; nil if that
// failed. More may be written meanwhile.
func (m *Outputs) syncFile(o *output) (state *core.OutputState, dirty bool) {
	o.mu.Lock()
	st := core.OutputState{Action: o.id.action, Attempt: o.id.attempt, FD: o.id.fd, Held: o.col.Arrived(), RemovedMS: o.removedMS}
	dirty, o.dirty = o.dirty, false
	o.mu.Unlock()
	if !dirty {
		return nil, false
	}
	if err := syscall.Fdatasync(int(o.file.Fd())); err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.col.Undo(m.now())
		return nil, true
	}
	return &st, true
}

// keepOffsets makes durable how much of each stream is held.
func (m *Outputs) keepOffsets(states []core.OutputState) error {
	return m.base.Update(m.base.Ctx, failpoint.OutputKept, func(tx core.Tx) error {
		for _, st := range states {
			if err := tx.Outputs.Put(st); err != nil {
				return err
			}
		}
		return nil
	})
}

// goOn asks for what is wanted of a stream unless that was asked for and may be
// on its way. It reports whether it did.
func (m *Outputs) goOn(o *output) bool {
	o.mu.Lock()
	asked := !o.wants() || o.col.Asked(o.ahead())
	o.mu.Unlock()
	if !asked {
		m.ask(o)
	}
	return !asked
}

// ask puts what is wanted of a stream into the next receipt. When that is
// nothing, the host still hears that a client follows.
func (m *Outputs) ask(o *output) {
	o.mu.Lock()
	if o.removedMS != 0 {
		o.mu.Unlock()
		return
	}
	offset, window, ok := o.col.Ask(o.ahead(), m.now())
	o.mu.Unlock()
	if ok {
		m.cfg.Receipts.Credit(o.host, protocol.Credit{Action: o.id.action, Attempt: o.id.attempt, FD: o.id.fd, Offset: offset, Window: window})
	}
}

// Settle reacts to a report: the final one tells how much there is.
func (m *Outputs) Settle(a core.Action) {
	if !a.State.Final() || a.Attempt == 0 {
		return
	}
	for _, t := range a.Output {
		if t.Bytes == 0 {
			continue
		}
		o, err := m.use(m.base.Ctx, a, outputID{a.ID, a.Attempt, t.FD})
		if errors.Is(err, core.ErrUnavailable) {
			return // it is asked for when the host comes back
		}
		if err != nil {
			m.base.Log.Error("cannot keep output", "action", a.ID, "err", err)
			return
		}
		o.mu.Lock()
		o.settle(a)
		o.mu.Unlock()
		m.ask(o)
		m.release(o)
	}
	for _, fd := range []protocol.FD{protocol.Stdout, protocol.Stderr, protocol.Recording} {
		m.base.Wake.Fire(outputID{a.ID, a.Attempt, fd})
	}
}

// Reask asks again for what did not come: a credit or a chunk was lost.
func (m *Outputs) Reask(host protocol.HostID) {
	m.mu.Lock()
	var mine []*output
	for _, o := range m.known[host] {
		mine = append(mine, o)
	}
	m.mu.Unlock()
	for _, o := range mine {
		o.mu.Lock()
		due := o.removedMS == 0 && o.col.Overdue(o.ahead(), o.waits, m.now())
		o.mu.Unlock()
		if due {
			m.ask(o)
		}
	}
}

// resumeActions is how many of a host's newest actions are looked at when it
// comes back: their output may have been under way when this side ended. Hosts
// keep the output of the hundred that ended last; those may have begun in
// another order.
const resumeActions = 128

// Resume asks a host that came back for output of ended actions that
// should be here and is not.
func (m *Outputs) Resume(host protocol.HostID) {
	m.mu.Lock()
	for _, o := range m.known[host] {
		o.mu.Lock()
		o.col.Reconnected()
		o.mu.Unlock()
	}
	m.mu.Unlock()
	var missing []core.Action
	err := m.base.View(m.base.Ctx, func(tx core.Tx) error {
		missing = nil
		ended, err := tx.Actions.List(core.ActionFilter{
			Host: host, States: []protocol.State{protocol.StateDone, protocol.StateFailed, protocol.StateCancelled}, Limit: resumeActions,
		})
		if err != nil {
			return err
		}
		for _, a := range ended {
			for _, t := range a.Output {
				held, err := tx.Outputs.Get(a.ID, a.Attempt, t.FD)
				if err != nil {
					return err
				}
				col := window.NewCollector(held.Held, t.FD == protocol.Recording)
				col.Begin()
				col.End(&t)
				if _, wanted := col.Wants(0); wanted > 0 && !held.Removed() {
					missing = append(missing, a)
					break
				}
			}
		}
		return nil
	})
	if err != nil {
		m.base.Log.Error("cannot see which output is missing", "host", host, "err", err)
	}
	for _, a := range missing {
		m.Settle(a)
	}
}
