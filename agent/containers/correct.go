package containers

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/retry"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// Numbers of corrections.
const (
	// maxCorrections is how many containers are corrected at a time: after a
	// reboot all that ran come back, and a host should stay usable meanwhile.
	maxCorrections = 8
	// correctTimeout bounds one correction.
	correctTimeout = 5 * time.Minute
)

// correction is what a container needs to be as its user wants it.
type correction int

// The corrections.
const (
	correctNothing correction = iota
	correctLater              // at NotBefore of its attempts
	correctStart
	correctStop
)

// judge is the decision about one container that is wanted to be running or stopped. It
// is pure.
func judge(rec *queue.Container, wanted string, seen bool, state container.State, tries retry.Attempts, now time.Duration) (what correction) {
	switch {
	case !rec.Made || !seen || rec.Broken != "":
		return correctNothing
	case wanted == queue.Running && state == container.StateStopped:
		what = correctStart
	case wanted == queue.Stopped && (state == container.StateRunning || state == container.StateFrozen):
		what = correctStop
	default:
		return correctNothing
	}
	if now < tries.NotBefore {
		return correctLater
	}
	return what
}

// Correct brings containers to what their users want, if no action is at work on
// them. What users want is durable, so a full disk does not prevent it.
func (c *Containers) Correct() {
	if c.cfg.Loop.Stopping() {
		return
	}
	busy := 0
	for _, m := range c.managed {
		if m.halt != nil {
			busy++
		}
	}
	now, away := c.cfg.Loop.Now(), c.contact.Away()
	begin := make(map[*managed]correction)
	var records []audit.Record
	byContract := false
	order := startOrder{c, 0}
	for _, m := range order.all() {
		wanted, held := workload(&m.rec, c.cfg.Leases, m.info.State == container.StateRunning).Wanted(away)
		if held != m.held {
			m.held = held
			c.cfg.Seen()
		}
		if m.probe.sick {
			wanted = queue.Stopped // and started again then
		}
		what := judge(&m.rec, wanted, m.seen, m.info.State, m.tries, now)
		if what != correctStart && what != correctLater {
			m.since, m.waits = 0, ""
		}
		if m.halt != nil || !c.cfg.Actions.Idle(m.rec.CTID) {
			order.passes(m)
			continue // asked again at the end of that
		}
		if what == correctStart && c.runtime(m.rec.Runtime) != nil && order.waits(m, now) {
			continue
		}
		switch what {
		case correctLater:
			c.again.In(m.tries.NotBefore - now)
		case correctStart, correctStop:
			if busy < maxCorrections && c.runtime(m.rec.Runtime) != nil {
				busy++
				begin[m] = what
				records = append(records, correctionRecord(m, what, c.cfg.Loop.WallMS()))
				byContract = byContract || what == correctStop && m.held != ""
			}
		}
	}
	if len(begin) == 0 || leaving(c) {
		return
	}
	if byContract { // what stops it is durable before it is stopped
		c.contact.keep(true, true)
	}
	c.cfg.Record(records)
	for m, what := range begin {
		c.beginCorrection(m, what)
	}
}

// correctionRecord says in the host's audit log what is about to be done without
// an action.
func correctionRecord(m *managed, what correction, nowMS int64) audit.Record {
	verb := "container.correct-start"
	if what == correctStop {
		verb = "container.correct-stop"
	}
	detail := map[string]any{"name": string(m.rec.Name), "runtime": m.rec.Runtime, "failures": m.rec.Failures}
	if m.held != "" {
		detail["why"] = m.held
	} else if m.probe.sick {
		detail["why"] = "it is unhealthy: " + m.probe.why
	}
	return audit.Record{AtMS: nowMS, Actor: "host", Verb: verb, Object: m.rec.CTID.String(), Detail: detail}
}

// beginCorrection starts or stops a container beside the loop. It holds the
// container's lane meanwhile, as an action does.
func (c *Containers) beginCorrection(m *managed, what correction) {
	c.cfg.Actions.Hold(m.rec.CTID)
	o := &operation{cfg: &c.cfg, contact: c.contact, rec: m.rec, runtime: c.runtime(m.rec.Runtime)}
	work, halt := context.WithCancelCause(c.cfg.Loop.Work())
	idle := make(chan struct{})
	m.halt, m.idle, m.starting = halt, idle, what == correctStart
	switch {
	case what == correctStart:
		m.stopped = ""
	case m.held != "":
		m.stopped = queue.CauseContract
	case m.probe.sick:
		m.stopped = queue.CauseHealth
	default:
		m.stopped = queue.CauseAgent
	}
	c.cfg.Loop.Worker(func() func() {
		defer halt(nil)
		ctx, cancel := context.WithTimeout(work, correctTimeout)
		defer cancel()
		err := o.correct(ctx, what)
		preempted := context.Cause(work) == actions.ErrPreempted
		close(idle)
		o.look(c.cfg.Loop.Work())
		return func() {
			c.cfg.Actions.Release(o.rec.CTID)
			if m := c.managed[o.rec.CTID]; m != nil {
				m.halt, m.idle, m.starting = nil, nil, false
				if preempted {
					return // its stop looks at it
				}
				c.corrected(m, what, o.seen, err)
			}
		}
	})
}

// correct makes a correction, in a worker.
func (o *operation) correct(ctx context.Context, what correction) (err error) {
	if what == correctStart {
		return o.start(ctx)
	}
	o.seen, err = o.runtime.Stop(ctx, string(o.rec.Name), defaultGrace)
	return err
}

// corrected takes the end of a correction.
func (c *Containers) corrected(m *managed, what correction, seen container.Info, err error) {
	if c.cfg.Loop.Work().Err() != nil {
		return // the agent stops: whatever it was, it was not the container's fault
	}
	c.again.In(0)
	switch {
	case errors.Is(err, errHeld): // since it was begun: what is wanted is another thing now
	case errors.Is(err, container.ErrUnavailable):
		m.seen = false // looked at again, and only then tried again
	case what == correctStop && err != nil:
		c.cfg.Log.Warn("a container that should be stopped does not stop", "container", string(m.rec.Name), "error", err)
		m.tries = m.tries.Unstopped(c.cfg.Loop.Now(), c.cfg.Loop.Jitter())
		m.seen = false // looked at again, and only then tried again
	case what == correctStop:
		c.cfg.Log.Info("a container was stopped as it should be", "container", string(m.rec.Name), "why", m.held)
	case err != nil:
		c.startFailed(m, err)
	default:
		c.Counters.Starts.Add(1)
		c.cfg.Log.Info("a container was started as it should be", "container", string(m.rec.Name))
		m.tries = m.tries.Up(c.cfg.Loop.Now())
		if m.rec.Failures > 0 {
			rec := m.rec
			rec.Failures = 0
			c.remake(rec, nil)
		}
	}
	c.observed(m.rec.CTID, seen)
}

// startFailed counts a failed start, durable, and gives up after too many.
func (c *Containers) startFailed(m *managed, why error) {
	c.Counters.StartFailures.Add(1)
	var broken bool
	m.tries, broken = m.tries.Failed(c.cfg.Loop.Now(), c.cfg.Loop.Jitter())
	rec := m.rec
	rec.Failures = m.tries.Failures
	var alerts []protocol.Alert
	if broken {
		rec.Broken = strings.ReplaceAll(strings.ToValidUTF8(why.Error(), "\uFFFD"), "\x00", "\uFFFD")
		alerts = []protocol.Alert{{Raised: true, AlertInfo: brokenAlert(&rec, "does not start and is left alone until it is reset: "+rec.Broken, c.cfg.Loop.WallMS())}}
	}
	c.cfg.Log.Warn("a container does not start", "container", string(rec.Name), "failures", rec.Failures, "broken", broken, "error", why)
	c.remake(rec, alerts)
}

// remake makes a container's record durable. If the disk does not take it, the old
// one stays, and the container is tried once more.
func (c *Containers) remake(rec queue.Container, alerts []protocol.Alert) {
	_ = c.cfg.Apply(queue.Change{Put: []queue.Container{rec}, Alerts: alerts})
}

func brokenAlert(rec *queue.Container, what string, wallMS int64) protocol.AlertInfo {
	return warnings.New(warnings.ContainerBroken, rec.CTID.String(), "container "+string(rec.Name)+" "+what, wallMS)
}

// mended clears the alert of a container that was broken.
func mended(rec *queue.Container, wallMS int64) []protocol.Alert {
	if rec.Broken == "" {
		return nil
	}
	return []protocol.Alert{{AlertInfo: brokenAlert(rec, "is tried again", wallMS)}}
}
