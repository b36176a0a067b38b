package hostlink

import (
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	vigil "github.com/hostler-io/hostler/coordinator/presence"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// onPresence takes a hello, the word that a host is online, its goodbye, or
// its will.
func (l *link) onPresence(in inbound) error {
	m, err := l.openState(in)
	if errors.Is(err, protocol.ErrRing) {
		l.ringAhead(m)
	}
	if err != nil {
		return err
	}
	var p protocol.Presence
	if err := m.Decode(&p); err != nil {
		return err
	}
	switch p.Kind {
	case protocol.PresenceHello:
		return l.onHello(m.Header.Seq, p.Hello)
	case protocol.PresenceOnline:
		return l.hear(m.Header.Seq, -1)
	case protocol.PresenceGoodbye:
		l.presence.goodbye()
		l.presence.happened(vigil.Event{Kind: vigil.Left, Seq: m.Header.Seq}, l.c.base.Boot())
	case protocol.PresenceWill:
		l.presence.will()
		l.presence.happened(vigil.Event{Kind: vigil.Lost, Seq: m.Header.Seq, Returns: l.receipts.returns()}, l.c.base.Boot())
	}
	l.tellPresence()
	return nil
}

// ringAhead looks at the hello of a host that holds a newer ring than we do. The
// host's word proves nothing, and it is refused; but if we have ourselves named
// a ring that we do not know, we went back to before we took it.
func (l *link) ringAhead(m protocol.Message) {
	var p protocol.Presence
	if m.Decode(&p) != nil || p.Kind != protocol.PresenceHello {
		return
	}
	l.c.cfg.Evidence.HearNewerRing(l.host, p.Hello)
}

// onHello answers with the challenge: only the answer lets the host speak. What
// the hello claims is kept until a message carries the challenge, which proves
// that its sender is alive now. A hello that was held back and played again,
// to a coordinator that has just started say, must not make an honest host
// look as if its disk had gone back.
func (l *link) onHello(seq protocol.Seq, h *protocol.Hello) error {
	c := l.c
	give, current, early := l.presence.hello(seq, h, c.base.Nonce(), c.base.Boot())
	if current {
		l.presence.happened(vigil.Event{Kind: vigil.Said, Seq: seq}, c.base.Boot())
		l.beats.connected()
		l.receipts.connected(h, l.c.cfg.Samples != nil)
	}
	switch {
	case give.IsZero():
		return fmt.Errorf("%w: a hello of an earlier connection", protocol.ErrStale)
	case early:
		return nil
	case !current:
		return l.answer(seq, give, protocol.Receipt{Have: []protocol.Position{}})
	}
	// What a coordinator signed is true however old the hello is, and a host
	// that has seen a newer term than ours takes no challenge from us.
	if claim := c.cfg.Evidence.HearHello(l.host, h); claim != "" {
		c.cfg.Standing.Quarantine(l.host, claim)
	}
	l.receipt()
	return nil
}

// prove acts upon the newest hello: what the host holds is compared with what
// is known here. It runs on the worker of the inbox.
func (l *link) prove() error {
	c := l.c
	h := l.presence.claimed()
	if h == nil {
		return nil // heard again after a silence: nothing new was claimed
	}
	if c.base.Recovery() != "" {
		// What this coordinator knows is not what was: nothing is held
		// against any host, and nothing is taken in.
		l.presence.ignore()
		return nil
	}
	found, err := l.compareNotes(h)
	if err != nil {
		return fmt.Errorf("hello of %s: %w", l.host, err)
	}
	for name, st := range found.down {
		l.out.begin(name, st, found.adopt, c.uptime())
	}
	l.receipts.begin(found.up, found.audit)
	l.presence.accept(h)
	c.cfg.Grants.Greeted(l.host, h)
	if found.asks {
		c.cfg.Questions.Begin(l.host)
	}
	// A host that is judged already may have been readmitted since.
	if found.rolledBack != "" && !found.judged {
		c.cfg.Standing.Quarantine(l.host, found.rolledBack)
		c.base.News.AskAll()
	}
	return nil
}

// compareNotes holds what the host says it sent and has against what is known
// here, and makes its database the one in force.
func (l *link) compareNotes(h *protocol.Hello) (found comparison, _ error) {
	k := known{store: l.c.base.Store.ID(), adopted: l.c.wire.NextSeq()}
	sealed := l.c.cfg.Evidence.SealedBefore(h.Checkpoint)
	err := l.c.base.Update(l.c.base.Ctx, failpoint.NotesCompared, func(tx core.Tx) (err error) {
		if k.host, err = tx.Hosts.Get(l.host); err != nil {
			return err
		}
		if k.asks, err = l.c.cfg.Questions.Meet(tx, &k.host, h); err != nil {
			return err
		}
		if err := errors.Join(k.read(tx, h), l.c.cfg.Evidence.NoteSealed(tx, sealed)); err != nil {
			return err
		}
		found = compare(k, h)
		return l.c.keepComparison(tx, &k, &found)
	})
	return found, err
}

// read reads what the store knows of the streams of the host.
func (k *known) read(tx core.Tx, h *protocol.Hello) (err error) {
	k.streams, k.there = make(map[protocol.Stream]core.StreamState), make(map[protocol.Stream]itemAt)
	for _, name := range []protocol.Stream{protocol.StreamReport, protocol.StreamAlert, protocol.StreamOrder, protocol.StreamControl} {
		if k.streams[name], err = tx.Streams.Get(k.host.ID, name); err != nil {
			return err
		}
	}
	for _, name := range down {
		if k.there[name], err = readItemAt(tx, k.streams[name], haveOf(h, name, k.store).N); err != nil {
			return err
		}
	}
	return nil
}

// readItemAt reads the digest of an item that was not freed yet.
func readItemAt(tx core.Tx, st core.StreamState, n uint64) (at itemAt, _ error) {
	if n <= st.Freed.N || n > st.Pos.N {
		return at, nil
	}
	if n == st.Pos.N {
		return itemAt{st.Pos.H, true}, nil
	}
	items, err := tx.Streams.Items(st.Host, st.Pos.Stream, n, n)
	if err == nil && len(items) > 0 {
		at = itemAt{items[0].H, true}
	}
	return at, err
}

// keepComparison writes what follows from a hello.
func (c *Conversations) keepComparison(tx core.Tx, k *known, found *comparison) error {
	for name, n := range found.freed {
		if err := tx.Streams.Free(k.host.ID, name, n); err != nil {
			return err
		}
	}
	for _, st := range found.changed {
		if err := tx.Streams.Put(st); err != nil {
			return err
		}
	}
	if found.rolledBack != "" || found.behind {
		if err := c.loseAfter(tx, k.host.ID, found.host.AcceptSeq, found.ordered); err != nil {
			return err
		}
	}
	if k.host.Store == found.host.Store && k.host.AcceptSeq == found.host.AcceptSeq {
		return nil
	}
	return tx.Hosts.Put(found.host)
}

// loseAfter ends what a host that was rolled back can no longer know: it was
// accepted, or ordered, after the state to which it went back. An order that
// was never acknowledged is lost as well, for it may have been carried out and
// forgotten.
func (c *Conversations) loseAfter(tx core.Tx, id protocol.HostID, acceptSeq, ordered uint64) error {
	return core.EachOpen(tx, id, func(a core.Action) error {
		known := a.N <= ordered
		if core.StreamOf(a.Kind) == protocol.StreamControl {
			known = a.N == 0 || a.AcceptSeq > 0
		}
		if a.AcceptSeq <= acceptSeq && known {
			return nil
		}
		return c.base.Move(tx, &a, protocol.EventHostBack)
	})
}
