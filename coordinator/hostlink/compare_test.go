package hostlink

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestCompare holds hellos against what is known: a host that has told 5 reports
// and acknowledged 3 of 7 orders.
func TestCompare(t *testing.T) {
	ours, theirs, other := protocol.StoreID{1}, protocol.StoreID{2}, protocol.StoreID{3}
	at := func(store protocol.StoreID, name protocol.Stream, n uint64) protocol.Position {
		p := protocol.Position{Store: store, Stream: name, N: n}
		if n > 0 {
			p.H = protocol.Digest{byte(n)}
		}
		return p
	}
	begin := func() (known, *protocol.Hello) {
		k := known{
			host: core.Host{ID: "web1", Store: theirs, AcceptSeq: 9}, store: ours, adopted: protocol.Seq{K: 4},
			streams: make(map[protocol.Stream]core.StreamState), there: map[protocol.Stream]itemAt{protocol.StreamOrder: {protocol.Digest{5}, true}},
		}
		for name, of := range map[protocol.Stream]struct {
			store      protocol.StoreID
			pos, freed uint64
		}{protocol.StreamReport: {theirs, 5, 0}, protocol.StreamAlert: {theirs, 0, 0}, protocol.StreamOrder: {ours, 7, 3}, protocol.StreamControl: {ours, 0, 0}} {
			k.streams[name] = core.StreamState{Host: "web1", Pos: at(of.store, name, of.pos), Freed: at(of.store, name, of.freed)}
		}
		return k, &protocol.Hello{
			Store: theirs, AcceptSeq: 9, Sent: []protocol.Position{at(theirs, protocol.StreamReport, 6)}, Freed: []protocol.Position{at(theirs, protocol.StreamReport, 5)},
			Have: []protocol.Position{at(ours, protocol.StreamOrder, 5)},
		}
	}
	for _, c := range []struct {
		name    string
		change  func(*known, *protocol.Hello)
		back    string // what the reason of a quarantine says
		behind  bool
		up      uint64 // how far reports have come
		freed   uint64 // how many orders go
		ordered uint64
	}{
		{name: "as expected", up: 5, freed: 5, ordered: 5},
		{name: "another database", change: func(_ *known, h *protocol.Hello) { h.Store = other }, back: "another one", freed: 5, ordered: 5},
		{name: "accepted less", change: func(_ *known, h *protocol.Hello) { h.AcceptSeq = 8 }, back: "accepted 8", up: 5, freed: 5, ordered: 5},
		{name: "sent less", change: func(_ *known, h *protocol.Hello) { h.Sent[0].N, h.Freed = 4, nil }, back: "it has sent 4", up: 5, freed: 5, ordered: 5},
		{name: "receipted more", change: func(_ *known, h *protocol.Hello) { h.Freed[0].N = 6 }, back: "two histories", up: 5, freed: 5, ordered: 5},
		{name: "receipted more by the coordinator before us", change: func(k *known, h *protocol.Hello) { h.Freed[0].N, k.asks = 6, true }, up: 6, freed: 5, ordered: 5},
		{name: "forgot orders", change: func(_ *known, h *protocol.Hello) { h.Have[0] = at(ours, protocol.StreamOrder, 2) }, back: "it has 2 items", up: 5, ordered: 2},
		{name: "has an order of another history", change: func(k *known, _ *protocol.Hello) { k.there[protocol.StreamOrder] = itemAt{protocol.Digest{6}, true} }, back: "not ours", up: 5, ordered: 5},
		{name: "has more orders than there are", change: func(_ *known, h *protocol.Hello) { h.Have[0] = at(ours, protocol.StreamOrder, 8) }, back: "not ours", up: 5, ordered: 8},
		{name: "orders of another coordinator", change: func(_ *known, h *protocol.Hello) { h.Have[0].Store = other }, back: "it has 0 items", up: 5},
		{name: "readmitted, and went back", change: func(k *known, h *protocol.Hello) {
			k.host.Store, h.Sent[0].N, h.Freed = protocol.StoreID{}, 4, nil
			h.Have[0] = at(ours, protocol.StreamOrder, 2)
		}, behind: true, up: 4, freed: 7, ordered: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, h := begin()
			if c.change != nil {
				c.change(&k, h)
			}
			got := compare(k, h)
			if c.back == "" && got.rolledBack != "" || !strings.Contains(got.rolledBack, c.back) {
				t.Errorf("it went back because %q, want %q", got.rolledBack, c.back)
			}
			if got.behind != c.behind || got.up[0].N != c.up || got.freed[protocol.StreamOrder] != c.freed || got.ordered != c.ordered {
				t.Errorf("behind %v, %d reports, %d orders go, it has %d; want %v, %d, %d, %d", got.behind, got.up[0].N, got.freed[protocol.StreamOrder], got.ordered, c.behind, c.up, c.freed, c.ordered)
			}
			if got.host.Store != h.Store || got.host.AcceptSeq != h.AcceptSeq || (got.host.Adopted == k.adopted) != k.host.Store.IsZero() {
				t.Errorf("the host is written as %+v", got.host)
			}
			for _, st := range got.changed {
				if st == k.streams[st.Pos.Stream] {
					t.Errorf("stream %s is written, and has not changed", st.Pos.Stream)
				}
				if was, ok := got.down[st.Pos.Stream]; ok && was != st {
					t.Errorf("stream %s is written as %+v and goes on as %+v", st.Pos.Stream, st, was)
				}
			}
			if diff := cmp.Diff(got, compare(k, h), cmp.AllowUnexported(comparison{})); diff != "" {
				t.Errorf("the same hello has another answer the second time: %s", diff)
			}
		})
	}
}
