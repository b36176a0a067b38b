package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// alerts are those about the health of a container, as the coordinator was told.
func (w *world) healthAlerts() (all []bool) {
	w.coord.see(func() {
		for _, a := range w.coord.alerts {
			if strings.HasPrefix(a.ID, "container.unhealthy/") {
				all = append(all, a.Raised)
			}
		}
	})
	return all
}

// TestHealth: a container whose check fails is restarted, more and more seldom, and an
// alert tells of it until it is well.
func TestHealth(t *testing.T) {
	var sick atomic.Bool
	var probes, under atomic.Int64
	tune := func(c *agent.Config) {
		c.Probe = func(ctx context.Context, p containers.Probed, check contract.Check) error {
			probes.Add(1)
			if under.Add(1) > 4 {
				t.Error("too many at a time")
			}
			defer under.Add(-1)
			if p.Name != "ct-1" || check.TCP != 80 {
				t.Errorf("%+v is asked about %+v", p, check)
			}
			if sick.Load() {
				<-ctx.Done() // it hangs
				return errors.New("it does not answer")
			}
			return nil
		}
	}
	in(t, tune, func(t *testing.T, w *world) {
		w.until(1, "keep")
		pass := func(d time.Duration, want string) {
			t.Helper()
			w.pass(d)
			if got := w.told(1).Health; got != want {
				t.Errorf("it is %q, want %q", got, want)
			}
		}
		check := contract.Check{TCP: 80, IntervalMS: 10_000, TimeoutMS: 2000, Retries: 3}
		if got := w.keeps(2, 1, contract.Change{Health: &check}); got != "succeed DONE ok" {
			t.Fatal(got)
		}
		pass(time.Second, contract.Starting)
		pass(10*time.Second, contract.Healthy)
		init := func() int {
			info, err := w.lxc.Inspect(t.Context(), "ct-1")
			if err != nil {
				t.Fatal(err)
			}
			return info.InitPID
		}
		before := init()
		sick.Store(true)
		pass(20*time.Second, contract.Healthy) // once or twice is nothing
		w.pass(20 * time.Second)
		if init() == before || len(w.healthAlerts()) != 1 || !w.healthAlerts()[0] {
			t.Errorf("it was not restarted, or no alert tells of it: %v", w.healthAlerts())
		}
		w.pass(3 * time.Hour)
		d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1")
		if err != nil || len(d.Ends) != queue.MaxEnds || d.Ends[9].Cause != queue.CauseHealth {
			t.Errorf("it has ended by %+v, %v", d.Ends, err)
		}
		for i := 1; i < len(d.Ends); i++ {
			if gap := time.Duration(d.Ends[i].AtMS-d.Ends[i-1].AtMS) * time.Millisecond; gap < 2*time.Minute {
				t.Errorf("in the end it is restarted after %s", gap)
			}
		}
		w.restart() // the alert is still known
		sick.Store(false)
		pass(10*time.Minute, contract.Healthy)
		if all := w.healthAlerts(); len(all) != 2 || all[1] {
			t.Errorf("the alerts: %v", all)
		}

		check.Action = contract.Mark
		w.keeps(3, 1, contract.Change{Health: &check})
		before = init()
		sick.Store(true)
		pass(2*time.Minute, contract.Unhealthy)
		if init() != before {
			t.Error("it was restarted, and was only to be marked")
		}
		w.coord.order(actionID(4), on(protocol.KindStop, 1))
		pass(time.Minute, "")
		if all := w.healthAlerts(); len(all) != 4 || all[3] {
			t.Errorf("the alerts: %v", all)
		}
		w.coord.order(actionID(5), on(protocol.KindStart, 1))
		pass(2*time.Minute, contract.Unhealthy)
		w.keeps(6, 1, contract.Change{Health: &contract.Check{Off: true}})
		n := probes.Load()
		pass(time.Hour, "")
		if all := w.healthAlerts(); len(all) != 6 || all[5] || probes.Load() != n {
			t.Errorf("the alerts: %v; it was looked at %d times more", all, probes.Load()-n)
		}
		w.wants("without a check", 1, container.StateRunning)
	})
}
