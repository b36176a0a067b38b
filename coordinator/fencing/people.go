package fencing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/protocol"
)

// Request is what a person wants of a host.
type Request struct {
	Host   protocol.HostID
	Action fence.Action // off or reboot; empty is what the policy says
	Reason string
	// Tolerance is how old a fence may be that counts as this one.
	Tolerance time.Duration
}

const maxReason = 500

// Fence has a host switched off by its devices, also if the coordinator would not do so by
// itself: a request of a person releases what was held back. An equal request that is under
// way is returned instead of another.
func (r *Room) Fence(ctx context.Context, by core.Actor, q Request) (fence.Op, error) {
	if q.Action == "" {
		q.Action = r.cfg.Policy.Action
	}
	if q.Action != fence.ActionOff && q.Action != fence.ActionReboot {
		return fence.Op{}, fmt.Errorf("%w: action %.20q: use off or reboot", core.ErrInvalid, q.Action)
	}
	return r.request(ctx, by, q)
}

// Unfence has a host switched on again, if devices can do that, and lets it in: what it
// held may run there again. One that is heard is not switched, it is let in at once.
func (r *Room) Unfence(ctx context.Context, by core.Actor, q Request) (fence.Op, error) {
	q.Action = fence.ActionUnfence
	if err := r.allow(ctx, by, q); err != nil {
		return fence.Op{}, err
	}
	if r.heardNow(q.Host) {
		return admitAll(ctx, r, by, q.Host)
	}
	return r.request(ctx, by, q)
}

// admitAll ends all operations that keep a host closed, and returns the newest of them.
func admitAll(ctx context.Context, r *Room, by core.Actor, host protocol.HostID) (newest fence.Op, err error) {
	for _, o := range r.Ops() {
		if o.Host != host || !o.Closes() {
			continue
		}
		if !o.State.Ended() {
			return newest, fmt.Errorf("%w: host %s is being fenced; wait until that has ended: hostler fence history", core.ErrConflict, host)
		}
		if err := r.admit(ctx, by, o); err != nil {
			return newest, err
		}
		if o.ReturnedMS = r.base.NowMS(); newest.ID == "" {
			newest = o
		}
	}
	if newest.ID == "" {
		return newest, fmt.Errorf("%w: host %s is heard, and nothing is kept from it", core.ErrConflict, host)
	}
	return newest, nil
}

// allow refuses a request that is not the actor's to make, or that makes no sense.
func (r *Room) allow(ctx context.Context, by core.Actor, q Request) error {
	if err := r.base.Allow(by, core.RoleAdmin, "fence hosts"); err != nil {
		return err
	}
	if len(q.Reason) > maxReason {
		return fmt.Errorf("%w: the reason has more than %d bytes", core.ErrInvalid, maxReason)
	}
	return known(ctx, r.base, q.Host)
}

// known refuses what is no host of the fleet.
func known(ctx context.Context, base *core.Base, host protocol.HostID) error {
	_, err := core.Read(ctx, base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Standing(host) })
	if errors.Is(err, core.ErrNotFound) {
		return fmt.Errorf("host %.63q: %w", host, core.ErrUnknownHost)
	}
	return err
}

func (r *Room) request(ctx context.Context, by core.Actor, q Request) (fence.Op, error) {
	if err := r.allow(ctx, by, q); err != nil {
		return fence.Op{}, err
	}
	// Of two equal requests the second one finds the operation of the first.
	r.requesting.Lock()
	defer r.requesting.Unlock()
	if o, ok := fence.Same(r.Ops(), q.Host, q.Action, q.Tolerance, r.base.NowMS()); ok {
		return o, nil
	}
	if len(fence.Plan(r.Devices(), q.Host)) == 0 {
		return fence.Op{}, fmt.Errorf("%w: %s", core.ErrConflict, r.noDevice(q.Host))
	}
	host, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(q.Host) })
	if err != nil {
		return fence.Op{}, err
	}
	o := fence.Op{Host: q.Host, Site: siteOf(host), Action: q.Action, Cause: fence.CausePerson, Reason: q.Reason}
	for _, d := range r.Held() {
		if d.Host == q.Host {
			o.Evidence, o.Work = append(d.Evidence, "it was held back: "+d.Held), d.Work
		}
	}
	c, err := r.begin(ctx, by, o)
	if err != nil {
		return fence.Op{}, err
	}
	if !c.op.State.Ended() {
		select {
		case r.kick <- c:
		case <-r.base.Ctx.Done():
			return c.op, context.Cause(r.base.Ctx)
		}
	}
	return c.op, nil
}

// noDevice says why nothing can switch a host.
func (r *Room) noDevice(host protocol.HostID) string {
	why := ""
	for _, d := range r.Devices() {
		if t, ok := d.Target(host); ok && d.Usable(t) != "" {
			why = fmt.Sprintf("fence device %s is not used for host %s: %s; see: hostler fence device test %s", d.Name, host, d.Usable(t), d.Name)
		}
	}
	if why != "" {
		return why
	}
	return fmt.Sprintf("no fence device is configured for host %s; add one: hostler fence device add, or confirm that it is off: hostler host confirm-fenced %s", host, host)
}

// Op returns an operation by its id.
func (r *Room) Op(id string) (fence.Op, error) {
	for _, o := range r.Ops() {
		if o.ID == id {
			return o, nil
		}
	}
	return fence.Op{}, fmt.Errorf("fence %.63q: %w", id, core.ErrNotFound)
}

// Case returns the digest under which a person confirms that a host is off. It changes when
// the host is heard, and with each start of the coordinator, so that a confirmation counts
// for one silence only.
func (r *Room) Case(host protocol.HostID) (protocol.Digest, time.Duration, error) {
	heard, _, _ := r.cfg.Workloads.Heard(host)
	silent := time.Duration(-1)
	if heard > 0 {
		if silent = time.Duration(r.base.Boot()-heard) * time.Millisecond; silent < r.cfg.TTL {
			return protocol.Digest{}, silent, fmt.Errorf("%w: host %s was heard %s ago, so it is not off", core.ErrConflict, host, silent.Round(time.Second))
		}
	}
	return protocol.Sum(fmt.Appendf(nil, "hostler-case-1\n%s\n%s\n%d\n", r.cfg.Term, host, heard)), silent, nil
}

// Confirm takes the word of a person that a host is off, signed by an approver's key. The
// same bytes once more give the operation that they have made.
func (r *Room) Confirm(ctx context.Context, by core.Actor, host protocol.HostID, signed []byte) (fence.Op, error) {
	if err := r.base.Allow(by, core.RoleApprover, "confirm that hosts are off"); err != nil {
		return fence.Op{}, err
	}
	if err := known(ctx, r.base, host); err != nil {
		return fence.Op{}, err
	}
	doc, who, err := protocol.OpenFenced(signed, protocol.Expect{Fleet: r.base.Fleet, FleetName: r.base.FleetName, Keys: r.base.Keys})
	switch {
	case errors.Is(err, protocol.ErrUnknownKey), errors.Is(err, protocol.ErrRole):
		return fence.Op{}, fmt.Errorf("%w: the confirmation: %w: ring %d has no approver with it; an owner lets one in: hostler fleet ring add-approver", core.ErrDenied, err, r.base.Keys.Ring())
	case errors.Is(err, protocol.ErrRevokedKey), errors.Is(err, protocol.ErrSignature), errors.Is(err, protocol.ErrFleet):
		return fence.Op{}, fmt.Errorf("%w: the confirmation: %w", core.ErrDenied, err)
	case err != nil:
		return fence.Op{}, fmt.Errorf("%w: the confirmation: %w", core.ErrInvalid, err)
	case doc.Host != host:
		return fence.Op{}, fmt.Errorf("%w: the confirmation is about host %s", core.ErrInvalid, doc.Host)
	case doc.Ring > r.base.Keys.Ring():
		return fence.Op{}, fmt.Errorf("%w: the confirmation is of ring %d, ring %d is in force here; first: hostler fleet ring publish", core.ErrConflict, doc.Ring, r.base.Keys.Ring())
	}
	r.requesting.Lock()
	defer r.requesting.Unlock()
	for _, o := range r.Ops() {
		if o.Host == host && o.State == fence.Done && bytes.Equal(o.Signed, signed) {
			return o, nil
		}
	}
	silent, err := still(r, host, doc.Case)
	if err != nil {
		return fence.Op{}, err
	}
	now := r.base.NowMS()
	evidence := "host " + string(host) + " was not heard since the coordinator started"
	if silent >= 0 {
		evidence = fmt.Sprintf("host %s was silent for %s", host, silent.Round(time.Second))
	}
	o := fence.Op{
		ID: r.base.NewActionID(now).String(), Host: host, Action: fence.ActionConfirm, Cause: fence.CausePerson, By: "person:" + who.Person, Reason: doc.Reason,
		Evidence: []string{evidence}, State: fence.Confirming, BegunMS: now, Signed: signed,
	}
	// From here on the host is granted nothing. It may have been heard, and granted
	// something, a moment before: then the confirmation is about a silence that is over.
	if err := r.store(ctx, by, o); err != nil {
		return o, err
	}
	if _, err := still(r, host, doc.Case); err != nil {
		return o, errors.Join(err, r.store(ctx, by, o.GiveUp(r.base.NowMS(), "the host was heard meanwhile")))
	}
	o.State, o.EndedMS, o.Proof = fence.Done, r.base.NowMS(), who.Person+" has signed that it is off"
	return o, r.store(ctx, by, o)
}

// still refuses a confirmation whose case is over. It returns how long the host is silent;
// negative if it was not heard since the process began.
func still(r *Room, host protocol.HostID, signed protocol.Digest) (time.Duration, error) {
	want, silent, err := r.Case(host)
	if err == nil && signed != want {
		err = fmt.Errorf("%w: host %s was heard since the confirmation was begun, or the coordinator was restarted: look again, and sign again", core.ErrChanged, host)
	}
	return silent, err
}
