package alerting

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/alerts"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/protocol"
)

// judgeEvery is how often the coordinator judges what no host can: whether a host is
// offline for too long, and how far its clock is off.
const judgeEvery = 5 * time.Second

// The quantities that the coordinator judges.
const (
	offline = "offline"
	clock   = "clock"
)

// judgeLoop judges until ctx ends. What it raises and clears is an event as that of an
// alert of a host, so it is told, muted and acknowledged in the same way.
func (r *Room) judgeLoop(ctx context.Context) error {
	t := time.NewTicker(judgeEvery)
	defer t.Stop()
	begun, judged := r.base.Boot(), true // there may be alerts of before the start
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if r.base.Recovery() != "" {
			continue
		}
		b, err := core.Read(ctx, r.base, readBook)
		concerns := r.concerns()
		if err == nil && (judged || ofCoordinator(b.Sets) || len(concerns) > 0) {
			judged = ofCoordinator(b.Sets) || len(concerns) > 0
			err = r.judgeAll(ctx, b.Sets, concerns, time.Duration(r.base.Boot()-begun)*time.Millisecond)
		}
		if err != nil && ctx.Err() == nil {
			judged = true
			r.base.Log.ErrorContext(ctx, "cannot judge which hosts are offline for too long; it is tried again", "err", err)
		}
	}
}

// ofCoordinator reports whether there is anything to judge here.
func ofCoordinator(sets []RuleSet) bool {
	return slices.ContainsFunc(sets, func(s RuleSet) bool { return len(s.judged()) > 0 })
}

// judged are the rules of a set that the coordinator judges.
func (s *RuleSet) judged() []alerts.Rule {
	all, err := alerts.Parse(s.line())
	if err != nil {
		return nil // never: it was checked when it was set
	}
	return slices.DeleteFunc(all, func(r alerts.Rule) bool { return !r.OfCoordinator() })
}

// sent is the set without what the coordinator judges, as a host reads it; empty if
// nothing is left.
func (s *RuleSet) sent() string {
	all, err := alerts.Parse(s.line())
	if err != nil {
		return s.line()
	}
	line := s.Of
	for i, rule := range all {
		if !rule.OfCoordinator() {
			line += " " + s.Rules[i]
		}
	}
	if line == s.Of {
		return ""
	}
	return line
}

// judgedSet is a set with rules that the coordinator judges, and these.
type judgedSet struct {
	set   *RuleSet
	rules []alerts.Rule
}

// judgedSets are those of all sets.
func judgedSets(sets []RuleSet) (all []judgedSet) {
	for i := range sets {
		if rules := sets[i].judged(); len(rules) > 0 {
			all = append(all, judgedSet{&sets[i], rules})
		}
	}
	return all
}

// judgedOf is what a judgement needs of a host, as it is kept.
func judgedOf(h core.Host) core.Host {
	inv := core.Inventory{AtMS: h.Inventory.AtMS, Alerts: slices.DeleteFunc(slices.Clone(h.Inventory.Alerts), func(a protocol.AlertInfo) bool { return !core.JudgedByCoordinator(a.ID) })}
	inv.Host.ClockMS = h.Inventory.Host.ClockMS
	return core.Host{ID: h.ID, State: h.State, Labels: slices.Clone(h.Labels), ApprovedMS: h.ApprovedMS, Inventory: inv}
}

// judgeAll judges all hosts. uptime is how long the coordinator has listened.
func (r *Room) judgeAll(ctx context.Context, sets []RuleSet, concerns map[protocol.HostID][]protocol.AlertInfo, uptime time.Duration) error {
	hosts, err := r.hosts.All(ctx, r.base)
	if err != nil {
		return err
	}
	judged := judgedSets(sets)
	for _, h := range hosts {
		if raised, cleared := r.judgeHost(judged, h, concerns[h.ID], uptime); len(raised)+len(cleared) > 0 {
			err = cmp.Or(err, r.judgeOne(ctx, judged, h.ID, concerns[h.ID], uptime))
		}
	}
	return err
}

// judgeHost returns what has changed of the alerts that are judged here.
func (r *Room) judgeHost(sets []judgedSet, h core.Host, concerns []protocol.AlertInfo, uptime time.Duration) (raised, cleared []protocol.AlertInfo) {
	var given []alerts.Rule
	for _, s := range sets {
		if h.State == core.HostApproved && s.set.applies(h) {
			given = append(given, s.rules...)
		}
	}
	// A host can be missed since it was approved.
	listened := min(uptime, max(0, time.Duration(r.base.NowMS()-h.ApprovedMS)*time.Millisecond))
	return judge(h.Inventory, r.links.Presence(h.ID), alerts.Combine(nil, given), concerns, listened, r.base.NowMS())
}

// judgeOne judges a host once more, and makes what it says durable together with the
// events. A process that ends before judges again.
func (r *Room) judgeOne(ctx context.Context, sets []judgedSet, id protocol.HostID, concerns []protocol.AlertInfo, uptime time.Duration) error {
	err := r.base.Store.Update(ctx, func(tx core.Tx) error {
		h, err := tx.Hosts.Get(id)
		if err != nil {
			return err
		}
		raised, cleared := r.judgeHost(sets, h, concerns, uptime)
		kept := slices.DeleteFunc(slices.Clone(h.Inventory.Alerts), func(a protocol.AlertInfo) bool {
			same := func(o protocol.AlertInfo) bool { return o.ID == a.ID }
			return slices.ContainsFunc(cleared, same) || slices.ContainsFunc(raised, same)
		})
		h.Inventory.Alerts = append(kept, raised...)
		for _, a := range cleared {
			err = cmp.Or(err, r.base.Event(tx, "alert.cleared", id, a.ID, map[string]any{"severity": a.Severity, "text": a.Text}))
		}
		for _, a := range raised {
			err = cmp.Or(err, r.base.Event(tx, "alert.raised", id, a.ID, map[string]any{"severity": a.Severity, "text": a.Text}))
		}
		return cmp.Or(err, tx.Hosts.Put(h))
	})
	if err == nil {
		r.base.Wake.Fire(core.EventsKey{})
	}
	return err
}

// judge is pure: what is known of a host, and the rules that are for it, go in, and what
// is to be raised and cleared comes out. concerns are raised as they are. A host that was not heard since the coordinator
// listens is silent since then.
func judge(inv core.Inventory, p core.Presence, rules []alerts.Rule, concerns []protocol.AlertInfo, uptime time.Duration, nowMS int64) (raised, cleared []protocol.AlertInfo) {
	wanted := make(map[string]bool)
	for _, rule := range rules {
		id := idOf(rule)
		at := slices.IndexFunc(inv.Alerts, func(a protocol.AlertInfo) bool { return a.ID == id })
		text, above := "", at >= 0
		switch rule.Quantity {
		case offline:
			text, above = judgeOffline(p, rule, uptime, above)
		case clock:
			text, above = judgeClock(inv, rule, above)
		}
		if wanted[id] = above; above && at < 0 {
			raised = append(raised, warnings.Measured(id, string(rule.Severity), text, nowMS))
		}
	}
	for _, a := range concerns {
		wanted[a.ID] = true
		if !slices.ContainsFunc(inv.Alerts, func(o protocol.AlertInfo) bool { return o.ID == a.ID }) {
			raised = append(raised, a)
		}
	}
	for _, a := range inv.Alerts {
		if core.JudgedByCoordinator(a.ID) && !wanted[a.ID] {
			cleared = append(cleared, a)
		}
	}
	return raised, cleared
}

// idOf names the alert of a rule.
func idOf(r alerts.Rule) string {
	id := core.CoordinatorAlert + r.Quantity
	if r.Severity != alerts.Warning {
		id += "." + string(r.Severity)
	}
	return id
}

// judgeOffline decides about the rule offline. A raised alert is cleared when the host is
// online; a single message over a bad line does not clear it. A host that announced its
// sleep is expected to be silent.
func judgeOffline(p core.Presence, rule alerts.Rule, uptime time.Duration, raised bool) (string, bool) {
	limit, silence := time.Duration(rule.Threshold*float64(time.Second)), p.Silence
	if !p.Heard {
		silence = uptime
	}
	switch {
	case p.Connectivity == core.Online || p.Connectivity == core.Asleep:
		return "", false
	case raised || silence > limit:
		return fmt.Sprintf("not heard for more than %s: %s", short(limit), p.Reason), true
	}
	return "", false
}

// judgeClock compares the clocks as they were when the newest inventory came.
func judgeClock(inv core.Inventory, rule alerts.Rule, raised bool) (string, bool) {
	if inv.AtMS == 0 || inv.Host.ClockMS == 0 {
		return "", false
	}
	limit := rule.Threshold
	if raised {
		limit *= 0.9
	}
	off := time.Duration(inv.Host.ClockMS-inv.AtMS) * time.Millisecond
	return fmt.Sprintf("the clock is off by %s, more than %s", off, short(time.Duration(rule.Threshold*float64(time.Second)))), off.Abs().Seconds() > limit
}

// short writes a duration without the parts that are zero.
func short(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if t, ok := strings.CutSuffix(s, zero); ok && t != "" && strings.ContainsAny(t[len(t)-1:], "mh") {
			s = t
		}
	}
	return s
}
