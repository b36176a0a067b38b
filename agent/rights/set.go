package rights

import (
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// admitPolicy decides whether a signed policy may come into force, and keeps the
// date at which it was signed.
func (r *Rights) admitPolicy(spec *protocol.Spec) (*policy.Policy, error) {
	if r.cfg.Policies.Local != nil {
		return nil, fmt.Errorf("%w: a policy file of root is in force on this host and overrides signed policies; remove the file and start the agent again", protocol.ErrPolicy)
	}
	if r.cfg.Policies.Keep == nil {
		return nil, fmt.Errorf("%w: this host has joined no fleet, so no signature counts here; write the policy into its file", actions.CodeUnsupported)
	}
	x, args := r.documents(), protocol.ArgsOf[protocol.PolicyArgs](spec)
	d, signers, err := protocol.OpenPolicy(args.Signed, x)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", protocol.ErrNotApproved, err)
	case d.Ring > x.Ring:
		return nil, fmt.Errorf("%w: it was signed under ring %d, but this host holds ring %d", protocol.ErrNotApproved, d.Ring, x.Ring)
	}
	standing := policy.Standing{
		Policy: r.policy, Number: r.kept.Number, Digest: protocol.Sum(r.kept.Text), Owners: r.cfg.Trust.Owners(), Host: r.cfg.Host,
		Own: r.cfg.Policies.Own,
	}
	p, err := standing.Admit(d, signers, args.Policy)
	if errors.Is(err, policy.ErrSame) {
		return nil, nil
	}
	if err != nil {
		r.Unapproved.Add(1)
		return nil, err
	}
	if standing.ByOwners(signers) {
		return p, r.resetFloor(d.IssuedMS)
	}
	now := policy.Clock{WallMS: r.cfg.Loop.WallMS(), FloorMS: r.kept.FloorMS}.Now()
	return p, r.raiseFloor(min(d.IssuedMS, now+protocol.MaxApprovalLife.Milliseconds()))
}

// Admit takes every policy: whether it may come into force is judged with its order.
func (r *Rights) Admit(*protocol.Spec) error { return nil }

// Prepare has nothing to say: a policy is about no container.
func (r *Rights) Prepare(*protocol.Spec) (queue.Change, *queue.Step) { return queue.Change{}, nil }

// Recover is Begin: what an attempt has kept that was interrupted is in force
// already.
func (r *Rights) Recover(j *actions.Job) { r.Begin(j) }

// Begin is the effect of a policy.set. It is decided once more, as another policy
// may have come into force since the action was accepted.
func (r *Rights) Begin(j *actions.Job) {
	p, err := r.admitPolicy(j.Spec())
	if err == nil && p != nil {
		err = r.take(p, j)
	}
	step := queue.Step{Event: protocol.EventFail}
	if err == nil {
		step = queue.Step{Event: protocol.EventSucceed, Detail: fmt.Sprintf("policy %d is in force", r.kept.Number)}
	} else {
		step.Detail = err.Error()
	}
	if r.kept.InForce.Action == j.Action().ID {
		record := r.taken()
		step.Record = &record
	}
	j.Finish(step)
}

// take keeps a policy and puts it into force.
func (r *Rights) take(p *policy.Policy, j *actions.Job) error {
	args := protocol.ArgsOf[protocol.PolicyArgs](j.Spec())
	d, signers, err := protocol.OpenPolicy(args.Signed, r.documents())
	if err != nil {
		return err
	}
	next := r.kept
	next.Number, next.Text, next.Signed = d.Number, args.Policy, args.Signed
	next.InForce = InForce{Action: j.Action().ID, Before: r.info.Number, Source: r.info.Source, Bypass: p.Bypass()}
	for _, s := range signers {
		next.InForce.SignedBy = append(next.InForce.SignedBy, s.Person)
	}
	if err := r.keep(next); err != nil {
		return err
	}
	r.enforce(p, protocol.PolicyInfo{Source: policyDocument})
	return nil
}

// taken is what the host's audit log says of the policy that is kept.
func (r *Rights) taken() audit.Record {
	kept := &r.kept
	var persons []any
	for _, p := range kept.InForce.SignedBy {
		persons = append(persons, p)
	}
	return audit.Record{AtMS: r.cfg.Loop.WallMS(), Actor: "host", Verb: "policy.take", Digest: protocol.Sum(kept.Text), Detail: map[string]any{
		"number": kept.Number, "before": kept.InForce.Before, "source_before": kept.InForce.Source, "bypass": kept.InForce.Bypass, "signed_by": persons,
	}}
}
