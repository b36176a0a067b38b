package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// onPresence takes a hello, the word that a host is online, its goodbye, or
// its will.
func (s *session) onPresence(in inbound) error {
	m, err := s.openState(in)
	if errors.Is(err, protocol.ErrRing) {
		s.ringAhead(m)
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
		return s.onHello(m.Header.Seq, p.Hello)
	case protocol.PresenceOnline:
		return s.hear(m.Header.Seq)
	case protocol.PresenceGoodbye:
		s.mu.Lock()
		s.left, s.proven = true, false
		s.mu.Unlock()
		s.c.emitHost(s.host, "host.offline", "goodbye")
	case protocol.PresenceWill:
		// A broken connection makes a host suspect, never more.
		s.mu.Lock()
		s.broken = true
		s.mu.Unlock()
		s.c.emitHost(s.host, "host.suspect", "its connection broke")
	}
	return nil
}

// ringAhead looks at the hello of a host that holds a newer ring than we do. The
// host's word proves nothing, and it is refused; but if we have ourselves named
// a ring that we do not know, we went back to before we took it.
func (s *session) ringAhead(m protocol.Message) {
	var p protocol.Presence
	if m.Decode(&p) != nil || p.Kind != protocol.PresenceHello {
		return
	}
	if why := s.c.provesOlder(p.Hello.Evidence); why != "" {
		s.c.enterRecovery(s.host, why)
	}
}

// A host's hellos are answered once a second in the long run. A burst is
// answered at once: a host says hello again as soon as it learns of a new term.
const (
	helloBurst    = 4
	helloWindowMS = helloBurst * 1000
)

// answers counts an answer to a hello. It reports false when there were too
// many. It is called with mu held.
func (s *session) answers(now int64) bool {
	if s.helloAt == 0 || now-s.helloAt >= helloWindowMS {
		s.helloAt, s.hellos = now, 0
	}
	s.hellos++
	return s.hellos <= helloBurst
}

// onHello answers with the challenge: only the answer lets the host speak. What
// the hello claims is kept until a message carries the challenge, which proves
// that its sender is alive now. A hello that was held back and played again,
// to a coordinator that has just started say, must not make an honest host
// look as if its disk had gone back.
func (s *session) onHello(seq protocol.Seq, h *protocol.Hello) error {
	c := s.c
	s.mu.Lock()
	give, current := s.gate.Hello(seq, h.Inst, c.base.Nonce())
	early := !s.answers(c.cfg.Boot())
	if current {
		s.claims, s.proven, s.left, s.broken = h, false, false, false
		s.beatHeld, s.lacking = 0, 0
		s.sealed = 0
	}
	s.mu.Unlock()
	switch {
	case give.IsZero():
		return fmt.Errorf("%w: a hello of an earlier connection", protocol.ErrStale)
	case early:
		return nil
	case !current:
		return s.answer(seq, give, nil, nil)
	}
	// What a coordinator signed is true however old the hello is, and a host
	// that has seen a newer term than ours takes no challenge from us.
	if why := cmp.Or(c.provesOlder(h.Evidence), c.provesCut(h.Checkpoint)); why != "" {
		c.enterRecovery(s.host, why)
	} else if t := c.provenTerm(h); t.Compare(c.term) > 0 {
		c.outlive(s.host, t)
	} else if h.TermSeen.Compare(c.term) > 0 {
		// Without bytes that a coordinator signed this is a mere claim.
		c.quarantine(s.host, fmt.Sprintf("it claims term %d/%d, which no coordinator reached", h.TermSeen.Ring, h.TermSeen.Counter))
	}
	s.receipt()
	return nil
}

// prove acts upon the newest hello: what the host holds is compared with what
// is known here. It runs on the session's worker.
func (s *session) prove() error {
	c := s.c
	s.mu.Lock()
	h := s.claims
	s.mu.Unlock()
	if h == nil {
		return nil // heard again after a silence: nothing new was claimed
	}
	if c.base.Recovery() != "" {
		// What this coordinator knows is not what was: nothing is held
		// against anybody, and nothing is taken in.
		s.mu.Lock()
		s.claims = nil
		s.mu.Unlock()
		return nil
	}
	found, err := s.compareNotes(h)
	if err != nil {
		return fmt.Errorf("hello of %s: %w", s.host, err)
	}
	s.mu.Lock()
	if s.claims == h {
		s.claims = nil
	}
	s.store, s.audit = h.Store, found.audit
	for _, p := range found.up {
		s.up[p.Stream] = p
	}
	for name, st := range found.down {
		// A control may have got its number, and been noted, since.
		if found.adopt || st.Pos.N > s.newest[name].N {
			s.newest[name] = st.Pos
		}
		s.resend[name].Freed(st.Freed.N, c.uptime(), jitter())
		s.resend[name].Connected()
	}
	s.owed = true
	s.mu.Unlock()
	if found.ask {
		c.setRecovering(s.host, true)
	}
	if found.rolledBack != "" {
		c.quarantine(s.host, found.rolledBack)
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
func (s *session) compareNotes(h *protocol.Hello) (notes, error) {
	var n notes
	adopted, sealed := s.c.nextSeq(), s.c.sealedBefore(h.Checkpoint)
	err := s.c.base.Update(s.c.ctx, failpoint.NotesCompared, func(tx core.Tx) error {
		host, err := tx.Hosts.Get(s.host)
		if err != nil {
			return err
		}
		n = notes{down: make(map[protocol.Stream]core.StreamState), audit: host.Inventory.Audit, adopt: host.Store.IsZero()}
		if err := errors.Join(n.meet(tx, &host, h), noteSealed(tx, sealed)); err != nil {
			return err
		}
		if err := n.compareUp(tx, &host, h); err != nil {
			return err
		}
		ordered, err := n.compareDown(tx, s.c.cfg.Store.ID(), host.ID, h)
		if err != nil {
			return err
		}
		if n.rolledBack != "" || n.behind {
			if err := s.c.loseAfter(tx, host.ID, h.AcceptSeq, ordered); err != nil {
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

// provesOlder reads what a host keeps of the coordinator's words. It returns why
// this coordinator must have gone back in time, empty if nothing proves it.
func (c *Coordinator) provesOlder(evidence []byte) string {
	for _, raw := range protocol.Evidence(evidence) {
		r, key, ok := c.genuine(raw)
		if !ok || r.Term.Ring < c.recovered.Ring {
			continue // it says of the former store what the recovery is for
		}
		if key == c.cfg.Signer.Key() && r.Ring > c.cfg.Trust.Ring() {
			// Another coordinator may have taken a ring before us; we may not.
			return fmt.Sprintf("a message of ring %d, ring %d is known here", r.Ring, c.cfg.Trust.Ring())
		}
		if why := c.positionsProveOlder(&r); why != "" {
			return why
		}
	}
	return ""
}

// provenTerm is the newest term that a coordinator has spoken in, as what a host
// keeps shows.
func (c *Coordinator) provenTerm(h *protocol.Hello) (newest protocol.Term) {
	for _, raw := range protocol.Evidence(h.Evidence) {
		if r, _, ok := c.genuine(raw); ok && r.Term.Compare(newest) > 0 {
			newest = r.Term
		}
	}
	p, _, err := protocol.OpenCheckpoint(h.Checkpoint, c.cfg.Fleet, c.cfg.Trust)
	if err == nil && p.Log == protocol.Coordinator && p.Term.Compare(newest) > 0 {
		newest = p.Term
	}
	return newest
}

// genuine opens a message of a coordinator to a host or to the fleet, from
// whenever it may be.
func (c *Coordinator) genuine(raw []byte) (r protocol.Receipt, key protocol.KeyID, ok bool) {
	env, err := protocol.Split(raw)
	if err != nil {
		return r, key, false
	}
	p, ok := c.cfg.Trust.Principal(env.Key)
	if !ok || p.Revoked || !p.Can(protocol.RoleCoordinator) || p.Key.CheckForm(env.Sig) != nil || p.Key.Verify(env.Sig, env.Body) != nil {
		return r, key, false
	}
	// The word of a coordinator to its fleet has the same header.
	ok = protocol.DecodeJSON(env.Body, &r, true) == nil && r.Fleet == c.cfg.Fleet &&
		(r.Type == protocol.TypeReceipt || r.Type == protocol.TypeCoordinator)
	return r, env.Key, ok
}

// positionsProveOlder holds what a receipt says of the streams of its host
// against what is known here.
func (c *Coordinator) positionsProveOlder(r *protocol.Receipt) string {
	host, ok := r.To.Host()
	if !ok {
		return ""
	}
	why := ""
	err := c.base.View(c.ctx, func(tx core.Tx) error {
		why = ""
		if h, err := tx.Hosts.Standing(host); err != nil && !errors.Is(err, core.ErrNotFound) || r.Seq.Compare(h.Adopted) <= 0 {
			return err
		}
		for _, sent := range r.Sent {
			st, err := tx.Streams.Get(host, sent.Stream)
			if err != nil {
				return err
			}
			if sent.Store == c.cfg.Store.ID() && sent.N > st.Pos.N {
				why = fmt.Sprintf("a receipt says that %d items of stream %s were sent, %d are known here", sent.N, sent.Stream, st.Pos.N)
			}
		}
		for _, have := range r.Have {
			st, err := tx.Streams.Get(host, have.Stream)
			if err != nil {
				return err
			}
			if have.Store == st.Pos.Store && have.N > st.Pos.N {
				why = fmt.Sprintf("a receipt says that %d items of stream %s had arrived, %d are known here", have.N, have.Stream, st.Pos.N)
			}
		}
		return nil
	})
	if err != nil {
		c.log.Error("cannot judge the evidence of a hello", "host", host, "err", err)
	}
	return why
}

// provesCut reads the newest checkpoint of the coordinators' audit log that a
// host keeps. It returns why the log here must have been cut, changed or rolled
// back since, empty if nothing proves it.
func (c *Coordinator) provesCut(checkpoint []byte) string {
	if len(checkpoint) == 0 {
		return ""
	}
	p, _, err := protocol.OpenCheckpoint(checkpoint, c.cfg.Fleet, c.cfg.Trust)
	if err != nil || p.Log != protocol.Coordinator {
		return ""
	}
	if p.Store != c.cfg.Store.ID() {
		return "" // of before a recovery, or of another coordinator
	}
	var newest, same core.Seal
	err = c.base.View(c.ctx, func(tx core.Tx) (err error) {
		if newest, err = newestSeal(tx); err != nil {
			return err
		}
		same, err = tx.Audit.SealUpTo(p.N)
		if errors.Is(err, core.ErrNotFound) {
			err = nil // pruned
		}
		return err
	})
	switch {
	case err != nil:
		c.log.Error("cannot judge the checkpoint of a hello", "err", err)
	case p.N > newest.N:
		return fmt.Sprintf("a checkpoint seals %d records of the audit log, %d are sealed here", p.N, newest.N)
	case same.N != 0 && (same.N != p.N || same.H != p.H):
		return fmt.Sprintf("a checkpoint seals another record %d of the audit log than there is here", p.N)
	}
	return ""
}

// onAck frees what the host has durably. The rows go with the next transaction
// that is due anyway; until then they are only not sent again.
func (s *session) onAck(in inbound) error {
	m, err := s.openState(in)
	if err != nil {
		return err
	}
	var a protocol.Ack
	if err := m.Decode(&a); err != nil {
		return err
	}
	// It proves the hello as well, whose positions are older than these.
	if err := s.prove(); err != nil {
		return err
	}
	store := s.c.cfg.Store.ID()
	var foreign protocol.Position
	s.mu.Lock()
	for _, have := range a.Have {
		r, ok := s.resend[have.Stream]
		if !ok || have.Store != store {
			continue
		}
		if have.N > s.newest[have.Stream].N {
			foreign = have
			continue
		}
		if it, ok := s.allocated[have.Stream][have.N]; ok && it.H == have.H {
			s.freeable[have.Stream] = have
			r.Freed(have.N, s.c.uptime(), jitter())
			for n, it := range s.allocated[have.Stream] {
				if n <= have.N {
					delete(s.allocated[have.Stream], n)
				}
				if n <= have.N && !it.Action.IsZero() {
					s.receipted[it.Action] = s.c.base.NowMS()
				}
			}
			continue
		}
		// Not in memory: numbered before this process started, or another
		// history. The next transaction tells.
		if have.N > s.freeable[have.Stream].N {
			s.freeable[have.Stream] = have
		}
	}
	s.mu.Unlock()
	if foreign.N > 0 {
		// Nothing is on the wire before its number is known here.
		s.c.quarantine(s.host, fmt.Sprintf("it acknowledges item %d of stream %s, which was never sent: two histories", foreign.N, foreign.Stream))
	}
	for _, cr := range a.Credit {
		if err := s.onCredit(cr); err != nil {
			return err
		}
	}
	s.sendWaiting(s.c.ctx)
	return nil
}

// takeFreeable returns and clears what was acknowledged since the last
// transaction.
func (s *session) takeFreeable() []protocol.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []protocol.Position
	for name, p := range s.freeable {
		all = append(all, p)
		delete(s.freeable, name)
	}
	return all
}

// free frees acknowledged items within a transaction. What is not ours is an
// error that names it.
func (s *session) free(tx core.Tx, all []protocol.Position) (freed map[protocol.Stream]uint64, err error) {
	freed = make(map[protocol.Stream]uint64)
	for _, have := range all {
		st, err := tx.Streams.Get(s.host, have.Stream)
		if err != nil {
			return nil, err
		}
		verdict, err := freeDown(tx, &st, s.c.cfg.Store.ID(), have)
		if err != nil {
			return nil, err
		}
		if verdict == stream.Differs || verdict == stream.Ahead {
			return nil, fmt.Errorf("%w: item %d of stream %s is another one there", errHistory, have.N, have.Stream)
		}
		freed[have.Stream] = st.Freed.N
	}
	return freed, nil
}

// errHistory tells that a host acknowledges what was never sent to it.
var errHistory = errors.New("two histories")

// flush frees what was acknowledged, and notes when, if no other transaction did.
func (s *session) flush() {
	all := s.takeFreeable()
	s.mu.Lock()
	receipted := maps.Clone(s.receipted)
	s.mu.Unlock()
	if len(all) == 0 && len(receipted) == 0 {
		return
	}
	var freed map[protocol.Stream]uint64
	err := s.c.base.Update(s.c.ctx, failpoint.AcksFreed, func(tx core.Tx) (err error) {
		if freed, err = s.free(tx, all); err != nil {
			return err
		}
		for id, at := range receipted {
			a, err := tx.Actions.Get(id)
			if err == nil && a.ReceiptedMS == 0 {
				a.ReceiptedMS = at
				err = tx.Actions.Put(a)
			}
			if err != nil && !errors.Is(err, core.ErrNotFound) {
				return err
			}
		}
		return nil
	})
	s.freed(all, freed, err)
	if err == nil {
		s.forgetReceipts(receipted)
	}
	if err != nil && !errors.Is(err, errHistory) {
		s.c.log.Error("cannot free acknowledged items; it is tried again", "host", s.host, "err", err)
	}
}

// forgetReceipts is for receipts whose time is durable.
func (s *session) forgetReceipts(noted map[protocol.ActionID]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range noted {
		delete(s.receipted, id)
	}
}

// freed tells the resends what a transaction freed, or keeps what was
// acknowledged for the next one: nobody acknowledges it again.
func (s *session) freed(acked []protocol.Position, freed map[protocol.Stream]uint64, err error) {
	if errors.Is(err, errHistory) {
		s.c.quarantine(s.host, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		for _, have := range acked {
			if have.N > s.freeable[have.Stream].N {
				s.freeable[have.Stream] = have
			}
		}
		return
	}
	for name, n := range freed {
		s.resend[name].Freed(n, s.c.uptime(), jitter())
	}
}
