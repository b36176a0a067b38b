package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// schedule gives numbers to what waits for a host, as far as its window goes.
// Nothing is numbered for a host that is not there: orders wait here and not
// on the wire, so that a cancel or an expiry still finds them.
func (c *Coordinator) schedule(ctx context.Context, s *session) {
	var given []order
	var more bool
	err := c.base.Update(ctx, failpoint.OrderNumbered, func(tx core.Tx) (err error) {
		given, more, err = c.number(tx, s)
		return err
	})
	if err != nil {
		c.log.ErrorContext(ctx, "cannot number orders; it is tried again", "host", s.host, "err", err)
	}
	s.numbered(given, more || err != nil)
}

// numbered notes orders after their transaction. more tells that others may
// wait, which each tick looks at.
func (s *session) numbered(given []order, more bool) {
	for _, o := range given {
		s.allocate(o.on, []core.Item{o.Item})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent = s.unsent || more
	for _, o := range given {
		s.expiry[o.Action] = o.expiresMS
	}
	for _, id := range s.lookAt {
		s.c.base.Wake.Fire(id)
		s.c.base.News.Ask(id)
	}
	s.lookAt = nil
}

// tellEnded notes that an action may have ended while numbers were given, for
// whoever follows it to look once that is durable.
func (s *session) tellEnded(id protocol.ActionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookAt = append(s.lookAt, id)
}

// order is the item of an action that was given its number just now.
type order struct {
	core.Item
	on        protocol.Stream
	expiresMS int64
}

// number gives the next numbers of their streams to unsent actions of a host,
// within the caller's transaction. It reports whether more may wait.
func (c *Coordinator) number(tx core.Tx, s *session) (given []order, more bool, _ error) {
	if c.base.Recovery() != "" {
		return nil, false, nil
	}
	if h, err := tx.Hosts.Standing(s.host); err != nil || h.State != core.HostApproved || h.Quarantined != "" {
		return nil, false, err
	}
	if _, _, ok := s.reachable(); !ok {
		return nil, true, nil
	}
	for _, on := range []protocol.Stream{protocol.StreamControl, protocol.StreamOrder} {
		all, left, err := c.numberOn(tx, s, on)
		if err != nil {
			return nil, false, err
		}
		given, more = append(given, all...), more || left
	}
	return given, more, nil
}

// numberOn does it for one stream.
func (c *Coordinator) numberOn(tx core.Tx, s *session, on protocol.Stream) (given []order, more bool, _ error) {
	st, err := tx.Streams.Get(s.host, on)
	if err != nil {
		return nil, false, err
	}
	room := stream.Window - int(st.Pos.N-max(st.Freed.N, s.ackedTo(on)))
	if room <= 0 {
		return nil, true, nil
	}
	waiting, err := tx.Queue.Unsent(s.host, on, room)
	if err != nil || len(waiting) == 0 {
		return nil, false, err
	}
	now := c.base.LifeMS()
	for _, a := range waiting {
		if a.ExpiresMS <= now {
			continue
		}
		if !c.approved(&a, now) {
			// It was, and its approvals count no more: the ring is another one.
			// Left where it is it would stand before those that may go.
			a.Detail = c.whyExpired(&a)
			if err := c.base.Move(tx, &a, protocol.EventExpire); err != nil {
				return nil, false, err
			}
			s.tellEnded(a.ID)
			continue
		}
		o, err := c.order(tx, &st, &a)
		if err != nil {
			return nil, false, err
		}
		if err := tx.Actions.Put(a); err != nil {
			return nil, false, err
		}
		given = append(given, o)
	}
	return given, len(waiting) == room, tx.Streams.Put(st)
}

// order gives an action the next number of its host's stream.
func (c *Coordinator) order(tx core.Tx, st *core.StreamState, a *core.Action) (order, error) {
	content := orderItem(a)
	var v any = content
	if st.Pos.Stream == protocol.StreamControl {
		v = protocol.ControlItem{Verb: protocol.VerbPreempt, Order: &content}
	}
	item, err := json.Marshal(v)
	if err != nil {
		return order{}, fmt.Errorf("encode order %s: %w", a.ID, err)
	}
	it, err := c.append(tx, st, item, a.ID)
	a.N, a.SentMS = it.N, c.base.NowMS()
	return order{it, st.Pos.Stream, c.ends(a)}, err
}

// numberFirst gives a new action its number before it is written, if nothing can
// be waiting in front of it and its host is there. Any other is for number.
func (c *Coordinator) numberFirst(tx core.Tx, s *session, a *core.Action) (given []order, _ error) {
	on := core.StreamOf(a.Kind)
	_, _, there := s.reachable()
	if c.base.Recovery() != "" || !there || on == protocol.StreamOrder && !s.nothingWaits() {
		return nil, nil
	}
	st, err := tx.Streams.Get(s.host, on)
	if err != nil || st.Pos.N-max(st.Freed.N, s.ackedTo(on)) >= stream.Window {
		return nil, err
	}
	o, err := c.order(tx, &st, a)
	if err != nil {
		return nil, err
	}
	return []order{o}, tx.Streams.Put(st)
}

// nothingWaits reports that the host is there and has no order that waits for
// its number.
func (s *session) nothingWaits() bool {
	_, _, ok := s.reachable()
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && !s.unsent && !s.numbering
}

// append gives an item the next number of its stream.
func (c *Coordinator) append(tx core.Tx, st *core.StreamState, item []byte, action protocol.ActionID) (core.Item, error) {
	st.Pos.Store = c.cfg.Store.ID()
	st.Pos = stream.Next(st.Pos, item)
	it := core.Item{N: st.Pos.N, H: st.Pos.H, Item: item, Action: action}
	return it, tx.Streams.Append(st.Host, st.Pos.Stream, it)
}

// ackedTo returns how far a stream was acknowledged in memory.
func (s *session) ackedTo(name protocol.Stream) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freeable[name].N
}

// control gives a control item its number within the caller's transaction.
func (c *Coordinator) control(tx core.Tx, host protocol.HostID, item protocol.ControlItem) (core.Item, error) {
	b, err := json.Marshal(item)
	if err != nil {
		return core.Item{}, fmt.Errorf("encode control: %w", err)
	}
	st, err := tx.Streams.Get(host, protocol.StreamControl)
	if err != nil {
		return core.Item{}, err
	}
	it, err := c.append(tx, &st, b, protocol.ActionID{})
	if err != nil {
		return core.Item{}, err
	}
	return it, tx.Streams.Put(st)
}

// allocate notes numbered items after their transaction, for sending without
// asking the store again.
func (s *session) allocate(name protocol.Stream, given []core.Item) {
	if len(given) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range given {
		if it.N > s.newest[name].N {
			s.newest[name] = protocol.Position{Store: s.c.cfg.Store.ID(), Stream: name, N: it.N, H: it.H}
		}
		s.allocated[name][it.N] = it
	}
}

// pump sends what is due downwards. It is called after every change and at
// each tick; it sends nothing twice without a reason.
func (s *session) pump() {
	s.itemMu.Lock()
	defer s.itemMu.Unlock()
	defer s.outdate()
	for _, name := range []protocol.Stream{protocol.StreamControl, protocol.StreamOrder} {
		heard, age, ok := s.reachable()
		if !ok || s.c.isQuarantined(s.host) && name == protocol.StreamOrder {
			continue
		}
		s.mu.Lock()
		first, last := s.resend[name].Due(s.newest[name].N, s.c.uptime(), jitter())
		s.mu.Unlock()
		for n := first; n <= last; n++ {
			if err := s.sendItem(name, n, heard, age); err != nil {
				s.c.log.Error("cannot send an item; it will be sent again", "host", s.host, "stream", name, "n", n, "err", err)
				break
			}
		}
	}
}

// outdate forgets the start budgets of orders that could not be sent at once.
func (s *session) outdate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.expiry)
}

// sendItem seals an item anew: what changes with time is in the header, the
// item itself never changes.
func (s *session) sendItem(name protocol.Stream, n uint64, heard protocol.Seq, age time.Duration) error {
	it, err := s.item(name, n)
	if err != nil {
		return err
	}
	typ, ch := protocol.TypeOrder, protocol.ChannelOrder
	if name == protocol.StreamControl {
		typ, ch = protocol.TypeControl, protocol.ChannelControl
		if it.Action.IsZero() {
			heard = protocol.Seq{} // it has no start budget, so it does not matter when it arrives
		}
	}
	h := s.c.header(typ, protocol.HostParty(s.host))
	h.Store, h.Stream, h.N, h.Item, h.Heard = s.c.cfg.Store.ID(), name, n, it.Item, heard
	if !it.Action.IsZero() {
		if h.LeftMS, err = s.budget(it, age); err != nil {
			return err
		}
	}
	return s.c.publish(s.topic(ch), h)
}

// item returns an item from memory, or from the store if this process did not
// number it.
func (s *session) item(name protocol.Stream, n uint64) (it core.Item, err error) {
	s.mu.Lock()
	it, ok := s.allocated[name][n]
	s.mu.Unlock()
	if ok {
		return it, nil
	}
	err = s.c.base.View(s.c.ctx, func(tx core.Tx) error {
		items, err := tx.Streams.Items(s.host, name, n, n)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			return fmt.Errorf("item %d of stream %s: %w", n, name, core.ErrNotFound)
		}
		it = items[0]
		return nil
	})
	if err == nil {
		s.mu.Lock()
		s.allocated[name][n] = it
		s.mu.Unlock()
	}
	return it, err
}

// budget returns the start budget of an action, counted from the host's sending
// of what was heard age ago. An action that was given up has none: its order
// still goes out, because only the host can say that it never began.
func (s *session) budget(it core.Item, age time.Duration) (int64, error) {
	c := s.c
	s.mu.Lock()
	expires, fresh := s.expiry[it.Action]
	delete(s.expiry, it.Action)
	s.mu.Unlock()
	if fresh { // its number was given just now, so only its host can have ended it
		return max(0, expires-c.base.LifeMS()+age.Milliseconds()), nil
	}
	var a core.Action
	err := c.base.View(c.ctx, func(tx core.Tx) (err error) {
		a, err = tx.Actions.Get(it.Action)
		return err
	})
	if errors.Is(err, core.ErrNotFound) || err == nil && a.State.Final() {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return max(0, c.ends(&a)-c.base.LifeMS()+age.Milliseconds()), nil
}

// ends returns when the start budget of an action ends. A date that went back
// over a restart gives no order more than it had.
func (c *Coordinator) ends(a *core.Action) int64 {
	info, _ := protocol.KindOf(a.Kind)
	return min(a.ExpiresMS, c.base.LifeMS()+info.StartTTL.Milliseconds())
}

// maxCredits is how many streams one receipt asks for: it must not outgrow a
// message, however much output an ended absence has left behind.
const maxCredits = 64

// receipt tells a host what arrived, what was sent, and what is wanted. It is
// cumulative, so one that is lost is mended by the next.
func (s *session) receipt() {
	s.mu.Lock()
	conn, chal := s.gate.Conn()
	var have []protocol.Position
	for _, p := range s.up {
		have = append(have, p)
	}
	var want []string
	if s.wantFull {
		want, s.wantFull = []string{protocol.WantFull}, false
	}
	var credit []protocol.Credit
	for id, r := range s.credits {
		if len(credit) == maxCredits {
			break // the next receipt has the others
		}
		credit = append(credit, protocol.Credit{Action: id.action, Attempt: id.attempt, FD: id.fd, Offset: r.From, Window: r.To - r.From})
		delete(s.credits, id)
	}
	var checkpoint []byte
	if newest := s.c.sealer.newest.Load(); newest != nil && newest.N > s.sealed && s.c.base.Recovery() == "" {
		checkpoint, s.sealed = newest.Checkpoint, newest.N
	}
	head := s.audit
	s.audit = protocol.Position{}
	s.owed = false
	s.mu.Unlock()
	if chal.IsZero() {
		return
	}
	if err := s.answer(conn, chal, have, func(r *protocol.Receipt) {
		r.Want, r.Credit = want, credit
		r.Checkpoint, r.Audit = checkpoint, head
	}); err != nil {
		s.c.log.Error("cannot send a receipt", "host", s.host, "err", err)
	}
}

// answer seals and sends a receipt to one connection of a host.
func (s *session) answer(to protocol.Seq, give protocol.Nonce, have []protocol.Position, more func(*protocol.Receipt)) error {
	r := protocol.Receipt{
		Header:  s.c.header(protocol.TypeReceipt, protocol.HostParty(s.host)),
		Answers: to, Give: give, Have: have, Sent: []protocol.Position{},
	}
	if have == nil {
		r.Have = []protocol.Position{}
	}
	r.Store = protocol.StoreID{}
	s.mu.Lock()
	for _, name := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
		sent := s.newest[name]
		sent.Store, sent.Stream = s.c.cfg.Store.ID(), name
		r.Sent = append(r.Sent, sent)
	}
	s.mu.Unlock()
	if more != nil {
		more(&r)
	}
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	r.Seq = s.c.nextSeq()
	return s.c.publish(s.topic(protocol.ChannelReceipt), r)
}

// askAgain asks a host that came back about what it should know and never told
// the end of: after a restart of either side nothing stays RUNNING by mistake.
func (c *Coordinator) askAgain(s *session) {
	if c.base.Recovery() != "" {
		return
	}
	var given []core.Item
	var later bool
	err := c.base.Update(c.ctx, failpoint.QuestionAsked, func(tx core.Tx) error {
		given, later = nil, false
		controls, err := tx.Streams.Get(s.host, protocol.StreamControl)
		if err != nil {
			return err
		}
		// A host that takes no controls, however often it comes back, makes
		// no more than a window of questions.
		if controls.Pos.N-controls.Freed.N >= stream.Window {
			later = true
			return nil
		}
		st, err := tx.Streams.Get(s.host, protocol.StreamOrder)
		if err != nil {
			return err
		}
		open, err := tx.Actions.List(core.ActionFilter{
			Host: s.host, States: []protocol.State{protocol.StatePendingSchedule, protocol.StateNew, protocol.StateRunning}, Limit: protocol.MaxTell,
		})
		if err != nil {
			return err
		}
		var ids []protocol.ActionID
		for _, a := range open {
			freed := st.Freed.N
			if core.StreamOf(a.Kind) == protocol.StreamControl {
				freed = controls.Freed.N
			}
			if a.N != 0 && a.N <= freed || a.N == 0 && a.State != protocol.StatePendingSchedule || a.N == formerOrder {
				ids = append(ids, a.ID)
			}
		}
		if len(ids) == 0 {
			return nil
		}
		it, err := c.control(tx, s.host, protocol.ControlItem{Verb: protocol.VerbTell, IDs: ids})
		given = append(given, it)
		return err
	})
	if err != nil {
		c.log.Error("cannot ask a host about its actions; it is tried again", "host", s.host, "err", err)
		given, later = nil, true
	}
	s.allocate(protocol.StreamControl, given)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toAsk = s.toAsk || later
}

// expire ends what was never numbered and whose start budget is used up.
func (c *Coordinator) expire(ctx context.Context) error {
	if c.base.Recovery() != "" {
		return nil
	}
	var due []core.Action
	now := c.base.LifeMS()
	err := c.base.View(ctx, func(tx core.Tx) (err error) {
		due, err = tx.Queue.Expired(now, core.PageSize)
		return err
	})
	if err != nil || len(due) == 0 {
		return err
	}
	err = c.base.Update(ctx, failpoint.ActionsExpired, func(tx core.Tx) error {
		for _, d := range due {
			a, err := tx.Actions.Get(d.ID)
			if err != nil {
				return err
			}
			if a.N != 0 || a.State.Final() || a.ExpiresMS >= now {
				continue // it was numbered, has ended, or was approved meanwhile
			}
			a.Detail = c.whyExpired(&a)
			if err := c.base.Move(tx, &a, protocol.EventExpire); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.base.Wake.Fire(core.EventsKey{})
	for _, a := range due {
		c.base.Wake.Fire(a.ID)
		c.base.News.Ask(a.ID)
	}
	return nil
}
