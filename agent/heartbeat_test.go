package agent_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
)

// TestHeartbeatIsRepeated: a heartbeat that no receipt names is told again, twice as late
// each time, and not after one has named it.
func TestHeartbeatIsRepeated(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.pass(10 * time.Second)
		w.coord.see(func() { w.coord.beats, w.coord.deaf = nil, true })
		w.coord.order(actionID(1), creation(1, true))
		w.pass(4 * time.Minute)
		count := func(least, most int, when string) {
			t.Helper()
			w.coord.see(func() {
				if n := len(w.coord.beats); n < least || n > most {
					t.Errorf("%d heartbeats %s, want %d to %d", n, when, least, most)
				}
				w.coord.beats = nil
			})
		}
		count(4, 7, "without a receipt")
		w.coord.see(func() { w.coord.deaf = false })
		w.pass(5 * time.Minute)
		count(1, 1, "until the receipt")
		w.pass(20 * time.Minute)
		count(0, 0, "after the receipt")
		w.coord.see(func() {
			if w.coord.deltas == 0 {
				t.Error("none told changes alone")
			}
		})
	})
}

// TestFiguresAreTold: what moves all the time is told when it has moved far, once a minute
// at most; and a heartbeat that is asked for keeps its distance from the one before.
func TestFiguresAreTold(t *testing.T) {
	var load, moves atomic.Int64
	tune := func(c *agent.Config) {
		c.HostInfo = func() protocol.HostInfo {
			i := protocol.HostInfo{Hostname: "edge-07"}
			i.Load1000 = load.Add(moves.Load())
			return i
		}
	}
	in(t, tune, func(t *testing.T, w *world) {
		w.pass(2 * time.Minute)
		w.coord.see(func() { w.coord.beats = nil })
		moves.Store(5000)
		w.pass(10 * time.Minute)
		w.coord.see(func() {
			if n := len(w.coord.beats); n < 6 || n > 10 || w.coord.state.Host.Load1000 < 40_000 {
				t.Errorf("%d heartbeats in ten minutes, the last with load %d", n, w.coord.state.Host.Load1000)
			}
		})
		moves.Store(0)
		w.pass(2 * time.Minute)
		w.coord.see(func() { w.coord.beats = nil })
		for range 20 {
			if err := w.agent.HeartbeatNow(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.pass(500 * time.Millisecond)
		}
		w.coord.see(func() {
			if n := len(w.coord.beats); n < 2 || n > 3 {
				t.Errorf("%d heartbeats in ten seconds in which twenty were asked for, want one every 5 s", n)
			}
		})
	})
}

// TestSleepIsTold: a host tells at once that it will sleep, each lease tells how long it still
// will, and a person can take the announcement back.
func TestSleepIsTold(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		told := func(when string, want time.Duration) {
			t.Helper()
			w.coord.see(func() {
				if got := time.Duration(w.coord.sleepMS) * time.Millisecond; got > want || got < want-31*time.Second || want == 0 && got != 0 {
					t.Errorf("%s the newest lease tells of %s, want %s", when, got, want)
				}
			})
		}
		w.pass(10 * time.Second)
		told("at first", 0)
		agent.Sleep(w.agent, time.Hour)
		w.pass(time.Second)
		told("at once", time.Hour)
		w.pass(20 * time.Minute)
		told("20 minutes later", 40*time.Minute)
		agent.Sleep(w.agent, 0)
		w.pass(time.Second)
		told("taken back,", 0)
	})
}
