package agent_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
)

// TestAlertsOfAnOutage: what is raised and cleared in two hours without a coordinator arrives
// once it is back, all of it, once, and in the order in which it happened, over a restart of the
// agent and a line that loses, repeats and reorders.
func TestAlertsOfAnOutage(t *testing.T) {
	var told chan protocol.Alert
	tune := func(c *agent.Config) {
		c.Watch = func(ctx context.Context, raise func(protocol.Alert) error) error {
			for {
				select {
				case a := <-told:
					if err := raise(a); err != nil {
						return err
					}
				case <-ctx.Done():
					return nil
				}
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		told = make(chan protocol.Alert)
		w := newWorld(t, tune)
		defer w.end()
		w.pass(10 * time.Second)
		w.line.breaks(true)
		var want []string
		name := func(a protocol.Alert) string { return fmt.Sprintf("%s %v %s", a.ID, a.Raised, a.Text) }
		for minute := range 120 {
			a := protocol.Alert{Raised: minute/3%2 == 0, AlertInfo: protocol.AlertInfo{
				ID: fmt.Sprintf("measured.disk.warning//disk%d", minute%3), Severity: "warning", Text: fmt.Sprintf("minute %d", minute), SinceMS: time.Now().UnixMilli(),
			}}
			told <- a
			want = append(want, name(a))
			w.pass(time.Minute)
			if minute == 60 {
				w.restart()
			}
		}
		w.coord.see(func() {
			if len(w.coord.alerts) != 0 {
				t.Errorf("%d alerts came over a line that is cut", len(w.coord.alerts))
			}
		})
		w.line.mu.Lock()
		w.line.chaos = rand.New(rand.NewPCG(16, 3))
		w.line.mu.Unlock()
		w.line.heal()
		w.pass(5 * time.Minute)
		w.line.mu.Lock()
		w.line.chaos = nil
		w.line.mu.Unlock()
		w.pass(5 * time.Minute)
		w.coord.see(func() {
			var got []string
			for _, a := range w.coord.alerts {
				got = append(got, name(a))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d alerts came of %d, or in another order:\n%q", len(got), len(want), got)
			}
		})
	})
}

// TestAlertOnAFullDisk: an alert of a rule that the disk does not take is in the heartbeat at
// once, beside the one that the host accepts nothing new, and goes when it is cleared. One that
// is still raised when the disk works again arrives once as an item.
func TestAlertOnAFullDisk(t *testing.T) {
	full := diskFull(t)
	var told chan protocol.Alert
	var untold []protocol.Alert
	tune := func(c *agent.Config) {
		c.Watch = func(ctx context.Context, raise func(protocol.Alert) error) error {
			for {
				select {
				case a := <-told:
					untold = append(slices.DeleteFunc(untold, func(o protocol.Alert) bool { return o.ID == a.ID }), a)
				case <-time.After(15 * time.Second):
				case <-ctx.Done():
					return nil
				}
				untold = slices.DeleteFunc(untold, func(a protocol.Alert) bool { return raise(a) == nil })
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		told = make(chan protocol.Alert)
		w := newWorld(t, tune)
		defer w.end()
		w.pass(10 * time.Second)
		tell := func(id string, raised bool) {
			told <- protocol.Alert{Raised: raised, AlertInfo: protocol.AlertInfo{ID: id, Severity: "critical", Text: "so it is", SinceMS: time.Now().UnixMilli()}}
			w.pass(20 * time.Second)
		}
		beat := func(when string, want ...string) {
			t.Helper()
			var got []string
			w.coord.see(func() {
				for _, a := range w.coord.state.Alerts {
					got = append(got, a.ID)
				}
			})
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s heartbeats have %q, want %q", when, got, want)
			}
		}
		const degraded, disk, load = "measured.degraded.critical//", "measured.disk.critical///", "measured.load.critical//"
		tell(load, true)
		full(true)
		tell(disk, true)
		tell(degraded, true)
		beat("on a full disk", "host.degraded", degraded, disk, load)
		tell(disk, false)
		beat("after one is cleared", "host.degraded", degraded, load)
		tell(load, false)
		tell(load, true)
		beat("after a durable one is raised again", "host.degraded", degraded, load)
		full(false)
		w.pass(time.Minute)
		beat("when the disk works again", degraded, load)
		w.coord.see(func() {
			var got []string
			for _, a := range w.coord.alerts {
				if a.ID == degraded {
					got = append(got, fmt.Sprint(a.Raised))
				}
			}
			if !slices.Equal(got, []string{"true"}) {
				t.Errorf("items tell of it %q", got)
			}
		})
		tell(degraded, false)
		beat("in the end", load)
	})
}
