package actions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Approvals judges what was approved, by the ring in force and the clock of what ends by
// itself. All methods are safe for concurrent use.
type Approvals struct{ base *core.Base }

// NewApprovals judges by the keys of the base.
func NewApprovals(base *core.Base) *Approvals { return &Approvals{base: base} }

// counting returns the approvals of an action that count at a time: those of
// keys that are still in the ring, within their dates. One from a clock that is
// ahead of ours holds from now on.
func (p *Approvals) counting(a *core.Action, lifeMS int64) []core.Approval {
	return slices.DeleteFunc(slices.Clone(a.Approvals), func(g core.Approval) bool {
		return lifeMS >= g.ExpiresMS || max(lifeMS, g.IssuedMS) < g.NotBeforeMS || !p.isApprover(g)
	})
}

// isApprover reports whether the ring in force has the key of an approval as
// that of its person.
func (p *Approvals) isApprover(g core.Approval) bool {
	who, ok := p.base.Keys.Principal(g.Key)
	return ok && !who.Revoked && who.Can(protocol.RolePerson) && who.Person == g.Person
}

// Approved reports whether an action has what it needs.
func (p *Approvals) Approved(a *core.Action, lifeMS int64) bool {
	return len(a.Needs) == 0 || met(a.Needs, persons(p.counting(a, lifeMS)))
}

// Counting returns the approvals of an action that count now.
func (p *Approvals) Counting(a core.Action) []core.Approval { return p.counting(&a, p.base.LifeMS()) }

// Missing tells how many persons a need of an action still waits for.
func (p *Approvals) Missing(a core.Action, n core.Need) int {
	return n.Missing(persons(p.Counting(a)))
}

// lacking returns the needs of an action that are not met, with how many persons
// are missing.
func (p *Approvals) lacking(a *core.Action) []core.Need {
	var left []core.Need
	for _, n := range a.Needs {
		if n.Persons = p.Missing(*a, n); n.Persons > 0 {
			left = append(left, n)
		}
	}
	return left
}

// WhyExpired tells of an action that ends unsent because its approvals do not
// count any more.
func (p *Approvals) WhyExpired(a *core.Action) string {
	now := p.base.LifeMS()
	switch {
	case a.State == protocol.StatePendingApprove:
		return fmt.Sprintf("it was not approved in time: it waited for %s", sentence(p.lacking(a)))
	case p.Approved(a, now):
		return a.Detail
	}
	var gone []string
	for _, g := range a.Approvals {
		switch {
		case !p.isApprover(g):
			gone = append(gone, fmt.Sprintf("the ring does not have the key of %s any more", g.Person))
		case now >= g.ExpiresMS:
			gone = append(gone, fmt.Sprintf("that of %s ended at %s", g.Person, time.UnixMilli(g.ExpiresMS).UTC().Format(time.RFC3339)))
		}
	}
	return "its approvals ended before its host could be told: " + strings.Join(gone, "; ") + "; request it again"
}

// sentence lists needs for people.
func sentence(needs []core.Need) string {
	var all []string
	for _, n := range needs {
		who := "any person of the ring"
		if len(n.From) > 0 {
			who = strings.Join(n.From, ", ")
		}
		if n.Not != "" {
			who += ", but not " + n.Not
		}
		all = append(all, fmt.Sprintf("%d approval(s) by %s (%s)", n.Persons, who, n.Why))
	}
	return strings.Join(all, ", and ")
}

// maxApprovers is how many of those who may approve are named.
const maxApprovers = 20

// WhoMayApprove names the persons whose approval an action waits for: those who
// count, are in the ring and have not approved.
func (p *Approvals) WhoMayApprove(a core.Action) string {
	given := persons(p.Counting(a))
	var all []string
	for _, n := range p.lacking(&a) {
		may := p.approvers(n, given)
		by := fmt.Sprintf("%d of", n.Persons)
		switch {
		case n.Persons >= len(may):
			by = "all of"
		case n.Persons == 1:
			by = "one of"
		}
		text := fmt.Sprintf("it waits for approval by %s: %s", by, strings.Join(may[:min(len(may), maxApprovers)], ", "))
		if more := len(may) - maxApprovers; more > 0 {
			text += fmt.Sprintf(" and %d others", more)
		}
		switch lack := n.Persons - len(may); {
		case len(may) == 0:
			text = "it waits for an approval that no person of the ring can give; an owner adds a person: hostler fleet ring add-approver"
		case lack > 0:
			text += fmt.Sprintf(", and %d that no other person of the ring can give", lack)
		}
		all = append(all, text+" ("+n.Why+")")
	}
	if len(all) == 0 {
		return "it has the approvals that it needs, and is about to go on"
	}
	if len(given) > 0 {
		all = append(all, "approved by "+strings.Join(given, ", "))
	}
	return strings.Join(all, "; ")
}

// approvers are the persons of the ring who can meet a need and are not among
// those given, sorted.
func (p *Approvals) approvers(n core.Need, given []string) []string {
	var may []string
	for _, m := range p.base.Keys.Members() {
		if !m.Revoked && slices.Contains(m.Roles, protocol.RolePerson) && n.Counts(m.Person) && !slices.Contains(given, m.Person) {
			may = append(may, m.Person)
		}
	}
	slices.Sort(may)
	return slices.Compact(may)
}

// met reports whether nothing is missing any more.
func met(needs []core.Need, people []string) bool {
	return !slices.ContainsFunc(needs, func(n core.Need) bool { return n.Missing(people) > 0 })
}

// heldUntil returns until when approvals meet the needs: the end of the first
// one after which they do not. It is called with approvals that do meet them.
func heldUntil(needs []core.Need, given []core.Approval) int64 {
	left := slices.Clone(given)
	slices.SortFunc(left, func(a, b core.Approval) int { return int(min(max(a.ExpiresMS-b.ExpiresMS, -1), 1)) })
	for len(left) > 0 && met(needs, persons(left[1:])) {
		left = left[1:]
	}
	if len(left) == 0 {
		return protocol.MaxInteger
	}
	return left[0].ExpiresMS
}

// persons returns the different persons who have approved.
func persons(given []core.Approval) []string {
	var all []string
	for _, a := range given {
		if !slices.Contains(all, a.Person) {
			all = append(all, a.Person)
		}
	}
	return all
}
