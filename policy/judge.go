package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// Clock is the time by which approvals are judged, in Unix milliseconds.
type Clock struct {
	WallMS int64
	// FloorMS is the newest date at which an approver or owner is known to have
	// signed.
	FloorMS int64
	// SinceMS is how far back the host's memory of approved actions goes: what was
	// signed until then may have been used before. 0 is no such date.
	SinceMS int64
}

// Now is the wall clock, but no earlier than the floor. So no clock makes an
// expired approval good again; a wrong one can only refuse.
func (c Clock) Now() int64 { return max(c.WallMS, c.FloorMS) }

// Order is what approvals are held against.
type Order struct {
	Spec      []byte
	Target    protocol.Target
	Approvals []protocol.OrderApproval
}

// Verdict is what became of the approvals of an order.
type Verdict struct {
	// Persons are those whose approval counts, sorted.
	Persons []string
	// FloorMS is the newest date of what counted, if the order is approved: no
	// earlier than the floor that was given, and at most the life of an approval
	// ahead of what was known. So a stolen key of an approver cannot put it where
	// all that honest people sign has expired. It is to be kept before anything is
	// done.
	FloorMS int64
	// Err wraps [protocol.ErrNotApproved] if it is not enough, and says what is
	// missing and why each of the others does not count.
	Err error
}

// Judge holds an order against a need. x says fleet, keys and ring; the keys are
// those of the ring in force where it is judged. Approvals that are not good are
// as none: they take nothing from those that are.
func (n Need) Judge(o Order, x protocol.Expect, clock Clock) Verdict {
	v := Verdict{FloorMS: clock.FloorMS}
	if n.Refused {
		v.Err = refuse(protocol.ErrNotApproved, "%s", n.Why)
		return v
	}
	if n.None() {
		return v
	}
	opened, newest := make([]opened, len(o.Approvals)), int64(0)
	for i, a := range o.Approvals {
		q := &opened[i]
		if q.Approval, q.by, q.err = protocol.OpenApproval(a.Signed, x); q.err == nil {
			q.err = q.fits(n, o, a, x.Ring)
		}
		if q.err == nil {
			newest = max(newest, q.IssuedMS)
		}
	}
	bound := clock.Now() + protocol.MaxApprovalLife.Milliseconds()
	clock.FloorMS = max(clock.FloorMS, newest)
	var wrong []string
	newest = 0
	for i := range opened {
		if why := cmp.Or(opened[i].err, opened[i].inTime(clock)); why != nil {
			wrong = append(wrong, fmt.Sprintf("approval %d: %s", i+1, why))
			continue
		}
		v.Persons = append(v.Persons, opened[i].by.Person)
		newest = max(newest, opened[i].IssuedMS)
	}
	slices.Sort(v.Persons)
	v.Persons = slices.Compact(v.Persons)
	if missing := n.Missing(v.Persons...); missing > 0 {
		v.Err = refuse(protocol.ErrNotApproved, "%s", n.lacks(missing, v.Persons, wrong))
		return v
	}
	v.FloorMS = max(v.FloorMS, min(newest, bound))
	return v
}

// opened is an approval whose signature was looked at.
type opened struct {
	protocol.Approval
	by  protocol.Principal
	err error
}

// fits says why an approval is not one for this order; nil if it is.
func (a *opened) fits(n Need, o Order, p protocol.OrderApproval, ring uint64) error {
	switch {
	case !n.May(a.by.Person):
		return fmt.Errorf("%s is not among the people who may approve it", a.by.Person)
	case a.Ring > ring:
		return fmt.Errorf("that of %s was signed under ring %d, ring %d is held here", a.by.Person, a.Ring, ring)
	case a.Spec != protocol.Sum(o.Spec):
		return fmt.Errorf("that of %s is for another spec", a.by.Person)
	case !a.Covers(p, o.Target):
		return fmt.Errorf("that of %s does not name this action on this host", a.by.Person)
	}
	return nil
}

// inTime says why an approval does not count now; nil if it does.
func (a *opened) inTime(clock Clock) error {
	now := clock.Now()
	switch {
	case a.IssuedMS <= clock.SinceMS:
		return fmt.Errorf("the approval of %s is older than this host's memory of actions; it may have been used already", a.by.Person)
	case now < a.NotBeforeMS:
		return fmt.Errorf("that of %s holds only later", a.by.Person)
	case now >= a.ExpiresMS:
		return fmt.Errorf("that of %s has expired", a.by.Person)
	}
	return nil
}

func (n Need) lacks(missing int, have, wrong []string) string {
	text := fmt.Sprintf("it needs %s, %d more than it has", n, missing)
	if len(have) > 0 {
		text += " (" + strings.Join(have, ", ") + ")"
	}
	if len(wrong) > 0 {
		text += "; " + strings.Join(wrong, "; ")
	}
	return text
}

// Standing is the policy in force on a host, and what it takes to follow it.
type Standing struct {
	Policy *Policy
	Number uint64          // of the newest document that was taken; 0 before the first
	Digest protocol.Digest // of that document's text
	// Owners is how many owners of the ring in force must sign a policy, as they
	// would a ring.
	Owners int
	Host   protocol.HostID
	// Own is what the host has that is vital, see [Policy.Guarding].
	Own []string
}

// ErrSame tells that a document says what is in force already.
var ErrSame = errors.New("the policy is in force already")

// Admit decides whether a document that was opened by [protocol.OpenPolicy] puts
// a text into force, and returns the policy that it then is. Its signers must be
// as many owners as sign a ring, or else whom the policy in force demands for
// [protocol.KindPolicySet]; where that demands no person, owners alone do. It
// returns [ErrSame] for what was taken before, else [protocol.ErrPolicy] or
// [protocol.ErrNotApproved].
func (s Standing) Admit(d protocol.PolicyDocument, signers []protocol.Principal, text []byte) (*Policy, error) {
	switch {
	case d.Policy != protocol.Sum(text):
		return nil, refuse(protocol.ErrPolicy, "its signatures are for another text")
	case !d.For(s.Host):
		return nil, refuse(protocol.ErrPolicy, "it is not for host %s", s.Host)
	case d.Number == s.Number && d.Policy == s.Digest:
		return nil, ErrSame
	case d.Number <= s.Number:
		return nil, refuse(protocol.ErrPolicy, "it has number %d, and number %d was taken already; sign it with a higher one", d.Number, s.Number)
	}
	if err := s.signed(signers); err != nil {
		return nil, err
	}
	p, err := Parse(fmt.Sprintf("policy %d", d.Number), text)
	if err == nil {
		p = p.Guarding(s.Own...)
		err = p.Check(s.Host)
	}
	if err != nil {
		return nil, refuse(protocol.ErrPolicy, "%s", err)
	}
	return p, nil
}

// ByOwners reports whether as many owners have signed as sign a ring.
func (s Standing) ByOwners(signers []protocol.Principal) bool {
	owners := personsOf(signers, protocol.RoleOwner)
	slices.Sort(owners)
	n := len(slices.Compact(owners))
	return n > 0 && n >= s.Owners
}

func personsOf(signers []protocol.Principal, role protocol.Role) (persons []string) {
	for _, p := range signers {
		if p.Can(role) {
			persons = append(persons, p.Person)
		}
	}
	return persons
}

func (s Standing) signed(signers []protocol.Principal) error {
	if s.ByOwners(signers) {
		return nil
	}
	people := personsOf(signers, protocol.RolePerson)
	need := s.Policy.byRules(Request{Host: s.Host, Spec: &protocol.Spec{Kind: protocol.KindPolicySet}})
	switch {
	case need.Refused, need.None():
		return refuse(protocol.ErrNotApproved, "a policy needs the signatures of %d owners here", max(1, s.Owners))
	case need.Missing(people...) > 0:
		return refuse(protocol.ErrNotApproved, "a policy needs the signatures of %d owners, or else %s", max(1, s.Owners), need)
	}
	return nil
}

func refuse(c protocol.Code, format string, args ...any) error {
	return fmt.Errorf("%w: %s", c, fmt.Sprintf(format, args...))
}
