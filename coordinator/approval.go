package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// Times of approvals.
const (
	// approvalWait is how long an action waits for people.
	approvalWait = 7 * 24 * time.Hour
	// maxApprovals is how many an order carries.
	maxApprovals = 16
	// maxAhead is how far the clock of a person may be ahead of ours. Hosts keep
	// the newest date that a person has signed and count nothing before it, so one
	// signature from the future would outlaw those of the present.
	maxAhead = time.Hour
)

// judge decides where a new action begins: waiting for approval, or for its host.
func (c *Coordinator) judge(tx core.Tx, by core.Actor, a *core.Action, p *proposal) (err error) {
	if a.Needs, err = c.needs(tx, by, a.Host, p.spec); err != nil {
		return err
	}
	switch secret := p.spec.SecretEnv; {
	case p.misnamed != nil:
		return p.misnamed
	case secret != nil && !secret.Named() && len(a.Needs) > 0:
		return fmt.Errorf("%w: it takes approvals, and secret_env does not say which variables it sets: nobody could tell what they approve; ask with a newer hostler", core.ErrDenied)
	}
	ev, life := protocol.EventGrant, startBudget(a.Kind)
	if !met(a.Needs, nil) {
		ev, life = protocol.EventPropose, approvalWait
	}
	a.ExpiresMS = c.base.LifeMS() + life.Milliseconds()
	a.State, a.Reason, err = protocol.StateNone.Next(ev, protocol.OwnerCoordinator, "")
	return err
}

func startBudget(k protocol.Kind) time.Duration {
	info, _ := protocol.KindOf(k)
	return info.StartTTL
}

// counting returns the approvals of an action that count at a time: those of
// keys that are still in the ring, within their dates. One from a clock that is
// ahead of ours holds from now on.
func (c *Coordinator) counting(a *core.Action, lifeMS int64) []core.Approval {
	return slices.DeleteFunc(slices.Clone(a.Approvals), func(g core.Approval) bool {
		return lifeMS >= g.ExpiresMS || max(lifeMS, g.IssuedMS) < g.NotBeforeMS || !c.isApprover(g)
	})
}

// isApprover reports whether the ring in force has the key of an approval as
// that of its person.
func (c *Coordinator) isApprover(g core.Approval) bool {
	p, ok := c.cfg.Trust.Principal(g.Key)
	return ok && !p.Revoked && p.Can(protocol.RolePerson) && p.Person == g.Person
}

// approved reports whether an action has what it needs.
func (c *Coordinator) approved(a *core.Action, lifeMS int64) bool {
	return len(a.Needs) == 0 || met(a.Needs, persons(c.counting(a, lifeMS)))
}

// Counting returns the approvals of an action that count now.
func (c *Coordinator) Counting(a core.Action) []core.Approval { return c.counting(&a, c.base.LifeMS()) }

// Missing tells how many persons a need of an action still waits for.
func (c *Coordinator) Missing(a core.Action, n core.Need) int {
	return n.Missing(persons(c.Counting(a)))
}

// lacking returns the needs of an action that are not met, with how many persons
// are missing.
func (c *Coordinator) lacking(a *core.Action) []core.Need {
	var left []core.Need
	for _, n := range a.Needs {
		if n.Persons = c.Missing(*a, n); n.Persons > 0 {
			left = append(left, n)
		}
	}
	return left
}

// whyExpired tells of an action that ends unsent because its approvals do not
// count any more.
func (c *Coordinator) whyExpired(a *core.Action) string {
	now := c.base.LifeMS()
	switch {
	case a.State == protocol.StatePendingApprove:
		return fmt.Sprintf("nobody approved it in time: it waited for %s", sentence(c.lacking(a)))
	case c.approved(a, now):
		return a.Detail
	}
	var gone []string
	for _, g := range a.Approvals {
		switch {
		case !c.isApprover(g):
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

// Given is what became of an approval for one target.
type Given struct {
	Target protocol.Target
	Action core.Action // as it stands
	// Err says why the approval is of no use to this target: [core.ErrNotFound],
	// [core.ErrConflict] or [core.ErrInvalid].
	Err error
}

// approveStep is how many actions are approved in one transaction, so that
// nobody else waits for long.
const approveStep = 50

// Approve takes the approval of a person, for each target by itself: what it
// cannot be used for is told, and keeps the others from nothing. list is all
// that was signed for, in its order. The same approval again changes nothing.
func (c *Coordinator) Approve(ctx context.Context, by core.Actor, signed []byte, list []protocol.Target) ([]Given, error) {
	if err := by.May(core.RoleApprover, "approve actions"); err != nil {
		return nil, err
	}
	if err := c.base.MayDecide(); err != nil {
		return nil, err
	}
	doc, g, err := c.openApproval(by, signed)
	if err != nil {
		return nil, err
	}
	targets, err := protocol.NewTargets(list...)
	if err == nil && (targets.Root() != doc.Targets || len(targets) != doc.Count) {
		err = fmt.Errorf("its targets are not the %d that were signed", doc.Count)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the approval: %w", core.ErrInvalid, err)
	}
	var all []Given
	for some := range slices.Chunk([]protocol.Target(targets), approveStep) {
		given, err := c.approveSome(ctx, by, &doc, g, targets, some)
		if err != nil {
			return nil, err
		}
		all = append(all, given...)
	}
	return all, nil
}

// openApproval verifies an approval against the ring in force.
func (c *Coordinator) openApproval(by core.Actor, signed []byte) (protocol.Approval, core.Approval, error) {
	refuse := func(kind error, format string, args ...any) (protocol.Approval, core.Approval, error) {
		return protocol.Approval{}, core.Approval{}, fmt.Errorf("%w: the approval: %w", kind, fmt.Errorf(format, args...))
	}
	doc, who, err := protocol.OpenApproval(signed, protocol.Expect{Fleet: c.cfg.Fleet, FleetName: c.cfg.FleetName, Keys: c.cfg.Trust})
	switch {
	case errors.Is(err, protocol.ErrUnknownKey) || errors.Is(err, protocol.ErrRole):
		return refuse(core.ErrDenied, "%w: ring %d has no approver with it; an owner lets one in: hostler fleet ring add-approver", err, c.cfg.Trust.Ring())
	case errors.Is(err, protocol.ErrRevokedKey), errors.Is(err, protocol.ErrSignature), errors.Is(err, protocol.ErrFleet):
		return refuse(core.ErrDenied, "%w", err)
	case err != nil:
		return refuse(core.ErrInvalid, "%w", err)
	}
	now, early := c.base.LifeMS(), c.ofToday(doc.IssuedMS)
	switch {
	case doc.Ring > c.cfg.Trust.Ring():
		return refuse(core.ErrConflict, "it is of ring %d, ring %d is in force here; first: hostler fleet ring publish", doc.Ring, c.cfg.Trust.Ring())
	case early != nil:
		return refuse(core.ErrInvalid, "%w", early)
	case doc.ExpiresMS <= now:
		return refuse(core.ErrInvalid, "it ended at %s: sign again", time.UnixMilli(doc.ExpiresMS).UTC().Format(time.RFC3339))
	}
	return doc, core.Approval{
		Person: who.Person, Key: keyOf(signed), IssuedMS: doc.IssuedMS, NotBeforeMS: doc.NotBeforeMS, ExpiresMS: doc.ExpiresMS,
		Signed: protocol.OrderApproval{Signed: signed}, GivenBy: by.Name,
	}, nil
}

// keyOf returns the key of an envelope that was opened.
func keyOf(signed []byte) protocol.KeyID {
	env, _ := protocol.Split(signed) // it was split before
	return env.Key
}

// approveSome is one transaction of Approve.
func (c *Coordinator) approveSome(ctx context.Context, by core.Actor, doc *protocol.Approval, g core.Approval, all protocol.Targets, some []protocol.Target) ([]Given, error) {
	var given []Given
	var sent map[protocol.HostID]func()
	err := c.base.Update(ctx, failpoint.ApprovalKept, func(tx core.Tx) error {
		given, sent = nil, map[protocol.HostID]func(){}
		for _, t := range some {
			g.GivenMS = c.base.NowMS()
			a, released, err := c.approveOne(tx, by, doc, g, all, t)
			if err != nil && !aboutRequest(err) {
				return err
			}
			given = append(given, Given{t, a, err})
			if released {
				sent[a.Host] = nil
			}
		}
		for host := range sent {
			send, err := c.hosts.Number(tx, host)
			if err != nil {
				return err
			}
			sent[host] = send
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, send := range sent {
		send()
	}
	c.base.Wake.Fire(core.EventsKey{})
	for _, one := range given {
		if one.Err == nil {
			c.base.Wake.Fire(one.Action.ID)
			c.base.News.Ask(one.Action.ID)
		}
	}
	return given, nil
}

// aboutRequest reports whether an error is what somebody asked for in vain, and
// not a store that fails.
func aboutRequest(err error) bool {
	return errors.Is(err, core.ErrNotFound) || errors.Is(err, core.ErrConflict) || errors.Is(err, core.ErrInvalid)
}

// approveOne keeps the approval of one action within a transaction. It reports
// whether the action waits for nobody any more.
func (c *Coordinator) approveOne(tx core.Tx, by core.Actor, doc *protocol.Approval, g core.Approval, all protocol.Targets, t protocol.Target) (core.Action, bool, error) {
	a, err := tx.Actions.Get(t.Action)
	switch {
	case err != nil:
		return a, false, fmt.Errorf("action %s: %w", t.Action, err)
	case a.Host != t.Host:
		return core.Action{}, false, fmt.Errorf("%w: action %s is of another host", core.ErrConflict, t.Action)
	case a.Digest != doc.Spec || a.Kind != doc.Kind:
		return a, false, fmt.Errorf("%w: action %s does something else than what was approved: its spec is %s", core.ErrConflict, t.Action, a.Digest)
	}
	i := slices.IndexFunc(a.Approvals, func(old core.Approval) bool { return old.Person == g.Person })
	if i >= 0 && a.Approvals[i].ExpiresMS >= g.ExpiresMS && c.isApprover(a.Approvals[i]) {
		return a, false, nil // as good as what is there
	}
	if a.Former && a.State == protocol.StatePendingApprove {
		return a, false, errFrozen(a.ID)
	}
	if !a.Unnumbered() || a.State != protocol.StatePendingApprove && a.State != protocol.StatePendingSchedule {
		return a, false, fmt.Errorf("%w: action %s is %s: what was sent or has ended needs no approval", core.ErrConflict, t.Action, a.State)
	}
	if g.Signed, err = protocol.ForTarget(g.Signed.Signed, all, t); err != nil {
		return a, false, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	if i >= 0 {
		a.Approvals = slices.Delete(a.Approvals, i, i+1)
	}
	a.Approvals = append(a.Approvals, g)
	if err := fits(&a); err != nil {
		return a, false, fmt.Errorf("%w: action %s: %w", core.ErrInvalid, t.Action, err)
	}
	if err := c.noteApproval(tx, by, a, g); err != nil {
		return a, false, err
	}
	released, err := c.moveOn(tx, by, &a)
	if err == nil && !released {
		a.UpdatedMS = c.base.NowMS()
		err = tx.Actions.Put(a)
	}
	return a, released, err
}

// fits reports that an order would not carry the approvals of an action.
func fits(a *core.Action) error {
	if len(a.Approvals) > maxApprovals {
		return fmt.Errorf("it has %d approvals already, which is all that an order carries", maxApprovals)
	}
	order := core.OrderItem(a)
	return order.Fits()
}

// noteApproval records who approved what, over which bytes, and tells watchers.
func (c *Coordinator) noteApproval(tx core.Tx, by core.Actor, a core.Action, g core.Approval) error {
	detail := map[string]any{
		"person": g.Person, "key": g.Key.String(), "approval": protocol.Sum(g.Signed.Signed).String(),
		"issued_ms": g.IssuedMS, "not_before_ms": g.NotBeforeMS, "expires_ms": g.ExpiresMS,
	}
	if err := c.base.Record(tx, by, audit.Record{Verb: "approval.give", Host: a.Host, Object: a.ID.String(), Digest: a.Digest, Detail: detail}); err != nil {
		return err
	}
	return c.base.Event(tx, "action.approval", a.Host, a.ID.String(), map[string]any{
		"kind": a.Kind, "person": g.Person, "approvals": len(a.Approvals), "expires_ms": g.ExpiresMS,
	})
}

// moveOn moves an action on that has what it needs. Its start budget begins
// then, and ends with its approvals. It reports whether the action waits for its
// host alone.
func (c *Coordinator) moveOn(tx core.Tx, by core.Actor, a *core.Action) (bool, error) {
	now := c.base.LifeMS()
	counting := c.counting(a, now)
	if !met(a.Needs, persons(counting)) || a.Former {
		return false, nil // of before a recovery: its host is asked first
	}
	a.ExpiresMS = min(now+startBudget(a.Kind).Milliseconds(), heldUntil(a.Needs, counting))
	if a.State == protocol.StatePendingApprove {
		return true, c.base.MoveBy(tx, by, a, protocol.EventApprove)
	}
	a.UpdatedMS = c.base.NowMS()
	return true, tx.Actions.Put(*a)
}

// errFrozen refuses what people want of an action that waited for approval when
// the coordinator was backed up, until its host has told whether it knows it.
func errFrozen(id protocol.ActionID) error {
	return fmt.Errorf("%w: it may have been approved and carried out before the coordinator was recovered; its host is asked first (hostler why %s). To end it there: hostler action cancel %s", core.ErrConflict, id, id)
}

// maxDenial is the longest reason of a denial, in bytes.
const maxDenial = 1000

// Deny ends an action that waits for approval: one person who says no is enough.
// Denying it again is nothing, and the first reason stays; any other state is
// [core.ErrConflict].
func (c *Coordinator) Deny(ctx context.Context, by core.Actor, id protocol.ActionID, reason string) (core.Action, error) {
	if err := by.May(core.RoleApprover, "deny actions"); err != nil {
		return core.Action{}, err
	}
	if err := c.base.MayDecide(); err != nil {
		return core.Action{}, err
	}
	var a core.Action
	err := c.base.Update(ctx, failpoint.ApprovalKept, func(tx core.Tx) (err error) {
		if a, err = tx.Actions.Get(id); err != nil {
			return err
		}
		if a.State == protocol.StateCancelled && a.Reason == protocol.ReasonDisapproved {
			return nil
		}
		if a.State != protocol.StatePendingApprove {
			return fmt.Errorf("%w: it is %s, and only what waits for approval can be denied; to end it: hostler action cancel %s", core.ErrConflict, a.State, id)
		}
		if a.Former {
			return errFrozen(id)
		}
		if len(reason) > maxDenial {
			return fmt.Errorf("%w: a reason of %d bytes, at most %d are kept", core.ErrInvalid, len(reason), maxDenial)
		}
		a.Detail = "denied by " + by.Name
		if reason != "" {
			a.Detail += fmt.Sprintf(": %q", reason)
		}
		return c.base.MoveBy(tx, by, &a, protocol.EventDeny)
	})
	if err != nil {
		return core.Action{}, err
	}
	c.base.Wake.Fire(id, core.EventsKey{})
	c.base.News.Ask(id)
	return a, nil
}

// Nudge looks at an action again, as if something had happened to it: whether it
// has the approvals that it needs, and whether its order can be sent. It may be
// called at any time, and changes nothing that would not change by itself.
func (c *Coordinator) Nudge(ctx context.Context, by core.Actor, id protocol.ActionID) (core.Action, error) {
	if err := by.May(core.RoleOperator, "nudge actions"); err != nil {
		return core.Action{}, err
	}
	if err := c.base.MayDecide(); err != nil {
		return core.Action{}, err
	}
	a, err := c.Action(ctx, id)
	if err != nil {
		return core.Action{}, err
	}
	if a.State == protocol.StatePendingApprove {
		if err := c.lookAgain(ctx, []core.Action{a}); err != nil {
			return core.Action{}, err
		}
	}
	if a.State == protocol.StatePendingApprove || a.State == protocol.StatePendingSchedule {
		if err := c.expire(ctx); err != nil {
			return core.Action{}, err
		}
		c.hosts.Offer(ctx, a.Host)
	}
	return c.Action(ctx, id)
}

// lookAtWaiting looks again at everything that waits for people: dates pass and
// rings change without anybody asking.
func (c *Coordinator) lookAtWaiting(ctx context.Context) {
	if c.base.Recovery() != "" {
		return
	}
	f := core.ActionFilter{States: []protocol.State{protocol.StatePendingApprove}, Limit: approveStep}
	for {
		page, err := c.Actions(ctx, f)
		if err == nil {
			err = c.lookAgain(ctx, page)
		}
		if err != nil && ctx.Err() == nil {
			c.log.ErrorContext(ctx, "cannot look at what waits for approval; it is tried again", "err", err)
		}
		if err != nil || len(page) < approveStep {
			return
		}
		f.Before = page[len(page)-1].ID
	}
}

// lookAgain releases those of some actions that have what they need.
func (c *Coordinator) lookAgain(ctx context.Context, some []core.Action) error {
	some = slices.DeleteFunc(some, func(a core.Action) bool { return !c.approved(&a, c.base.LifeMS()) })
	if len(some) == 0 {
		return nil
	}
	var released []core.Action
	err := c.base.Update(ctx, failpoint.ApprovalKept, func(tx core.Tx) error {
		released = nil
		for _, w := range some {
			a, err := tx.Actions.Get(w.ID)
			if err != nil {
				return err
			}
			if a.State != protocol.StatePendingApprove || !a.Unnumbered() { // a recovery asks its host about it first
				continue
			}
			ok, err := c.moveOn(tx, core.Self(), &a)
			if err != nil {
				return err
			}
			if ok {
				released = append(released, a)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, a := range released {
		c.hosts.Offer(ctx, a.Host)
		c.base.Wake.Fire(a.ID, core.EventsKey{})
		c.base.News.Ask(a.ID)
	}
	return nil
}

// Members returns the keys of the ring in force: who may approve, among others.
func (c *Coordinator) Members() []protocol.Member { return c.cfg.Trust.Members() }

// maxApprovers is how many of those who may approve are named.
const maxApprovers = 20

// WhoMayApprove names the persons whose approval an action waits for: those who
// count, are in the ring and have not approved.
func (c *Coordinator) WhoMayApprove(a core.Action) string {
	given := persons(c.Counting(a))
	var all []string
	for _, n := range c.lacking(&a) {
		may := c.approvers(n, given)
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
			text = "it waits for an approval that nobody of the ring can give; an owner lets a person in: hostler fleet ring add-approver"
		case lack > 0:
			text += fmt.Sprintf(", and %d that nobody else of the ring can give", lack)
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
func (c *Coordinator) approvers(n core.Need, given []string) []string {
	var may []string
	for _, m := range c.Members() {
		if !m.Revoked && slices.Contains(m.Roles, protocol.RolePerson) && n.Counts(m.Person) && !slices.Contains(given, m.Person) {
			may = append(may, m.Person)
		}
	}
	slices.Sort(may)
	return slices.Compact(may)
}
