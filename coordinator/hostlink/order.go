package hostlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// numberWaiting gives numbers to what waits for a host, as far as its window
// goes. Nothing is numbered for a host that is not there: orders wait here and
// not on the wire, so that a cancel or an expiry still finds them.
func (c *Conversations) numberWaiting(ctx context.Context, l *link) {
	var given numbered
	err := c.base.Update(ctx, failpoint.OrderNumbered, func(tx core.Tx) (err error) {
		given, err = c.number(tx, l)
		return err
	})
	if err != nil {
		c.base.Log.ErrorContext(ctx, "cannot number orders; it is tried again", "host", l.host, "err", err)
		given = numbered{more: true}
	}
	l.numbered(given)
}

// numbered notes what a transaction has numbered, after it.
func (l *link) numbered(given numbered) {
	l.out.addOrders(given.orders)
	if given.more {
		l.agenda.number()
	}
	tell(l.c.base, given.ended)
}

// tell tells those who follow actions that were ended here.
func tell(base *core.Base, ended []protocol.ActionID) {
	for _, id := range ended {
		base.Wake.Fire(id)
		base.News.Ask(id)
	}
}

// times is the present moment.
func (c *Conversations) times() times { return times{now: c.base.NowMS(), life: c.base.LifeMS()} }

// number gives the next numbers of their streams to unsent actions of a host,
// within the caller's transaction.
func (c *Conversations) number(tx core.Tx, l *link) (all numbered, _ error) {
	if c.base.Recovery() != "" {
		return numbered{}, nil
	}
	if h, err := tx.Hosts.Standing(l.host); err != nil || h.State != core.HostApproved || h.Quarantined != "" {
		return numbered{}, err
	}
	if _, _, ok := l.presence.reachable(l.c.base.Boot()); !ok {
		return numbered{more: true}, nil
	}
	for _, on := range down {
		if err := c.numberOn(tx, l, on, &all); err != nil {
			return numbered{}, err
		}
	}
	return all, nil
}

// numberOn does it for one stream.
func (c *Conversations) numberOn(tx core.Tx, l *link, on protocol.Stream, all *numbered) error {
	st, err := tx.Streams.Get(l.host, on)
	if err != nil {
		return err
	}
	free := room(st, l.out.acked(on))
	if free <= 0 {
		all.more = true
		return nil
	}
	unsent, err := tx.Queue.Unsent(l.host, on, free)
	if err != nil || len(unsent) == 0 {
		return err
	}
	full := len(unsent) == free
	if unsent, err = (turns{c.base, c.link}).inTurn(tx, l, unsent, all); err != nil {
		return err
	}
	at := c.times()
	waiting := make([]candidate, len(unsent))
	for i, a := range unsent {
		if waiting[i] = (candidate{action: a, approved: c.cfg.Approvals.Approved(&a, at.life)}); !waiting[i].approved {
			waiting[i].lapsed = c.cfg.Approvals.WhyExpired(&a)
		}
	}
	d, err := decideNumbers(st, c.base.Store.ID(), waiting, at)
	if err != nil {
		return err
	}
	for _, a := range d.expired {
		if err := c.base.Move(tx, &a, protocol.EventExpire); err != nil {
			return err
		}
		all.ended = append(all.ended, a.ID)
	}
	for i, a := range d.numbers {
		if err := errors.Join(tx.Streams.Append(l.host, on, d.orders[i].Item), tx.Actions.Put(a)); err != nil {
			return err
		}
	}
	all.orders, all.more = append(all.orders, d.orders...), all.more || full && len(waiting) > 0
	return tx.Streams.Put(d.state)
}

// numberFirst gives a new action its number before it is written, if nothing can
// be waiting in front of it and its host is there. Any other is for number.
func (c *Conversations) numberFirst(tx core.Tx, l *link, a *core.Action) (given numbered, _ error) {
	on := core.StreamOf(a.Kind)
	_, _, there := l.presence.reachable(l.c.base.Boot())
	if c.base.Recovery() != "" || !there || a.AtOnce > 0 || on == protocol.StreamOrder && !l.agenda.empty() {
		return given, nil
	}
	st, err := tx.Streams.Get(l.host, on)
	if err != nil || room(st, l.out.acked(on)) <= 0 {
		return given, err
	}
	o, err := decideOrder(&st, c.base.Store.ID(), a, c.times())
	if err == nil {
		err = tx.Streams.Append(l.host, on, o.Item)
	}
	if err != nil {
		return given, err
	}
	given.orders = append(given.orders, o)
	return given, tx.Streams.Put(st)
}

// control gives a control item its number within the caller's transaction.
func (c *Conversations) control(tx core.Tx, host protocol.HostID, item protocol.ControlItem) (core.Item, error) {
	b, err := json.Marshal(item)
	if err != nil {
		return core.Item{}, fmt.Errorf("encode control: %w", err)
	}
	st, err := tx.Streams.Get(host, protocol.StreamControl)
	if err != nil {
		return core.Item{}, err
	}
	it := nextItem(&st, c.base.Store.ID(), b, protocol.ActionID{})
	if err := tx.Streams.Append(host, protocol.StreamControl, it); err != nil {
		return core.Item{}, err
	}
	return it, tx.Streams.Put(st)
}

// pump sends what is due downwards. It is called after every change and at
// each tick; it sends nothing twice without a reason.
func (l *link) pump() {
	l.itemMu.Lock()
	defer l.itemMu.Unlock()
	defer l.out.clearExpiry()
	if l.out.idle() {
		return
	}
	now := l.c.base.Boot()
	for _, name := range down {
		heard, age, ok := l.presence.reachable(now)
		if !ok || l.c.cfg.Standing.Quarantined(l.host) && name == protocol.StreamOrder {
			continue
		}
		first, last := l.out.due(name, time.Duration(now)*time.Millisecond)
		for n := first; n <= last; n++ {
			if err := l.sendItem(name, n, heard, age); err != nil {
				l.c.base.Log.Error("cannot send an item; it will be sent again", "host", l.host, "stream", name, "n", n, "err", err)
				break
			}
		}
	}
}

// sendItem seals an item anew: what changes with time is in the header, the
// item itself never changes.
func (l *link) sendItem(name protocol.Stream, n uint64, heard protocol.Seq, age time.Duration) error {
	it, err := l.item(name, n)
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
	h := l.c.wire.Header(typ, protocol.HostParty(l.host))
	h.Store, h.Stream, h.N, h.Item, h.Heard = l.c.base.Store.ID(), name, n, it.Item, heard
	if !it.Action.IsZero() {
		if h.LeftMS, err = l.budget(it, age); err != nil {
			return err
		}
	}
	return l.c.wire.Publish(l.c.wire.HostTopic(l.host, ch), h)
}

// item returns an item from memory, or from the store if this process did not
// number it.
func (l *link) item(name protocol.Stream, n uint64) (it core.Item, err error) {
	it, ok := l.out.item(name, n)
	if ok {
		return it, nil
	}
	err = l.c.base.View(l.c.base.Ctx, func(tx core.Tx) error {
		items, err := tx.Streams.Items(l.host, name, n, n)
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
		l.out.keep(name, it)
	}
	return it, err
}

// budget returns the start budget of an action, counted from the host's sending
// of what was heard age ago. An action that was given up has none: its order
// still goes out, because only the host can say that it never began.
func (l *link) budget(it core.Item, age time.Duration) (int64, error) {
	c := l.c
	expires, fresh := l.out.takeExpiry(it.Action)
	if fresh { // its number was given just now, so only its host can have ended it
		return max(0, expires-c.base.LifeMS()+age.Milliseconds()), nil
	}
	a, err := core.Read(c.base.Ctx, c.base, func(tx core.Tx) (core.Action, error) { return tx.Actions.Get(it.Action) })
	if errors.Is(err, core.ErrNotFound) || err == nil && a.State.Final() {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return max(0, ends(&a, c.base.LifeMS())-c.base.LifeMS()+age.Milliseconds()), nil
}
