package coordinator

import (
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/recovery"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
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
		return l.hear(m.Header.Seq)
	case protocol.PresenceGoodbye:
		l.presence.goodbye()
		l.c.emitHost(l.host, "host.offline", "goodbye")
	case protocol.PresenceWill:
		l.presence.will()
		l.c.emitHost(l.host, "host.suspect", "its connection broke")
	}
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
	l.c.recovery.HearNewerRing(l.host, p.Hello)
}

// onHello answers with the challenge: only the answer lets the host speak. What
// the hello claims is kept until a message carries the challenge, which proves
// that its sender is alive now. A hello that was held back and played again,
// to a coordinator that has just started say, must not make an honest host
// look as if its disk had gone back.
func (l *link) onHello(seq protocol.Seq, h *protocol.Hello) error {
	c := l.c
	give, current, early := l.presence.hello(seq, h, c.base.Nonce(), c.cfg.Boot())
	if current {
		l.beats.connected()
		l.receipts.connected()
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
	if claim := c.recovery.HearHello(l.host, h); claim != "" {
		c.quarantine(l.host, claim)
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
		// against anybody, and nothing is taken in.
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
	if found.ask {
		c.recovery.Begin(l.host)
	}
	if found.rolledBack != "" {
		c.quarantine(l.host, found.rolledBack)
		c.base.News.AskAll()
	}
	return nil
}

// notes is what is known about a host's streams after a hello.
type notes struct {
	up         []protocol.Position
	down       map[protocol.Stream]core.StreamState
	audit      protocol.Position // newest head of the host's own audit log that it told of
	rolledBack string            // why the host must have gone back in time; empty if it did not
	// adopt tells that a person readmitted the host since its last hello: what
	// it lacks is not held against it, and its streams go on where it stands.
	adopt bool
	// behind tells that it lacks something all the same: what it was asked after
	// that is lost.
	behind bool
	// ask tells that it knows of actions which are not known here.
	ask bool
}

// compareNotes holds what the host says it sent and has against what is known
// here, and makes its database the one in force.
func (l *link) compareNotes(h *protocol.Hello) (notes, error) {
	var n notes
	adopted, sealed := l.c.wire.NextSeq(), l.c.recovery.SealedBefore(h.Checkpoint)
	err := l.c.base.Update(l.c.ctx, failpoint.NotesCompared, func(tx core.Tx) error {
		host, err := tx.Hosts.Get(l.host)
		if err != nil {
			return err
		}
		n = notes{down: make(map[protocol.Stream]core.StreamState), audit: host.Inventory.Audit, adopt: host.Store.IsZero()}
		if n.ask, err = l.c.recovery.Meet(tx, &host, h); err != nil {
			return err
		}
		if err := recovery.NoteSealed(tx, sealed); err != nil {
			return err
		}
		if err := n.compareUp(tx, &host, h); err != nil {
			return err
		}
		ordered, err := n.compareDown(tx, l.c.cfg.Store.ID(), host.ID, h)
		if err != nil {
			return err
		}
		if n.rolledBack != "" || n.behind {
			if err := l.c.loseAfter(tx, host.ID, h.AcceptSeq, ordered); err != nil {
				return err
			}
		}
		if host.Store == h.Store && host.AcceptSeq == h.AcceptSeq {
			return nil
		}
		if n.adopt {
			host.Adopted = adopted
		}
		host.Store, host.AcceptSeq = h.Store, h.AcceptSeq
		return tx.Hosts.Put(host)
	})
	return n, err
}

func (n *notes) compareUp(tx core.Tx, host *core.Host, h *protocol.Hello) error {
	fresh := host.Store != h.Store
	switch {
	case fresh && !host.Store.IsZero():
		n.rolledBack = "its database is another one than before: its state was lost or replaced"
	case !fresh && h.AcceptSeq < host.AcceptSeq:
		n.rolledBack = fmt.Sprintf("it has accepted %d actions, %d were known: its disk went back", h.AcceptSeq, host.AcceptSeq)
	}
	for _, name := range []protocol.Stream{protocol.StreamReport, protocol.StreamAlert} {
		st, err := tx.Streams.Get(host.ID, name)
		if err != nil {
			return err
		}
		if st.Pos.Store != h.Store {
			st = core.StreamState{Host: host.ID, Pos: protocol.Position{Store: h.Store, Stream: name}, Freed: protocol.Position{Stream: name}}
			if err := tx.Streams.Put(st); err != nil {
				return err
			}
		}
		sent := stream.Find(h.Sent, name)
		freed := stream.Find(h.Freed, name)
		sent.Store, sent.Stream, freed.Store, freed.Stream = h.Store, name, h.Store, name
		switch {
		case freed.N > st.Pos.N && (n.ask || n.adopt):
			// The coordinator before us had them, and the host has them no more.
			st.Pos = freed
			if err := tx.Streams.Put(st); err != nil {
				return err
			}
		case freed.N > st.Pos.N && n.rolledBack == "":
			n.rolledBack = fmt.Sprintf("it says that %d items of stream %s were receipted, %d arrived: two histories", freed.N, name, st.Pos.N)
		case sent.N >= st.Pos.N:
		case n.adopt:
			st.Pos, n.behind = sent, true
			if err := tx.Streams.Put(st); err != nil {
				return err
			}
		default:
			n.rolledBack = fmt.Sprintf("it has sent %d items of stream %s, %d arrived: its disk went back", sent.N, name, st.Pos.N)
		}
		n.up = append(n.up, st.Pos)
	}
	return nil
}

// compareDown returns how many orders the host has.
func (n *notes) compareDown(tx core.Tx, store protocol.StoreID, host protocol.HostID, h *protocol.Hello) (ordered uint64, _ error) {
	for _, name := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
		st, err := tx.Streams.Get(host, name)
		if err != nil {
			return 0, err
		}
		have := stream.Find(h.Have, name)
		if have.Store != store {
			have = protocol.Position{Store: store, Stream: name}
		}
		if name == protocol.StreamOrder {
			ordered = have.N
		}
		verdict, err := freeDown(tx, &st, store, have)
		freed := st.Freed
		freed.Store = store
		back, foreign := stream.Behind(freed, have), verdict == stream.Ahead || verdict == stream.Differs
		switch {
		case err != nil:
			return 0, err
		case (back || foreign) && n.adopt:
			n.behind = true
			if err := adoptDown(tx, &st, have); err != nil {
				return 0, err
			}
		case back:
			n.rolledBack = fmt.Sprintf("it has %d items of stream %s, it had acknowledged %d: its disk went back", have.N, name, st.Freed.N)
		case foreign:
			n.rolledBack = fmt.Sprintf("its item %d of stream %s is not ours: two histories", have.N, name)
		}
		n.down[name] = st
	}
	return ordered, nil
}

// adoptDown lets a stream go on where the host stands. The actions of what is
// dropped were made LOST when the host was found to have gone back.
func adoptDown(tx core.Tx, st *core.StreamState, have protocol.Position) error {
	if err := tx.Streams.Free(st.Host, have.Stream, max(st.Pos.N, have.N)); err != nil {
		return err
	}
	st.Pos, st.Freed = have, have
	return tx.Streams.Put(*st)
}

// freeDown frees what have covers of a stream downwards.
func freeDown(tx core.Tx, st *core.StreamState, store protocol.StoreID, have protocol.Position) (stream.Covers, error) {
	sent, freed := st.Pos, st.Freed
	sent.Store, freed.Store = store, store
	var failed error
	verdict := stream.Receipt(sent, freed, have, func(n uint64) (protocol.Digest, bool) {
		items, err := tx.Streams.Items(st.Host, sent.Stream, n, n)
		if err != nil || len(items) == 0 {
			failed = err
			return protocol.Digest{}, false
		}
		return items[0].H, true
	})
	if failed != nil || verdict != stream.Frees {
		return verdict, failed
	}
	st.Pos.Store, st.Freed = store, have
	if err := tx.Streams.Free(st.Host, sent.Stream, have.N); err != nil {
		return verdict, err
	}
	return verdict, tx.Streams.Put(*st)
}

// loseAfter ends what a host that was rolled back can no longer know: it was
// accepted, or ordered, after the state to which it went back. An order that
// was never acknowledged is lost as well, for it may have been carried out and
// forgotten.
func (c *Coordinator) loseAfter(tx core.Tx, id protocol.HostID, acceptSeq, ordered uint64) error {
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
