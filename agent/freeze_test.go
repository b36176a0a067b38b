package agent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
)

// TestContainerFreeze: a container that is frozen keeps its init and stays frozen while
// the agent restarts, and an agent that dies in the middle of freezing has frozen it in
// the end. What is stopped cannot be frozen.
func TestContainerFreeze(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		before, err := w.lxc.Inspect(t.Context(), "ct-1")
		if err != nil {
			t.Fatal(err)
		}
		w.lxc.Hang(containertest.OpFreeze)
		w.coord.order(actionID(2), on(protocol.KindFreeze, 1))
		w.pass(time.Second)
		w.restart()
		w.lxc.Hang("")
		w.pass(time.Minute)
		if got := w.state(1); got != container.StateFrozen {
			t.Errorf("it is %s", got)
		}
		w.coord.order(actionID(3), on(protocol.KindUnfreeze, 1))
		w.pass(time.Second)
		after, err := w.lxc.Inspect(t.Context(), "ct-1")
		if err != nil || after.State != container.StateRunning || after.InitPID != before.InitPID {
			t.Errorf("it was %+v and is %+v, %v", before, after, err)
		}
		w.coord.order(actionID(4), on(protocol.KindStop, 1))
		w.coord.order(actionID(5), on(protocol.KindFreeze, 1))
		w.pass(time.Second)
		if got := w.coord.told(actionID(5)); !slices.ContainsFunc(got, func(s string) bool { return s == "fail FAILED error" }) {
			t.Errorf("freezing what is stopped: %q", got)
		}
	})
}

// plain is a runtime that can do what every one can, and nothing else.
type plain struct{ container.Runtime }

// TestUnsupportedByRuntime: what the runtime of a container cannot do is refused as
// unsupported, at once.
func TestUnsupportedByRuntime(t *testing.T) {
	bare := false
	in(t, func(c *agent.Config) {
		if bare {
			c.Runtimes = []container.Runtime{plain{c.Runtimes[0]}}
		}
	}, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		bare = true
		w.restart()
		w.pass(time.Second)
		w.coord.order(actionID(2), on(protocol.KindFreeze, 1))
		w.pass(time.Second)
		if got := w.coord.told(actionID(2)); !slices.Contains(got, "refuse FAILED unsupported") {
			t.Errorf("freezing by a runtime that cannot: %q", got)
		}
	})
}
