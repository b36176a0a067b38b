package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// loseOutput ends what is awaited of a host that will never send again.
func (c *Coordinator) loseOutput(host protocol.HostID) {
	c.outputs.mu.Lock()
	defer c.outputs.mu.Unlock()
	for id, o := range c.outputs.known[host] {
		if o.refs == 0 { // nobody would forget it
			delete(c.outputs.known[host], id)
			continue
		}
		o.mu.Lock()
		o.gone = true
		o.mu.Unlock()
		c.base.Wake.Fire(id)
	}
}

// onOut takes a chunk of output.
func (l *link) onOut(in inbound) error {
	m, err := protocol.Open(in.payload, l.c.expect(in.topic, itemFresh{l}))
	if err != nil {
		return err
	}
	h := m.Header
	if h.FD == protocol.TTYInput {
		return l.c.acked(l.host, h.Action, m.Attachment)
	}
	o, err := l.outputOf(h)
	if err != nil {
		return err
	}
	switch {
	case h.Gone > 0:
		o.jump(h.Offset, h.Gone)
	case h.Size == 0:
		o.lose(h.Offset)
		l.c.base.Wake.Fire(o.id)
		l.c.release(o)
		return nil
	default:
		err = o.write(h.Offset, m.Attachment)
		l.c.outputs.fresh.Add(h.Size)
	}
	if err != nil {
		l.c.release(o)
		return fmt.Errorf("keep output: %w", err)
	}
	// Who follows needs no disk: what is lost here is asked for again, and is
	// the same then.
	l.c.base.Wake.Fire(o.id)
	l.output.written = append(l.output.written, o)
	return nil
}

// outputOf returns the stream of a chunk, if somebody asked for it.
func (l *link) outputOf(h protocol.Header) (*output, error) {
	id := outputID{h.Action, h.Attempt, h.FD}
	if o := l.c.knownOutput(l.host, id); o != nil {
		return o, nil
	}
	a, err := l.c.Action(l.c.ctx, h.Action)
	switch {
	case errors.Is(err, core.ErrNotFound) || err == nil && a.Host != l.host:
		return nil, fmt.Errorf("%w: no action %s of this host has output", protocol.ErrAction, h.Action)
	case err != nil:
		return nil, err
	}
	// The beginning of an attempt comes unasked, perhaps before the report of
	// its start. A host cannot make files of attempts that it invents.
	if (h.Attempt < a.Attempt || h.Attempt > a.Attempt+1) && !l.c.outputs.isKnown(l.host, id) {
		return nil, fmt.Errorf("%w: nobody asked for attempt %d of action %s", protocol.ErrAction, h.Attempt, h.Action)
	}
	return l.c.output(l.c.ctx, a, id)
}

// knownOutput returns a stream that is in use, as of each chunk but the first.
func (c *Coordinator) knownOutput(host protocol.HostID, id outputID) *output {
	c.outputs.mu.Lock()
	defer c.outputs.mu.Unlock()
	o := c.outputs.known[host][id]
	if o == nil || o.refs == 0 {
		return nil
	}
	o.refs++
	return o
}

// outputSync is the output of one host that was written and is not durable yet.
type outputSync struct {
	written []*output // by the present batch of chunks; its worker's own

	mu       sync.Mutex
	unsynced []*output // of earlier batches
	syncing  bool      // a goroutine is at it
}

// push ends a batch of chunks. It reports true if nothing makes output durable at
// present: the caller has to.
func (b *outputSync) push() (begin bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsynced, b.written = append(b.unsynced, b.written...), nil
	begin, b.syncing = !b.syncing, true
	return begin
}

// pull returns what is to be made durable, nothing at the end.
func (b *outputSync) pull() []*output {
	b.mu.Lock()
	defer b.mu.Unlock()
	written := b.unsynced
	b.unsynced, b.syncing = nil, len(written) > 0
	return written
}

// commitSoon gives what the worker's batch has written to the goroutine that
// makes it durable, so that the next chunks are taken meanwhile.
func (l *link) commitSoon() {
	if len(l.output.written) > 0 && l.output.push() && !l.c.workers.start(l.syncOutput) {
		l.syncOutput() // it is the end: what can be kept is kept
	}
}

// syncOutput makes durable what was written until nothing is left.
func (l *link) syncOutput() {
	for {
		written := l.output.pull()
		if len(written) == 0 {
			return
		}
		held := l.commitOutput(written)
		l.receiptIfOwed()
		for _, h := range held {
			if err := punch(h.output.file, h.now, h.before); err != nil {
				l.c.log.Warn("cannot give back the space of output that is not kept", "action", h.output.id.action, "err", err)
			}
		}
		for _, o := range written {
			l.c.release(o)
		}
	}
}

// heldOutput is a stream of which more is durable, and what is not kept of it.
type heldOutput struct {
	output      *output
	now, before []core.Range
}

// commitOutput makes what was written durable, and only then asks for more: the
// host may forget what it is not asked for any more. What is not kept may be
// dropped after that.
func (l *link) commitOutput(written []*output) (held []heldOutput) {
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
			l.c.log.Error("cannot sync output; it will come again", "action", o.id.action)
			continue
		}
		states, done = append(states, *st), append(done, o)
	}
	if len(done) == 0 {
		return nil
	}
	err := l.c.keepOffsets(states)
	for i, o := range done {
		o.mu.Lock()
		if err != nil {
			// It is asked for again in its turn: asking at once would send the
			// same chunk round and round for as long as the disk is full.
			o.next, o.askedAt = o.held, l.c.cfg.Boot()
		} else {
			held = append(held, heldOutput{o, states[i].Gone, o.held.Gone})
			o.held, o.patience, o.askedAt = states[i], 0, l.c.cfg.Boot()
		}
		o.mu.Unlock()
		if err == nil {
			l.c.base.Wake.Fire(o.id)
			l.goOn(o)
		}
	}
	if err != nil {
		l.c.log.Error("cannot keep the offsets of output; it will come again", "host", l.host, "err", err)
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
func (c *Coordinator) keepOffsets(states []core.OutputState) error {
	return c.base.Update(c.ctx, failpoint.OutputKept, func(tx core.Tx) error {
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
func (l *link) goOn(o *output) bool {
	o.mu.Lock()
	offset, window := o.wants()
	asked := o.asked >= 0 && offset >= o.asked && offset < o.askedTo && offset+window-o.askedTo < renewed
	o.mu.Unlock()
	if window == 0 || asked {
		return false
	}
	l.ask(o)
	return true
}

// ask puts what is wanted of a stream into the next receipt. When that is
// nothing, the host still hears that somebody follows.
func (l *link) ask(o *output) {
	o.mu.Lock()
	offset, window := o.wants()
	now := l.c.cfg.Boot()
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
	l.receipts.credit(protocol.Credit{Action: o.id.action, Attempt: o.id.attempt, FD: o.id.fd, Offset: offset, Window: window})
}

// settleOutput reacts to a report: the final one tells how much there is.
func (c *Coordinator) settleOutput(a core.Action) {
	if !a.State.Final() || a.Attempt == 0 {
		return
	}
	l := c.link(a.Host)
	for _, t := range a.Output {
		if t.Bytes == 0 {
			continue
		}
		o, err := c.output(c.ctx, a, outputID{a.ID, a.Attempt, t.FD})
		if errors.Is(err, core.ErrUnavailable) {
			return // it is asked for when the host comes back
		}
		if err != nil {
			c.log.Error("cannot keep output", "action", a.ID, "err", err)
			return
		}
		o.mu.Lock()
		o.settle(a)
		o.mu.Unlock()
		l.ask(o)
		c.release(o)
	}
	for _, fd := range []protocol.FD{protocol.Stdout, protocol.Stderr, protocol.Recording} {
		c.base.Wake.Fire(outputID{a.ID, a.Attempt, fd})
	}
}

// reask asks again for what did not come: a credit or a chunk was lost.
func (l *link) reask() {
	l.c.outputs.mu.Lock()
	var mine []*output
	for _, o := range l.c.outputs.known[l.host] {
		mine = append(mine, o)
	}
	l.c.outputs.mu.Unlock()
	asked := l.receipts.asks()
	for _, o := range mine {
		o.mu.Lock()
		_, window := o.wants()
		now := l.c.cfg.Boot()
		due := window > 0 && now-o.askedAt >= max(o.patience, reaskMS)
		if due {
			o.patience = min(2*max(o.patience, reaskMS), reaskMaxMS)
		}
		due = due || o.begun && o.waits && o.totals == nil && len(o.followers) > 0 && now-o.creditAt >= followMS
		o.mu.Unlock()
		if due {
			l.ask(o)
			asked = true
		}
	}
	if asked {
		l.receipt()
	}
}

// resumeActions is how many of a host's newest actions are looked at when it
// comes back: their output may have been under way when this side ended. Hosts
// keep the output of the hundred that ended last; those may have begun in
// another order.
const resumeActions = 128

// resumeOutput asks a host that came back for output of ended actions that
// should be here and is not.
func (l *link) resumeOutput() {
	l.c.outputs.mu.Lock()
	for _, o := range l.c.outputs.known[l.host] {
		o.mu.Lock()
		o.patience, o.asked = 0, -1 // what was on its way is lost
		o.mu.Unlock()
	}
	l.c.outputs.mu.Unlock()
	var missing []core.Action
	err := l.c.base.View(l.c.ctx, func(tx core.Tx) error {
		missing = nil
		ended, err := tx.Actions.List(core.ActionFilter{
			Host: l.host, States: []protocol.State{protocol.StateDone, protocol.StateFailed, protocol.StateCancelled}, Limit: resumeActions,
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
		l.c.log.Error("cannot see which output is missing", "host", l.host, "err", err)
	}
	for _, a := range missing {
		l.c.settleOutput(a)
	}
	if len(missing) > 0 {
		l.receipt()
	}
}
