package coordinator

import (
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// provesOlder reads what a host keeps of the coordinator's words. It returns why
// this coordinator must have gone back in time, empty if nothing proves it.
func (c *Coordinator) provesOlder(evidence []byte) string {
	for _, raw := range protocol.Evidence(evidence) {
		r, key, ok := c.genuine(raw)
		if !ok || r.Term.Ring < c.recovered.Ring {
			continue // it says of the former store what the recovery is for
		}
		if key == c.cfg.Signer.Key() && r.Ring > c.cfg.Trust.Ring() {
			// Another coordinator may have taken a ring before us; we may not.
			return fmt.Sprintf("a message of ring %d, ring %d is known here", r.Ring, c.cfg.Trust.Ring())
		}
		if why := c.positionsProveOlder(&r); why != "" {
			return why
		}
	}
	return ""
}

// provenTerm is the newest term that a coordinator has spoken in, as what a host
// keeps shows.
func (c *Coordinator) provenTerm(h *protocol.Hello) (newest protocol.Term) {
	for _, raw := range protocol.Evidence(h.Evidence) {
		if r, _, ok := c.genuine(raw); ok && r.Term.Compare(newest) > 0 {
			newest = r.Term
		}
	}
	p, _, err := protocol.OpenCheckpoint(h.Checkpoint, c.cfg.Fleet, c.cfg.Trust)
	if err == nil && p.Log == protocol.Coordinator && p.Term.Compare(newest) > 0 {
		newest = p.Term
	}
	return newest
}

// genuine opens a message of a coordinator to a host or to the fleet, from
// whenever it may be.
func (c *Coordinator) genuine(raw []byte) (r protocol.Receipt, key protocol.KeyID, ok bool) {
	env, err := protocol.Split(raw)
	if err != nil {
		return r, key, false
	}
	p, ok := c.cfg.Trust.Principal(env.Key)
	if !ok || p.Revoked || !p.Can(protocol.RoleCoordinator) || p.Key.CheckForm(env.Sig) != nil || p.Key.Verify(env.Sig, env.Body) != nil {
		return r, key, false
	}
	// The word of a coordinator to its fleet has the same header.
	ok = protocol.DecodeJSON(env.Body, &r, true) == nil && r.Fleet == c.cfg.Fleet &&
		(r.Type == protocol.TypeReceipt || r.Type == protocol.TypeCoordinator)
	return r, env.Key, ok
}

// positionsProveOlder holds what a receipt says of the streams of its host
// against what is known here.
func (c *Coordinator) positionsProveOlder(r *protocol.Receipt) string {
	host, ok := r.To.Host()
	if !ok {
		return ""
	}
	why := ""
	err := c.base.View(c.ctx, func(tx core.Tx) error {
		why = ""
		if h, err := tx.Hosts.Standing(host); err != nil && !errors.Is(err, core.ErrNotFound) || r.Seq.Compare(h.Adopted) <= 0 {
			return err
		}
		for _, sent := range r.Sent {
			st, err := tx.Streams.Get(host, sent.Stream)
			if err != nil {
				return err
			}
			if sent.Store == c.cfg.Store.ID() && sent.N > st.Pos.N {
				why = fmt.Sprintf("a receipt says that %d items of stream %s were sent, %d are known here", sent.N, sent.Stream, st.Pos.N)
			}
		}
		for _, have := range r.Have {
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
		c.log.Error("cannot judge the evidence of a hello", "host", host, "err", err)
	}
	return why
}

// provesCut reads the newest checkpoint of the coordinators' audit log that a
// host keeps. It returns why the log here must have been cut, changed or rolled
// back since, empty if nothing proves it.
func (c *Coordinator) provesCut(checkpoint []byte) string {
	if len(checkpoint) == 0 {
		return ""
	}
	p, _, err := protocol.OpenCheckpoint(checkpoint, c.cfg.Fleet, c.cfg.Trust)
	if err != nil || p.Log != protocol.Coordinator {
		return ""
	}
	if p.Store != c.cfg.Store.ID() {
		return "" // of before a recovery, or of another coordinator
	}
	var newest, same core.Seal
	err = c.base.View(c.ctx, func(tx core.Tx) (err error) {
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
		c.log.Error("cannot judge the checkpoint of a hello", "err", err)
	case p.N > newest.N:
		return fmt.Sprintf("a checkpoint seals %d records of the audit log, %d are sealed here", p.N, newest.N)
	case same.N != 0 && (same.N != p.N || same.H != p.H):
		return fmt.Sprintf("a checkpoint seals another record %d of the audit log than there is here", p.N)
	}
	return ""
}
