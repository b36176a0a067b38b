package agent_test

import (
	"testing"
	"time"
)

// TestStatementsOfACommand counts what one short command asks of the agent's database,
// from its order to its receipt, the transactions themselves included.
func TestStatementsOfACommand(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		const measured = 10
		var asked uint64
		for i := range byte(3 + measured) {
			before := w.queue.Statements()
			w.coord.order(actionID(i+1), command("true"))
			w.pass(time.Millisecond)
			w.expect(actionID(i+1), "succeed DONE ok")
			if i >= 3 { // what is read once is known by then
				asked += w.queue.Statements() - before
			}
		}
		if each := float64(asked) / measured; each > 17 {
			t.Errorf("%.1f statements for each command, want 17 at most", each)
		}
	})
}
