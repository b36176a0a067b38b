package agent

import (
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/protocol"
)

// alarm is the alert that nothing new is accepted. It belongs to the loop.
type alarm struct {
	info   protocol.AlertInfo // zero while all is well
	raised bool               // as the queue has it: a full disk may not have taken it
}

func (m *alarm) load(all []protocol.AlertInfo) {
	m.raised = slices.ContainsFunc(all, func(i protocol.AlertInfo) bool { return i.ID == string(warnings.HostDegraded) })
}

// tell tells that nothing new is accepted, or that it is again.
func (m *alarm) tell(a *Agent) {
	why := a.loop.Degraded()
	a.hostChanged()
	if why != "" && m.info.ID == "" {
		m.info = warnings.New(warnings.HostDegraded, "", "nothing new is accepted: "+why, a.loop.WallMS())
	}
	if m.raised != (why != "") {
		alert := protocol.Alert{AlertInfo: m.info, Raised: why != ""}
		if !alert.Raised {
			alert.AlertInfo = warnings.New(warnings.HostDegraded, "", "new actions are accepted again", a.loop.WallMS())
		}
		if a.apply(queue.Change{Alerts: []protocol.Alert{alert}}) == nil {
			m.raised = alert.Raised
		}
	}
	if why == "" {
		m.info = protocol.AlertInfo{}
	}
}

// untold is the alert while it is not durable: then the heartbeat has it alone.
func (m *alarm) untold() []protocol.AlertInfo {
	if m.info.ID == "" || m.raised {
		return nil
	}
	return []protocol.AlertInfo{m.info}
}
