package main

import (
	"time"

	"github.com/hostler-io/hostler/alerts"
	"github.com/hostler-io/hostler/metrics"
)

// facts are what the agent knows of itself and of its containers, and no counter of the
// kernel tells. It belongs to the goroutine of the meter.
type facts struct {
	// unsent is how many reports and alerts wait for a receipt, and certificate from when
	// until when the host's certificate is good; nil on a host without a coordinator.
	unsent      func() uint64
	certificate func() (from, until time.Time)

	calendar calendar

	waits time.Duration // boot clock, since when something has waited; 0 is nothing
	pids  map[string]pids
}

// pids are the first processes that a container was seen with.
type pids struct {
	now   int
	at    time.Duration   // boot clock, when it was last seen
	since []time.Duration // when another one was seen
}

// restartsWithin is the time in which restarts are counted, and maxRestarts how many
// are.
const (
	restartsWithin = time.Hour
	maxRestarts    = 10_000
)

// values are the facts at a time of the boot clock.
func (f *facts) values(now time.Duration, date time.Time, running []metrics.Container) (all []metrics.Value) {
	set := func(container string, m metrics.Metric, v float64) {
		all = append(all, metrics.Value{Series: metrics.Series{Container: container, Metric: m}, Mean: v, Max: v})
	}
	if f.unsent != nil {
		if f.unsent() == 0 {
			f.waits = 0
		} else if f.waits == 0 {
			f.waits = now
		}
		age := time.Duration(0)
		if f.waits != 0 {
			age = now - f.waits
		}
		set("", metrics.QueueAge, age.Seconds())
	}
	if f.certificate != nil {
		if from, until := f.certificate(); !until.IsZero() {
			set("", metrics.Certificate, until.Sub(f.calendar.today(now, date, from)).Seconds())
		}
	}
	seen := make(map[string]pids, len(running))
	for _, c := range running {
		p := f.pids[c.Name]
		if p.now != 0 && p.now != c.InitPID && len(p.since) < maxRestarts {
			p.since = append(p.since, now)
		}
		for len(p.since) > 0 && now-p.since[0] > restartsWithin {
			p.since = p.since[1:]
		}
		p.now, p.at = c.InitPID, now
		seen[c.Name] = p
		set(c.Name, metrics.Restarts, float64(len(p.since)))
	}
	for name, p := range f.pids { // one that is between two starts
		if _, ok := seen[name]; !ok && now-p.at <= restartsWithin {
			seen[name] = p
		}
	}
	f.pids = seen
	return all
}

// calendar is the date by a clock that nobody sets. The wall clock is asked once, when it
// is not before what is known to have been: a jump of it changes nothing.
type calendar struct {
	date time.Time
	at   time.Duration // boot clock of date
	wall bool          // date is by the wall clock
}

// today returns the date, which is not before floor.
func (c *calendar) today(now time.Duration, wall, floor time.Time) time.Time {
	today := c.date.Add(now - c.at)
	switch {
	case !c.wall && !wall.Before(floor):
		c.date, c.at, c.wall = wall, now, true
	case today.Before(floor):
		c.date, c.at = floor, now
	default:
		return today
	}
	return c.date
}

// rules gives the meter the coordinator's rules of alerts, from any goroutine. They are
// in force with the next sample.
func (m *meter) rules(texts []string) { m.given.Store(&texts) }

// takeRules puts the rules into force that came since the last sample.
func (m *meter) takeRules() {
	texts := m.given.Swap(nil)
	if texts == nil {
		return
	}
	var given []alerts.Rule
	for _, text := range *texts {
		rules, err := alerts.Parse(text)
		if err != nil { // of a newer coordinator; the others count all the same
			m.log.Warn("a rule of the coordinator is not understood", "error", err)
			continue
		}
		given = append(given, rules...)
	}
	m.judge.Rules(alerts.Combine(m.own, given))
}
