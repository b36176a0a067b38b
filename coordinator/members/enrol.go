package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/ident"
)

// Bounds of what strangers can make the coordinator hold.
const (
	MaxPending   = 1000            // enrolments that wait for a person
	maxexchanges = 1024            // exchanges between begin and offer
	exchangeLife = 2 * time.Minute // of such an exchange
	// maxAnswerRings is how many bytes of rings go into an answer: a third more
	// as base64, which leaves half of enrol.MaxBody to the rest.
	maxAnswerRings = enrol.MaxBody * 3 / 8
	maxInviteTTL   = 30 * 24 * time.Hour
)

// exchanges are enrolments between their first and second request. They live
// in memory: after a restart the agent begins again.
type exchanges struct {
	mu   sync.Mutex
	open map[enrol.ExchangeID]exchange
}

type exchange struct {
	enrol.Exchange
	until int64 // boot clock, ms
}

func (e *exchanges) put(id enrol.ExchangeID, x exchange, now int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for old, o := range e.open {
		if o.until <= now {
			delete(e.open, old)
		}
	}
	if len(e.open) >= maxexchanges {
		return fmt.Errorf("%w: too many enrolments are under way; try again in a minute", core.ErrUnavailable)
	}
	if e.open == nil {
		e.open = make(map[enrol.ExchangeID]exchange)
	}
	e.open[id] = x
	return nil
}

// take removes and returns an exchange: an offer is made once.
func (e *exchanges) take(id enrol.ExchangeID, now int64) (exchange, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := e.open[id]
	delete(e.open, id)
	return x, ok && x.until > now
}

// Invite makes permission for one host to ask for enrolment, and the code that
// carries it. The code is not shown again.
func (r *Room) Invite(ctx context.Context, by core.Actor, ttl time.Duration, labels []string) (core.Invite, string, error) {
	if err := r.base.Allow(by, core.RoleApprover, "invite hosts"); err != nil {
		return core.Invite{}, "", err
	}
	if ttl < time.Second || ttl > maxInviteTTL {
		return core.Invite{}, "", fmt.Errorf("%w: an invite lives between 1s and 30d, not %s", core.ErrInvalid, ttl)
	}
	if err := checkLabels(labels); err != nil {
		return core.Invite{}, "", err
	}
	i, code, err := r.newInvite(by, ttl, labels)
	if err != nil {
		return core.Invite{}, "", err
	}
	err = r.base.Update(ctx, failpoint.InviteMade, func(tx core.Tx) error {
		return cmp.Or(
			tx.Enrolments.PutInvite(i),
			r.base.Audit(tx, by, "host.invite", i.ID, map[string]any{"ttl": ttl.String(), "labels": labels}),
		)
	})
	return i, code, err
}

// newInvite makes a code, and the invite that is behind it.
func (r *Room) newInvite(by core.Actor, ttl time.Duration, labels []string) (core.Invite, string, error) {
	var secret enrol.Secret
	r.base.Random(secret[:])
	number, digest := r.base.Keys.RingInForce()
	code, err := enrol.JoinCode{Addresses: r.cfg.Addresses, Pin: enrol.PinOf(number, digest), Secret: secret}.Encode()
	if err != nil {
		return core.Invite{}, "", fmt.Errorf("make the join code: %w", err)
	}
	now := r.base.LifeMS()
	return core.Invite{
		ID: secret.ID().String(), Secret: secret[:], Labels: labels, CreatedMS: now, CreatedBy: by.Name, ExpiresMS: now + ttl.Milliseconds(),
	}, code, nil
}

// checkLabels accepts K=V, each K once, and nothing that a selector cannot name.
func checkLabels(labels []string) error {
	seen := make(map[string]bool)
	for _, l := range labels {
		k, _, ok := strings.Cut(l, "=")
		if !ok || k == "" || len(l) > 256 || seen[k] {
			return fmt.Errorf("%w: label %.60q: want NAME=VALUE, each name once", core.ErrInvalid, l)
		}
		if !ident.Selectable(l) {
			return fmt.Errorf("%w: label %.60q: a label holds no comma and no line break, and its value begins with no =", core.ErrInvalid, l)
		}
		seen[k] = true
	}
	return nil
}

// BeginEnrolment answers the first request of a host: from here on it is bound
// to the offer that it committed to.
func (r *Room) BeginEnrolment(_ context.Context, req enrol.BeginRequest) (enrol.BeginResponse, error) {
	if err := r.base.MayDecide(); err != nil {
		return enrol.BeginResponse{}, err
	}
	key, err := r.cfg.HostKeys.ParseHostKey(req.HostKey)
	if err != nil {
		return enrol.BeginResponse{}, fmt.Errorf("%w: the host's key: %w", core.ErrInvalid, err)
	}
	raw, primary := r.base.Keys.Own()
	number, digest := r.base.Keys.RingInForce()
	x := exchange{
		Exchange: enrol.Exchange{
			Fleet: r.base.Fleet, Invite: req.Invite, Commit: req.Commit, HostKey: key, HostKeyRaw: req.HostKey,
			Ring: digest, Coordinator: primary,
		},
		until: r.base.Boot() + exchangeLife.Milliseconds(),
	}
	var id enrol.ExchangeID
	r.base.Random(id[:])
	r.base.Random(x.NonceC[:])
	if err := r.exchanges.put(id, x, r.base.Boot()); err != nil {
		return enrol.BeginResponse{}, err
	}
	return enrol.BeginResponse{Exchange: id, NonceC: x.NonceC[:], CoordinatorKey: raw, Ring: number}, nil
}

// OfferEnrolment takes the offer and the proof of the code's secret. A proof
// that fails is counted durably before it is answered.
// from is the address of the host, by which a rule may approve it.
func (r *Room) OfferEnrolment(ctx context.Context, from netip.Addr, req enrol.OfferRequest) (enrol.StateResponse, error) {
	x, ok := r.exchanges.take(req.Exchange, r.base.Boot())
	if !ok {
		return enrol.StateResponse{}, fmt.Errorf("%w: this enrolment was interrupted; begin again", core.ErrGone)
	}
	offer, transcript, err := x.Reveal(req)
	if err != nil {
		return enrol.StateResponse{}, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	words := enrol.Words(transcript)
	e := core.Enrolment{
		ID: req.Exchange.String(), Invite: x.Invite.String(), Host: offer.Host, Key: x.HostKey.Key(), PublicKey: x.HostKeyRaw,
		CSR: offer.CSR, Offer: req.Offer, Words: strings.Join(words[:], " "), State: core.EnrolmentPending, CreatedMS: r.base.NowMS(),
	}
	var refused error
	err = r.base.Update(ctx, failpoint.ProofJudged, func(tx core.Tx) (err error) {
		refused = nil
		i, err := tx.Enrolments.Invite(e.Invite)
		if errors.Is(err, core.ErrNotFound) {
			refused = enrol.ErrProof // a guesser does not learn which codes exist
			return nil
		}
		if err != nil {
			return err
		}
		now, expires := r.base.LifeMS(), i.ExpiresMS
		if core.Over(i.CreatedMS, expires, now) || i.CreatedMS <= r.cfg.Others.RecoveredMS() {
			expires = now
		}
		judged, refusal := enrol.Invite{
			Secret: enrol.Secret(i.Secret), Expires: expires, Bound: i.BoundKey, Wrong: i.Wrong,
		}.Judge(now, e.Key, transcript, req.Proof)
		if refusal != nil {
			refused = refusal
			if judged.Wrong == i.Wrong && !errors.Is(refusal, enrol.ErrUsed) {
				return nil // who goes on guessing fills no disk
			}
			i.Wrong = judged.Wrong
			return cmp.Or(
				tx.Enrolments.PutInvite(i),
				r.base.Audit(tx, core.Actor{Name: "host:" + string(e.Host)}, "host.proof_refused", i.ID, map[string]any{"reason": refusal.Error(), "wrong": i.Wrong}),
			)
		}
		if refused = isFor(i, e.Host, r.wasRevoked(e.Key)); refused != nil {
			return nil // who joins anew, and rightly, can still use it
		}
		i.BoundKey = judged.Bound
		if err := tx.Enrolments.PutInvite(i); err != nil {
			return err
		}
		e.Labels = i.Labels
		return r.admit(tx, &e)
	})
	switch {
	case err != nil:
		return enrol.StateResponse{}, err
	case refused != nil:
		return enrol.StateResponse{}, fmt.Errorf("%w: %w", core.ErrDenied, refused)
	}
	if e.State == core.EnrolmentApproved {
		if err := r.believe(ctx, e.Host); err != nil {
			return enrol.StateResponse{}, err
		}
	}
	r.base.Wake.Fire(core.EventsKey{})
	return r.answerOrApprove(ctx, e, from)
}

// answerOrApprove tells a host where its enrolment stands, after the rules had their say.
func (r *Room) answerOrApprove(ctx context.Context, e core.Enrolment, from netip.Addr) (enrol.StateResponse, error) {
	e, err := r.approveByRule(ctx, e, from)
	if err != nil {
		return enrol.StateResponse{}, err
	}
	return r.enrolmentAnswer(ctx, e)
}

// admit adds a proven enrolment. A host that comes back with the key under
// which it was approved needs nobody's word again.
func (r *Room) admit(tx core.Tx, e *core.Enrolment) error {
	h, err := tx.Hosts.Get(e.Host)
	switch {
	case err == nil && h.Key == e.Key && h.State == core.HostApproved:
		e.State, e.DecidedMS, e.DecidedBy = core.EnrolmentApproved, r.base.NowMS(), h.ApprovedBy
		if len(h.CSR) > 0 {
			h.CSR = e.CSR
			if err := tx.Hosts.Put(h); err != nil {
				return err
			}
		}
		return tx.Enrolments.Put(*e)
	case err == nil:
		if err := mayTake(h, e); err != nil {
			return err
		}
		e.Labels = h.Labels
	case !errors.Is(err, core.ErrNotFound):
		return err
	}
	old, err := tx.Enrolments.ByKey(e.Key)
	switch {
	case err == nil && old.State == core.EnrolmentPending:
		old.State, old.Reason, old.DecidedMS = core.EnrolmentDenied, "the host asked again", r.base.NowMS()
		if err := tx.Enrolments.Put(old); err != nil {
			return err
		}
	case err != nil && !errors.Is(err, core.ErrNotFound):
		return err
	}
	waiting, err := tx.Enrolments.List(core.EnrolmentPending, MaxPending)
	if err != nil {
		return err
	}
	if len(waiting) >= MaxPending {
		return fmt.Errorf("%w: %d hosts wait for approval already", core.ErrUnavailable, len(waiting))
	}
	return cmp.Or(tx.Enrolments.Put(*e), r.base.Event(tx, "host.pending", e.Host, e.ID, map[string]any{"words": e.Words}))
}

// EnrolmentState answers a host that asks what became of its enrolment, from an address.
func (r *Room) EnrolmentState(ctx context.Context, from netip.Addr, req enrol.StateRequest) (enrol.StateResponse, error) {
	e, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Enrolment, error) { return tx.Enrolments.Get(req.Exchange.String()) })
	if err != nil {
		return enrol.StateResponse{}, fmt.Errorf("enrolment: %w; begin again", err)
	}
	key, err := r.cfg.HostKeys.ParseHostKey(e.PublicKey)
	if err != nil {
		return enrol.StateResponse{}, fmt.Errorf("key of enrolment %s: %w", e.ID, err)
	}
	if err := enrol.CheckSigned(key, req.Sig, enrol.StateStatement(r.base.Fleet, req.Exchange)); err != nil {
		return enrol.StateResponse{}, fmt.Errorf("%w: %w", core.ErrDenied, err)
	}
	return r.answerOrApprove(ctx, e, from)
}

// enrolmentAnswer tells a host where its enrolment stands. An approved one
// gets its certificate, anew when the old one ages.
func (r *Room) enrolmentAnswer(ctx context.Context, e core.Enrolment) (enrol.StateResponse, error) {
	a := enrol.StateResponse{State: enrol.State(e.State), Reason: e.Reason, Host: e.Host}
	if e.State != core.EnrolmentApproved {
		return a, nil
	}
	h, err := r.Host(ctx, e.Host)
	if err != nil {
		return a, err
	}
	switch {
	case h.Key != e.Key:
		a.State, a.Reason = enrol.Revoked, "another machine has taken its place"
		return a, nil
	case h.State != core.HostApproved:
		a.State, a.Reason = enrol.Revoked, h.Host.Reason
		return a, nil
	}
	if !r.cfg.Authority.Current(e.Certificate) {
		cert, err := r.cfg.Authority.IssueHost(e.Host, e.CSR)
		if err != nil {
			return a, fmt.Errorf("certificate of host %s: %w", e.Host, err)
		}
		e.Certificate = cert
		if err := r.base.Update(ctx, failpoint.HostDecided, func(tx core.Tx) error { return tx.Enrolments.Put(e) }); err != nil {
			return a, err
		}
	}
	a.Fleet, a.FleetName, a.Certificate, a.CA = r.base.Fleet, r.base.FleetName, e.Certificate, r.cfg.Authority.CA()
	a.Brokers = r.cfg.BrokerAddresses
	// A host that lacks one of many rings fetches it when something needs it.
	if rings := r.cfg.Rings(0); len(rings) <= maxAnswerRings {
		a.Rings = rings
	}
	return a, nil
}

// Enrolments returns enrolments in a state, all if empty, the oldest first.
func (r *Room) Enrolments(ctx context.Context, state core.EnrolmentState) ([]core.Enrolment, error) {
	return core.Read(ctx, r.base, func(tx core.Tx) ([]core.Enrolment, error) { return tx.Enrolments.List(state, MaxPending) })
}

// FindEnrolment returns the pending enrolment of a host by its id, or any by
// its own id. Two that want one name are [core.ErrConflict]: the caller must look at
// them.
func (r *Room) FindEnrolment(ctx context.Context, ref string) (core.Enrolment, error) {
	var found []core.Enrolment
	err := r.base.View(ctx, func(tx core.Tx) error {
		found = nil
		e, err := tx.Enrolments.Get(ref)
		if err == nil {
			found = append(found, e)
			return nil
		}
		if !errors.Is(err, core.ErrNotFound) {
			return err
		}
		// What waits hides what was decided before, of which there may be any
		// number.
		for _, state := range []core.EnrolmentState{core.EnrolmentPending, ""} {
			all, err := tx.Enrolments.List(state, MaxPending)
			if err != nil {
				return err
			}
			for _, e := range all {
				if string(e.Host) == ref && (state != "" || len(found) == 0) {
					found = append(found, e)
				}
			}
			if len(found) > 0 {
				break
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return core.Enrolment{}, err
	case len(found) == 0:
		return core.Enrolment{}, fmt.Errorf("enrolment of host %.70q: %w", ref, core.ErrNotFound)
	case len(found) > 1:
		ids := make([]string, 0, len(found))
		for _, e := range found {
			ids = append(ids, fmt.Sprintf("%s (%s)", e.ID, e.Words))
		}
		return core.Enrolment{}, fmt.Errorf("%w: %d hosts want the name %s; name one by its id: %s", core.ErrConflict, len(found), ref, strings.Join(ids, ", "))
	}
	return found[0], nil
}

// ApproveEnrolment makes a host a member of the fleet. words, if given, must be
// those of the enrolment.
func (r *Room) ApproveEnrolment(ctx context.Context, by core.Actor, ref, words string) (core.Enrolment, error) {
	if err := r.base.Allow(by, core.RoleApprover, "approve hosts"); err != nil {
		return core.Enrolment{}, err
	}
	e, err := r.FindEnrolment(ctx, ref)
	if err != nil {
		return core.Enrolment{}, err
	}
	if words != "" && strings.Join(strings.Fields(words), " ") != e.Words {
		return core.Enrolment{}, fmt.Errorf("%w: the words of this enrolment are %q: compare with the host's screen again; if the words differ, someone is intercepting the connection", core.ErrConflict, e.Words)
	}
	return r.letIn(ctx, by, e, func(core.Tx, map[string]any) error { return nil })
}

// letIn makes a host a member. also is what belongs into the same transaction; it may add
// to what the audit log and watchers are told.
func (r *Room) letIn(ctx context.Context, by core.Actor, e core.Enrolment, also func(tx core.Tx, detail map[string]any) error) (core.Enrolment, error) {
	cert, err := r.cfg.Authority.IssueHost(e.Host, e.CSR)
	if err != nil {
		return core.Enrolment{}, fmt.Errorf("%w: the certificate request of host %s: %w", core.ErrInvalid, e.Host, err)
	}
	var h core.Host
	err = r.base.Update(ctx, failpoint.HostDecided, func(tx core.Tx) (err error) {
		if e, err = tx.Enrolments.Get(e.ID); err != nil {
			return err
		}
		if e.State != core.EnrolmentPending {
			return fmt.Errorf("%w: the enrolment of host %s is %s; let the host join again", core.ErrConflict, e.Host, e.State)
		}
		detail := map[string]any{}
		if err := also(tx, detail); err != nil {
			return err
		}
		told := maps.Clone(detail)
		told["by"] = by.LogName()
		now := r.base.NowMS()
		if h, err = r.welcomed(tx, &e); err != nil {
			return err
		}
		h.State, h.Key, h.PublicKey, h.ApprovedMS, h.ApprovedBy = core.HostApproved, e.Key, e.PublicKey, now, by.Name
		e.State, e.DecidedMS, e.DecidedBy, e.Certificate = core.EnrolmentApproved, now, by.Name, cert
		if err := tx.Enrolments.Put(e); err != nil {
			return err
		}
		if err := tx.Hosts.Put(h); err != nil {
			return fmt.Errorf("host %s: %w", e.Host, err)
		}
		detail["enrolment"], detail["words"], detail["key"] = e.ID, e.Words, e.Key
		if len(h.Former) > 0 {
			detail["replaced"] = h.Former[len(h.Former)-1]
		}
		return cmp.Or(
			r.base.Audit(tx, by, "host.approve", string(e.Host), detail),
			r.base.Event(tx, "host.approved", e.Host, e.ID, told),
		)
	})
	if err != nil {
		return core.Enrolment{}, err
	}
	r.forgetMachine(e.Host) // of one that was there before; of others nothing is known
	if err := r.believe(ctx, e.Host); err != nil {
		return core.Enrolment{}, err
	}
	r.base.Wake.Fire(core.EventsKey{})
	return e, nil
}

// welcomed returns the host as which an enrolment is let in: a new one, or, of one
// whose machine was replaced, what does not belong to the machine.
func (r *Room) welcomed(tx core.Tx, e *core.Enrolment) (core.Host, error) {
	h, err := tx.Hosts.Get(e.Host)
	switch {
	case errors.Is(err, core.ErrNotFound):
		return core.Host{ID: e.Host, Labels: e.Labels}, nil
	case err != nil:
		return h, err
	case h.State != core.HostReplacing || e.Invite != h.Awaits:
		return h, fmt.Errorf("%w: a host named %s is a member already; deny this one and join it under another name", core.ErrExists, e.Host)
	}
	beginAnew(&h)
	h.RevokedMS, h.Reason, h.Awaits, h.CSR = 0, "", "", e.CSR
	return h, r.beginStreams(tx, h.ID)
}

// DenyEnrolment refuses a host, with a reason that it is told.
func (r *Room) DenyEnrolment(ctx context.Context, by core.Actor, ref, reason string) (core.Enrolment, error) {
	if err := by.May(core.RoleApprover, "deny hosts"); err != nil {
		return core.Enrolment{}, err
	}
	e, err := r.FindEnrolment(ctx, ref)
	if err != nil {
		return core.Enrolment{}, err
	}
	err = r.base.Update(ctx, failpoint.HostDecided, func(tx core.Tx) (err error) {
		if e, err = tx.Enrolments.Get(e.ID); err != nil {
			return err
		}
		if e.State != core.EnrolmentPending {
			return fmt.Errorf("%w: the enrolment of host %s is %s", core.ErrConflict, e.Host, e.State)
		}
		e.State, e.Reason, e.DecidedMS, e.DecidedBy = core.EnrolmentDenied, reason, r.base.NowMS(), by.Name
		return cmp.Or(
			tx.Enrolments.Put(e),
			r.base.Audit(tx, by, "host.deny", string(e.Host), map[string]any{"enrolment": e.ID, "reason": reason}),
			r.base.Event(tx, "host.denied", e.Host, e.ID, nil),
		)
	})
	r.base.Wake.Fire(core.EventsKey{})
	return e, err
}
