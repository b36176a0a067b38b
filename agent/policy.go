package agent

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// LocalRoot is the requester of what root asks for on the host itself. Root
// could do it without the agent, and may change the policy, so it needs nobody's
// approval; everybody else who may use the socket does.
const LocalRoot = "uid:0"

// PolicyRecord is what must outlive everything, a leave of the fleet included:
// or whoever makes a host join again would rid it of its policy.
type PolicyRecord struct {
	// Number, Text and Signed are the newest signed policy that was taken; zero
	// before the first.
	Number uint64   `json:"number"`
	Text   []byte   `json:"text,omitempty"`
	Signed [][]byte `json:"signed,omitempty"`
	// Taken is what the audit log is told of it.
	Taken PolicyTaken `json:"taken,omitzero"`
	// FloorMS is the newest date at which an approver or owner is known to have
	// signed, in Unix milliseconds: no approval that ended before it is good.
	FloorMS int64 `json:"floor_ms"`
	// SinceMS is the floor as it was when the present memory of actions, the
	// queue of the id Store, began: an approval signed until then may have been
	// used by an action that is forgotten.
	SinceMS int64            `json:"since_ms"`
	Store   protocol.StoreID `json:"store,omitzero"`
}

// PolicyTaken tells how a policy has come into force. It is kept with the policy,
// and recorded with the end of the action that brought it: once, whoever is killed
// in between.
type PolicyTaken struct {
	Action   protocol.ActionID `json:"action"`
	Before   uint64            `json:"before"` // number of the policy that was in force, from Source
	Source   string            `json:"source"`
	Bypass   bool              `json:"bypass"`
	SignedBy []string          `json:"signed_by"`
}

// Policies is what an agent starts with, and how it keeps what it learns.
type Policies struct {
	// Local is the policy of root's own file, which is in force over any other;
	// nil if there is none. One that cannot be used is [policy.Closed], and
	// Broken says why.
	Local  *policy.Policy
	Broken error
	// Own are the files and directories of this host's agent, which are vital
	// wherever they are: see [policy.Policy.Guarding].
	Own []string
	// Kept is what was kept last, Keep makes another durable. Required with Link.
	Kept PolicyRecord
	Keep func(PolicyRecord) error
}

// rights are who may do what here. They belong to the loop.
type rights struct {
	kept   PolicyRecord
	policy *policy.Policy
	info   protocol.PolicyInfo // as heartbeats tell it
}

// Where a policy comes from.
const (
	policyBuiltIn  = "builtin"
	policyFile     = "file"
	policyDocument = "document"
)

// loadPolicy brings a policy into force at the start, and shuts out what was
// approved for a memory that is gone.
func (a *Agent) loadPolicy() error {
	p := a.cfg.Policies
	r := rights{kept: p.Kept, policy: policy.BuiltIn(), info: protocol.PolicyInfo{Source: policyBuiltIn}}
	switch {
	case p.Local != nil:
		r.policy, r.info.Source = p.Local, policyFile
		if p.Broken != nil {
			r.info.Broken = sentence(p.Broken)
		}
	case p.Kept.Number > 0:
		r.info.Source = policyDocument
		var err error
		r.policy, err = policy.Parse(fmt.Sprintf("policy %d", p.Kept.Number), p.Kept.Text)
		if err == nil {
			r.policy = r.policy.Guarding(p.Own...)
			err = r.policy.Check(a.cfg.Host)
		}
		if err != nil { // it was taken by another version, or under another configuration
			err = fmt.Errorf("the policy of this host cannot be used by this version: %w", err)
			r.policy, r.info.Broken = policy.Closed(err), sentence(err)
		}
	}
	a.inForce(r)
	if r.kept.FloorMS == 0 || r.kept.Store == a.self.Store || p.Keep == nil {
		return nil
	}
	r.kept.SinceMS = r.kept.FloorMS
	return a.keepPolicy(r.kept)
}

// inForce puts rights into force, loudly if they can be bypassed or let nobody.
func (a *Agent) inForce(r rights) {
	r.info.Number, r.info.Digest, r.info.Bypass = 0, r.policy.Digest(), r.policy.Bypass()
	if r.info.Source == policyDocument {
		r.info.Number = r.kept.Number
	}
	a.rights = r
	log := a.cfg.Log.With("source", r.info.Source, "number", r.info.Number, "digest", r.info.Digest.String())
	switch {
	case r.info.Broken != "":
		log.Error("the policy cannot be used; nobody but root on this host may do anything until it is mended", "error", r.info.Broken)
	case r.info.Bypass:
		log.Warn("the policy in force can be bypassed: allow_bypass = true", "holes", len(r.policy.Holes(a.cfg.Host)))
	default:
		log.Info("a policy is in force")
	}
	a.noteChange()
}

// sentence makes an error fit for a heartbeat.
func sentence(err error) string {
	const limit = 1000
	s := err.Error()
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// allowed holds an order against the policy in force. What it returns is nil, a
// final refusal, or [queue.ErrDisk] if what was learnt could not be kept: then
// the order is not taken in.
func (a *Agent) allowed(id protocol.ActionID, spec *protocol.Spec, o *queue.Order, approvals []protocol.OrderApproval) error {
	if spec.Kind == protocol.KindPolicySet {
		_, err := a.admitPolicy(spec)
		return err
	}
	need := a.rights.policy.Needs(a.request(spec, o.Requester))
	o.Within = within(spec, need)
	if spec.SecretEnv != nil && !spec.SecretEnv.Named() && need.Approvals > 0 {
		a.counters.unapproved.Add(1)
		return fmt.Errorf("%w: secret_env does not say which variables it sets, so nobody knows what was approved; ask with a newer hostler", protocol.ErrNotApproved)
	}
	clock := policy.Clock{WallMS: a.cfg.Now().UnixMilli(), FloorMS: a.rights.kept.FloorMS, SinceMS: a.rights.kept.SinceMS}
	if len(approvals) > 0 {
		used, err := a.cfg.Queue.UsedMS(a.loop.Steps())
		if err != nil {
			return fmt.Errorf("%w: %w", queue.ErrDisk, err)
		}
		clock.SinceMS = max(clock.SinceMS, used)
	}
	v := need.Judge(policy.Order{
		Spec: o.Spec, Target: protocol.Target{Host: a.cfg.Host, Action: id}, Approvals: approvals,
	}, a.documents(), clock)
	if err := a.raiseFloor(v.FloorMS); err != nil {
		return err
	}
	if v.Err != nil {
		a.counters.unapproved.Add(1)
	} else if len(v.Persons) > 0 {
		o.Approved, o.ApprovedMS = v.Persons, a.rights.kept.FloorMS
	}
	return v.Err
}

// within are the directories to which a policy holds what it lets in: nil where
// nothing is moved.
func within(spec *protocol.Spec, need policy.Need) []string {
	if spec.Files == nil {
		return nil
	}
	return append([]string{}, need.Within...)
}

// allowedHere holds a request of the host's own people against the policy: root
// needs nobody, and nobody else has approvals to show.
func (a *Agent) allowedHere(spec *protocol.Spec, o *queue.Order) error {
	if spec.Kind == protocol.KindPolicySet {
		_, err := a.admitPolicy(spec)
		return err
	}
	need := a.rights.policy.Needs(a.request(spec, o.Requester))
	o.Within = within(spec, need)
	if o.Requester == LocalRoot || need.None() {
		return nil
	}
	a.counters.unapproved.Add(1)
	return fmt.Errorf("%w: %s needs %s; ask root of this host, or request it through the coordinator", protocol.ErrNotApproved, spec.Kind, need)
}

func (a *Agent) request(spec *protocol.Spec, requester string) policy.Request {
	return policy.Request{Host: a.cfg.Host, Spec: spec, Requester: requester}
}

// documents is what approvals and policies are opened with.
func (a *Agent) documents() protocol.Expect {
	x := protocol.Expect{Fleet: a.cfg.Fleet, FleetName: a.cfg.FleetName, Keys: nobody{}}
	if a.cfg.Trust != nil {
		x.Keys, x.Ring = a.cfg.Trust.Keyring(), a.cfg.Trust.Ring()
	}
	return x
}

// nobody is the ring of a host without a fleet.
type nobody struct{}

func (nobody) Principal(protocol.KeyID) (protocol.Principal, bool) {
	return protocol.Principal{}, false
}

// toldPolicy is the text of the policy in force as the coordinator may have it;
// empty if there is none, or if it is too long to travel.
func (a *Agent) toldPolicy() []byte {
	text := a.rights.policy.Text()
	if len(text) > protocol.MaxToldPolicy {
		return nil
	}
	return text
}

// raiseFloor keeps the newest date that was verified, before anything is done
// on the strength of it.
func (a *Agent) raiseFloor(ms int64) error {
	if ms <= a.rights.kept.FloorMS {
		return nil
	}
	next := a.rights.kept
	next.FloorMS = ms
	return a.keepPolicy(next)
}

func (a *Agent) keepPolicy(next PolicyRecord) error {
	next.Store = a.self.Store
	if err := a.cfg.Policies.Keep(next); err != nil {
		return fmt.Errorf("keeping what the policy rests on: %w: %w", queue.ErrDisk, err)
	}
	a.rights.kept = next
	return nil
}

// admitPolicy decides whether a signed policy may come into force, and keeps the
// date at which it was signed.
func (a *Agent) admitPolicy(spec *protocol.Spec) (*policy.Policy, error) {
	if a.cfg.Policies.Local != nil {
		return nil, fmt.Errorf("%w: a policy file of root is in force on this host, over any that is signed; remove the file and start the agent again", protocol.ErrPolicy)
	}
	if a.cfg.Policies.Keep == nil {
		return nil, fmt.Errorf("%w: this host is of no fleet, so nobody can sign for it; write the policy into its file", codeUnsupported)
	}
	x := a.documents()
	d, signers, err := protocol.OpenPolicy(spec.Signed, x)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", protocol.ErrNotApproved, err)
	case d.Ring > x.Ring:
		return nil, fmt.Errorf("%w: it was signed under ring %d, ring %d is held here", protocol.ErrNotApproved, d.Ring, x.Ring)
	}
	standing := policy.Standing{
		Policy: a.rights.policy, Number: a.rights.kept.Number, Digest: protocol.Sum(a.rights.kept.Text), Owners: a.cfg.Trust.Owners(), Host: a.cfg.Host,
		Own: a.cfg.Policies.Own,
	}
	p, err := standing.Admit(d, signers, spec.Policy)
	if errors.Is(err, policy.ErrSame) {
		return nil, nil
	}
	if err != nil {
		a.counters.unapproved.Add(1)
		return nil, err
	}
	return p, a.raiseFloor(d.IssuedMS)
}

// setPolicy is the effect of a policy.set: it is decided once more, as another
// may have come into force since it was accepted; what was kept by an attempt
// that was interrupted is in force already.
func (a *Agent) setPolicy(j *job) {
	p, err := a.admitPolicy(&j.spec)
	if err == nil && p != nil {
		err = a.takePolicy(p, j)
	}
	step := queue.Step{Event: protocol.EventFail}
	if err == nil {
		step = queue.Step{Event: protocol.EventSucceed, Detail: fmt.Sprintf("policy %d is in force", a.rights.kept.Number)}
	} else {
		step.Detail = err.Error()
	}
	if a.rights.kept.Taken.Action == j.act.ID {
		r := a.policyTaken()
		step.Record = &r
	}
	a.finish(j, step)
}

func (a *Agent) takePolicy(p *policy.Policy, j *job) error {
	d, signers, err := protocol.OpenPolicy(j.spec.Signed, a.documents())
	if err != nil {
		return err
	}
	next, before := a.rights.kept, a.rights.info
	next.Number, next.Text, next.Signed = d.Number, j.spec.Policy, j.spec.Signed
	next.Taken = PolicyTaken{Action: j.act.ID, Before: before.Number, Source: before.Source, Bypass: p.Bypass()}
	for _, s := range signers {
		next.Taken.SignedBy = append(next.Taken.SignedBy, s.Person)
	}
	if err := a.keepPolicy(next); err != nil {
		return err
	}
	a.inForce(rights{kept: a.rights.kept, policy: p, info: protocol.PolicyInfo{Source: policyDocument}})
	return nil
}

// policyTaken is what the host's audit log says of the policy that is kept.
func (a *Agent) policyTaken() audit.Record {
	kept := &a.rights.kept
	var persons []any
	for _, p := range kept.Taken.SignedBy {
		persons = append(persons, p)
	}
	return audit.Record{AtMS: a.cfg.Now().UnixMilli(), Actor: "host", Verb: "policy.take", Digest: protocol.Sum(kept.Text), Detail: map[string]any{
		"number": kept.Number, "before": kept.Taken.Before, "source_before": kept.Taken.Source, "bypass": kept.Taken.Bypass, "signed_by": persons,
	}}
}

// PolicyStatus is the policy in force.
type PolicyStatus struct {
	protocol.PolicyInfo
	FloorMS int64
}
