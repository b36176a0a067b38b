package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/drill"
	"github.com/hostler-io/hostler/protocol"
)

func drillOf(f protocol.Fault, lasts time.Duration) protocol.Spec {
	return protocol.Spec{Kind: protocol.KindHostDrill, Args: &protocol.DrillArgs{Fault: f, ForMS: lasts.Milliseconds()}}
}

// faults remember which were made, and until when.
type faults struct {
	mu   sync.Mutex
	made []protocol.Fault
	end  []int64
	err  error
}

func (f *faults) of(fault protocol.Fault) func(context.Context, int64) error {
	return func(_ context.Context, until int64) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.made, f.end = append(f.made, fault), append(f.end, until)
		return f.err
	}
}

// fail has none be made.
func (f *faults) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// all are those that were made, and until when.
func (f *faults) all() ([]protocol.Fault, []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.made), slices.Clone(f.end)
}

// TestDrill: the order answers before the drill begins, one drill runs at a time, and an
// agent that ends takes the drill that has not begun with it.
func TestDrill(t *testing.T) {
	f := &faults{}
	tune := func(cfg *agent.Config) {
		cfg.Faults = drill.Faults{protocol.FaultPartition: f.of(protocol.FaultPartition), protocol.FaultStopAgent: f.of(protocol.FaultStopAgent)}
	}
	in(t, tune, func(t *testing.T, w *world) {
		began := time.Since(w.begun)
		w.coord.order(actionID(1), drillOf(protocol.FaultPartition, time.Minute))
		w.pass(2 * time.Second)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		if made, _ := f.all(); len(made) > 0 {
			t.Fatalf("%v began before its notice was over", made)
		}
		w.pass(2 * time.Second)
		made, ends := f.all()
		if len(made) != 1 || made[0] != protocol.FaultPartition {
			t.Fatalf("made are %v", made)
		}
		if end := time.Duration(ends[0]) * time.Millisecond; end < began+63*time.Second || end > began+65*time.Second {
			t.Errorf("it ends at %s, and was asked for at %s", end, began)
		}

		w.coord.order(actionID(2), drillOf(protocol.FaultStopAgent, time.Minute))
		w.pass(10 * time.Second)
		w.expect(actionID(2), "start RUNNING", "fail FAILED error")
		if a, err := w.agent.Action(t.Context(), actionID(2)); err != nil || !strings.Contains(a.Detail, "another drill is under way") {
			t.Errorf("%q, %v", a.Detail, err)
		}

		w.pass(time.Minute) // the first one is over
		w.coord.order(actionID(3), drillOf(protocol.FaultStopAgent, time.Minute))
		w.pass(time.Second)
		w.expect(actionID(3), "start RUNNING", "succeed DONE ok")
		w.restart()
		w.pass(time.Minute)
		if made, _ := f.all(); len(made) != 1 {
			t.Errorf("made are %v: the agent that was to make the second has ended", made)
		}

		f.fail(errors.New("no process can be started"))
		w.coord.order(actionID(4), drillOf(protocol.FaultStopAgent, time.Minute))
		w.pass(10 * time.Second)
		f.fail(nil)
		w.coord.order(actionID(5), drillOf(protocol.FaultPartition, time.Minute))
		w.pass(10 * time.Second)
		w.expect(actionID(5), "start RUNNING", "succeed DONE ok") // a drill that did not begin stops no other
	})
}

// TestNoDrill: a host that can make no faults refuses drills for good.
func TestNoDrill(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), drillOf(protocol.FaultPartition, time.Minute))
		w.pass(time.Second)
		w.expect(actionID(1), "refuse FAILED unsupported")
	})
}
