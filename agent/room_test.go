package agent_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/protocol"
)

// TestNoRoomForRuns: what cannot have its directory waits, as long as the disk is too
// full, and nothing else is accepted. The coordinator is told so, and when it is over.
func TestNoRoomForRuns(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		full := func(full bool) {
			w.cmds.mu.Lock()
			defer w.cmds.mu.Unlock()
			w.cmds.full = full
		}
		degraded := func(want bool) {
			t.Helper()
			if s, err := w.agent.Status(t.Context()); err != nil || (s.Degraded != "") != want {
				t.Errorf("status %+v, %v", s, err)
			}
		}
		full(true)
		w.coord.order(actionID(1), command("true"))
		w.pass(30 * time.Second)
		if _, err := w.agent.Propose(t.Context(), protocol.ActionID{}, []byte(`{"kind":"host.ping"}`), "root"); err != nil && !errors.Is(err, agent.ErrDisk) {
			t.Errorf("beside what waits: %v", err)
		}
		full(false)
		w.pass(5 * time.Second)
		if act := must(w.agent.Action(t.Context(), actionID(1))); act.State != protocol.StateDone || act.Attempt < 2 {
			t.Errorf("what waited is %+v", act)
		}
		degraded(false)

		low := func(s space.Space) {
			w.cmds.mu.Lock()
			defer w.cmds.mu.Unlock()
			w.cmds.space = s
		}
		low(space.Space{Total: 64 << 20, Free: 1 << 20})
		w.coord.order(actionID(2), command("true"))
		w.pass(10 * time.Second)
		w.expect(actionID(2))
		degraded(true)
		low(space.Space{Total: 64 << 20, Free: 32 << 20})
		w.pass(40 * time.Second)
		w.expect(actionID(2), "succeed DONE ok")
		degraded(false)
	})
}
