package stream_test

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

var (
	here  = protocol.StoreID{1}
	there = protocol.StoreID{2}
)

// history returns the positions after 0, 1, … items.
func history(store protocol.StoreID, items ...string) []protocol.Position {
	list := []protocol.Position{{Store: store, Stream: protocol.StreamReport}}
	for _, item := range items {
		list = append(list, stream.Next(list[len(list)-1], []byte(item)))
	}
	return list
}

func TestLink(t *testing.T) {
	// h_1 = SHA-256(32 zero bytes ‖ SHA-256("a")), by sha256sum.
	want := "8c374a53782642f7514d087d26a3e733f1b806009a03e04a43b288ef2fa9f9c0"
	got := stream.Link(protocol.Digest{}, []byte("a")).String()
	if got != want {
		t.Errorf("Link: %s, want %s", got, want)
	}
	a, b := history(here, "a", "b"), history(here, "a", "c")
	if a[1].H != b[1].H || a[2].H == b[2].H || a[2].N != 2 || a[2].Store != here || a[2].Stream != protocol.StreamReport {
		t.Errorf("positions %v and %v", a, b)
	}
	ab, ba := history(here, "a", "b"), history(here, "b", "a")
	if ab[2].H == ba[2].H {
		t.Error("order does not matter")
	}
}

func TestReceive(t *testing.T) {
	have := history(here, "a", "b", "c")[3]
	for _, test := range []struct {
		store protocol.StoreID
		n     uint64
		want  stream.Verdict
	}{
		{here, 1, stream.Duplicate}, {here, 3, stream.Duplicate}, {here, 4, stream.Deliver}, {here, 5, stream.Gap}, {here, 1 << 40, stream.Gap},
		{there, 4, stream.Foreign}, {there, 1, stream.Foreign}, {protocol.StoreID{}, 4, stream.Foreign},
	} {
		if got := stream.Receive(have, test.store, test.n); got != test.want {
			t.Errorf("item %d of %s: %d, want %d", test.n, test.store, got, test.want)
		}
	}
}

func TestReceipt(t *testing.T) {
	ours, other := history(here, "a", "b", "c", "d", "e"), history(here, "a", "x", "c", "d", "e", "f")
	foreign := history(there, "a", "b", "c", "d", "e")
	chain := func(n uint64) (protocol.Digest, bool) {
		if n <= 2 || n > 5 {
			return protocol.Digest{}, false
		}
		return ours[n].H, true
	}
	for _, test := range []struct {
		name string
		have protocol.Position
		want stream.Covers
	}{
		{"the next", ours[3], stream.Frees}, {"all", ours[5], stream.Frees}, {"what is free", ours[2], stream.Nothing},
		{"less than what is free", ours[1], stream.Nothing}, {"nothing", ours[0], stream.Nothing},
		{"other item", other[3], stream.Differs}, {"other item among the freed", other[2], stream.Differs}, {"other end", other[5], stream.Differs},
		{"more than there is", other[6], stream.Ahead}, {"another store", foreign[4], stream.Nothing}, {"no store", protocol.Position{N: 4, H: ours[4].H}, stream.Nothing},
	} {
		if got := stream.Receipt(ours[5], ours[2], test.have, chain); got != test.want {
			t.Errorf("receipt of %s: %d, want %d", test.name, got, test.want)
		}
	}
	if !stream.Behind(ours[2], ours[1]) || stream.Behind(ours[2], ours[2]) || stream.Behind(ours[2], foreign[1]) {
		t.Error("Behind is about less of the same store")
	}
}

func TestFind(t *testing.T) {
	list := []protocol.Position{{Stream: protocol.StreamReport, N: 4}, {Stream: protocol.StreamAlert, N: 5}}
	if got := stream.Find(list, protocol.StreamAlert); got != list[1] {
		t.Errorf("Find: %v", got)
	}
	if got := stream.Find(list, protocol.StreamOrder); got != (protocol.Position{}) {
		t.Errorf("Find of nothing: %v", got)
	}
}

// due is what one question answers.
type due struct{ first, last uint64 }

func TestResend(t *testing.T) {
	var r stream.Resend
	ask := func(newest uint64, at time.Duration, want due) {
		t.Helper()
		idle := r.Idle(newest)
		if first, last := r.Due(newest, at, 0); (due{first, last}) != want || idle && first <= last {
			t.Errorf("at %s: %d to %d, want %d to %d; idle before: %t", at, first, last, want.first, want.last, idle)
		}
	}
	none := due{1, 0}
	ask(0, 0, none)
	if _, ok := r.Wake(); ok {
		t.Error("nothing waits")
	}
	ask(3, 0, due{1, 3})
	ask(3, 0, none)
	ask(5, 0, due{4, 5})
	if at, ok := r.Wake(); !ok || at != time.Second {
		t.Errorf("Wake: %s, %t", at, ok)
	}
	// Half of 4, 8, 16, 32 and 60 s pass between the resends that follow.
	at := time.Second
	for _, s := range []time.Duration{2, 4, 8, 16, 30, 30, 30} {
		ask(5, at-1, none)
		ask(5, at, due{1, 5})
		at += s * time.Second
	}
	r.Freed(2, at-1, 0)
	ask(5, at, none)
	ask(5, at+time.Second, due{3, 5})
	r.Connected()
	ask(5, at+time.Second, due{3, 5})
	r.Freed(5, at+time.Second, 0)
	if _, ok := r.Wake(); ok {
		t.Error("everything is free, and something waits")
	}
	if !r.Idle(5) || r.Idle(6) {
		t.Errorf("idle with all items free: %t, with one more: %t", r.Idle(5), r.Idle(6))
	}
	ask(5, at+time.Hour, none)
	ask(100, at+time.Hour, due{6, 5 + stream.Window})
	ask(100, at+time.Hour, none)
	r.Freed(10, at+time.Hour, 0)
	ask(100, at+time.Hour, due{70, 74})

	var restarted stream.Resend
	restarted.Freed(90, 0, 0.5)
	if first, last := restarted.Due(95, 0, 0); first != 91 || last != 95 {
		t.Errorf("after a restart: %d to %d", first, last)
	}
}
