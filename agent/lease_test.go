package agent_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
)

// TestLeasesPassTheLoop: the loop may hang for as long as a disk hangs; leases
// are asked for and grants are taken all the while.
func TestLeasesPassTheLoop(t *testing.T) {
	var hangs atomic.Bool
	tune := func(c *agent.Config) {
		c.HostInfo = func() protocol.HostInfo {
			if hangs.Load() {
				<-time.After(2 * time.Minute)
			}
			return protocol.HostInfo{Hostname: "edge-07"}
		}
	}
	in(t, tune, func(t *testing.T, w *world) {
		before := 0
		w.coord.see(func() { before = w.coord.leases })
		hangs.Store(true)
		told := make(chan error, 1)
		go func() { told <- w.agent.HeartbeatNow(t.Context()) }() // waited for below
		w.pass(119 * time.Second)
		w.coord.see(func() {
			if n := w.coord.leases - before; n != 3 && n != 4 {
				t.Errorf("%d leases while the loop hung for two minutes, want one every 30 s", n)
			}
		})
		hangs.Store(false)
		if err := <-told; err != nil {
			t.Error(err)
		}
		s, err := w.agent.Status(t.Context())
		if left := s.LeaseUntilMS - time.Since(w.begun).Milliseconds(); err != nil || left < 59_000 {
			t.Errorf("%d ms are left of the lease, %v", left, err)
		}
	})
}

// TestWillIsOfItsConnection: the will of the first connection would say nothing
// about the second.
func TestWillIsOfItsConnection(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		for range 3 {
			w.coord.see(func() { w.coord.presences = nil })
			w.line.breaks(false)
			w.pass(time.Minute)
			w.coord.see(func() {
				if !slices.Contains(w.coord.presences, protocol.PresenceWill) {
					t.Errorf("after its connection broke it said %q, and there was no will", w.coord.presences)
				}
			})
		}
	})
}

// TestStartBudgetCountsFromWhatWasSaid: an order that was on its way for longer
// than its start budget never begins, whatever it says is left of it.
func TestStartBudgetCountsFromWhatWasSaid(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.line.hold(protocol.ChannelOrder)
		w.coord.see(func() { w.coord.leftMS = 50_000 })
		w.coord.order(actionID(1), command("true"))
		w.pass(10 * time.Second)
		w.line.release()
		w.pass(time.Second)
		w.expect(actionID(1), "succeed DONE ok")

		w.line.hold(protocol.ChannelOrder)
		w.coord.order(actionID(2), command("true"))
		w.pass(51 * time.Second)
		w.line.release()
		w.pass(time.Second)
		w.expect(actionID(2), "expire CANCELLED expired")
	})
}

// TestAnswerToTheHelloBefore: whoever says hello again waits for the answer to
// that. With any other it would speak while the hello is on its way, and items
// that overtook it would make it look as if this host had gone back.
func TestAnswerToTheHelloBefore(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		connected := func() bool {
			t.Helper()
			s, err := w.agent.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.Connected
		}
		w.coord.see(func() { w.coord.mute = true }) // hellos are on their way for long
		if err := w.agent.Trigger(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(100 * time.Millisecond)
		w.coord.see(func() {
			conn, chal := w.coord.gate.Conn()
			w.coord.receipt(conn, chal)
		})
		w.pass(100 * time.Millisecond)
		if connected() {
			t.Error("a receipt that answers the hello before was taken for the answer")
		}
		w.coord.see(func() { w.coord.mute = false })
		w.pass(10 * time.Second)
		if !connected() {
			t.Error("it waits for ever")
		}
	})
}

// A host that acknowledges hundreds of items between two leases, as it does while
// much comes down, takes an order that answers the first of them.
func TestOrdersAreTakenBesideManyAcks(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("true"))
		w.pass(time.Second)
		var heard protocol.Seq
		w.coord.see(func() { heard, w.coord.acks = w.coord.heard, 0 })
		for range 400 {
			w.coord.see(func() { w.coord.send(protocol.StreamOrder, 1) }) // once more
			w.pass(20 * time.Millisecond)
		}
		w.coord.see(func() {
			if w.coord.acks < 300 {
				t.Errorf("there were %d acknowledgements", w.coord.acks)
			}
			w.coord.heard = heard
		})
		w.coord.order(actionID(2), command("true"))
		w.pass(time.Second)
		w.expect(actionID(2), "succeed DONE ok")
		if m := w.agent.Metrics(); m.Refused[protocol.ErrHeard] != 0 {
			t.Errorf("refused %v", m.Refused)
		}
	})
}
