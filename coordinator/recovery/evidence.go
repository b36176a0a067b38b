package recovery

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

// provesOlder reads what a host keeps of the coordinator's words. It returns why
// this coordinator must have gone back in time, empty if nothing proves it.
func (r *Room) provesOlder(evidence []byte) string {
	for _, raw := range fresh.Evidence(evidence) {
		said, key, ok := r.genuine(raw)
		if !ok || said.Term.Ring < r.recovered.Ring {
			continue // it says of the former store what the recovery is for
		}
		if key == r.own && said.Ring > r.base.Keys.Ring() {
			// Another coordinator may have taken a ring before us; we may not.
			return fmt.Sprintf("a message of ring %d, ring %d is known here", said.Ring, r.base.Keys.Ring())
		}
		if why := r.positionsProveOlder(&said); why != "" {
			return why
		}
	}
	return ""
}

// provenTerm is the newest term that a coordinator has spoken in, as what a host
// keeps shows.
func (r *Room) provenTerm(h *protocol.Hello) (newest protocol.Term) {
	for _, raw := range fresh.Evidence(h.Evidence) {
		if said, _, ok := r.genuine(raw); ok && said.Term.Compare(newest) > 0 {
			newest = said.Term
		}
	}
	p, _, err := protocol.OpenCheckpoint(h.Checkpoint, r.base.Fleet, r.base.Keys)
	if err == nil && p.Log == protocol.Coordinator && p.Term.Compare(newest) > 0 {
		newest = p.Term
	}
	return newest
}

// genuine opens a message of a coordinator to a host or to the fleet, from
// whenever it may be.
func (r *Room) genuine(raw []byte) (said protocol.Receipt, key protocol.KeyID, ok bool) {
	env, err := protocol.Split(raw)
	if err != nil {
		return said, key, false
	}
	p, ok := r.base.Keys.Principal(env.Key)
	if !ok || p.Revoked || !p.Can(protocol.RoleCoordinator) || p.Key.CheckForm(env.Sig) != nil || p.Key.Verify(env.Sig, env.Body) != nil {
		return said, key, false
	}
	// The word of a coordinator to its fleet has the same header.
	ok = protocol.DecodeJSON(env.Body, &said, true) == nil && said.Fleet == r.base.Fleet && said.Term.Ring <= said.Ring &&
		(said.Type == protocol.TypeReceipt || said.Type == protocol.TypeCoordinator)
	return said, env.Key, ok
}

// positionsProveOlder holds what a receipt says of the streams of its host
// against what is known here.
func (r *Room) positionsProveOlder(said *protocol.Receipt) string {
	host, ok := said.To.Host()
	if !ok {
		return ""
	}
	why := ""
	err := r.base.View(r.base.Ctx, func(tx core.Tx) error {
		why = ""
		if h, err := tx.Hosts.Standing(host); err != nil && !errors.Is(err, core.ErrNotFound) || said.Seq.Compare(h.Adopted) <= 0 {
			return err
		}
		for _, sent := range said.Sent {
			st, err := tx.Streams.Get(host, sent.Stream)
			if err != nil {
				return err
			}
			if sent.Store == r.base.Store.ID() && sent.N > st.Pos.N {
				why = fmt.Sprintf("a receipt says that %d items of stream %s were sent, %d are known here", sent.N, sent.Stream, st.Pos.N)
			}
		}
		for _, have := range said.Have {
			st, err := tx.Streams.Get(host, have.Stream)
			if err != nil {
				return err
			}
			if have.Store == st.Pos.Store && have.N > st.Pos.N {
				why = fmt.Sprintf("a receipt says that %d items of stream %s had arrived, %d are known here", have.N, have.Stream, st.Pos.N)
			}
		}
		return nil
	})
	if err != nil {
		r.base.Log.Error("cannot judge the evidence of a hello", "host", host, "err", err)
	}
	return why
}

// provesCut reads the newest checkpoint of the coordinators' audit log that a
// host keeps. It returns why the log here must have been cut, changed or rolled
// back since, empty if nothing proves it.
func (r *Room) provesCut(checkpoint []byte) string {
	if len(checkpoint) == 0 {
		return ""
	}
	p, _, err := protocol.OpenCheckpoint(checkpoint, r.base.Fleet, r.base.Keys)
	if err != nil || p.Log != protocol.Coordinator {
		return ""
	}
	if p.Store != r.base.Store.ID() {
		return "" // of before a recovery, or of another coordinator
	}
	var newest, same core.Seal
	err = r.base.View(r.base.Ctx, func(tx core.Tx) (err error) {
		if newest, err = core.NewestSeal(tx); err != nil {
			return err
		}
		same, err = tx.Audit.SealUpTo(p.N)
		if errors.Is(err, core.ErrNotFound) {
			err = nil // pruned
		}
		return err
	})
	switch {
	case err != nil:
		r.base.Log.Error("cannot judge the checkpoint of a hello", "err", err)
	case p.N > newest.N:
		return fmt.Sprintf("a checkpoint seals %d records of the audit log, %d are sealed here", p.N, newest.N)
	case same.N != 0 && (same.N != p.N || same.H != p.H):
		return fmt.Sprintf("a checkpoint seals another record %d of the audit log than there is here", p.N)
	}
	return ""
}

// HearNewerRing looks at the hello of a host that holds a newer ring than is in force
// here. The host's word proves nothing; but if this coordinator has itself named a ring
// that it does not know, it went back to before it took that ring.
func (r *Room) HearNewerRing(host protocol.HostID, h *protocol.Hello) {
	if why := r.provesOlder(h.Evidence); why != "" {
		r.enterRecovery(host, why)
	}
}

// HearHello holds what a hello proves against what is known here. What a coordinator
// signed is true however old the hello is. It returns why the host itself cannot be
// believed, empty if it can.
func (r *Room) HearHello(host protocol.HostID, h *protocol.Hello) string {
	if why := cmp.Or(r.provesOlder(h.Evidence), r.provesCut(h.Checkpoint)); why != "" {
		r.enterRecovery(host, why)
	} else if t := r.provenTerm(h); t.Compare(r.term) > 0 {
		r.outlive(host, t)
	} else if h.TermSeen.Compare(r.term) > 0 {
		// Without bytes that a coordinator signed this is a mere claim.
		return fmt.Sprintf("it claims term %d/%d, which no coordinator reached", h.TermSeen.Ring, h.TermSeen.Counter)
	}
	return ""
}

// recoveryText is what people read and hosts' operators act upon.
const recoveryText = "this coordinator is older than what host %s has seen of it (%s): it was restored from a backup, or its disk went back. " +
	"It answers reads and hellos only: what it knows of hosts and actions is out of date. " +
	"Stop it, put the newest copy of its state directory in place and start it again. " +
	"If there is no newer one, run hostler-coordinator recover"

// enterRecovery stops deciding, for as long as this store is used: a restart
// makes nothing known that was forgotten. Only bytes that a coordinator signed
// lead here, so no stolen host key can stop the fleet.
func (r *Room) enterRecovery(host protocol.HostID, why string) {
	text := fmt.Sprintf(recoveryText, host, why)
	if !r.base.Gate.Close(text) {
		return
	}
	r.base.Log.Error("entering recovery", "host", host, "why", why)
	r.noteRecovery(host, why, func(tx core.Tx) error { return tx.Values.Put(recoveryValue, []byte(text)) })
}

// noteRecovery stores a recovery, with what put keeps of it.
func (r *Room) noteRecovery(host protocol.HostID, why string, put func(core.Tx) error) {
	err := r.base.Update(r.base.Ctx, failpoint.QuarantineNoted, func(tx core.Tx) error {
		return cmp.Or(
			put(tx),
			r.base.Audit(tx, core.Actor{Name: "coordinator"}, "coordinator.recovery", string(host), map[string]any{"reason": why}),
			r.base.Event(tx, "coordinator.recovery", "", string(host), map[string]any{"reason": why}),
		)
	})
	if err != nil {
		r.base.Log.Error("cannot store the recovery; it holds in memory", "err", err)
	}
	r.base.Wake.Fire(core.EventsKey{})
}

// outliveText is for a coordinator that lacks nothing but starts.
const outliveText = "host %s has heard a coordinator of term %s, this one begins term %s: an older copy of its state directory was started meanwhile. " +
	"Nothing that the host has seen is missing here. If this is the newest copy of its state directory, start it again: its next term is newer than all. " +
	"If it is not, stop it, put the newest copy of its state directory in place and start that"

// maxOutlived is how many starts more than were counted here are believed of a copy
// of this store. Beyond that the term was made up by a holder of the key.
const maxOutlived = 1000

// outlive stops deciding until the next start, whose term is newer than one
// that was proven to have been spoken in. Positions and checkpoints would show
// what is missing here; a term alone shows that a copy of this store, which was
// put away since, was started more often. It stops deciding for good if no copy
// can have been: the counter begins anew with the owners' next ring, and with no
// number that a stranger chose.
func (r *Room) outlive(host protocol.HostID, t protocol.Term) {
	counted := uint64(0)
	if t.Ring == r.term.Ring {
		counted = r.term.Counter
	}
	if t.Counter > counted+maxOutlived {
		r.enterRecovery(host, fmt.Sprintf("a message of term %s, which no number of starts explains: its key may be in other hands", t))
		return
	}
	if !r.base.Gate.CloseUntilRestart(fmt.Sprintf(outliveText, host, t, r.term)) {
		return
	}
	r.base.Log.Error("entering recovery until the next start", "host", host, "term_seen", t, "term", r.term)
	r.noteRecovery(host, "a newer term was spoken in: "+t.String(), func(tx core.Tx) error {
		return core.PutTerm(tx, t)
	})
}
