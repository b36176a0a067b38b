package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// A coordinator that was restored from a backup knows less than was true: which
// orders it gave, which reports it has taken, how often it was started. Recover
// makes a store of it that cannot be mistaken for the one before: with another
// id, so that its streams begin anew and hosts believe it only in a newer term,
// and for another key, which a newer ring has to name.
//
// Nothing that may have been sent is sent again. An action that had not ended
// waits for its host, which is asked for everything that it knows: what it did is
// taken over, what it does not know is LOST.

// Config says what becomes of a restored store.
type Config struct {
	// Key is the coordinator's from now on, and Ring the number of a ring that
	// names it and not the one before.
	Key  protocol.KeyID
	Ring uint64
	// BackupMS is when the backup was made, Unix milliseconds; 0 for a disk that
	// went back.
	BackupMS int64
	// FormerFleet, if set, is the fleet whose store it was: it becomes that of
	// another one. Its hosts become strangers without rights, and what they were
	// asked is LOST.
	FormerFleet string
	// RevokeAccess revokes all tokens and viewers.
	RevokeAccess bool
	Now          time.Time
	Rand         io.Reader
}

// Recovered is what a recovery did, and has found out since. It is kept in the
// store.
type Recovered struct {
	AtMS        int64            `json:"at_ms"`
	BackupMS    int64            `json:"backup_ms,omitzero"`
	Key         protocol.KeyID   `json:"key"`
	Ring        uint64           `json:"ring"`
	FormerStore protocol.StoreID `json:"former_store"`
	FormerFleet string           `json:"former_fleet,omitzero"`
	Hosts       int              `json:"hosts"`               // that are asked, or were made strangers
	Actions     int              `json:"actions"`             // that had not ended
	Waiting     int              `json:"waiting"`             // of them, that waited for approval
	AuditN      uint64           `json:"audit_n"`             // newest record of the audit log that was kept
	Readmitted  []string         `json:"readmitted,omitzero"` // hosts that were quarantined, as "id: reason"
	Tokens      []string         `json:"tokens"`              // that are in force, as "name (role, id)"
	Viewers     []string         `json:"viewers"`             // that are in force
	AuditSeen   uint64           `json:"audit_seen,omitzero"` // newest record that a host has seen sealed
}

const (
	recoveredValue = "recovered" // a Recovered
	hostRecoveries = "recover/"  // before the id of a host: a hostRecovery
)

// hostRecovery is how far a host has told what it knows since a recovery.
type hostRecovery struct {
	// Since is the number of the newest action accepted that is known, or was
	// told; Until is that of the host's newest hello.
	Since  uint64 `json:"since"`
	Until  uint64 `json:"until"`
	Listed bool   `json:"listed"` // it has told all that it accepted until then
	// Before is the oldest of the open actions that it was asked about by id.
	Before protocol.ActionID `json:"before,omitzero"`
	// Marker is an unused id, which ends the question that is under
	// way; Next is Before after its answer, zero if there is nothing more to ask.
	Marker protocol.ActionID `json:"marker,omitzero"`
	Next   protocol.ActionID `json:"next,omitzero"`
}

func loadHostRecovery(tx core.Tx, host protocol.HostID) (r hostRecovery, ok bool, err error) {
	ok, err = core.GetJSON(tx, hostRecoveries+string(host), &r)
	return r, ok, err
}

func putHostRecovery(tx core.Tx, host protocol.HostID, r hostRecovery) error {
	return core.PutJSON(tx, hostRecoveries+string(host), r)
}

// recovered returns the newest recovery, or [core.ErrNotFound].
func recovered(tx core.Tx) (r Recovered, err error) {
	b, err := tx.Values.Get(recoveredValue)
	if err == nil {
		r = Recovered{}
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// Needed returns why a store must not be used before Recover, empty if
// nothing is known that speaks against it.
func Needed(ctx context.Context, s core.Store) (why string, err error) {
	err = s.View(ctx, func(tx core.Tx) error {
		b, err := tx.Values.Get(recoveryValue)
		if errors.Is(err, core.ErrNotFound) {
			err = nil
		}
		why = string(b)
		return err
	})
	return why, err
}

// Recover makes a store whose coordinator went back in time usable again. It is
// one transaction; called again for the same key it returns what it did, and changes
// nothing, but that it revokes what it is to revoke by then.
func Recover(ctx context.Context, store core.Store, cfg Config) (done Recovered, err error) {
	var id protocol.StoreID
	if _, err := io.ReadFull(cfg.Rand, id[:]); err != nil {
		return done, fmt.Errorf("draw the store's id: %w", err)
	}
	former := store.ID()
	err = core.Update(ctx, store, failpoint.StoreRecovered, func(tx core.Tx) error {
		if done, err = recovered(tx); err == nil && done.Key == cfg.Key {
			if !cfg.RevokeAccess {
				return nil
			}
			r := run{tx: tx, cfg: cfg, done: done}
			err = r.revokeNow(former)
			done = r.done
			return err
		} else if err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		r := run{tx: tx, cfg: cfg, done: Recovered{
			AtMS: cfg.Now.UnixMilli(), BackupMS: cfg.BackupMS, Key: cfg.Key, Ring: cfg.Ring, FormerStore: former, FormerFleet: cfg.FormerFleet,
			Tokens: []string{}, Viewers: []string{},
		}}
		if err := r.run(id); err != nil {
			return err
		}
		done = r.done
		return nil
	})
	return done, err
}

// run is one run of Recover.
type run struct {
	tx   core.Tx
	cfg  Config
	done Recovered
}

func (r *run) run(id protocol.StoreID) error {
	newest, err := r.tx.Audit.RecordsBefore(math.MaxInt64, 1)
	if err != nil {
		return err
	}
	if len(newest) > 0 {
		r.done.AuditN = newest[0].N
	}
	for _, step := range []func() error{
		func() error { return r.tx.Values.SetStore(id) },
		func() error { return r.tx.Values.Put(recoveryValue, nil) },
		r.actions, r.hosts, r.access, r.events,
		func() error { return core.PutJSON(r.tx, recoveredValue, r.done) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return r.record(r.done.AtMS, id.String(), map[string]any{
		"former_store": r.done.FormerStore.String(), "former_fleet": r.done.FormerFleet, "backup_ms": r.done.BackupMS, "key": r.done.Key.String(),
		"ring": r.done.Ring, "hosts": r.done.Hosts, "actions": r.done.Actions, "revoke_access": r.cfg.RevokeAccess,
	})
}

func (r *run) record(atMS int64, store string, detail map[string]any) error {
	record, err := audit.Record{AtMS: atMS, Actor: "recover", Verb: "coordinator.recover", Object: store, Detail: detail}.Encode()
	if err != nil {
		return err
	}
	return r.tx.Audit.Append(record)
}

// revokeNow ends all access to a store that was recovered without that, by a run that
// did not come to its end.
func (r *run) revokeNow(store protocol.StoreID) error {
	r.done.Tokens, r.done.Viewers = []string{}, []string{}
	if err := r.access(); err != nil {
		return err
	}
	if err := core.PutJSON(r.tx, recoveredValue, r.done); err != nil {
		return err
	}
	return r.record(r.cfg.Now.UnixMilli(), store.String(), map[string]any{"key": r.done.Key.String(), "revoke_access": true})
}

// actions lets nothing that may have been sent be sent again.
func (r *run) actions() error {
	return core.EachAction(r.tx, core.ActionFilter{States: core.OpenStates()}, func(a core.Action) error {
		r.done.Actions++
		if a.State == protocol.StatePendingApprove {
			r.done.Waiting++
		}
		return r.action(a)
	})
}

func (r *run) action(a core.Action) error {
	a.N, a.Former, a.Cancelling, a.CancelBy, a.UpdatedMS = 0, true, false, "", r.done.AtMS
	if r.cfg.FormerFleet != "" {
		before := a.State
		var err error
		if a.State, a.Reason, err = a.State.Next(protocol.EventHostRemoved, protocol.OwnerCoordinator, ""); err != nil {
			return fmt.Errorf("action %s: %w", a.ID, err)
		}
		a.EndedMS = a.UpdatedMS
		record, err := audit.Record{AtMS: r.done.AtMS, Actor: "recover", Verb: "action." + string(protocol.EventHostRemoved), Host: a.Host, Object: a.ID.String(),
			Digest: a.Digest, Detail: map[string]any{"before": string(before), "state": string(a.State), "reason": string(a.Reason)}}.Encode()
		if err != nil {
			return err
		}
		if err := r.tx.Audit.Append(record); err != nil {
			return err
		}
	}
	return r.tx.Actions.Put(a)
}

// hosts begins their streams downwards anew, and has them asked.
func (r *run) hosts() error {
	return core.EachHost(r.tx, func(h core.Host) error {
		if err := r.host(h); err != nil {
			return fmt.Errorf("host %s: %w", h.ID, err)
		}
		return nil
	})
}

func (r *run) host(h core.Host) error {
	for _, name := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
		if err := r.tx.Streams.Free(h.ID, name, math.MaxInt64); err != nil {
			return err
		}
		if err := r.tx.Streams.Put(core.StreamState{Host: h.ID, Pos: protocol.Position{Stream: name}, Freed: protocol.Position{Stream: name}}); err != nil {
			return err
		}
	}
	if h.State != core.HostApproved {
		return nil
	}
	r.done.Hosts++
	if r.cfg.FormerFleet != "" {
		h.State, h.RevokedMS, h.Reason = core.HostRevoked, r.done.AtMS, "it is a host of "+r.cfg.FormerFleet+", of which this is a copy"
		return r.tx.Hosts.Put(h)
	}
	if h.Quarantined != "" {
		// What it was quarantined for may be the work of a stolen key of the coordinator
		// before. It is asked anew, like every host.
		r.done.Readmitted = append(r.done.Readmitted, fmt.Sprintf("%s: %s", h.ID, h.Quarantined))
		h.Quarantined = ""
		if err := r.tx.Hosts.Put(h); err != nil {
			return err
		}
	}
	return putHostRecovery(r.tx, h.ID, hostRecovery{Since: h.AcceptSeq})
}

// events begin anew. Those that were told since the backup had the ids which others
// would get now: a client that follows with one of them would miss what happened here, or take
// it for what he has. Ids count from the number of the ring that the recovery needs, so
// none comes twice, and who follows with one of before is told to begin anew.
func (r *run) events() error {
	last, err := r.tx.Events.Last()
	if err != nil {
		return err
	}
	return r.tx.Events.Restart(core.EventsRestart(last, r.cfg.Ring))
}

// access tells who may do something here. Codes that were given out may have been
// used since, so none of them counts any more.
func (r *run) access() error {
	revoke := r.cfg.RevokeAccess || r.cfg.FormerFleet != ""
	tokens, err := r.tx.Access.Tokens()
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.RevokedMS != 0 || t.ExpiresMS != 0 && t.ExpiresMS <= r.done.AtMS {
			continue
		}
		if revoke {
			t.RevokedMS = r.cfg.Now.UnixMilli()
			if err := r.tx.Access.PutToken(t); err != nil {
				return err
			}
			continue
		}
		r.done.Tokens = append(r.done.Tokens, fmt.Sprintf("%s (%s, %s)", t.Name, t.Role, t.ID))
	}
	viewers, err := r.tx.Access.Viewers()
	if err != nil {
		return err
	}
	for _, v := range viewers {
		if v.RevokedMS != 0 {
			continue
		}
		if revoke {
			v.RevokedMS = r.cfg.Now.UnixMilli()
			if err := r.tx.Access.PutViewer(v); err != nil {
				return err
			}
			continue
		}
		r.done.Viewers = append(r.done.Viewers, v.Name)
	}
	return nil
}
