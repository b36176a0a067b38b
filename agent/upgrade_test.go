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
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/setting"
)

// upgradeOf asks for another image of a container.
func upgradeOf(n byte, u setting.Upgrade) protocol.Spec {
	return protocol.Spec{Kind: protocol.KindContainerUpgrade, Target: ctid(n), Args: &protocol.ContainerUpgradeArgs{Upgrade: u}}
}

// imaged asks for a container of an image, with settings that an upgrade keeps.
func imaged(n byte, image string, start bool) protocol.Spec {
	s := creation(n, start)
	s.Args = &protocol.CreateArgs{Template: image, Runtime: "lxc", Start: start, Labels: []string{"app=web"}, Env: []string{"A=b"}, Hostname: "www"}
	return s
}

// is checks the image of a container, in the agent and in its runtime, and that no other files
// lie beside it.
func (w *world) is(when, image string, state container.State) {
	w.t.Helper()
	d, _, err := agent.Remembered(w.t.Context(), w.agent, "ct-1")
	info, wrong := w.lxc.Inspect(w.t.Context(), "ct-1")
	if err := errors.Join(err, wrong); err != nil {
		w.t.Fatal(err)
	}
	if d.Template != image || info.Template != image || info.State != state || w.lxc.Beside("ct-1") != "" {
		w.t.Errorf("%s: it is kept as of %s, is %s of %s, and beside it lies %q; want %s %s", when, d.Template, info.State, info.Template, w.lxc.Beside("ct-1"), state, image)
	}
	if d.Settings.Hostname != "www" || len(d.Labels) != 1 || len(d.Settings.Env) != 1 {
		w.t.Errorf("%s: it is kept as %+v", when, d)
	}
}

const web1, web2 = "registry.example/web:1", "registry.example/web:2"

// TestUpgrade: a container gets another image and keeps what else is kept of it; one that
// is stopped stays so. The same image changes nothing, and the same reference is resolved
// anew.
func TestUpgrade(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), imaged(1, web1, true))
		w.pass(time.Second)
		w.coord.order(actionID(2), upgradeOf(1, setting.Upgrade{Image: web2}))
		w.pass(5 * time.Second)
		if got := w.fate(2); got != "start RUNNING" {
			t.Errorf("before it has run for long enough: %q", got)
		}
		w.pass(10 * time.Second)
		if got := w.fate(2); got != "succeed DONE ok" {
			t.Fatalf("%q: %s", got, w.detail(actionID(2)))
		}
		w.is("upgraded", web2, container.StateRunning)
		before, _ := w.lxc.Inspect(t.Context(), "ct-1")
		w.coord.order(actionID(3), upgradeOf(1, setting.Upgrade{}))
		w.pass(time.Second)
		if after, _ := w.lxc.Inspect(t.Context(), "ct-1"); w.fate(3) != "succeed DONE ok" || after.InitPID != before.InitPID || !strings.Contains(w.detail(actionID(3)), "nothing has changed") {
			t.Errorf("the same image: %q, %s", w.fate(3), w.detail(actionID(3)))
		}
		w.lxc.Retag(web2)
		w.coord.order(actionID(4), on(protocol.KindStop, 1))
		w.coord.order(actionID(5), upgradeOf(1, setting.Upgrade{}))
		w.pass(time.Second)
		if got := w.fate(5); got != "succeed DONE ok" || w.detail(actionID(5)) != "" {
			t.Errorf("the same reference: %q, %s", got, w.detail(actionID(5)))
		}
		w.is("of a newer image of its name", web2, container.StateStopped)
	})
}

// TestUpgradeRefused: what an upgrade would lose, or cannot do, is told before anything of
// the container changes.
func TestUpgradeRefused(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), imaged(1, web1, true))
		w.coord.order(actionID(2), snapshotOf(1, "s1", false))
		w.pass(time.Second)
		refused := func(n byte, u setting.Upgrade, want string) {
			t.Helper()
			before, _ := w.lxc.Inspect(t.Context(), "ct-1")
			w.coord.order(actionID(n), upgradeOf(1, u))
			w.pass(time.Second)
			after, _ := w.lxc.Inspect(t.Context(), "ct-1")
			if w.fate(n) != "fail FAILED error" || !strings.Contains(w.detail(actionID(n)), want) || before.InitPID != after.InitPID {
				t.Errorf("%q, %s; want %s", w.fate(n), w.detail(actionID(n)), want)
			}
		}
		refused(3, setting.Upgrade{Image: web2}, "--drop-snapshots")
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			if op == containertest.OpPrepareUpgrade {
				return false, errors.New("manifest unknown")
			}
			return false, nil
		})
		refused(4, setting.Upgrade{Image: web2, DropSnapshots: true}, "fake prepare-upgrade \"ct-1\": manifest unknown")
		w.lxc.SetFault(nil)
		w.coord.order(actionID(5), on(protocol.KindFreeze, 1))
		w.pass(time.Second)
		refused(6, setting.Upgrade{Image: web2, DropSnapshots: true}, "ct unfreeze")
		w.coord.order(actionID(7), on(protocol.KindUnfreeze, 1))
		w.coord.order(actionID(8), upgradeOf(1, setting.Upgrade{Image: web2, DropSnapshots: true}))
		w.pass(time.Minute)
		if all, err := w.lxc.Snapshots(t.Context(), "ct-1"); w.fate(8) != "succeed DONE ok" || err != nil || len(all) > 0 {
			t.Errorf("%q: there are %+v, %v", w.fate(8), all, err)
		}
		w.is("at last", web2, container.StateRunning)
	})
}

// sickOf has checks of containers of the second image fail.
func sickOf(sick *atomic.Bool) func(c *agent.Config) {
	return func(c *agent.Config) {
		c.Probe = func(ctx context.Context, p containers.Probed, check contract.Check) error {
			info, err := p.Runtime.Inspect(ctx, p.Name)
			if err == nil && info.Template == web2 && sick.Load() {
				err = errors.New("status 500")
			}
			return err
		}
	}
}

// TestUpgradeUnhealthy: a container whose check fails with the new image gets the old one
// back, and so does one that is not healthy in time, or ends. The usual checks pause during an
// upgrade, so no alert is raised.
func TestUpgradeUnhealthy(t *testing.T) {
	var sick atomic.Bool
	sick.Store(true)
	in(t, sickOf(&sick), func(t *testing.T, w *world) {
		s := imaged(1, web1, true)
		s.Args.(*protocol.CreateArgs).Health = &contract.Check{TCP: 80, IntervalMS: 2000, Retries: 3, StartMS: 20_000}
		w.coord.order(actionID(1), s)
		w.pass(time.Second)
		goesBack := func(n byte, u setting.Upgrade, after time.Duration, want string) {
			t.Helper()
			u.Image = web2
			w.coord.order(actionID(n), upgradeOf(1, u))
			w.pass(after)
			if got := w.detail(actionID(n)); w.fate(n) != "fail FAILED error" || !strings.Contains(got, want) || !strings.Contains(got, "the old image is back") {
				t.Errorf("%q: %s; want %s", w.fate(n), got, want)
			}
			w.is(want, web1, container.StateRunning)
		}
		goesBack(2, setting.Upgrade{}, time.Minute, "port 80 fails: status 500")
		goesBack(3, setting.Upgrade{WaitMS: 10_000}, 15*time.Second, "it was not healthy within 10")
		w.coord.order(actionID(4), upgradeOf(1, setting.Upgrade{Image: web2}))
		w.pass(5 * time.Second)
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		if got := w.detail(actionID(4)); !strings.Contains(got, "its first process has ended") {
			t.Errorf("it has ended: %s", got)
		}
		w.is("it had ended", web1, container.StateRunning)
		if got := w.healthAlerts(); len(got) > 0 {
			t.Errorf("alerts tell of its health: %v", got)
		}
		sick.Store(false)
		w.coord.order(actionID(5), upgradeOf(1, setting.Upgrade{Image: web2}))
		w.pass(10 * time.Second)
		if got := w.fate(5); got != "succeed DONE ok" {
			t.Errorf("%q: %s", got, w.detail(actionID(5)))
		}
		w.is("healthy", web2, container.StateRunning)
	})
}

// TestUpgradeCutShort: an agent that dies before the record names the new image puts the old
// image back at its next start. An agent that dies after that removes the old image.
func TestUpgradeCutShort(t *testing.T) {
	for op, want := range map[containertest.Op]struct{ image, fate string }{
		containertest.OpPrepareUpgrade: {web1, "interrupt FAILED interrupted"},
		containertest.OpStop:           {web1, "interrupt FAILED interrupted"},
		containertest.OpExchange:       {web1, "interrupt FAILED interrupted"},
		containertest.OpStart:          {web1, "interrupt FAILED interrupted"},
		containertest.OpEndUpgrade:     {web2, "succeed DONE ok"},
		"":                             {web1, "interrupt FAILED interrupted"}, // while it is looked at
	} {
		t.Run(string(op), func(t *testing.T) {
			var sick atomic.Bool
			sick.Store(true)
			in(t, sickOf(&sick), func(t *testing.T, w *world) {
				s := imaged(1, web1, true)
				if op == "" {
					s.Args.(*protocol.CreateArgs).Health = &contract.Check{TCP: 80, StartMS: 600_000}
				}
				w.coord.order(actionID(1), s)
				w.pass(time.Second)
				w.lxc.Hang(op)
				w.coord.order(actionID(2), upgradeOf(1, setting.Upgrade{Image: web2}))
				w.pass(5 * time.Second)
				if op == containertest.OpEndUpgrade {
					w.pass(10 * time.Second)
				}
				w.restart()
				w.lxc.Hang("")
				w.pass(time.Minute)
				if got := w.fate(2); got != want.fate {
					t.Errorf("%q: %s", got, w.detail(actionID(2)))
				}
				w.is("after that", want.image, container.StateRunning)
			})
		})
	}
}

// TestUpgradePreempted: a stop that may not wait ends an upgrade, and what is stopped then
// is the old image.
func TestUpgradePreempted(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), imaged(1, web1, true))
		w.coord.order(actionID(2), upgradeOf(1, setting.Upgrade{Image: web2}))
		w.pass(5 * time.Second)
		w.coord.order(actionID(3), on(protocol.KindStopNow, 1))
		w.pass(time.Minute)
		if w.fate(2) != "preempt FAILED preempted" || w.fate(3) != "succeed DONE ok" {
			t.Errorf("the upgrade %q, the stop %q", w.fate(2), w.fate(3))
		}
		w.is("stopped", web1, container.StateStopped)
	})
}
