package hostlink

import (
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// Comparing what a host says in its hello with what is known here is pure: what
// the store holds goes in, what is to be written comes out. The shell is
// compareNotes.

// known is what is known of a host when it says hello.
type known struct {
	host    core.Host
	store   protocol.StoreID // of the coordinator
	streams map[protocol.Stream]core.StreamState
	there   map[protocol.Stream]itemAt // the item down that the host says is its newest
	asks    bool                       // the host knows of actions which are not known here
	adopted protocol.Seq               // the coordinator's state message that comes next
}

// itemAt is the chain digest of an item, if it is still there.
type itemAt struct {
	h  protocol.Digest
	ok bool
}

// comparison is what follows from a hello.
type comparison struct {
	host       core.Host // as it is to be written
	changed    []core.StreamState
	freed      map[protocol.Stream]uint64 // items down that go, up to these numbers
	up         []protocol.Position
	down       map[protocol.Stream]core.StreamState
	audit      protocol.Position // newest head of the host's own audit log that it told of
	ordered    uint64            // how many orders the host has
	rolledBack string            // why the host must have gone back in time; empty if it did not
	judged     bool              // it was quarantined before
	// adopt tells that a person readmitted the host since its last hello: what
	// it lacks is not held against it, and its streams go on where it stands.
	adopt bool
	// behind tells that it lacks something all the same: what it was asked after
	// that is lost.
	behind bool
	asks   bool // the host knows of actions which are not known here
}

// compare holds what a host says that it sent and has against what is known here,
// and makes its database the one in force.
func compare(k known, h *protocol.Hello) comparison {
	c := comparison{
		host: k.host, freed: make(map[protocol.Stream]uint64), down: make(map[protocol.Stream]core.StreamState),
		audit: k.host.Inventory.Audit, adopt: k.host.Store.IsZero(), judged: k.host.Quarantined != "", asks: k.asks,
	}
	fresh := k.host.Store != h.Store
	switch {
	case fresh && !c.adopt:
		c.rolledBack = "its database is another one than before: its state was lost or replaced"
	case !fresh && h.AcceptSeq < k.host.AcceptSeq:
		c.rolledBack = fmt.Sprintf("it has accepted %d actions, %d were known: its disk went back", h.AcceptSeq, k.host.AcceptSeq)
	}
	for _, name := range []protocol.Stream{protocol.StreamReport, protocol.StreamAlert} {
		c.compareUp(k.streams[name], name, h)
	}
	for _, name := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
		c.compareDown(k.streams[name], name, k.store, k.there[name], h)
	}
	if fresh && c.adopt {
		c.host.Adopted = k.adopted
	}
	c.host.Store, c.host.AcceptSeq = h.Store, h.AcceptSeq
	return c
}

func (c *comparison) compareUp(st core.StreamState, name protocol.Stream, h *protocol.Hello) {
	before := st
	if st.Pos.Store != h.Store {
		st = core.StreamState{Host: c.host.ID, Pos: protocol.Position{Store: h.Store, Stream: name}, Freed: protocol.Position{Stream: name}}
	}
	sent, freed := stream.Find(h.Sent, name), stream.Find(h.Freed, name)
	sent.Store, sent.Stream, freed.Store, freed.Stream = h.Store, name, h.Store, name
	switch {
	case freed.N > st.Pos.N && (c.asks || c.adopt):
		// The coordinator before us had them, and the host has them no more.
		st.Pos = freed
	case freed.N > st.Pos.N && c.rolledBack == "":
		c.rolledBack = fmt.Sprintf("it says that %d items of stream %s were receipted, %d arrived: two histories", freed.N, name, st.Pos.N)
	case sent.N >= st.Pos.N:
	case c.adopt:
		st.Pos, c.behind = sent, true
	default:
		c.rolledBack = fmt.Sprintf("it has sent %d items of stream %s, %d arrived: its disk went back", sent.N, name, st.Pos.N)
	}
	if st != before {
		c.changed = append(c.changed, st)
	}
	c.up = append(c.up, st.Pos)
}

func (c *comparison) compareDown(st core.StreamState, name protocol.Stream, store protocol.StoreID, there itemAt, h *protocol.Hello) {
	have := haveOf(h, name, store)
	if name == protocol.StreamOrder {
		c.ordered = have.N
	}
	before := st
	verdict := free(&st, store, have, there)
	if verdict == stream.Frees {
		c.freed[name] = have.N
	}
	freed := st.Freed
	freed.Store = store
	back, foreign := stream.Behind(freed, have), verdict == stream.Ahead || verdict == stream.Differs
	switch {
	case (back || foreign) && c.adopt:
		// The actions of what is dropped were made LOST when the host was found to
		// have gone back.
		c.behind, c.freed[name] = true, max(st.Pos.N, have.N)
		st.Pos, st.Freed = have, have
	case back:
		c.rolledBack = fmt.Sprintf("it has %d items of stream %s, it had acknowledged %d: its disk went back", have.N, name, st.Freed.N)
	case foreign:
		c.rolledBack = fmt.Sprintf("its item %d of stream %s is not ours: two histories", have.N, name)
	}
	if st != before {
		c.changed = append(c.changed, st)
	}
	c.down[name] = st
}

// haveOf is how much a host says that it has of a stream of a store.
func haveOf(h *protocol.Hello, name protocol.Stream, store protocol.StoreID) protocol.Position {
	have := stream.Find(h.Have, name)
	if have.Store != store {
		have = protocol.Position{Store: store, Stream: name}
	}
	return have
}

// free judges what a host says that it has of a stream down, and frees what that
// covers: then the rows up to it go as well. there is the item at that position.
func free(st *core.StreamState, store protocol.StoreID, have protocol.Position, there itemAt) stream.Covers {
	sent, freed := st.Pos, st.Freed
	sent.Store, freed.Store = store, store
	verdict := stream.Receipt(sent, freed, have, func(uint64) (protocol.Digest, bool) { return there.h, there.ok })
	if verdict == stream.Frees {
		st.Pos.Store, st.Freed = store, have
	}
	return verdict
}
