// Package rights decides who may do what on this host.
//
// What takes whose approval is said by the policy in force (package policy): root's
// own file, else the newest signed one that was taken, else the built-in one, by
// which requests of operators and admins need no approval. Each order is held against
// it by the keys of the host's own ring, and by nothing that the coordinator says,
// before the order is taken in; what is refused is refused for good.
package rights

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

// Config is what rights are judged with. Trust is nil on a host without a fleet;
// all else is required.
type Config struct {
	Host      protocol.HostID
	Fleet     protocol.FleetID
	FleetName protocol.FleetName
	Policies  Policies
	Trust     wire.Trust
	Loop      *loop.Loop
	// UsedMS is the newest date of an approval that a forgotten action may have
	// used, in Unix milliseconds.
	UsedMS func(context.Context) (int64, error)
	// Changed is called when another policy is in force.
	Changed func()
	Log     *slog.Logger
}

// Rights are who may do what on this host. They belong to the loop, but for
// Unapproved.
type Rights struct {
	// Unapproved counts what the policy did not allow. Any goroutine may read it.
	Unapproved atomic.Uint64

	cfg    Config
	store  protocol.StoreID // of the present memory of actions
	kept   Record
	policy *policy.Policy
	info   protocol.PolicyInfo // as heartbeats tell it
}

// New returns rights by the built-in policy, until Load.
func New(cfg Config) *Rights {
	return &Rights{cfg: cfg, policy: policy.BuiltIn(), info: protocol.PolicyInfo{Source: policyBuiltIn}}
}

// Info is the policy in force as heartbeats tell it.
func (r *Rights) Info() protocol.PolicyInfo { return r.info }

// FloorMS is the newest date at which an approver or owner is known to have signed,
// in Unix milliseconds.
func (r *Rights) FloorMS() int64 { return r.kept.FloorMS }

// Within are the directories to which the policy in force holds what a requester
// moves.
func (r *Rights) Within(s *protocol.Spec, requester string) []string {
	return r.policy.Needs(r.request(s, requester)).Within
}

// Where a policy comes from.
const (
	policyBuiltIn  = "builtin"
	policyFile     = "file"
	policyDocument = "document"
)

// Load brings a policy into force at the start, and shuts out what was approved for
// a memory of actions that is gone; store is the id of the present one.
func (r *Rights) Load(store protocol.StoreID) error {
	p := r.cfg.Policies
	inForce, info := policy.BuiltIn(), protocol.PolicyInfo{Source: policyBuiltIn}
	switch {
	case p.Local != nil:
		inForce, info.Source = p.Local, policyFile
		if p.Broken != nil {
			info.Broken = sentence(p.Broken)
		}
	case p.Kept.Number > 0:
		info.Source = policyDocument
		var err error
		inForce, err = policy.Parse(fmt.Sprintf("policy %d", p.Kept.Number), p.Kept.Text)
		if err == nil {
			inForce = inForce.Guarding(p.Own...)
			err = inForce.Check(r.cfg.Host)
		}
		if err != nil { // it was taken by another version, or under another configuration
			err = fmt.Errorf("the policy of this host cannot be used by this version: %w", err)
			inForce, info.Broken = policy.Closed(err), sentence(err)
		}
	}
	r.store, r.kept = store, p.Kept
	r.enforce(inForce, info)
	if r.kept.FloorMS == 0 || r.kept.Store == r.store || p.Keep == nil {
		return nil
	}
	next := r.kept
	next.SinceMS = next.FloorMS
	return r.keep(next)
}

// enforce puts a policy into force, loudly if it can be bypassed or allows nothing.
func (r *Rights) enforce(p *policy.Policy, info protocol.PolicyInfo) {
	info.Number, info.Digest, info.Bypass = 0, p.Digest(), p.Bypass()
	if info.Source == policyDocument {
		info.Number = r.kept.Number
	}
	r.policy, r.info = p, info
	log := r.cfg.Log.With("source", info.Source, "number", info.Number, "digest", info.Digest.String())
	switch {
	case info.Broken != "":
		log.Error("the policy cannot be used; until it is mended only root on this host may request anything", "error", info.Broken)
	case info.Bypass:
		log.Warn("the policy in force can be bypassed: allow_bypass = true", "holes", len(p.Holes(r.cfg.Host)))
	default:
		log.Info("a policy is in force")
	}
	r.cfg.Changed()
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

// Allowed holds an order against the policy in force. What it returns is nil, a
// final refusal, or [queue.ErrDisk] if what was learnt could not be kept: then
// the order is not taken in.
func (r *Rights) Allowed(id protocol.ActionID, spec *protocol.Spec, o *queue.Order, approvals []protocol.OrderApproval) error {
	if spec.Kind == protocol.KindPolicySet {
		_, err := r.admitPolicy(spec)
		return err
	}
	if strings.HasPrefix(o.Requester, localNames) {
		r.Unapproved.Add(1)
		return fmt.Errorf("%w: the coordinator cannot speak for %.70q, a user of this host", protocol.ErrNotApproved, o.Requester)
	}
	need := r.policy.Needs(r.request(spec, o.Requester))
	o.Within = within(spec, need)
	if spec.Secret() != nil && !spec.Secret().Named() && need.Approvals > 0 {
		r.Unapproved.Add(1)
		return fmt.Errorf("%w: secret_env does not say which variables it sets, so it is unknown what was approved; request it with a newer hostler", protocol.ErrNotApproved)
	}
	clock := policy.Clock{WallMS: r.cfg.Loop.WallMS(), FloorMS: r.kept.FloorMS, SinceMS: r.kept.SinceMS}
	if len(approvals) > 0 {
		used, err := r.cfg.UsedMS(r.cfg.Loop.Steps())
		if err != nil {
			return fmt.Errorf("%w: %w", queue.ErrDisk, err)
		}
		if used <= clock.Now() { // one ahead is from before the owners have reset the floor
			clock.SinceMS = max(clock.SinceMS, used)
		}
	}
	v := need.Judge(policy.Order{
		Spec: o.Spec, Target: protocol.Target{Host: r.cfg.Host, Action: id}, Approvals: approvals,
	}, r.documents(), clock)
	if err := r.raiseFloor(v.FloorMS); err != nil {
		return err
	}
	if v.Err != nil {
		r.Unapproved.Add(1)
	} else if len(v.Persons) > 0 {
		o.Approved, o.ApprovedMS = v.Persons, r.kept.FloorMS
	}
	return v.Err
}

// within are the directories to which a policy holds what it lets in: nil where
// nothing is moved.
func within(spec *protocol.Spec, need policy.Need) []string {
	if spec.Files() == nil {
		return nil
	}
	return append([]string{}, need.Within...)
}

// AllowedHere holds a request of the host's own people against the policy: root
// needs no approval, and other users have none to show.
func (r *Rights) AllowedHere(spec *protocol.Spec, o *queue.Order) error {
	if spec.Kind == protocol.KindPolicySet {
		_, err := r.admitPolicy(spec)
		return err
	}
	need := r.policy.Needs(r.request(spec, o.Requester))
	o.Within = within(spec, need)
	if o.Requester == LocalRoot || o.Requester == queue.BySchedule || need.None() {
		return nil
	}
	r.Unapproved.Add(1)
	return fmt.Errorf("%w: %s needs %s; ask root of this host, or request it through the coordinator", protocol.ErrNotApproved, spec.Kind, need)
}

func (r *Rights) request(spec *protocol.Spec, requester string) policy.Request {
	return policy.Request{Host: r.cfg.Host, Spec: spec, Requester: requester}
}

// documents is what approvals and policies are opened with.
func (r *Rights) documents() protocol.Expect {
	x := protocol.Expect{Fleet: r.cfg.Fleet, FleetName: r.cfg.FleetName, Keys: noKeys{}}
	if r.cfg.Trust != nil {
		x.Keys, x.Ring = r.cfg.Trust.Keyring(), r.cfg.Trust.Ring()
	}
	return x
}

// noKeys is the ring of a host without a fleet.
type noKeys struct{}

// Principal knows no key.
func (noKeys) Principal(protocol.KeyID) (protocol.Principal, bool) {
	return protocol.Principal{}, false
}

// Told is the text of the policy in force as the coordinator may have it;
// empty if there is none, or if it is too long to travel.
func (r *Rights) Told() []byte {
	text := r.policy.Text()
	if len(text) > protocol.MaxToldPolicy {
		return nil
	}
	return text
}

// raiseFloor keeps the newest date that was verified, before anything is done
// on the strength of it.
func (r *Rights) raiseFloor(ms int64) error {
	if ms <= r.kept.FloorMS {
		return nil
	}
	next := r.kept
	next.FloorMS = ms
	return r.keep(next)
}

// resetFloor takes the date of a document of the owners for the newest one, also if
// it is older than the floor: approvals of a stolen key may have raised that.
func (r *Rights) resetFloor(ms int64) error {
	next := r.kept
	if next.FloorMS = ms; next.SinceMS > max(ms, r.cfg.Loop.WallMS()) {
		next.SinceMS = ms
	}
	if next.FloorMS == r.kept.FloorMS && next.SinceMS == r.kept.SinceMS {
		return nil
	}
	return r.keep(next)
}

func (r *Rights) keep(next Record) error {
	next.Store = r.store
	if err := r.cfg.Policies.Keep(next); err != nil {
		return fmt.Errorf("storing the state of the policy: %w: %w", queue.ErrDisk, err)
	}
	r.kept = next
	return nil
}
