package members

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// HostView is a host with what is known of its presence.
type HostView struct {
	core.Host
	core.Presence
}

// ofHost names the host of a failed look-up, once.
func ofHost(id protocol.HostID, err error) error {
	if errors.Is(err, core.ErrNotFound) {
		err = core.ErrUnknownHost
	}
	return fmt.Errorf("host %q: %w", id, err)
}

// Host returns one host.
func (r *Room) Host(ctx context.Context, id protocol.HostID) (HostView, error) {
	h, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(id) })
	if err != nil {
		return HostView{}, ofHost(id, err)
	}
	return r.view(h), nil
}

// Hosts returns up to limit hosts with ids after the given one.
func (r *Room) Hosts(ctx context.Context, after protocol.HostID, limit int) ([]HostView, error) {
	hosts, err := core.Read(ctx, r.base, func(tx core.Tx) ([]core.Host, error) { return tx.Hosts.List(after, limit) })
	views := make([]HostView, 0, len(hosts))
	for _, h := range hosts {
		views = append(views, r.view(h))
	}
	return views, err
}

func (r *Room) view(h core.Host) HostView {
	return HostView{Host: h, Presence: r.cfg.Links.Presence(h.ID)}
}

// Revoke takes all rights from a host: its key and certificates are revoked
// and its connections cut at once; what it was asked and has not ended is
// LOST.
func (r *Room) Revoke(ctx context.Context, by core.Actor, id protocol.HostID, reason string) error {
	if err := r.base.Allow(by, core.RoleAdmin, "revoke hosts"); err != nil {
		return err
	}
	var h core.Host
	err := r.base.Update(ctx, failpoint.HostDecided, func(tx core.Tx) (err error) {
		if h, err = tx.Hosts.Get(id); err != nil {
			return ofHost(id, err)
		}
		if h.State == core.HostRevoked {
			return nil
		}
		h.State, h.RevokedMS, h.Reason = core.HostRevoked, r.base.NowMS(), reason
		return cmp.Or(
			core.EachOpen(tx, id, func(a core.Action) error { return r.base.Move(tx, &a, protocol.EventHostRemoved) }),
			r.keep(tx, by, h, "host.revoke", "host.revoked", map[string]any{"reason": reason}),
		)
	})
	if err != nil {
		return err
	}
	r.shutOut(id, h.Key)
	r.base.Broker.Disconnect(san.Name{Kind: san.Host, ID: string(id)})
	r.cfg.Others.Lost(id)
	r.base.Wake.Fire(core.EventsKey{})
	r.base.News.AskAll()
	return nil
}

// keep writes a host, and what was decided about it for the audit log and for watchers.
func (r *Room) keep(tx core.Tx, by core.Actor, h core.Host, verb, event string, detail map[string]any) error {
	return cmp.Or(
		tx.Hosts.Put(h), r.base.Audit(tx, by, verb, string(h.ID), detail), r.base.Event(tx, event, h.ID, string(h.ID), detail),
	)
}

// Quarantine stops all orders and grants to a host until a person readmits it.
// A coordinator that has itself gone back judges no host.
func (r *Room) Quarantine(id protocol.HostID, why string) {
	if r.base.Recovery() != "" {
		return
	}
	r.judging <- struct{}{}
	defer func() { <-r.judging }()
	r.mu.Lock()
	_, already := r.quarantined[id]
	r.quarantined[id] = why
	r.mu.Unlock()
	if already {
		return
	}
	r.base.Log.Error("host quarantined", "host", id, "why", why)
	err := r.base.Update(r.base.Ctx, failpoint.QuarantineNoted, func(tx core.Tx) error {
		h, err := tx.Hosts.Get(id)
		if err != nil || h.Quarantined != "" {
			return err
		}
		h.Quarantined = why
		return r.keep(tx, core.Self(), h, "host.quarantine", "host.quarantined", map[string]any{"reason": why})
	})
	if err != nil {
		r.base.Log.Error("cannot store a quarantine; it holds in memory", "host", id, "err", err)
	}
	r.base.Wake.Fire(core.EventsKey{})
}

// Quarantined reports whether a host gets no orders and no grants until a person
// readmits it.
func (r *Room) Quarantined(id protocol.HostID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.quarantined[id]
	return ok
}

// Readmit ends the quarantine of a host: what it says of itself at its next
// hello is taken as it is, and its streams go on from there. Its connections
// are cut, because nothing else makes it say hello.
func (r *Room) Readmit(ctx context.Context, by core.Actor, id protocol.HostID) error {
	if err := r.base.Allow(by, core.RoleAdmin, "readmit hosts"); err != nil {
		return err
	}
	r.judging <- struct{}{}
	defer func() { <-r.judging }()
	err := r.base.Update(ctx, failpoint.HostDecided, func(tx core.Tx) error {
		h, err := tx.Hosts.Get(id)
		if err != nil {
			return ofHost(id, err)
		}
		if h.Quarantined == "" {
			return fmt.Errorf("%w: host %s is not quarantined", core.ErrConflict, id)
		}
		// Without a known database there is nothing that it went back from.
		h.Quarantined, h.Store, h.AcceptSeq, h.Inventory.Audit = "", protocol.StoreID{}, 0, protocol.Position{}
		return cmp.Or(r.cfg.Others.AskAnew(tx, id), r.keep(tx, by, h, "host.readmit", "host.readmitted", nil))
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.quarantined, id)
	r.mu.Unlock()
	r.cfg.Links.Readmitted(id)
	r.base.Broker.Disconnect(san.Name{Kind: san.Host, ID: string(id)})
	r.base.Wake.Fire(core.EventsKey{})
	return nil
}

// maxHostLabels bounds what a host may be called.
const maxHostLabels = 64

// Relabel sets and removes labels of a host; those that are not named stay. as is the
// [LabelTag] of the labels that the requester has seen; of empty any will do. What was
// asked of hosts by their labels before is not changed by it.
func (r *Room) Relabel(ctx context.Context, by core.Actor, id protocol.HostID, set, remove []string, as string) error {
	if err := checkLabels(set); err != nil {
		return err
	}
	if len(set)+len(remove) == 0 {
		return fmt.Errorf("%w: no label is named", core.ErrInvalid)
	}
	return r.relabel(ctx, by, id, as, func(before []string) []string { return relabelled(before, set, remove) })
}

// SetLabels gives a host these labels and no other.
func (r *Room) SetLabels(ctx context.Context, by core.Actor, id protocol.HostID, labels []string, as string) error {
	if err := checkLabels(labels); err != nil {
		return err
	}
	return r.relabel(ctx, by, id, as, func([]string) []string { return slices.Sorted(slices.Values(labels)) })
}

// LabelTag names labels as they are, in an ETag.
func LabelTag(labels []string) string {
	sum := protocol.Sum([]byte(strings.Join(labels, "\n")))
	return hex.EncodeToString(sum[:8])
}

func (r *Room) relabel(ctx context.Context, by core.Actor, id protocol.HostID, as string, change func([]string) []string) error {
	if err := r.base.Allow(by, core.RoleApprover, "label hosts"); err != nil {
		return err
	}
	err := r.base.Update(ctx, failpoint.HostDecided, func(tx core.Tx) error {
		h, err := tx.Hosts.Get(id)
		if err != nil {
			return ofHost(id, err)
		}
		before := h.Labels
		if err := core.AsRead(fmt.Sprintf("the list of labels of host %s", id), as, LabelTag(before)); err != nil {
			return err
		}
		h.Labels = change(before)
		if len(h.Labels) > maxHostLabels {
			return fmt.Errorf("%w: host %s would have %d labels, at most %d are taken", core.ErrInvalid, id, len(h.Labels), maxHostLabels)
		}
		if slices.Equal(before, h.Labels) {
			return nil
		}
		return cmp.Or(
			tx.Hosts.Put(h),
			r.base.Audit(tx, by, "host.label", string(id), map[string]any{"labels": texts(h.Labels), "before": texts(before)}),
			r.base.Event(tx, "host.labelled", id, string(id), map[string]any{"labels": texts(h.Labels)}),
		)
	})
	r.base.Wake.Fire(core.EventsKey{})
	if err == nil {
		r.cfg.Others.Labelled(id)
	}
	return err
}

// texts is a list that is written even if it is empty.
func texts(s []string) []string { return append([]string{}, s...) }

// relabelled are labels with some of them set and some removed, by name.
func relabelled(labels, set, remove []string) []string {
	gone := make(map[string]bool)
	for _, k := range remove {
		gone[k] = true
	}
	for _, l := range set {
		gone[nameOf(l)] = true
	}
	kept := slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return gone[nameOf(l)] })
	return slices.Sorted(slices.Values(append(kept, set...)))
}

// nameOf is the name of a label.
func nameOf(label string) string {
	k, _, _ := strings.Cut(label, "=")
	return k
}
