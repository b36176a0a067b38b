package actions

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Deciding where a new action begins, and whether an approval releases one, is pure:
// what the store, the policies and the keyring say goes in, what is to be written comes
// out. The shells are enter, Plan and release.

// approvalWait is how long an action waits for people.
const approvalWait = 7 * 24 * time.Hour

// request is what is known when an action is asked for.
type request struct {
	host  *core.Host   // nil if there is none
	old   *core.Action // of the same id; nil if there is none
	needs []core.Need  // approvals that the policies want
	// refused is why a policy or the name of the container speaks against it.
	refused error
	// unnamed tells that its sealed variables do not say what they set.
	unnamed bool
}

// begin decides what becomes of a request. It returns the action as it is to be
// inserted, or, with old, the one that is there because the same was asked for before.
// An error refuses the request: [core.ErrNotFound], [core.ErrDenied] or
// [core.ErrConflict].
func begin(a core.Action, k request, lifeMS int64) (_ core.Action, old bool, err error) {
	switch h := k.host; {
	case h == nil:
		return a, false, fmt.Errorf("host %q: %w", a.Host, core.ErrUnknownHost)
	case h.State != core.HostApproved:
		return a, false, fmt.Errorf("%w: host %s is %s: %s", core.ErrDenied, h.ID, h.State, cmp.Or(h.Reason, "no reason was given"))
	case h.Quarantined != "":
		return a, false, fmt.Errorf("%w: host %s is quarantined: %s", core.ErrDenied, h.ID, h.Quarantined)
	case k.old != nil && k.old.Host == a.Host && k.old.Digest == a.Digest:
		return *k.old, true, nil
	case k.old != nil:
		return a, false, fmt.Errorf("%w: action %s asks for something else", core.ErrConflict, a.ID)
	case k.refused != nil:
		return a, false, k.refused
	case k.unnamed && len(k.needs) > 0:
		return a, false, fmt.Errorf("%w: it needs approvals, but secret_env does not say which variables it sets, so approvers cannot know what they approve; request it with a newer hostler", core.ErrDenied)
	}
	ev, life := protocol.EventGrant, startBudget(a.Kind)
	if !met(k.needs, nil) {
		if info, _ := protocol.KindOf(a.Kind); info.Urgent {
			return a, false, fmt.Errorf("%w: %s is done at once or never, and cannot wait for the approval that the policy of host %s asks for", core.ErrDenied, a.Kind, a.Host)
		}
		ev, life = protocol.EventPropose, approvalWait
	}
	a.Needs, a.ExpiresMS = k.needs, lifeMS+life.Milliseconds()
	a.State, a.Reason, err = protocol.StateNone.Next(ev, protocol.OwnerCoordinator, "")
	return a, false, err
}

// goOn decides whether an action has what it needs, given the approvals that count. Its
// start budget begins then, and ends with its approvals. An action of before a recovery
// stays where it is, for its host is asked first. The event is none if the action was
// released before.
func goOn(a core.Action, counting []core.Approval, lifeMS int64) (_ core.Action, ev protocol.Event, released bool) {
	if !met(a.Needs, persons(counting)) || a.Former {
		return a, "", false
	}
	a.ExpiresMS = min(lifeMS+startBudget(a.Kind).Milliseconds(), heldUntil(a.Needs, counting))
	if a.State == protocol.StatePendingApprove {
		ev = protocol.EventApprove
	}
	return a, ev, true
}

func startBudget(k protocol.Kind) time.Duration {
	info, _ := protocol.KindOf(k)
	return info.StartTTL
}
