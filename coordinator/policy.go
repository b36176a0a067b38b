package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

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
	// FourEyes counts no approval of the person who made the request, whose token
	// is called as the person.
	FourEyes bool
}

// record is what the audit log says of them: all that tells them from others.
func (p Policies) record() map[string]any {
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
func (c *Coordinator) SetPolicies(ctx context.Context, by core.Actor, p Policies) error {
	if err := by.May(core.RoleAdmin, "set policies"); err != nil {
		return err
	}
	what := p.record()
	if maps.Equal(what, c.configured.Load().record()) {
		return nil // whoever has everything read again has changed something else
	}
	err := c.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) error {
		return c.base.Audit(tx, by, "policies.set", "", what)
	})
	if err == nil {
		c.configured.Store(&p)
	}
	return err
}

// needs returns what must be there before somebody's request is sent, or
// [core.ErrDenied]. What a host asks for is only collected here: the host itself
// verifies that it is there.
func (c *Coordinator) needs(tx core.Tx, by core.Actor, host protocol.HostID, spec *protocol.Spec) ([]core.Need, error) {
	ours := c.configured.Load()
	theirs, err := c.hostPolicy(tx, host)
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
			need.Not = by.Name
		}
		all = append(all, need)
	}
	return all, nil
}

// policyDate refuses a policy that was signed in the future, see [maxAhead]. Whatever
// else is wrong with it is its host's to say.
func (c *Coordinator) policyDate(spec *protocol.Spec) error {
	d, _, err := protocol.OpenPolicy(spec.Signed, protocol.Expect{Fleet: c.cfg.Fleet, FleetName: c.cfg.FleetName, Keys: c.cfg.Trust})
	if err != nil {
		return nil
	}
	if err := c.ofToday(d.IssuedMS); err != nil {
		return fmt.Errorf("%w: the policy: %w", core.ErrInvalid, err)
	}
	return nil
}

// ofToday refuses what a person has signed in the future, see [maxAhead].
func (c *Coordinator) ofToday(issuedMS int64) error {
	now := c.base.LifeMS()
	if issuedMS <= now+maxAhead.Milliseconds() {
		return nil
	}
	when := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	return fmt.Errorf("it was signed at %s, and here it is %s: set the clock of the machine that signs, and sign again", when(issuedMS), when(now))
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
