package policies

import (
	"context"
	"fmt"
	"maps"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

// Whose policy asks for something, for people.
const (
	ownPolicy  = "the policy of the coordinator"
	hostPolicy = "the policy of the host"
)

// Policies are what the operators of a coordinator ask for.
type Policies struct {
	// Own says who may request what, and what waits for approval here; nil asks
	// nobody.
	Own *policy.Policy
	// Hosts is the policy in force on hosts that have not told theirs: what it asks
	// for is collected before anything is sent. Nil: hosts say for themselves.
	Hosts *policy.Policy
	// FourEyes counts no approval of the person who made the request: the one whom the
	// token is bound to. Of a token that is bound to no person it refuses what needs
	// approvals.
	FourEyes bool
}

// Record is what the audit log says of them: all that tells them from others.
func (p Policies) Record() map[string]any {
	what := map[string]any{"four_eyes": p.FourEyes}
	for name, p := range map[string]*policy.Policy{"own": p.Own, "hosts": p.Hosts} {
		if p != nil {
			what[name] = p.Digest()
		}
	}
	return what
}

// SetPolicies puts others into force for what is requested from now on, once the
// audit log has it; those that are in force already are nothing new. What waits for
// approval needs what it needed.
func (r *Room) Set(ctx context.Context, by core.Actor, p Policies) error {
	if err := by.May(core.RoleAdmin, "set policies"); err != nil {
		return err
	}
	what := p.Record()
	if maps.Equal(what, r.configured.Load().Record()) {
		return nil // other policies were read again meanwhile
	}
	err := r.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) error {
		return r.base.Audit(tx, by, "policies.set", "", what)
	})
	if err == nil {
		r.configured.Store(&p)
	}
	return err
}

// Needs returns what must be there before a request is sent, or
// [core.ErrDenied]. What a host asks for is only collected here: the host itself
// verifies that it is there.
func (r *Room) Needs(tx core.Tx, by core.Actor, host protocol.HostID, spec *protocol.Spec) ([]core.Need, error) {
	ours := r.configured.Load()
	theirs, err := r.hostPolicy(tx, host)
	if err != nil {
		return nil, err
	}
	var all []core.Need
	for _, from := range []struct {
		who    string
		policy *policy.Policy
	}{{ownPolicy, ours.Own}, {hostPolicy, theirs}} {
		if from.policy == nil {
			continue
		}
		n := from.policy.Needs(policy.Request{Host: host, Spec: spec, Requester: by.Name, Role: string(by.Role)})
		switch {
		case n.Refused:
			return nil, fmt.Errorf("%w: %s on host %s: %s: %s; another token may be let: hostler token ls", core.ErrDenied, spec.Kind, host, from.who, n.Why)
		case n.Approvals == 0:
			continue
		case spec.Kind == protocol.KindPolicySet:
			continue // what lets it is signed within its spec
		}
		need := core.Need{Persons: n.Approvals, From: n.By, Why: from.who}
		if ours.FourEyes {
			if by.Person == "" {
				return nil, fmt.Errorf("%w: %s on host %s takes approvals, and four_eyes wants to know who asks: token %s is bound to no person; an admin makes one that is: hostler token create NAME --person PERSON --role ROLE", core.ErrDenied, spec.Kind, host, by.Name)
			}
			need.Not = by.Person
		}
		all = append(all, need)
	}
	return all, nil
}

// Lets is nil if a person could begin the same action without an approval, else
// [core.ErrDenied]: who joins it does no more than who begins one.
func (r *Room) Lets(ctx context.Context, by core.Actor, a core.Action) error {
	spec, err := protocol.DecodeSpec(a.Spec)
	if err != nil {
		return err
	}
	return r.base.View(ctx, func(tx core.Tx) error {
		needs, err := r.Needs(tx, by, a.Host, &spec)
		if err == nil && len(needs) > 0 {
			err = fmt.Errorf("%w: %s on host %s takes approvals, and those of action %s are for %s", core.ErrDenied, a.Kind, a.Host, a.ID, a.Requester)
		}
		return err
	})
}

// CheckDate refuses a policy that was signed in the future, see [core.SignedToday]. Whatever
// else is wrong with it is its host's to say.
func (r *Room) CheckDate(spec *protocol.Spec) error {
	d, _, err := protocol.OpenPolicy(protocol.ArgsOf[protocol.PolicyArgs](spec).Signed, protocol.Expect{Fleet: r.base.Fleet, FleetName: r.base.FleetName, Keys: r.base.Keys})
	if err != nil {
		return nil
	}
	if err := core.SignedToday(d.IssuedMS, r.base.LifeMS()); err != nil {
		return fmt.Errorf("%w: the policy: %w", core.ErrInvalid, err)
	}
	return nil
}
