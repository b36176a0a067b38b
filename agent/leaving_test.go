package agent_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// TestHostGoesDown: what ends while the host goes down is not started again, is no crash,
// and is to run all the same: after the reboot it does. One that a user has stopped before
// stays stopped. A shutdown that is called off is followed by a start.
func TestHostGoesDown(t *testing.T) {
	var down atomic.Bool
	in(t, func(c *agent.Config) { c.Leaving = func(context.Context) bool { return down.Load() } }, func(t *testing.T, w *world) {
		ended := func() int {
			t.Helper()
			d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1")
			if err != nil {
				t.Fatal(err)
			}
			return len(d.Ends)
		}
		end := func() {
			t.Helper()
			if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
				t.Fatal(err)
			}
			w.pass(10 * time.Minute)
		}
		w.coord.order(actionID(1), creation(1, true))
		w.coord.order(actionID(2), creation(2, true))
		w.pass(time.Second)
		w.coord.order(actionID(3), on(protocol.KindStop, 2))
		w.pass(time.Minute)
		down.Store(true)
		end()
		if got := w.state(1); got != container.StateStopped || ended() != 0 {
			t.Errorf("while the host goes down it is %s, and has ended %d times by itself", got, ended())
		}
		if got := w.told(1).Intended; got != "running" {
			t.Errorf("it is to be %s", got)
		}
		down.Store(false)
		w.pass(time.Minute)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("when the shutdown was called off it is %s", got)
		}
		down.Store(true)
		end()
		down.Store(false)
		w.restart()
		w.pass(time.Minute)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("after the reboot it is %s", got)
		}
		if got := w.state(2); got != container.StateStopped {
			t.Errorf("what its user has stopped is %s", got)
		}
		end()
		if got := w.state(1); got != container.StateRunning || ended() == 0 {
			t.Errorf("after a crash it is %s, and has ended %d times", got, ended())
		}
	})
}
