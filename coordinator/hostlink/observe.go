package hostlink

import (
	"cmp"
	"slices"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Deciding what a report changes is pure: what is known of its action goes in,
// what is to be written comes out. The shell is in report.go.

// Bounds of what a host's reports can add to its inventory: each change writes
// it anew. An honest host merges alerts long before, and the next heartbeat
// tells of everything in any case.
const (
	maxAlerts     = 1000
	maxContainers = 10_000
)

// reported is what is known of the action of a report.
type reported struct {
	host        protocol.HostID // that sent the report
	action      core.Action     // as it is stored
	found       bool            // it is
	recovering  bool            // the host has still to tell what it did before a recovery
	receiptedMS int64           // when its order was acknowledged, if that is to be noted
}

// effect is what a report leads to.
type effect int

// The effects. The zero value is invalid.
const (
	nothingNew    effect = iota + 1
	knownNowhere         // neither side knows the action: it may end a question of a recovery
	ofAnotherHost        // the report is refused
	lookAgain            // nothing is written, but followers of the action look at it
	formerLost           // the host does not know what it may have been told before a recovery
	lost                 // the host does not know the order, though it has it
	insert               // the action began on the host
	change
)

// observed is an effect, and the action as it is to be written.
type observed struct {
	effect   effect
	action   core.Action
	conflict bool // the host has another action of that id: its record wins
}

// decideReport moves the coordinator's view of an action along the evidence of its
// host.
func decideReport(k reported, r *protocol.Report, nowMS int64) observed {
	a := k.action
	switch {
	case !k.found && r.State == protocol.StateNone:
		return observed{effect: knownNowhere}
	case !k.found && r.Event == protocol.EventTell && !k.recovering:
		// The answer to a question about what was forgotten here meanwhile. What
		// began on the host is told without being asked.
		return observed{effect: nothingNew}
	case !k.found:
		a = core.Action{ID: r.Action, Host: k.host, CreatedMS: r.AtMS, UpdatedMS: nowMS}
		takeIntent(&a, r)
	case a.Host != k.host:
		return observed{effect: ofAnotherHost, action: a}
	}
	if r.Event == protocol.EventTell && r.State == protocol.StateNone {
		return observed{effect: decideUnknown(&a, r), action: a}
	}
	before := a
	a.ReceiptedMS = cmp.Or(a.ReceiptedMS, k.receiptedMS)
	d := observed{effect: change, conflict: !r.Digest.IsZero() && r.Digest != a.Digest}
	if d.conflict {
		// What was asked for here first stays visible and can be issued again.
		if a.Conflict == nil {
			a.Conflict = a.Spec
		}
		takeIntent(&a, r)
	}
	// Of what began elsewhere a report may have come before the answer that tells
	// what it is.
	learnt := k.found && len(a.Spec) == 0 && len(r.Spec) > 0
	if learnt {
		takeIntent(&a, r)
	}
	if !observe(&a, r, nowMS) && !learnt && a.Digest == before.Digest && a.Cancelling == before.Cancelling && a.Detail == before.Detail {
		return observed{effect: nothingNew} // evidence of what was known
	}
	if d.action = a; !k.found {
		d.effect = insert
	}
	return d
}

// decideUnknown makes LOST what the host does not know although it has the
// order: an order that may still be under way says nothing. The answer may be
// to a question of before the action ended; then it says nothing new.
func decideUnknown(a *core.Action, r *protocol.Report) effect {
	have := r.HaveOrder
	if core.StreamOf(a.Kind) == protocol.StreamControl {
		have = r.HaveControl
	}
	switch {
	case a.Unnumbered() || a.State.Final():
		return lookAgain
	case a.Former:
		return formerLost
	case a.N > have:
		return lookAgain
	}
	return lost
}

// observe applies a report to an action; it reports whether the action moved.
// Evidence that leads nowhere new is no error: it comes twice after every
// crash.
func observe(a *core.Action, r *protocol.Report, nowMS int64) bool {
	next, reason, err := r.Observe(a.State, a.Reason)
	moved := err == nil && (next != a.State || !next.Final() && r.Attempt > a.Attempt)
	if err == nil {
		a.Corrected = a.Corrected || a.State == protocol.StateLost
		a.State, a.Reason = next, reason
	}
	if a.State.Final() && !moved {
		return false
	}
	a.Detail = r.Detail
	a.Cancelling = r.Cancel && !a.State.Final()
	a.AcceptSeq = max(a.AcceptSeq, r.AcceptSeq)
	a.Attempt = max(a.Attempt, r.Attempt)
	// What was told first of a step stays.
	a.AcceptedMS, a.StartedMS, a.FinishedMS = cmp.Or(a.AcceptedMS, r.AcceptedMS), cmp.Or(a.StartedMS, r.StartedMS), cmp.Or(a.FinishedMS, r.EndedMS)
	if r.Exit != nil {
		a.Exit = r.Exit
	}
	if len(r.Output) > 0 {
		a.Output = r.Output
	}
	a.UpdatedMS = nowMS
	if a.State.Final() {
		a.EndedMS = nowMS
	}
	return moved
}

// takeIntent makes an action what its host says that it is, and whose. A report that
// does not carry the spec leaves it open: the host tells it when it is asked.
func takeIntent(a *core.Action, r *protocol.Report) {
	a.Spec, a.Digest, a.Requester = r.Spec, r.Digest, "host:"+string(a.Host)
	if r.Requester != "" {
		a.Requester += "/" + r.Requester
	}
	a.Kind, a.Target, a.Name = "", protocol.CTID{}, ""
	if spec, err := protocol.DecodeSpec(r.Spec); err == nil {
		a.Kind, a.Target, a.Name = spec.Kind, spec.Target, spec.Name
	}
}

// removed reports whether the action has left nothing of its container.
func removed(a *core.Action) bool {
	info, _ := protocol.KindOf(a.Kind)
	return a.State == protocol.StateDone && info.Removes
}

// follow brings an inventory up to date with what an action has made of a
// container: a client that waited for the action sees it. It reports whether that changes
// anything. A report that comes late says nothing against a newer heartbeat; both
// are dated by the host's clock.
func follow(inv core.Inventory, a *core.Action, r *protocol.Report) (core.Inventory, bool) {
	destroyed := removed(a)
	if r.AtMS < inv.Host.ClockMS || !destroyed && (r.Container == nil || r.Container.CTID != a.Target) {
		return inv, false
	}
	all := slices.Clone(inv.Containers)
	i := slices.IndexFunc(all, func(ct protocol.Container) bool { return ct.CTID == a.Target })
	switch {
	case destroyed && i < 0, !destroyed && i < 0 && len(all) >= maxContainers:
		return inv, false
	case destroyed:
		all = slices.Delete(all, i, i+1)
	case i < 0:
		all = append(all, *r.Container)
	default:
		all[i] = *r.Container
	}
	if !destroyed { // it is foreign no more, if it was
		all = slices.DeleteFunc(all, func(ct protocol.Container) bool {
			return ct.CTID.IsZero() && ct.Name == r.Container.Name && ct.Runtime == r.Container.Runtime
		})
	}
	inv.Containers = all
	return inv, true
}

// noteAlert keeps the list of raised alerts of an inventory, and returns how
// watchers are told.
func noteAlert(inv core.Inventory, a *protocol.Alert) (_ core.Inventory, event string) {
	alerts := make([]protocol.AlertInfo, 0, len(inv.Alerts)+1)
	for _, old := range inv.Alerts {
		if old.ID != a.ID {
			alerts = append(alerts, old)
		}
	}
	event = "alert.cleared"
	if a.Raised {
		event = "alert.raised"
		if len(alerts) < maxAlerts {
			alerts = append(alerts, a.AlertInfo)
		}
	}
	inv.Alerts = alerts
	return inv, event
}
