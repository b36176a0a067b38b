package agent

import (
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/protocol"
)

// alarm is the alert that nothing new is accepted, and what else is raised and the disk has
// not taken. It belongs to the loop.
type alarm struct {
	info   protocol.AlertInfo // zero while all is well
	raised bool               // as the queue has it: a full disk may not have taken it
	others []protocol.AlertInfo
}

// maxOthers bounds how many alerts a heartbeat has that are not durable.
const maxOthers = 100

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

// other makes an alert durable that another part of the host raises or clears. Its caller
// tries again what the disk does not take; until then the heartbeat has what is raised, for
// a rule may be about the very state of the host in which the disk takes nothing.
func (m *alarm) other(a *Agent, alert protocol.Alert) error {
	err := a.apply(queue.Change{Alerts: []protocol.Alert{alert}})
	n := len(m.others)
	m.others = slices.DeleteFunc(m.others, func(o protocol.AlertInfo) bool { return o.ID == alert.ID })
	if err != nil && alert.Raised && len(m.others) < maxOthers {
		m.others = append(m.others, alert.AlertInfo)
	}
	if len(m.others) != n {
		a.hostChanged()
	}
	return err
}

// untold are the alerts that are raised and not durable: the heartbeat has them alone.
func (m *alarm) untold() []protocol.AlertInfo {
	all := slices.Clone(m.others)
	if m.info.ID != "" && !m.raised {
		all = append(all, m.info)
	}
	return all
}
