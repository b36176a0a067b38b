package actions

import (
	"testing"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// TestPreempted: however an action ends that a stop-now has met, the container stays
// stopped; only one that had not ended is called preempted.
func TestPreempted(t *testing.T) {
	for event, want := range map[protocol.Event]protocol.Event{
		protocol.EventSucceed: protocol.EventSucceed, protocol.EventTimeout: protocol.EventTimeout, protocol.EventCancelled: protocol.EventCancelled,
		protocol.EventFail: protocol.EventPreempt, protocol.EventExit: protocol.EventPreempt,
	} {
		o := Outcome{Again: true, Step: queue.Step{Event: event, Change: queue.Change{Put: []queue.Container{{Intended: queue.Running}}}}}
		o = preempted(o)
		if o.Step.Event != want || o.Step.Change.Put[0].Intended != queue.Stopped {
			t.Errorf("%s became %s, and the container is to be %s", event, o.Step.Event, o.Step.Change.Put[0].Intended)
		}
	}
}
