package hostlink

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// down are the streams of items to a host. Controls go first: a cancel and a
// question pass the orders that wait.
var down = [...]protocol.Stream{protocol.StreamControl, protocol.StreamOrder}

// outbox is what is known in memory of the items to one host: how far its
// streams were numbered and acknowledged, and when they are sent again. The
// store has the truth; an outbox is filled after each transaction and from each
// proven hello. Its methods may be called from any goroutine, and never wait.
type outbox struct {
	store protocol.StoreID // of the coordinator's database

	// The maps, those of the streams too, are made when something is put into them: most
	// hosts are sent nothing for a long time.
	mu        sync.Mutex
	streams   [len(down)]sending
	expiry    map[protocol.ActionID]int64 // start budgets of orders that were numbered and not sent yet
	receipted map[protocol.ActionID]int64 // when orders were acknowledged, to be noted with what is written next
}

// sending is one stream of an outbox.
type sending struct {
	newest protocol.Position // of the items that have a number
	freed  protocol.Position // acknowledged, to be freed with the next transaction; zero for nothing
	resend stream.Resend
	items  map[uint64]core.Item
}

// reset begins without anything sent.
func (b *outbox) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams = [len(down)]sending{}
	b.expiry, b.receipted = nil, nil
}

// stream returns a stream to the host, nil for a stream that is none. It is called with mu
// held.
func (b *outbox) stream(name protocol.Stream) *sending {
	if i := slices.Index(down[:], name); i >= 0 {
		return &b.streams[i]
	}
	return nil
}

// set puts an entry into a map, which is made if there is none.
func set[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = v
}

// add takes items that a transaction has numbered.
func (b *outbox) add(name protocol.Stream, given ...core.Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range given {
		b.addItem(name, it)
	}
}

// addOrders is add for orders, and notes when their start budgets end.
func (b *outbox) addOrders(given []order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range given {
		b.addItem(o.on, o.Item)
		set(&b.expiry, o.Action, o.expiresMS)
	}
}

func (b *outbox) addItem(name protocol.Stream, it core.Item) {
	s := b.stream(name)
	if it.N > s.newest.N {
		s.newest = protocol.Position{Store: b.store, Stream: name, N: it.N, H: it.H}
	}
	set(&s.items, it.N, it)
}

// begin takes what a proven hello has shown of a stream. A control may have got
// its number, and been noted, since; with adopt the stream goes on from st all
// the same.
func (b *outbox) begin(name protocol.Stream, st core.StreamState, adopt bool, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stream(name)
	if adopt || st.Pos.N > s.newest.N {
		s.newest = st.Pos
	}
	s.resend.Freed(st.Freed.N, now, jitter())
	s.resend.Connected()
}

// idle reports that nothing waits to be sent, or to be acknowledged.
func (b *outbox) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.streams {
		if s := &b.streams[i]; !s.resend.Idle(s.newest.N) {
			return false
		}
	}
	return true
}

// due returns the numbers of the items that are to be sent now.
func (b *outbox) due(name protocol.Stream, now time.Duration) (first, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stream(name)
	return s.resend.Due(s.newest.N, now, jitter())
}

// item returns an item that was numbered, or loaded, by this process.
func (b *outbox) item(name protocol.Stream, n uint64) (core.Item, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, ok := b.stream(name).items[n]
	return it, ok
}

// keep remembers an item that was loaded from the store.
func (b *outbox) keep(name protocol.Stream, it core.Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set(&b.stream(name).items, it.N, it)
}

// takeExpiry returns, once, when the start budget of an order ends that was
// numbered just now: only its host can have ended it since.
func (b *outbox) takeExpiry(id protocol.ActionID) (expiresMS int64, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	expiresMS, fresh = b.expiry[id]
	delete(b.expiry, id)
	return expiresMS, fresh
}

// clearExpiry forgets the start budgets of orders that could not be sent at once.
func (b *outbox) clearExpiry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.expiry)
}

// sent returns how far each stream was numbered, for receipts.
func (b *outbox) sent() []protocol.Position {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []protocol.Position{}
	for _, name := range [...]protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
		p := b.stream(name).newest
		p.Store, p.Stream = b.store, name
		all = append(all, p)
	}
	return all
}

// acked returns how far a stream was acknowledged in memory.
func (b *outbox) acked(name protocol.Stream) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stream(name).freed.N
}

// ack takes what the host has durably: it is not sent again, and its rows go
// with the next transaction. foreign is a position that was never sent; zero if
// there is none.
func (b *outbox) ack(all []protocol.Position, now time.Duration, nowMS int64) (foreign protocol.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, have := range all {
		s := b.stream(have.Stream)
		if s == nil || have.Store != b.store {
			continue
		}
		if have.N > s.newest.N {
			foreign = have
			continue
		}
		if it, ok := s.items[have.N]; ok && it.H == have.H {
			s.freed = have
			s.resend.Freed(have.N, now, jitter())
			b.forgetItems(s, have.N, nowMS)
			continue
		}
		// Not in memory: numbered before this process started, or another
		// history. The next transaction tells.
		if have.N > s.freed.N {
			s.freed = have
		}
	}
	return foreign
}

// forgetItems drops what was acknowledged. It is called with mu held.
func (b *outbox) forgetItems(s *sending, upTo uint64, nowMS int64) {
	for n, it := range s.items {
		if n > upTo {
			continue
		}
		delete(s.items, n)
		if !it.Action.IsZero() {
			set(&b.receipted, it.Action, nowMS)
		}
	}
}

// takeFreed returns and clears what was acknowledged since the last transaction.
func (b *outbox) takeFreed() []protocol.Position {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []protocol.Position
	for i := range b.streams {
		if s := &b.streams[i]; s.freed.N > 0 {
			all, s.freed = append(all, s.freed), protocol.Position{}
		}
	}
	return all
}

// putBack keeps what was acknowledged for the next transaction after one has
// failed: it is not acknowledged again.
func (b *outbox) putBack(acked []protocol.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, have := range acked {
		if s := b.stream(have.Stream); have.N > s.freed.N {
			s.freed = have
		}
	}
}

// free tells the resends what a transaction has freed.
func (b *outbox) free(freed map[protocol.Stream]uint64, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, n := range freed {
		b.stream(name).resend.Freed(n, now, jitter())
	}
}

// receipts returns when orders were acknowledged whose time is not durable yet.
func (b *outbox) receipts() map[protocol.ActionID]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.receipted)
}

// forgetReceipt is for an order whose time of receipt is durable.
func (b *outbox) forgetReceipt(id protocol.ActionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.receipted, id)
}
