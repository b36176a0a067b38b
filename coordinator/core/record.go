package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// Audit appends to the audit log within the transaction that does what it
// says.
func (b *Base) Audit(tx Tx, by Actor, verb, object string, detail map[string]any) error {
	r := audit.Record{Verb: verb, Object: object, Detail: detail}
	if host, err := protocol.ParseHostID(object); err == nil && strings.HasPrefix(verb, "host.") {
		r.Host = host
	}
	return b.Record(tx, by, r)
}

// Record is Audit for what has more to say.
func (b *Base) Record(tx Tx, by Actor, r audit.Record) error {
	r.AtMS, r.Actor, r.From = b.NowMS(), by.LogName(), by.From
	stored, err := r.Encode()
	if err != nil {
		return err
	}
	return tx.Audit.Append(stored)
}

// Transition records that an action has moved.
func (b *Base) Transition(tx Tx, by Actor, a Action, before protocol.State, ev protocol.Event, bytes protocol.Digest) error {
	detail := map[string]any{"event": string(ev), "state": string(a.State)}
	if before != protocol.StateNone {
		detail["before"] = string(before)
	}
	if a.Reason != "" {
		detail["reason"] = string(a.Reason)
	}
	if a.Attempt > 0 {
		detail["attempt"] = a.Attempt
	}
	if ev == protocol.EventDeny {
		detail["detail"] = a.Detail
	}
	audit.Copied(detail, a.Output)
	if o, ok := protocol.RecordingOf(a.Output); ok {
		detail["recording"], detail["recording_bytes"] = o.SHA256.String(), o.Bytes
	}
	return b.Record(tx, by, audit.Record{Verb: "action." + string(ev), Host: a.Host, Object: a.ID.String(), Digest: bytes, Detail: detail})
}

// Next moves an action by an event that the coordinator decides on.
func (a *Action) Next(ev protocol.Event, nowMS int64) error {
	next, reason, err := a.State.Next(ev, protocol.OwnerCoordinator, "")
	if err != nil {
		return err
	}
	a.State, a.Reason, a.UpdatedMS = next, reason, nowMS
	if next.Final() {
		a.EndedMS = nowMS
	}
	return nil
}

// Move makes a decision of the coordinator about an action durable.
func (b *Base) Move(tx Tx, a *Action, ev protocol.Event) error {
	return b.MoveBy(tx, Self(), a, ev)
}

// MoveBy is Move for what a person has decided.
func (b *Base) MoveBy(tx Tx, by Actor, a *Action, ev protocol.Event) error {
	before := a.State
	if err := a.Next(ev, b.NowMS()); err != nil {
		return err
	}
	return cmp.Or(tx.Actions.Put(*a), b.Transition(tx, by, *a, before, ev, a.Digest), b.ActionEvent(tx, *a, before))
}

// Event appends to the journal that watchers read.
func (b *Base) Event(tx Tx, typ string, host protocol.HostID, object string, data map[string]any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", typ, err)
	}
	_, err = tx.Events.Append(Event{AtMS: b.NowMS(), Type: typ, Host: host, Object: object, Data: encoded})
	return err
}

// ActionEvent tells watchers that an action has moved, or is new.
func (b *Base) ActionEvent(tx Tx, a Action, before protocol.State) error {
	data := map[string]any{
		"kind": a.Kind, "from": before, "state": a.State, "reason": a.Reason, "attempt": a.Attempt, "cancelling": a.Cancelling,
	}
	if !a.Batch.IsZero() {
		data["batch"] = a.Batch
	}
	return b.Event(tx, "action.state", a.Host, a.ID.String(), data)
}
