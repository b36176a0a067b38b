package relay

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// Lose ends what is awaited of a host that will never send again.
func (m *Outputs) Lose(host protocol.HostID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, o := range m.known[host] {
		if o.refs == 0 { // nobody would forget it
			delete(m.known[host], id)
			continue
		}
		o.mu.Lock()
		o.gone = true
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
		err = o.write(h.Offset, chunk.Attachment)
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

// outputOf returns the stream of a chunk, if somebody asked for it.
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
		return nil, fmt.Errorf("%w: nobody asked for attempt %d of action %s", protocol.ErrAction, h.Attempt, h.Action)
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
	now, before []core.Range
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
		st, dirty := o.sync()
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
			// It is asked for again in its turn: asking at once would send the
			// same chunk round and round for as long as the disk is full.
			o.next, o.askedAt = o.held, m.base.Boot()
		} else {
			held = append(held, heldOutput{o, states[i].Gone, o.held.Gone})
			o.held, o.patience, o.askedAt = states[i], 0, m.base.Boot()
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

// sync makes the file durable up to the state that it returns; nil if that
// failed. More may be written meanwhile.
func (o *output) sync() (state *core.OutputState, dirty bool) {
	o.mu.Lock()
	st := o.next
	dirty, o.dirty = o.dirty, false
	o.mu.Unlock()
	if !dirty {
		return nil, false
	}
	if err := syscall.Fdatasync(int(o.file.Fd())); err != nil {
		o.mu.Lock()
		o.next = o.held
		o.mu.Unlock()
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
	offset, window := o.wants()
	asked := o.asked >= 0 && offset >= o.asked && offset < o.askedTo && offset+window-o.askedTo < renewed
	o.mu.Unlock()
	if window == 0 || asked {
		return false
	}
	m.ask(o)
	return true
}

// ask puts what is wanted of a stream into the next receipt. When that is
// nothing, the host still hears that somebody follows.
func (m *Outputs) ask(o *output) {
	o.mu.Lock()
	offset, window := o.wants()
	now := m.base.Boot()
	o.creditAt = now
	if window > 0 {
		o.limit = max(o.limit, offset+window)
		o.asked, o.askedTo, o.askedAt = offset, offset+window, now
		if offset > o.next.Have && o.next.TailTo == o.next.TailFrom {
			o.tailFrom = offset
		}
	}
	follow := o.begun && o.totals == nil && len(o.followers) > 0
	o.mu.Unlock()
	if window == 0 && !follow {
		return
	}
	m.cfg.Receipts.Credit(o.host, protocol.Credit{Action: o.id.action, Attempt: o.id.attempt, FD: o.id.fd, Offset: offset, Window: window})
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
		_, window := o.wants()
		now := m.base.Boot()
		due := window > 0 && now-o.askedAt >= max(o.patience, reaskMS)
		if due {
			o.patience = min(2*max(o.patience, reaskMS), reaskMaxMS)
		}
		due = due || o.begun && o.waits && o.totals == nil && len(o.followers) > 0 && now-o.creditAt >= followMS
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
		o.patience, o.asked = 0, -1 // what was on its way is lost
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
				o := output{id: outputID{a.ID, a.Attempt, t.FD}, held: held, begun: true, totals: &t}
				if _, window := o.wants(); window > 0 && !held.Removed() {
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
