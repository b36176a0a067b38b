package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/protocol/contract"
)

// Request asks for an action.
type Request struct {
	ID    protocol.ActionID // made by the requester; zero lets the coordinator make it
	Host  protocol.HostID
	Spec  []byte           // see protocol.Spec
	Batch protocol.BatchID // what it is asked for together with; zero if it is alone
	// Place has the coordinator choose the host of a container that is created: Host is
	// empty then. Wants is what the container asks of hosts, now and later.
	Place bool
	Wants placement.Wants
}

// Propose writes an action down and sends it on its way if its host is there.
// The same request under the same id again is answered with what it became;
// another one under that id is [core.ErrConflict]. What the action reads must be here, unless
// it is refused in any case: so it is not sent in vain.
func (r *Room) Propose(ctx context.Context, by core.Actor, req Request) (core.Action, error) {
	if err := r.mayPropose(by); err != nil {
		return core.Action{}, err
	}
	return r.propose(ctx, by, req)
}

// ProposeSelf is Propose of what follows from a decision of the coordinator itself.
func (r *Room) ProposeSelf(ctx context.Context, host protocol.HostID, spec []byte) (core.Action, error) {
	if err := r.base.MayDecide(); err != nil {
		return core.Action{}, err
	}
	return r.propose(ctx, core.Self(), Request{Host: host, Spec: spec})
}

func (r *Room) propose(ctx context.Context, by core.Actor, req Request) (core.Action, error) {
	p, err := r.proposal(ctx, by, req)
	if err != nil {
		return core.Action{}, err
	}
	missing := r.cfg.Payloads.Has(by, p.spec)
	err = r.base.Update(ctx, failpoint.OrderNumbered, func(tx core.Tx) error {
		switch err := r.enter(tx, by, p); {
		case err != nil:
			return err
		case p.refused != nil:
			return p.refused
		case p.old:
			return nil
		}
		return missing
	})
	if err != nil {
		return core.Action{}, err
	}
	r.entered(p)
	return p.a, nil
}

// Reissue asks anew, under a new id, for what an action was to do whose host had
// another one of its id. Given the same new id again it is the same action.
func (r *Room) Reissue(ctx context.Context, by core.Actor, id, as protocol.ActionID) (core.Action, error) {
	a, err := r.Get(ctx, id)
	switch {
	case err != nil:
		return core.Action{}, err
	case a.Conflict == nil:
		return core.Action{}, fmt.Errorf("%w: nothing else was asked for as action %s", core.ErrConflict, id)
	case as == id:
		return core.Action{}, fmt.Errorf("%w: action %s cannot be issued again as itself", core.ErrInvalid, id)
	}
	return r.Propose(ctx, by, Request{ID: as, Host: a.Host, Spec: a.Conflict})
}

func (r *Room) mayPropose(by core.Actor) error {
	if err := by.May(core.RoleOperator, "request actions"); err != nil {
		return err
	}
	return r.base.MayDecide()
}

// draft makes the part of an action that does not depend on its host. It is in
// no state yet.
func (r *Room) draft(by core.Actor, spec []byte) (core.Action, *protocol.Spec, error) {
	s, err := protocol.DecodeRequest(spec)
	if err != nil {
		return core.Action{}, nil, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	if info, _ := protocol.KindOf(s.Kind); info.Admin && by != core.Self() {
		if err := by.May(core.RoleAdmin, "request a "+string(s.Kind)); err != nil {
			return core.Action{}, nil, err
		}
	}
	if s.Kind == protocol.KindPolicySet {
		if err := r.cfg.Policies.CheckDate(&s); err != nil {
			return core.Action{}, nil, err
		}
	}
	now := r.base.NowMS()
	return core.Action{
		Kind: s.Kind, Target: s.Target, Name: s.Name,
		Spec: spec, Digest: protocol.Sum(spec), Requester: by.Name, CreatedMS: now, UpdatedMS: now,
	}, &s, nil
}

// proposal drafts the one action that is asked for.
func (r *Room) proposal(ctx context.Context, by core.Actor, req Request) (*proposal, error) {
	a, spec, err := r.draft(by, req.Spec)
	if err != nil {
		return nil, err
	}
	if err := mayWish(req, spec); err != nil {
		return nil, err
	}
	if req.Place {
		if req.Host, err = r.place(ctx, req); err != nil {
			return nil, err
		}
	}
	a.ID, a.Host, a.Batch = req.ID, req.Host, req.Batch
	if a.ID.IsZero() {
		a.ID = r.base.NewActionID(a.CreatedMS)
	}
	p := &proposal{want: a, spec: spec, wants: req.Wants}
	p.misnamed, err = r.misnamed(ctx, a.Host, spec)
	return p, err
}

// mayWish refuses wishes about hosts that nothing would ever read. Every container can be
// placed when it is created; only unique ones are placed again later.
func mayWish(req Request, spec *protocol.Spec) error {
	args, creates := spec.Args.(*protocol.CreateArgs)
	switch {
	case !req.Place && !req.Wants.Any() || creates && (req.Place || args.Class == contract.Unique):
		return nil
	case creates:
		return fmt.Errorf("%w: wishes about hosts were given, and host %.63q as well: only a unique container is placed again later; leave out one of both", core.ErrInvalid, req.Host)
	}
	return fmt.Errorf("%w: only the creation of a container can be placed, or have wishes about hosts; name its host and leave the wishes out", core.ErrInvalid)
}

// place returns the host of a request that names none. The same request again stays where
// it was placed.
func (r *Room) place(ctx context.Context, req Request) (protocol.HostID, error) {
	if old, err := r.Get(ctx, req.ID); err == nil {
		return old.Host, nil
	}
	return r.cfg.Workloads.Choose(ctx, req.Spec, req.Wants)
}

// proposal is an action on its way into the store.
type proposal struct {
	want    core.Action // as it is asked for
	spec    *protocol.Spec
	wants   placement.Wants
	a       core.Action // as it stands in the store
	send    func()      // sends what was numbered, once that is durable; nil if nothing was
	old     bool        // it was entered before
	refused error       // what is wrong with this one; nothing of it was entered

	misnamed error // why it would be refused if it were new
}

// misnamed returns what speaks against the name of a spec: the host has told that
// its container is called otherwise. It is the id that counts there, and people
// read the name. What the host has not told of it judges itself.
func (r *Room) misnamed(ctx context.Context, id protocol.HostID, spec *protocol.Spec) (wrong, err error) {
	if info, _ := protocol.KindOf(spec.Kind); spec.Name == "" || spec.Target.IsZero() || info.Creates {
		return nil, nil
	}
	h, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(id) })
	if err != nil {
		if errors.Is(err, core.ErrNotFound) {
			return nil, nil // which is said of the host
		}
		return nil, err
	}
	for _, ct := range h.Inventory.Containers {
		if ct.CTID == spec.Target && ct.Name != string(spec.Name) {
			return fmt.Errorf("%w: container %s of host %s is called %q, not %q; find out which one is meant, and ask again: hostler ct ls", core.ErrConflict, spec.Target, id, ct.Name, spec.Name), nil
		}
	}
	return nil, nil
}

// enter adds an action within a transaction, which may run more than once, and
// gives it its number if its host is there. What is wrong with the request is
// left in refused; an error is that of the store.
func (r *Room) enter(tx core.Tx, by core.Actor, p *proposal) (err error) {
	p.send, p.old, p.refused = nil, false, nil
	k, err := r.look(tx, by, p)
	if err != nil {
		return err
	}
	var a core.Action
	if a, p.old, p.refused = begin(p.want, k, r.base.LifeMS()); p.old {
		p.a = a
	}
	if p.old || p.refused != nil {
		return nil
	}
	switch err := r.cfg.Workloads.Enter(tx, &a, p.spec, p.wants); {
	case errors.Is(err, core.ErrConflict), errors.Is(err, core.ErrInvalid):
		p.refused = err
		return nil
	case err != nil:
		return err
	}
	if a.State == protocol.StatePendingApprove {
		p.a = a
		return r.insert(tx, a, by)
	}
	if p.send, err = r.cfg.Dispatch.NumberNew(tx, &a); err != nil {
		return err
	}
	p.a = a
	if err := r.insert(tx, a, by); err != nil || p.send != nil {
		return err
	}
	p.send, err = r.cfg.Dispatch.Number(tx, a.Host)
	return err
}

// entered sends what became durable on its way.
func (r *Room) entered(p *proposal) {
	if p.old || p.refused != nil {
		return
	}
	r.cfg.Workloads.Entered(&p.a, p.spec, p.wants)
	if p.send != nil {
		p.send()
	}
	r.base.Wake.Fire(core.EventsKey{})
}

// Plan tells what [Room.Propose] would make of a request, and does
// nothing.
func (r *Room) Plan(ctx context.Context, by core.Actor, req Request) (a core.Action, err error) {
	if err := by.May(core.RoleOperator, "request actions"); err != nil {
		return core.Action{}, err
	}
	p, err := r.proposal(ctx, by, req)
	if err != nil {
		return core.Action{}, err
	}
	k, err := core.Read(ctx, r.base, func(tx core.Tx) (request, error) { return r.look(tx, by, p) })
	if err != nil {
		return core.Action{}, err
	}
	a, _, err = begin(p.want, k, r.base.LifeMS())
	return a, err
}

// look reads what is known when an action is asked for.
func (r *Room) look(tx core.Tx, by core.Actor, p *proposal) (k request, err error) {
	secret := p.spec.Secret()
	k.unnamed = secret != nil && !secret.Named()
	if h, err := tx.Hosts.Standing(p.want.Host); err == nil {
		k.host = &h
	} else if !errors.Is(err, core.ErrNotFound) {
		return k, err
	}
	if old, err := tx.Actions.Get(p.want.ID); err == nil {
		k.old = &old
	} else if !errors.Is(err, core.ErrNotFound) {
		return k, err
	}
	if k.needs, err = r.cfg.Policies.Needs(tx, by, p.want.Host, p.spec); err != nil && !errors.Is(err, core.ErrDenied) {
		return k, err
	}
	k.refused = cmp.Or(err, p.misnamed)
	return k, nil
}

// insert adds a new action within a transaction.
func (r *Room) insert(tx core.Tx, a core.Action, by core.Actor) error {
	if err := tx.Actions.Insert(a); err != nil {
		return err
	}
	record := audit.Record{Verb: "action.request", Host: a.Host, Object: a.ID.String(), Digest: a.Digest, Detail: requestDetail(a)}
	return cmp.Or(r.base.Record(tx, by, record), r.base.ActionEvent(tx, a, protocol.StateNone))
}

// Action returns an action.
func (r *Room) Get(ctx context.Context, id protocol.ActionID) (a core.Action, err error) {
	err = r.base.View(ctx, func(tx core.Tx) error {
		a, err = tx.Actions.Get(id)
		return err
	})
	if errors.Is(err, core.ErrNotFound) {
		err = r.cfg.Forgotten(id.String())
	}
	return a, err
}

// candidates is how many actions are named when a part of an id is that of more than
// one.
const candidates = 5

// Resolve returns the one action whose id begins or ends with part, which has at
// least four characters. Several are [core.ErrAmbiguous], with the candidates.
func (r *Room) Resolve(ctx context.Context, part string) (protocol.ActionID, error) {
	if id, err := protocol.ParseActionID(part); err == nil {
		_, err := r.Get(ctx, id)
		return id, err
	}
	if len(part) < 4 || len(part) > 36 || strings.Trim(part, "0123456789abcdef-") != "" {
		return protocol.ActionID{}, fmt.Errorf("%w: %.40q is not an action id: give at least its first or last 4 characters", core.ErrBadReference, part)
	}
	ids, err := core.Read(ctx, r.base, func(tx core.Tx) ([]protocol.ActionID, error) { return tx.Actions.Find(part, candidates+1) })
	switch {
	case err != nil:
		return protocol.ActionID{}, err
	case len(ids) == 0:
		return protocol.ActionID{}, r.cfg.Forgotten(part)
	case len(ids) > 1:
		which := make([]string, len(ids))
		for i, id := range ids {
			which[i] = id.String()
		}
		if len(ids) == candidates+1 {
			which[candidates] = "and others"
		}
		return protocol.ActionID{}, fmt.Errorf("%w: %s begins or ends the ids %s", core.ErrAmbiguous, part, strings.Join(which, ", "))
	}
	return ids[0], nil
}

// Actions returns actions, the newest first.
func (r *Room) List(ctx context.Context, f core.ActionFilter) ([]core.Action, error) {
	return core.Read(ctx, r.base, func(tx core.Tx) ([]core.Action, error) { return tx.Actions.List(f) })
}

// NewActionID makes an id, for a caller that follows an action before it is
// proposed.
func (r *Room) NewActionID() protocol.ActionID { return r.base.NewActionID(r.base.NowMS()) }

// Following waits for the end of one action. It belongs to one goroutine.
type Following struct {
	r     *Room
	id    protocol.ActionID
	news  <-chan core.Action
	close func()
}

// Follow begins to follow an action, which may not exist yet.
func (r *Room) Follow(id protocol.ActionID) *Following {
	news, stop := r.base.News.Follow(id)
	return &Following{r, id, news, stop}
}

// Close ends it.
func (f *Following) Close() { f.close() }

// Wait returns the action as soon as it is final, or as it is when d has passed
// or ctx ended. a is what it was at any time after Follow.
func (f *Following) Wait(ctx context.Context, a core.Action, d time.Duration) (core.Action, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !a.State.Final() {
		select {
		case newer := <-f.news:
			if a = newer; !a.ID.IsZero() {
				continue
			}
			var err error
			if a, err = f.r.Get(ctx, f.id); err != nil {
				return a, err
			}
		case <-timer.C:
			return a, nil
		case <-ctx.Done():
			return a, nil
		}
	}
	return a, nil
}

// Cancel ends an action. One that was never numbered ends at once; of any
// other the host decides, and the answer is the action as it stands.
func (r *Room) Cancel(ctx context.Context, by core.Actor, id protocol.ActionID) (core.Action, error) {
	if err := r.base.Allow(by, core.RoleOperator, "cancel actions"); err != nil {
		return core.Action{}, err
	}
	var a core.Action
	var send func()
	err := r.base.Update(ctx, failpoint.CancelNumbered, func(tx core.Tx) (err error) {
		send = nil
		if a, err = tx.Actions.Get(id); err != nil || a.State.Final() {
			return err
		}
		if err := r.base.Record(tx, by, audit.Record{Verb: "action.cancel", Host: a.Host, Object: id.String()}); err != nil {
			return err
		}
		if a.Unnumbered() && (a.State == protocol.StatePendingSchedule || a.State == protocol.StatePendingApprove) {
			return r.base.Move(tx, &a, protocol.EventCancel)
		}
		if a.Cancelling && a.CancelBy != "" {
			return nil // the control is under way
		}
		a.Cancelling, a.CancelBy, a.UpdatedMS = true, by.Name, r.base.NowMS()
		if err := tx.Actions.Put(a); err != nil {
			return err
		}
		send, err = r.cfg.Dispatch.Control(tx, a.Host, protocol.ControlItem{Verb: protocol.VerbCancel, Action: id})
		return err
	})
	if err != nil {
		return core.Action{}, err
	}
	if send != nil {
		send()
	}
	r.base.Wake.Fire(id, core.EventsKey{})
	r.base.News.Ask(id)
	return a, nil
}

// requestDetail is what the audit log says of a request beside its digest: its command
// line, and for files which, and what they are.
func requestDetail(a core.Action) map[string]any {
	d := map[string]any{"kind": string(a.Kind)}
	s, err := protocol.DecodeSpec(a.Spec)
	if err != nil {
		return d // an older kind; the digest says it all
	}
	audit.Asked(d, s.Process().Argv)
	if f := s.Files(); f != nil {
		d["paths"] = f.Paths
	}
	if s.HasPayload() {
		d["stdin_sha256"], d["stdin_bytes"] = s.Input().StdinSHA256.String(), s.Input().StdinBytes
	}
	return d
}
