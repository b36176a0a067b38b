package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol/ident"
)

// AutoRule approves hosts in the place of a person: those whose invite has certain
// labels, and that ask from certain networks. What a host says of itself decides nothing.
type AutoRule struct {
	Name string `json:"name"`
	// Selector selects by the labels of the invite. It names one that must be there.
	Selector string `json:"selector"`
	// Subnets are the networks that the host's address must be in; empty is any.
	Subnets []string `json:"subnets,omitempty"`
	// Count is how many hosts it may approve, and Approved how many it has.
	Count    int    `json:"count"`
	Approved int    `json:"approved"`
	UntilMS  int64  `json:"until_ms"`
	SetBy    string `json:"set_by"`
	SetMS    int64  `json:"set_ms"`
}

// autoValue is the name of all rules in the store, a list by name.
const autoValue = "host.auto_approve"

// Bounds of such rules.
const (
	maxAuto        = 100
	maxAutoCount   = 10_000
	maxAutoLife    = 90 * 24 * time.Hour
	maxAutoSubnets = 32
	maxSelector    = 1024
)

func readAuto(tx core.Tx) (all []AutoRule, err error) {
	_, err = core.GetJSON(tx, autoValue, &all)
	return all, err
}

// Auto are the rules by which hosts are approved. It is safe for concurrent use.
type Auto struct{ base *core.Base }

// Auto returns the rules by which hosts are approved.
func (r *Room) Auto() Auto { return Auto{r.base} }

// Rules returns all rules, by name; also those that have ended, until they are removed.
func (r Auto) Rules(ctx context.Context) ([]AutoRule, error) {
	return core.Read(ctx, r.base, readAuto)
}

// Rule returns the rule of a name.
func (r Auto) Rule(ctx context.Context, name string) (AutoRule, error) {
	all, err := r.Rules(ctx)
	if err != nil {
		return AutoRule{}, err
	}
	at := slices.IndexFunc(all, func(a AutoRule) bool { return a.Name == name })
	if at < 0 {
		return AutoRule{}, fmt.Errorf("rule %.63q: %w", name, core.ErrNotFound)
	}
	return all[at], nil
}

// Tag names a rule as a person has set it, in an ETag. How many hosts it has approved is not in it.
func (a AutoRule) Tag() string {
	a.Approved = 0
	return core.Tag(a)
}

// Ended tells why a rule approves no host any more, empty if it does.
func (a *AutoRule) Ended(lifeMS int64) string {
	switch {
	case core.Over(a.SetMS, a.UntilMS, lifeMS):
		return "expired"
	case a.Approved >= a.Count:
		return "used up"
	}
	return ""
}

// LifeMS is the clock by which invites and rules end, Unix milliseconds.
func (r Auto) LifeMS() int64 { return r.base.LifeMS() }

// Set makes a rule for the time life, in the place of one with its name: what that
// has approved is not counted. as is the [AutoRule.Tag] of the rule that the requester has
// read; of empty any will do, or none.
func (r Auto) Set(ctx context.Context, by core.Actor, a AutoRule, life time.Duration, as string) (AutoRule, error) {
	if err := r.base.Allow(by, core.RoleAdmin, "have hosts approved by a rule"); err != nil {
		return a, err
	}
	if err := a.check(life); err != nil {
		return a, fmt.Errorf("%w: rule %.63q: %w", core.ErrInvalid, a.Name, err)
	}
	a.SetBy, a.SetMS, a.Approved = by.LogName(), r.base.LifeMS(), 0
	a.UntilMS = a.SetMS + life.Milliseconds()
	err := r.change(ctx, by, a.Name, as, "host.auto_approve_set", func(all []AutoRule, at int) ([]AutoRule, AutoRule, error) {
		if at >= 0 {
			all[at] = a
			return all, a, nil
		}
		if len(all) >= maxAuto {
			return nil, a, fmt.Errorf("%w: there are %d rules, and no more can be; remove some: hostler host auto-approve rm NAME", core.ErrInvalid, maxAuto)
		}
		all = append(all, a)
		slices.SortFunc(all, func(x, y AutoRule) int { return strings.Compare(x.Name, y.Name) })
		return all, a, nil
	})
	return a, err
}

// Remove removes a rule. The hosts that it has approved stay members. as is as for [Auto.Set].
func (r Auto) Remove(ctx context.Context, by core.Actor, name, as string) error {
	if err := r.base.Allow(by, core.RoleAdmin, "remove rules that approve hosts"); err != nil {
		return err
	}
	return r.change(ctx, by, name, as, "host.auto_approve_removed", func(all []AutoRule, at int) ([]AutoRule, AutoRule, error) {
		if at < 0 {
			return nil, AutoRule{}, fmt.Errorf("rule %.63q: %w", name, core.ErrNotFound)
		}
		was := all[at]
		return slices.Delete(all, at, at+1), was, nil
	})
}

// change makes a change of the rules durable, with a record and an event of it.
func (r Auto) change(ctx context.Context, by core.Actor, name, as, verb string, change func(all []AutoRule, at int) ([]AutoRule, AutoRule, error)) error {
	err := r.base.Update(ctx, failpoint.AutoRuleSet, func(tx core.Tx) error {
		all, err := readAuto(tx)
		if err != nil {
			return err
		}
		at, is := slices.IndexFunc(all, func(a AutoRule) bool { return a.Name == name }), ""
		if at >= 0 {
			is = all[at].Tag()
		}
		if err := core.AsRead(fmt.Sprintf("rule %.63q", name), as, is); err != nil {
			return err
		}
		all, a, err := change(all, at)
		if err != nil {
			return err
		}
		what := map[string]any{
			"selector": a.Selector, "subnets": a.Subnets, "count": a.Count, "approved": a.Approved, "until_ms": a.UntilMS,
		}
		return cmp.Or(core.PutJSON(tx, autoValue, all), r.base.Audit(tx, by, verb, name, what), r.base.Event(tx, verb, "", name, what))
	})
	if err == nil {
		r.base.Wake.Fire(core.EventsKey{})
	}
	return err
}

// check refuses a rule that says less than it must, and writes its networks in one form.
func (a *AutoRule) check(life time.Duration) error {
	if err := ident.CheckLabel("the name", a.Name); err != nil {
		return err
	}
	var sel api.Selector
	if len(a.Selector) > maxSelector || a.Selector == "" {
		return fmt.Errorf("want a selector of 1 to %d bytes over the labels of invites, such as site=lab", maxSelector)
	}
	if err := sel.Set(a.Selector); err != nil {
		return err
	}
	if sel.Match(nil) {
		return errors.New("the selector also selects invites without labels; name a label that the invite must have, such as site=lab")
	}
	if len(a.Subnets) > maxAutoSubnets {
		return fmt.Errorf("%d networks, at most %d can be named", len(a.Subnets), maxAutoSubnets)
	}
	for n, text := range a.Subnets {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return fmt.Errorf("%.60q is no network; want one as 10.1.0.0/16 or 2001:db8::/32", text)
		}
		a.Subnets[n] = p.Masked().String()
	}
	switch {
	case a.Count < 1 || a.Count > maxAutoCount:
		return fmt.Errorf("a count of %d: want how many hosts it may approve, 1 to %d", a.Count, maxAutoCount)
	case life < time.Second || life > maxAutoLife:
		return fmt.Errorf("a time of %s: want for how long it approves hosts, 1s to 90d", life)
	}
	return nil
}

// admits reports whether a rule approves a host with an invite, from an address.
func (a *AutoRule) admits(labels []string, from netip.Addr, lifeMS int64) bool {
	var sel api.Selector
	if a.Ended(lifeMS) != "" || sel.Set(a.Selector) != nil || sel.Match(nil) || !sel.Match(labels) {
		return false
	}
	return len(a.Subnets) == 0 || slices.ContainsFunc(a.Subnets, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(from.Unmap())
	})
}

// ruleFor returns the place of the first rule that approves an enrolment, or -1. A person
// decides on what has ended its invite, and on a machine that takes the name of another.
func (r *Room) ruleFor(tx core.Tx, e core.Enrolment, from netip.Addr) (all []AutoRule, at int, err error) {
	all, err = readAuto(tx)
	if err != nil || len(all) == 0 {
		return nil, -1, err
	}
	i, err := tx.Enrolments.Invite(e.Invite)
	if errors.Is(err, core.ErrNotFound) {
		return nil, -1, nil
	}
	if err != nil {
		return nil, -1, err
	}
	life := r.base.LifeMS()
	if i.Host != "" || i.BoundKey != e.Key || core.Over(i.CreatedMS, i.ExpiresMS, life) || i.CreatedMS <= r.cfg.Others.RecoveredMS() {
		return nil, -1, nil
	}
	if _, err := tx.Hosts.Standing(e.Host); !errors.Is(err, core.ErrNotFound) {
		return nil, -1, err
	}
	return all, slices.IndexFunc(all, func(a AutoRule) bool { return a.admits(i.Labels, from, life) }), nil
}

// approveByRule approves a host that waits if a rule says so; otherwise it returns the
// enrolment as it is. A host that was not approved because the process ended in between is
// when it asks again.
func (r *Room) approveByRule(ctx context.Context, e core.Enrolment, from netip.Addr) (core.Enrolment, error) {
	if e.State != core.EnrolmentPending || r.base.MayDecide() != nil {
		return e, nil
	}
	name, err := core.Read(ctx, r.base, func(tx core.Tx) (string, error) {
		all, at, err := r.ruleFor(tx, e, from)
		if err != nil || at < 0 {
			return "", err
		}
		return all[at].Name, nil
	})
	if err != nil || name == "" {
		return e, err
	}
	by := core.Actor{Name: "rule:" + name, From: from.Unmap().String()}
	done, err := r.letIn(ctx, by, e, func(tx core.Tx, detail map[string]any) error {
		all, at, err := r.ruleFor(tx, e, from)
		if err != nil {
			return err
		}
		if at < 0 || all[at].Name != name { // that one was used up, removed, or has ended meanwhile
			return errNoRule // another one would be recorded under a wrong name
		}
		all[at].Approved++
		detail["rule"], detail["approved"], detail["count"] = all[at].Name, all[at].Approved, all[at].Count
		return core.PutJSON(tx, autoValue, all)
	})
	if err != nil {
		if !errors.Is(err, errNoRule) {
			r.base.Log.Warn("cannot approve a host by a rule; it waits for a person", "host", e.Host, "rule", name, "err", err)
		}
		return e, nil
	}
	r.base.Log.Info("host approved by a rule", "host", e.Host, "rule", name, "from", from)
	return done, nil
}

var errNoRule = errors.New("no rule approves it")
