package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// A machine that is lost, or was installed anew, has neither the key nor the memory of
// the host that it was. Its name, its labels and what people wrote down about it go
// over to the machine that takes its place; its key, its place in the streams, what was
// asked of it and what it told of itself do not. That it is lost proves nothing about
// what ran on it: what it was asked and had not ended is LOST, not done again.

// Replacement is what became of a host whose machine is replaced, for who replaces it.
type Replacement struct {
	Host   core.Host
	Invite core.Invite
	Code   string
	// Unsent is how many actions had never been sent, Unknown how many may have run
	// or be running, and Unapproved how many waited for approval.
	Unsent, Unknown, Unapproved int
	// Containers are those that the machine told of last.
	Containers []protocol.Container
}

// Replace shuts the machine of a host out for ever, ends what was asked of it and has
// not ended, and makes the code by which another machine may ask for its name. Called
// again while none was let in it makes another code, and the one before ends.
func (r *Room) Replace(ctx context.Context, by core.Actor, id protocol.HostID, ttl time.Duration, reason string) (Replacement, error) {
	if err := r.base.Allow(by, core.RoleAdmin, "replace hosts"); err != nil {
		return Replacement{}, err
	}
	if ttl < time.Second || ttl > maxInviteTTL {
		return Replacement{}, fmt.Errorf("%w: a code lives between 1s and 30d, not %s", core.ErrInvalid, ttl)
	}
	invite, code, err := r.newInvite(by, ttl, nil)
	if err != nil {
		return Replacement{}, err
	}
	invite.Host = id
	var done Replacement
	err = r.base.Update(ctx, failpoint.HostReplaced, func(tx core.Tx) error {
		h, err := tx.Hosts.Get(id)
		if err != nil {
			return ofHost(id, err)
		}
		done = Replacement{Invite: invite, Code: code, Containers: h.Inventory.Containers}
		if h.Awaits != "" {
			if err := r.endInvite(tx, id, h.Awaits); err != nil {
				return err
			}
		}
		if err := done.end(r.base, tx, id); err != nil {
			return err
		}
		if !slices.Contains(h.Former, h.Key) {
			h.Former = append(h.Former, h.Key)
		}
		h.State, h.RevokedMS, h.Reason, h.Awaits = core.HostReplacing, r.base.NowMS(), "another machine takes its place", invite.ID
		if reason != "" {
			h.Reason += ": " + reason
		}
		beginAnew(&h)
		done.Host = h
		return cmp.Or(
			tx.Enrolments.PutInvite(invite),
			r.beginStreams(tx, id),
			r.keep(tx, by, h, "host.replace", "host.replacing", map[string]any{
				"reason": reason, "key": h.Key, "invite": invite.ID, "unsent": done.Unsent, "unknown": done.Unknown, "unapproved": done.Unapproved,
				"containers": len(done.Containers),
			}),
		)
	})
	if err != nil {
		return Replacement{}, err
	}
	r.shutOut(id, done.Host.Former...)
	r.base.Broker.Disconnect(san.Name{Kind: san.Host, ID: string(id)})
	r.forgetMachine(id)
	r.base.Wake.Fire(core.EventsKey{})
	r.base.News.AskAll()
	return done, nil
}

// beginAnew takes away what was known of a machine and says nothing about the next one.
func beginAnew(h *core.Host) {
	h.Quarantined, h.Store, h.AcceptSeq, h.Adopted, h.Inventory, h.CSR = "", protocol.StoreID{}, 0, protocol.Seq{}, core.Inventory{}, nil
}

// beginStreams begins all streams of a host anew. Nobody asks the machine before what
// it did, nor does its policy say what another one will agree to.
func (r *Room) beginStreams(tx core.Tx, id protocol.HostID) error {
	for _, name := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl, protocol.StreamReport, protocol.StreamAlert} {
		if err := tx.Streams.Free(id, name, math.MaxInt64); err != nil {
			return err
		}
		if err := tx.Streams.Put(core.StreamState{Host: id, Pos: protocol.Position{Stream: name}, Freed: protocol.Position{Stream: name}}); err != nil {
			return err
		}
	}
	return r.cfg.Others.Forget(tx, id)
}

// end ends what was asked of a machine and has not ended. Of each action it says what
// is known of it.
func (r *Replacement) end(base *core.Base, tx core.Tx, id protocol.HostID) error {
	return core.EachOpen(tx, id, func(a core.Action) error {
		switch {
		case a.State == protocol.StatePendingApprove:
			r.Unapproved++
			a.Detail = "it waited for approval, and was never sent"
		case a.State == protocol.StatePendingSchedule && a.Unnumbered():
			r.Unsent++
			a.Detail = "it was never sent"
		case a.State == protocol.StatePendingSchedule:
			r.Unknown++
			a.Detail = "it was sent to the machine before; whether that ran it is not known"
		case a.State == protocol.StateNew:
			r.Unknown++
			a.Detail = "the machine before had it; whether that ran it is not known"
		default:
			r.Unknown++
			a.Detail = "it ran on the machine before; how it ended is not known, nor that it did"
		}
		return base.Move(tx, &a, protocol.EventHostReplace)
	})
}

// endInvite ends the code for the new machine of a host, and refuses who waits by it.
func (r *Room) endInvite(tx core.Tx, id protocol.HostID, invite string) error {
	i, err := tx.Enrolments.Invite(invite)
	switch {
	case errors.Is(err, core.ErrNotFound): // forgotten, long after its end
	case err != nil:
		return err
	default:
		i.ExpiresMS = min(i.ExpiresMS, r.base.LifeMS())
		if err := tx.Enrolments.PutInvite(i); err != nil {
			return err
		}
	}
	waiting, err := tx.Enrolments.List(core.EnrolmentPending, MaxPending)
	for _, e := range waiting {
		if e.Invite != invite || e.Host != id {
			continue
		}
		e.State, e.Reason, e.DecidedMS = core.EnrolmentDenied, "another code was made for the new machine of this host", r.base.NowMS()
		if err := errors.Join(tx.Enrolments.Put(e), r.base.Event(tx, "host.denied", id, e.ID, map[string]any{"reason": e.Reason})); err != nil {
			return err
		}
	}
	return err
}

// forgetMachine forgets what is in memory of the machine of a host.
func (r *Room) forgetMachine(id protocol.HostID) {
	r.cfg.Others.Lost(id)
	r.mu.Lock()
	delete(r.quarantined, id)
	r.mu.Unlock()
	r.cfg.Links.Drop(id)
}

// mayTake reports why an enrolment cannot have the name of a host that there is.
func mayTake(h core.Host, e *core.Enrolment) error {
	switch {
	case h.State == core.HostReplacing && e.Invite == h.Awaits:
		return nil
	case h.State == core.HostReplacing:
		return fmt.Errorf("%w: the name %s is kept for the new machine of that host: join with the code of hostler host replace, or under another name with --host", core.ErrExists, h.ID)
	}
	return fmt.Errorf("%w: a host named %s was enrolled with another key; join under another name with --host, or, if this machine takes its place: hostler host replace %s", core.ErrExists, h.ID, h.ID)
}

// isFor reports why a machine that has proven a code cannot use it as that host:
// rights that a key has lost never come back, and the code may be for another host.
func isFor(i core.Invite, id protocol.HostID, revoked bool) error {
	switch {
	case revoked:
		return errors.New("the key of this machine was revoked; to let it in again, make a new one: hostler-agent leave, and then join")
	case i.Host != "" && i.Host != id:
		return fmt.Errorf("the join code is for the new machine of host %s: join with --host %s", i.Host, i.Host)
	}
	return nil
}

// wasRevoked reports whether the key of a machine that wants to join was revoked.
func (r *Room) wasRevoked(key protocol.KeyID) bool {
	p, ok := r.base.Keys.Principal(key)
	return ok && p.Revoked
}

// believe takes into force what the store has about the keys of a host. Who decides
// something else meanwhile does so behind it.
func (r *Room) believe(ctx context.Context, id protocol.HostID) error {
	r.trusting <- struct{}{}
	defer func() { <-r.trusting }()
	h, err := r.Host(context.WithoutCancel(ctx), id) // what was decided holds, also if the caller has gone
	if err != nil {
		return err
	}
	return r.trustHost(h.Host)
}

// shutOut takes into force that keys of a host are revoked, which the store has.
func (r *Room) shutOut(id protocol.HostID, keys ...protocol.KeyID) {
	r.trusting <- struct{}{}
	defer func() { <-r.trusting }()
	for _, key := range keys {
		r.cfg.HostKeys.RevokeHost(id, key)
	}
}

// trustHost makes the key of a host and, of one that took the place of another machine,
// its certificates known.
func (r *Room) trustHost(h core.Host) error {
	if err := r.cfg.HostKeys.AddHost(h.ID, h.PublicKey); err != nil {
		return fmt.Errorf("host %s: %w", h.ID, err)
	}
	for _, key := range h.Former {
		r.cfg.HostKeys.RevokeHost(h.ID, key)
	}
	switch {
	case h.State != core.HostApproved:
		r.cfg.HostKeys.RevokeHost(h.ID, h.Key)
	case len(h.CSR) > 0:
		if err := r.cfg.HostKeys.PinHost(h.ID, h.CSR); err != nil {
			return fmt.Errorf("certificate of host %s: %w", h.ID, err)
		}
	}
	return nil
}
