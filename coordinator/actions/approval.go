package actions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// maxApprovals is how many approvals an order carries.
const maxApprovals = 16

// Given is what became of an approval for one target.
type Given struct {
	Target protocol.Target
	Action core.Action // as it stands
	// Err says why the approval is of no use to this target: [core.ErrNotFound],
	// [core.ErrConflict] or [core.ErrInvalid].
	Err error
}

// approveStep is how many actions are approved in one transaction, so that
// no other transaction waits for long.
const approveStep = 50

// Approve takes the approval of a person, for each target by itself: what it
// cannot be used for is told, and keeps the others from nothing. list is all
// that was signed for, in its order. The same approval again changes nothing.
func (r *Room) Approve(ctx context.Context, by core.Actor, signed []byte, list []protocol.Target) ([]Given, error) {
	if err := r.base.Allow(by, core.RoleApprover, "approve actions"); err != nil {
		return nil, err
	}
	doc, g, err := r.openApproval(by, signed)
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
		given, err := r.approveSome(ctx, by, &doc, g, targets, some)
		if err != nil {
			return nil, err
		}
		all = append(all, given...)
	}
	return all, nil
}

// openApproval verifies an approval against the ring in force.
func (r *Room) openApproval(by core.Actor, signed []byte) (protocol.Approval, core.Approval, error) {
	refuse := func(kind error, format string, args ...any) (protocol.Approval, core.Approval, error) {
		return protocol.Approval{}, core.Approval{}, fmt.Errorf("%w: the approval: %w", kind, fmt.Errorf(format, args...))
	}
	doc, who, err := protocol.OpenApproval(signed, protocol.Expect{Fleet: r.base.Fleet, FleetName: r.base.FleetName, Keys: r.base.Keys})
	switch {
	case errors.Is(err, protocol.ErrUnknownKey) || errors.Is(err, protocol.ErrRole):
		return refuse(core.ErrDenied, "%w: ring %d has no approver with it; an owner lets one in: hostler fleet ring add-approver", err, r.base.Keys.Ring())
	case errors.Is(err, protocol.ErrRevokedKey), errors.Is(err, protocol.ErrSignature), errors.Is(err, protocol.ErrFleet):
		return refuse(core.ErrDenied, "%w", err)
	case err != nil:
		return refuse(core.ErrInvalid, "%w", err)
	}
	now := r.base.LifeMS()
	early := core.SignedToday(doc.IssuedMS, now)
	switch {
	case doc.Ring > r.base.Keys.Ring():
		return refuse(core.ErrConflict, "it is of ring %d, ring %d is in force here; first: hostler fleet ring publish", doc.Ring, r.base.Keys.Ring())
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
func (r *Room) approveSome(ctx context.Context, by core.Actor, doc *protocol.Approval, g core.Approval, all protocol.Targets, some []protocol.Target) ([]Given, error) {
	var given []Given
	var sends map[protocol.HostID]func()
	err := r.base.Update(ctx, failpoint.ApprovalKept, func(tx core.Tx) error {
		given, sends = nil, map[protocol.HostID]func(){}
		for _, t := range some {
			g.GivenMS = r.base.NowMS()
			a, released, err := r.approveOne(tx, by, doc, g, all, t)
			if err != nil && !aboutRequest(err) {
				return err
			}
			given = append(given, Given{t, a, err})
			if released {
				sends[a.Host] = nil
			}
		}
		for host := range sends {
			send, err := r.cfg.Dispatch.Number(tx, host)
			if err != nil {
				return err
			}
			sends[host] = send
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, send := range sends {
		send()
	}
	r.base.Wake.Fire(core.EventsKey{})
	for _, one := range given {
		if one.Err == nil {
			r.base.Wake.Fire(one.Action.ID)
			r.base.News.Ask(one.Action.ID)
		}
	}
	return given, nil
}

// aboutRequest reports whether an error is about the request itself, and
// not a store that fails.
func aboutRequest(err error) bool {
	return errors.Is(err, core.ErrNotFound) || errors.Is(err, core.ErrConflict) || errors.Is(err, core.ErrInvalid)
}

// approveOne keeps the approval of one action within a transaction. It reports
// whether the action waits for no person any more.
func (r *Room) approveOne(tx core.Tx, by core.Actor, doc *protocol.Approval, g core.Approval, all protocol.Targets, t protocol.Target) (core.Action, bool, error) {
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
	if i >= 0 && a.Approvals[i].ExpiresMS >= g.ExpiresMS && r.cfg.Approvals.isApprover(a.Approvals[i]) {
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
	if err := r.noteApproval(tx, by, a, g); err != nil {
		return a, false, err
	}
	released, err := r.release(tx, by, &a)
	if err == nil && !released {
		a.UpdatedMS = r.base.NowMS()
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
func (r *Room) noteApproval(tx core.Tx, by core.Actor, a core.Action, g core.Approval) error {
	detail := map[string]any{
		"person": g.Person, "key": g.Key.String(), "approval": protocol.Sum(g.Signed.Signed).String(),
		"issued_ms": g.IssuedMS, "not_before_ms": g.NotBeforeMS, "expires_ms": g.ExpiresMS,
	}
	if err := r.base.Record(tx, by, audit.Record{Verb: "approval.give", Host: a.Host, Object: a.ID.String(), Digest: a.Digest, Detail: detail}); err != nil {
		return err
	}
	return r.base.Event(tx, "action.approval", a.Host, a.ID.String(), map[string]any{
		"kind": a.Kind, "person": g.Person, "approvals": len(a.Approvals), "expires_ms": g.ExpiresMS,
	})
}

// release writes an action that has what it needs. It reports whether the action waits
// for its host alone.
func (r *Room) release(tx core.Tx, by core.Actor, a *core.Action) (released bool, err error) {
	now := r.base.LifeMS()
	next, ev, released := goOn(*a, r.cfg.Approvals.counting(a, now), now)
	switch *a = next; {
	case !released:
		return false, nil
	case ev != "":
		return true, r.base.MoveBy(tx, by, a, ev)
	}
	a.UpdatedMS = r.base.NowMS()
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
func (r *Room) Deny(ctx context.Context, by core.Actor, id protocol.ActionID, reason string) (core.Action, error) {
	if err := r.base.Allow(by, core.RoleApprover, "deny actions"); err != nil {
		return core.Action{}, err
	}
	var a core.Action
	err := r.base.Update(ctx, failpoint.ApprovalKept, func(tx core.Tx) (err error) {
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
		return r.base.MoveBy(tx, by, &a, protocol.EventDeny)
	})
	if err != nil {
		return core.Action{}, err
	}
	r.base.Wake.Fire(id, core.EventsKey{})
	r.base.News.Ask(id)
	return a, nil
}

// Nudge looks at an action again, as if something had happened to it: whether it
// has the approvals that it needs, and whether its order can be sent. It may be
// called at any time, and changes nothing that would not change by itself.
func (r *Room) Nudge(ctx context.Context, by core.Actor, id protocol.ActionID) (core.Action, error) {
	if err := r.base.Allow(by, core.RoleOperator, "nudge actions"); err != nil {
		return core.Action{}, err
	}
	a, err := r.Get(ctx, id)
	if err != nil {
		return core.Action{}, err
	}
	if a.State == protocol.StatePendingApprove {
		if err := r.lookAgain(ctx, []core.Action{a}); err != nil {
			return core.Action{}, err
		}
	}
	if a.State == protocol.StatePendingApprove || a.State == protocol.StatePendingSchedule {
		if err := r.Expire(ctx); err != nil {
			return core.Action{}, err
		}
		r.cfg.Dispatch.Offer(ctx, a.Host)
	}
	return r.Get(ctx, id)
}

// LookAtWaiting looks again at everything that waits for people: dates pass and
// rings change without a request.
func (r *Room) LookAtWaiting(ctx context.Context) {
	if r.base.Recovery() != "" {
		return
	}
	f := core.ActionFilter{States: []protocol.State{protocol.StatePendingApprove}, Limit: approveStep}
	for {
		page, err := r.List(ctx, f)
		if err == nil {
			err = r.lookAgain(ctx, page)
		}
		if err != nil && ctx.Err() == nil {
			r.base.Log.ErrorContext(ctx, "cannot look at what waits for approval; it is tried again", "err", err)
		}
		if err != nil || len(page) < approveStep {
			return
		}
		f.Before = page[len(page)-1].ID
	}
}

// lookAgain releases those of some actions that have what they need.
func (r *Room) lookAgain(ctx context.Context, some []core.Action) error {
	some = slices.DeleteFunc(some, func(a core.Action) bool { return !r.cfg.Approvals.Approved(&a, r.base.LifeMS()) })
	if len(some) == 0 {
		return nil
	}
	var released []core.Action
	err := r.base.Update(ctx, failpoint.ApprovalKept, func(tx core.Tx) error {
		released = nil
		for _, w := range some {
			a, err := tx.Actions.Get(w.ID)
			if err != nil {
				return err
			}
			if a.State != protocol.StatePendingApprove || !a.Unnumbered() { // a recovery asks its host about it first
				continue
			}
			ok, err := r.release(tx, core.Self(), &a)
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
		r.cfg.Dispatch.Offer(ctx, a.Host)
		r.base.Wake.Fire(a.ID, core.EventsKey{})
		r.base.News.Ask(a.ID)
	}
	return nil
}

// Expire ends what was never numbered and whose start budget is used up.
func (r *Room) Expire(ctx context.Context) error {
	if r.base.Recovery() != "" {
		return nil
	}
	var due []core.Action
	now := r.base.LifeMS()
	err := r.base.View(ctx, func(tx core.Tx) (err error) {
		due, err = tx.Queue.Expired(now, core.PageSize)
		return err
	})
	if err != nil || len(due) == 0 {
		return err
	}
	err = r.base.Update(ctx, failpoint.ActionsExpired, func(tx core.Tx) error {
		for _, d := range due {
			a, err := tx.Actions.Get(d.ID)
			if err != nil {
				return err
			}
			if !a.Unnumbered() || a.State.Final() || a.ExpiresMS >= now {
				continue // it was numbered, has ended, or was approved meanwhile
			}
			a.Detail = r.cfg.Approvals.WhyExpired(&a)
			if err := r.base.Move(tx, &a, protocol.EventExpire); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.base.Wake.Fire(core.EventsKey{})
	for _, a := range due {
		r.base.Wake.Fire(a.ID)
		r.base.News.Ask(a.ID)
	}
	return nil
}
