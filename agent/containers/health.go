package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// Probed is a container that is looked at.
type Probed struct {
	Runtime   container.Runtime
	Name      string
	CTID      protocol.CTID
	Addresses []netip.Addr
}

// ErrNotMade: the check could not be made, which says nothing of the container.
var ErrNotMade = errors.New("the check could not be made")

const (
	// maxProbes is how many checks are under way at a time.
	maxProbes = 4
	// firstProbe is how long after a start a container is looked at first, unless its
	// checks are closer together.
	firstProbe = 5 * time.Second
)

// probe is what the checks of a container have come to.
type probe struct {
	pid    int // of the life that is looked at
	since  time.Duration
	due    time.Duration
	busy   bool
	health contract.Health
	why    string // why the last one failed
	// sick tells that the container is to be stopped for its health.
	sick   bool
	raised bool // the alert is
}

// checks have containers looked at. It belongs to the loop.
type checks struct {
	*Containers
	tick *loop.Timer
	busy int
}

// load takes up what alerts there are.
func (c *checks) load(alerts []protocol.AlertInfo) {
	for _, m := range c.managed {
		for _, a := range alerts {
			m.probe.raised = m.probe.raised || a.ID == unhealthyAlert(&m.rec)
		}
	}
	c.tick.In(0)
}

// look begins the checks that are due.
func (c *checks) look() {
	if c.cfg.Probe == nil || c.cfg.Loop.Stopping() {
		return
	}
	now := c.cfg.Loop.Now()
	for _, m := range c.sorted() {
		check, p := m.rec.Settings.Health, &m.probe
		if check == nil || m.rec.Intended != queue.Running {
			p.health, p.sick = contract.Health{}, false
			c.alert(m, false)
			continue
		}
		if !m.seen || m.info.State != container.StateRunning || m.halt != nil || c.paused(m) {
			continue // asked again when it runs
		}
		if p.pid != m.info.InitPID {
			*p = probe{pid: m.info.InitPID, since: now, due: now + min(firstProbe, check.Every()), health: contract.Health{State: contract.Starting}, busy: p.busy, raised: p.raised}
			c.cfg.Seen()
		}
		switch {
		case p.busy:
		case p.due > now:
			c.tick.In(p.due - now)
		case c.busy < maxProbes:
			c.begin(m, *check)
		}
	}
}

// paused tells whether an action has frozen a container for a while, or looks at its health
// itself.
func (c *checks) paused(m *managed) bool {
	return (m.rec.Settings.Paused != "" || m.tried) && !c.cfg.Actions.Idle(m.rec.CTID)
}

// begin makes a check beside the loop.
func (c *checks) begin(m *managed, check contract.Check) {
	id, pid := m.rec.CTID, m.probe.pid
	at := Probed{Runtime: c.runtime(m.rec.Runtime), Name: string(m.rec.Name), CTID: id, Addresses: m.info.Addresses}
	if p, err := netip.ParsePrefix(m.rec.Address); err == nil { // not what root in it has added
		at.Addresses = []netip.Addr{p.Addr()}
	}
	m.probe.busy = true
	c.busy++
	c.cfg.Loop.Beside(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, check.Timeout())
		defer cancel()
		err := c.cfg.Probe(ctx, at, check)
		return func() {
			c.busy--
			c.tick.In(0)
			if m := c.managed[id]; m != nil {
				m.probe.busy = false
				// What a stop, a pause or the agent's own end has cut short says nothing.
				if m.probe.pid == pid && m.rec.Settings.Health != nil && m.rec.Intended == queue.Running && !c.cfg.Loop.Stopping() && !c.paused(m) {
					c.ended(m, m.rec.Settings.Health, err)
				}
			}
		}
	})
}

// ended takes the end of a check.
func (c *checks) ended(m *managed, check *contract.Check, err error) {
	p, now := &m.probe, c.cfg.Loop.Now()
	if errors.Is(err, ErrNotMade) {
		p.due = now + check.Every()
		c.cfg.Log.Warn("a container cannot be looked at", "container", string(m.rec.Name), "error", err)
		return
	}
	before := p.health
	p.health, p.due = check.After(p.health, err == nil, now-p.since), now+check.Every()
	if p.why = ""; err != nil {
		p.why = strings.ToValidUTF8(err.Error(), "\uFFFD")
	}
	if p.health.State != before.State {
		c.cfg.Log.Info("the health of a container has changed", "container", string(m.rec.Name), "health", p.health.State, "why", p.why)
		c.cfg.Seen()
	}
	switch p.health.State {
	case contract.Healthy:
		c.alert(m, false)
	case contract.Unhealthy:
		c.alert(m, true)
		if check.Action != contract.Mark && !p.sick {
			p.sick = true
			c.again.In(0)
		}
	}
}

func unhealthyAlert(rec *queue.Container) string {
	return warnings.ID(warnings.ContainerUnhealthy, rec.CTID.String())
}

// alert raises or clears the alert of a container.
func (c *checks) alert(m *managed, raised bool) {
	if m.probe.raised == raised {
		return
	}
	a := wellAgain(&m.rec, c.cfg.Loop.WallMS())
	if a.Raised = raised; raised {
		a.Text = fmt.Sprintf("container %s is unhealthy: %s fails: %s", m.rec.Name, m.rec.Settings.Health, m.probe.why)
	}
	if c.cfg.Apply(queue.Change{Alerts: []protocol.Alert{a}}) == nil {
		m.probe.raised = raised
	}
}

// wellAgain clears the alert of a container.
func wellAgain(rec *queue.Container, wallMS int64) protocol.Alert {
	return protocol.Alert{AlertInfo: warnings.New(warnings.ContainerUnhealthy, rec.CTID.String(), "container "+string(rec.Name)+" is not unhealthy any more", wallMS)}
}
