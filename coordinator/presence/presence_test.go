package presence

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
)

func seq(conn uint64, k int64) protocol.Seq { return protocol.Seq{Inc: 1, Conn: conn, K: uint64(k)} }

// TestDay follows a host through its day.
func TestDay(t *testing.T) {
	var h Host
	at := func(s int64, e Event, want State, why string) {
		t.Helper()
		if h = Decide(h, e, s*1000); h.State != want || h.Reason(s*1000) != why {
			t.Fatalf("at %d s the host is %s (%s), want %s (%s)", s, h.State, h.Reason(s*1000), want, why)
		}
	}
	tick := Event{Kind: Tick}
	at(1, tick, Unknown, "not heard since the coordinator started")
	at(10, Event{Kind: Said, Seq: seq(1, 1)}, Unknown, "not heard since the coordinator started")
	at(11, Event{Kind: Heard, Seq: seq(1, 2)}, Online, "")
	at(56, tick, Online, "")
	at(57, tick, Late, "silent for 46 s")
	at(102, tick, Offline, "silent for 91 s")
	at(105, Event{Kind: Heard, Seq: seq(1, 3)}, Online, "")
	at(106, Event{Kind: Lost, Seq: seq(1, protocol.KWill)}, Online, "socket lost 0 s ago")
	at(107, Event{Kind: Heard, Seq: seq(1, 4)}, Online, "socket lost 1 s ago") // sent before the socket was lost
	at(120, tick, Late, "socket lost 14 s ago")
	at(166, tick, Late, "socket lost 60 s ago")
	at(167, tick, Offline, "socket lost 61 s ago")
	at(170, Event{Kind: Heard, Seq: seq(2, 2), Sleep: time.Hour}, Online, "")
	at(170, Event{Kind: Heard, Seq: seq(2, 3), Sleep: -1}, Online, "") // a heartbeat takes nothing back
	at(171, Event{Kind: Left, Seq: seq(2, protocol.KGoodbye)}, Asleep, "asleep for another 59 min")
	at(172, Event{Kind: Heard, Seq: seq(1, 9)}, Asleep, "asleep for another 59 min") // of an earlier connection
	at(170+3600, tick, Goodbye, "said goodbye 0 s ago")
	at(3774, Event{Kind: Lost, Seq: seq(2, protocol.KWill)}, Goodbye, "said goodbye 4 s ago")
	at(3800, Event{Kind: Heard, Seq: seq(3, 2)}, Online, "")
}

// TestReconnectWindow: nothing is told of a host while it may still come back as it was
// told to, and from then on the same as of any other.
func TestReconnectWindow(t *testing.T) {
	h := Decide(Host{}, Event{Kind: Heard, Seq: seq(1, 1)}, 9000)
	h = Decide(h, Event{Kind: Lost, Seq: seq(1, protocol.KWill), Returns: 20 * time.Second}, 10_000)
	for s, want := range map[int64]State{11: Online, 35: Online, 36: Late, 90: Late, 91: Offline} {
		if got := Decide(h, Event{Kind: Tick}, s*1000).State; got != want {
			t.Errorf("%d s after the loss it is %s, want %s", s-10, got, want)
		}
	}
	h = Decide(h, Event{Kind: Heard, Seq: seq(2, 1)}, 29_000)
	h = Decide(h, Event{Kind: Lost, Seq: seq(2, protocol.KWill)}, 40_000)
	if got := Decide(h, Event{Kind: Tick}, 46_000).State; got != Late {
		t.Errorf("a later loss without a window leaves it %s", got)
	}
}

// TestSlowFlapping: a host that is lost again and again is online only when its
// connection has lasted.
func TestSlowFlapping(t *testing.T) {
	var h Host
	changes, last := 0, State("")
	for s := int64(1); s <= 600; s++ {
		conn := uint64(s/20 + 1)
		switch s % 20 {
		case 0, 5:
			h = Decide(h, Event{Kind: Heard, Seq: seq(conn, s)}, s*1000)
		case 6:
			h = Decide(h, Event{Kind: Lost, Seq: seq(conn, protocol.KWill)}, s*1000)
		default:
			h = Decide(h, Event{Kind: Tick}, s*1000)
		}
		if h.State != last {
			changes, last = changes+1, h.State
		}
	}
	if changes > 2*Losses+1 || h.State != Late {
		t.Errorf("it changed %d times, and is %s", changes, h.State)
	}
	for s := int64(601); s <= 640; s += 5 {
		h = Decide(h, Event{Kind: Heard, Seq: seq(100, s)}, s*1000)
	}
	if h.State != Online {
		t.Errorf("after half a minute without a break it is %s (%s)", h.State, h.Reason(640_000))
	}
}

// TestFlappingEachSecond: a link that breaks each second and is there again within two
// changes nothing, in whatever order its messages come.
func TestFlappingEachSecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Decide(Host{}, Event{Kind: Heard, Seq: seq(1, 1)}, 1)
		now := int64(1)
		for conn := uint64(2); conn < 60; conn++ {
			now += rapid.Int64Range(1, 2000).Draw(t, "down")
			h = Decide(h, Event{Kind: Tick}, now)
			events := rapid.Permutation([]Event{
				{Kind: Lost, Seq: seq(conn-1, protocol.KWill)}, {Kind: Said, Seq: seq(conn, 1)}, {Kind: Heard, Seq: seq(conn, 2)},
			}).Draw(t, "order")
			for _, e := range events {
				now += rapid.Int64Range(0, 300).Draw(t, "later")
				if h = Decide(h, e, now); h.State != Online {
					t.Fatalf("in connection %d it is %s: %s", conn, h.State, h.Reason(now))
				}
			}
		}
	})
}

// TestNeverOnlineBeyondTheGrace plays any events: who was not heard for the grace is
// not online, and after a goodbye no message of that connection or an earlier one
// brings a host back.
func TestNeverOnlineBeyondTheGrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Host
		heard, now, gone := int64(-1), int64(1), protocol.Seq{}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			now += rapid.Int64Range(0, 30_000).Draw(t, "pause")
			e := Event{
				Kind:  rapid.SampledFrom([]Kind{Tick, Said, Heard, Lost, Left}).Draw(t, "kind"),
				Sleep: time.Duration(rapid.Int64Range(-1, 100).Draw(t, "sleep")) * time.Second,
			}
			if e.Kind != Tick {
				e.Seq = seq(rapid.Uint64Range(1, 4).Draw(t, "conn"), rapid.Int64Range(1, 10).Draw(t, "k"))
			}
			switch e.Kind {
			case Lost:
				e.Seq.K = protocol.KWill
			case Left:
				e.Seq.K = protocol.KGoodbye
			}
			newer := h.seq.Compare(e.Seq) < 0
			before := h
			h = Decide(h, e, now)
			if newer && e.Kind == Heard {
				heard, gone = now, protocol.Seq{}
			}
			if newer && e.Kind == Left {
				gone = e.Seq
			}
			if h.State == Online && (heard < 0 || now-heard > Grace.Milliseconds()) {
				t.Fatalf("online at %d, heard at %d", now, heard)
			}
			if (gone != protocol.Seq{}) && (h.State == Online || h.State == Late) {
				t.Fatalf("%s after the goodbye of %v, by %+v", h.State, gone, e)
			}
			if !newer && e.Kind != Tick && h != Decide(before, Event{Kind: Tick}, now) {
				t.Fatalf("an old message %+v has changed %+v to %+v", e, before, h)
			}
			if again := Decide(h, e, now); again != h {
				t.Fatalf("the same again changes %+v to %+v", h, again)
			}
		}
	})
}
