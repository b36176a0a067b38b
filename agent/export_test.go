package agent

import "github.com/hostler-io/hostler/protocol"

// OpenInput lets tests read what comes down to an action.
func (a *Agent) OpenInput(id protocol.ActionID, attempt int, offset int64, sink InputSink) (wait func() error, closed func()) {
	s := a.inputs.open(id, attempt, offset, -1, sink)
	return s.wait, s.close
}
