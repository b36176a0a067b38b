package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// AcceptOrders takes orders in: their effects, the position of their stream and
// their reports, in one transaction. An id that is known, or was, is never
// accepted again, whatever its spec is now; the record that is here is reported,
// with the digest that is here.
//
// An order without budget ends as CANCELLED(expired), one with a refusal as
// FAILED with it; when too many reports wait, the refusal is queue_full. For an
// action of this host that is [ErrFull] instead, and a known id of another
// spec is [ErrExists]; such an error is that of all.
func (q *Queue) AcceptOrders(ctx context.Context, all []Arrival, now Now) ([]Accepted, error) {
	taken := make([]Accepted, len(all))
	err := q.commit(ctx, failpoint.OrderTaken, "accepting actions from "+all[0].Order.Action.String(), func(tx txn) error {
		for i, a := range all {
			var err error
			if taken[i], err = take(tx, a.At, a.Order, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// take takes one order in.
func take(tx txn, at protocol.Position, o Order, now Now) (Accepted, error) {
	if err := advance(tx, at); err != nil {
		return Accepted{}, err
	}
	local := at.N == 0
	known, err := remember(tx, o.Action)
	switch {
	case err == nil && local && known.Digest != protocol.Sum(o.Spec):
		return Accepted{}, ErrExists
	case err == nil && local:
		return Accepted{Action: known}, nil
	case err == nil:
		err = again(tx, &known, o.Spec, now)
		return Accepted{Action: known}, err
	case !errors.Is(err, ErrUnknown):
		return Accepted{}, err
	}
	full, err := waiting(tx, protocol.StreamReport)
	if err != nil {
		return Accepted{}, err
	}
	if full >= MaxOutbox {
		if local {
			return Accepted{}, ErrFull
		}
		o.Refusal, o.Detail = CodeQueueFull, ErrFull.Error()
	}
	act, err := accept(tx, o, local, now)
	return Accepted{Action: act, Fresh: true}, err
}

// accept makes a new action and moves it as far as the order says.
func accept(tx txn, o Order, local bool, now Now) (Action, error) {
	act := Action{
		ID: o.Action, Digest: protocol.Sum(o.Spec), Spec: o.Spec, Requester: o.Requester, Local: local,
		BudgetMS: o.BudgetMS, Boot: now.Boot, AcceptBootMS: now.BootMS, CreatedMS: o.CreatedMS, AcceptedMS: now.WallMS,
		ApprovedMS: o.ApprovedMS, approved: o.Approved, Within: o.Within,
	}
	var err error
	if act.AcceptSeq, err = acceptSeq(tx); err != nil {
		return act, err
	}
	switch {
	case o.Refusal != "":
		err = act.move(Step{Event: protocol.EventRefuse, Carry: protocol.Reason(o.Refusal), Detail: o.Detail}, now)
	case o.BudgetMS <= 0:
		err = act.move(Step{Event: protocol.EventExpire}, now)
	default:
		err = act.move(Step{Event: protocol.EventAccept}, now)
		if err == nil && o.Begin != nil {
			if err = act.move(Step{Event: protocol.EventStart}, now); err == nil {
				err = change(tx, *o.Begin, now)
			}
			if err == nil && o.Done {
				err = act.move(Step{Event: protocol.EventSucceed}, now)
			}
		}
	}
	if err != nil {
		return act, err
	}
	if act.State == protocol.StateRunning && o.Brief {
		err = recorded(tx, &act, now)
	} else {
		err = moved(tx, &act, nil, now)
	}
	if err != nil {
		return act, err
	}
	return act, insert(tx, &act)
}

// TellStarted reports those of the actions that run and were never reported.
func (q *Queue) TellStarted(ctx context.Context, ids []protocol.ActionID, now Now) (told []Action, err error) {
	err = q.update(ctx, "reporting that actions run", func(tx txn) error {
		told = nil
		for _, id := range ids {
			act, err := load(tx, id)
			if err == nil && act.State == protocol.StateRunning && act.ReportN == 0 {
				if err = tell(tx, &act, protocol.Report{Event: act.Event}, now); err == nil {
					err = save(tx, &act)
				}
			}
			if err != nil {
				return err
			}
			told = append(told, act)
		}
		return nil
	})
	return told, err
}

// move applies one event by the table of the protocol.
func (a *Action) move(s Step, now Now) error {
	to, reason, err := a.State.Next(s.Event, protocol.OwnerAgent, s.Carry)
	if err != nil {
		return fmt.Errorf("action %s: %w", a.ID, err)
	}
	a.State, a.Reason, a.Event, a.Detail = to, reason, s.Event, clean(s.Detail)
	switch {
	case to == protocol.StateRunning:
		a.Attempt++
		if a.StartedMS == 0 {
			a.StartedMS = now.WallMS
		}
	case to.Final():
		a.EndedMS, a.Cancelling, a.Exit, a.Output = now.WallMS, false, s.Exit, s.Output
	}
	return nil
}

// Start makes durable that an attempt is about to begin: the first of an action
// that waits, or the next of one that runs.
func (q *Queue) Start(ctx context.Context, id protocol.ActionID, c Change, now Now) (act Action, err error) {
	err = q.commit(ctx, failpoint.AttemptBegun, "starting action "+id.String(), func(tx txn) error {
		act, err = step(tx, id, now, func(a *Action) Step {
			if a.State == protocol.StateRunning {
				return Step{Event: protocol.EventRetry, Change: c}
			}
			return Step{Event: protocol.EventStart, Change: c}
		})
		return err
	})
	return act, err
}

// Finish ends actions: their states, their final reports and what they changed of
// containers, in one transaction. On a disk that is full it uses the space that was
// set aside for ends.
func (q *Queue) Finish(ctx context.Context, ends []Ending, now Now) ([]Action, error) {
	acts := make([]Action, len(ends))
	err := q.pressed(func() error {
		return q.commit(ctx, failpoint.OutcomeKept, "finishing actions from "+ends[0].Action.String(), func(tx txn) error {
			tx.whatHappened()
			for i, e := range ends {
				var err error
				if acts[i], err = step(tx, e.Action, now, func(*Action) Step { return e.Step }); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return acts, nil
}

// step moves an action that is here.
func step(tx txn, id protocol.ActionID, now Now, decide func(*Action) Step) (Action, error) {
	act, err := load(tx, id)
	if err != nil {
		return act, err
	}
	s := decide(&act)
	if err := act.move(s, now); err != nil {
		return act, err
	}
	if err := change(tx, s.Change, now); err != nil {
		return act, err
	}
	if s.Record != nil {
		if err := note(tx, *s.Record); err != nil {
			return act, err
		}
	}
	if err := moved(tx, &act, s.Container, now); err != nil {
		return act, err
	}
	return act, save(tx, &act)
}

// Cancel asks for the end of an action. What waits ends at once; what runs is
// marked, if it can be cancelled, and ends when nothing of it is left; of an
// unknown id a tombstone remains, so that its order never begins. A zero
// position is a request from this host, for which an unknown id is
// [ErrUnknown].
func (q *Queue) Cancel(ctx context.Context, at protocol.Position, id protocol.ActionID, now Now) (act Action, err error) {
	err = q.commit(ctx, failpoint.CancelTaken, "cancelling action "+id.String(), func(tx txn) error {
		if err := advance(tx, at); err != nil {
			return err
		}
		act, err = remember(tx, id)
		switch {
		case errors.Is(err, ErrUnknown) && at.N == 0:
			return err
		case errors.Is(err, ErrUnknown):
			act = Action{ID: id}
			if err := act.move(Step{Event: protocol.EventCancelled}, now); err != nil {
				return err
			}
			if err := bury(tx, &act, now); err != nil {
				return err
			}
			return moved(tx, &act, nil, now)
		case err != nil:
			return err
		}
		return cancel(tx, &act, now)
	})
	return act, err
}

// cancel handles the request for an action that is, or was, here.
func cancel(tx txn, act *Action, now Now) error {
	buried := act.Spec == nil
	event := protocol.EventTell
	switch act.State {
	case protocol.StateNew:
		event = protocol.EventCancelled
		if err := act.move(Step{Event: event}, now); err != nil {
			return err
		}
	case protocol.StateRunning:
		// A spec that this version cannot read was accepted by a newer one.
		spec, err := protocol.DecodeSpec(act.Spec)
		if info, _ := protocol.KindOf(spec.Kind); err == nil && info.Cancellable {
			act.Cancelling = true
		} else {
			act.Detail = fmt.Sprintf("%s%s cannot be, once it runs", protocol.NotCancelled, spec.Kind)
		}
	}
	var err error
	if event == protocol.EventCancelled {
		err = moved(tx, act, nil, now)
	} else {
		err = errors.Join(note(tx, audit.Record{AtMS: now.WallMS, Actor: string(protocol.Coordinator), Verb: "action.cancel", Object: act.ID.String(),
			Detail: map[string]any{"state": string(act.State), "cancelling": act.Cancelling}}), tell(tx, act, protocol.Report{Event: event}, now))
	}
	if err != nil {
		return err
	}
	if buried {
		return nil // a tombstone never changes
	}
	return save(tx, act)
}

// Remark makes durable, and tells, what keeps an action from its end; empty is
// nothing any more. With goesOn the request for its end is taken back, which turned
// out to be impossible.
func (q *Queue) Remark(ctx context.Context, id protocol.ActionID, detail string, goesOn bool, now Now) (act Action, err error) {
	err = q.commit(ctx, failpoint.CancelTaken, "remarking on action "+id.String(), func(tx txn) error {
		if act, err = load(tx, id); err != nil {
			return err
		}
		act.Cancelling, act.Detail = act.Cancelling && !goesOn, clean(detail)
		if err := tell(tx, &act, protocol.Report{Event: protocol.EventTell}, now); err != nil {
			return err
		}
		return save(tx, &act)
	})
	return act, err
}

// Tell answers for each id what this host knows: the action, its tombstone, or
// that it knows nothing. If since is set, the first [protocol.MaxTell] actions
// accepted after it are told before, with what they are; the answers about
// unknown ids then tell how far that went. waits is why those among ids that
// wait do so, as far as the caller knows it.
func (q *Queue) Tell(ctx context.Context, at protocol.Position, ids []protocol.ActionID, since *uint64, waits map[protocol.ActionID]protocol.Waits, now Now) error {
	return q.commit(ctx, failpoint.QuestionTaken, "answering about actions", func(tx txn) error {
		if err := advance(tx, at); err != nil {
			return err
		}
		told := uint64(0)
		if since != nil {
			var err error
			if told, err = tellAfter(tx, *since, now); err != nil {
				return err
			}
		}
		for _, id := range ids {
			act, err := remember(tx, id)
			if errors.Is(err, ErrUnknown) {
				act = Action{ID: id, AcceptSeq: told}
			} else if err != nil {
				return err
			}
			r := protocol.Report{Event: protocol.EventTell}
			if w, ok := waits[id]; ok && (act.State == protocol.StateNone || act.State == protocol.StateNew) {
				r.Waits = &w
			}
			if err := tell(tx, &act, r, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// TellPolicy answers with the text of the policy in force; an empty one is no
// answer.
func (q *Queue) TellPolicy(ctx context.Context, at protocol.Position, text []byte, now Now) error {
	return q.commit(ctx, failpoint.QuestionTaken, "telling the policy", func(tx txn) error {
		err := advance(tx, at)
		if err == nil && len(text) > 0 {
			_, err = push(tx, protocol.StreamReport, protocol.Report{Event: protocol.EventTell, AtMS: now.WallMS, Policy: text})
		}
		return err
	})
}

// tellAfter tells of what was accepted after a number, forgotten actions
// included, and returns the number up to which everything is told then.
func tellAfter(tx txn, since uint64, now Now) (told uint64, err error) {
	ids, err := sqldb.All(tx.Tx, scanID, `SELECT id, accept_seq FROM actions WHERE accept_seq > $1
		UNION ALL SELECT id, accept_seq FROM tombstones WHERE accept_seq > $1 ORDER BY 2 LIMIT $2`, since, protocol.MaxTell)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		act, err := remember(tx, id)
		if err != nil {
			return 0, err
		}
		told = act.AcceptSeq
		if err := tell(tx, &act, act.whole(protocol.EventTell), now); err != nil {
			return 0, err
		}
	}
	if len(ids) == protocol.MaxTell {
		return told, nil
	}
	err = tx.load()
	return tx.memory.accepted, err
}

// again repeats what is known of an action for a coordinator that ordered it once more.
//
// If that was another spec, the record here wins, and is told as a whole: a coordinator that
// ordered it has to know what is there.
func again(tx txn, act *Action, spec []byte, now Now) error {
	event := act.Event
	if !act.State.Final() && act.Attempt > 1 {
		event = protocol.EventRetry
	}
	if act.Digest == protocol.Sum(spec) {
		return tell(tx, act, protocol.Report{Event: event}, now)
	}
	return tell(tx, act, act.whole(event), now)
}

// whole is a report to a coordinator that may know nothing of the action.
func (a *Action) whole(event protocol.Event) protocol.Report {
	return protocol.Report{Event: event, Spec: a.Spec, Requester: a.Requester}
}

// tell writes a report about an action into the outbox. What it says beside the record
// of the action is in r.
func tell(tx txn, a *Action, r protocol.Report, now Now) error {
	if a.Local && a.ReportN == 0 {
		r.Spec, r.Requester = a.Spec, a.Requester
	}
	r.Action, r.Digest, r.State, r.Reason, r.Detail = a.ID, a.Digest, a.State, a.Reason, a.Detail
	r.AcceptSeq, r.Attempt, r.Cancel, r.Exit, r.Output = a.AcceptSeq, a.Attempt, a.Cancelling, a.Exit, a.Output
	r.AtMS, r.AcceptedMS, r.StartedMS, r.EndedMS = now.WallMS, a.AcceptedMS, a.StartedMS, a.EndedMS
	if r.Event == protocol.EventTell {
		control, _, err := position(tx, protocol.StreamControl)
		if err != nil {
			return err
		}
		order, _, err := position(tx, protocol.StreamOrder)
		if err != nil {
			return err
		}
		r.HaveControl, r.HaveOrder = control.N, order.N
	}
	n, err := push(tx, protocol.StreamReport, r)
	a.ReportN = n
	return err
}

// maxDetail is the longest detail of a report, in bytes.
const maxDetail = 1 << 10

// clean makes a text fit for a report: valid UTF-8 without NUL, and short.
func clean(s string) string {
	if len(s) > maxDetail {
		s = s[:maxDetail] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// result is what of an action is kept as JSON.
type result struct {
	Exit   *protocol.Exit    `json:"exit,omitempty"`
	Output []protocol.Output `json:"output,omitempty"`
	Within []string          `json:"within,omitzero"`
}

const columns = `id, accept_seq, digest, spec, requester, local, state, event, reason, detail, attempt, cancelling,
	budget_ms, boot, accept_boot_ms, created_ms, accepted_ms, started_ms, ended_ms, result, report_n, approved_ms`

func insert(tx txn, a *Action) error {
	res, err := json.Marshal(result{a.Exit, a.Output, a.Within})
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO actions (`+columns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`,
		a.ID.String(), a.AcceptSeq, a.Digest.String(), append([]byte{}, a.Spec...), a.Requester, a.Local, string(a.State), string(a.Event),
		string(a.Reason), a.Detail, a.Attempt, a.Cancelling, a.BudgetMS, a.Boot, a.AcceptBootMS,
		a.CreatedMS, a.AcceptedMS, a.StartedMS, a.EndedMS, res, a.ReportN, a.ApprovedMS)
	return err
}

// large reports whether an action has more output than goes to the coordinator unasked.
func (a *Action) large() bool {
	return slices.ContainsFunc(a.Output, func(o protocol.Output) bool { return o.Bytes > 2*protocol.OutputKept })
}

func save(tx txn, a *Action) error {
	res, err := json.Marshal(result{a.Exit, a.Output, a.Within})
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE actions SET state = $1, event = $2, reason = $3, detail = $4, attempt = $5, cancelling = $6,
		started_ms = $7, ended_ms = $8, result = $9, report_n = $10, kept = $11 WHERE id = $12`,
		string(a.State), string(a.Event), string(a.Reason), a.Detail, a.Attempt, a.Cancelling,
		a.StartedMS, a.EndedMS, res, a.ReportN, a.large(), a.ID.String())
	return err
}

// remember reads an action, or what its tombstone still tells, or fails with
// [ErrUnknown], as most do that are looked up.
func remember(tx txn, id protocol.ActionID) (Action, error) {
	var there bool
	err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM actions WHERE id = $1) OR EXISTS (SELECT 1 FROM tombstones WHERE id = $1)`, id.String()).Scan(&there)
	if err == nil && !there {
		err = ErrUnknown
	}
	if err != nil {
		return Action{}, err
	}
	act, err := load(tx, id)
	if !errors.Is(err, ErrUnknown) {
		return act, err
	}
	act = Action{ID: id}
	var digest string
	err = tx.QueryRow(`SELECT accept_seq, digest, state, event, reason FROM tombstones WHERE id = $1`, id.String()).
		Scan(&act.AcceptSeq, &digest, (*string)(&act.State), (*string)(&act.Event), (*string)(&act.Reason))
	if errors.Is(err, sqldb.ErrNoRows) {
		return act, ErrUnknown
	}
	if err == nil && digest != "" {
		act.Digest, err = protocol.ParseDigest(digest)
	}
	return act, err
}

func load(tx txn, id protocol.ActionID) (Action, error) {
	for r, err := range tx.Query(`SELECT `+columns+` FROM actions WHERE id = $1`, id.String()) {
		if err != nil {
			return Action{}, err
		}
		return scan(r)
	}
	return Action{}, ErrUnknown
}

func scan(r sqldb.Row) (Action, error) {
	var (
		a          Action
		id, digest string
		res        []byte
	)
	err := r.Scan(&id, &a.AcceptSeq, &digest, &a.Spec, &a.Requester, &a.Local, (*string)(&a.State), (*string)(&a.Event),
		(*string)(&a.Reason), &a.Detail, &a.Attempt, &a.Cancelling, &a.BudgetMS, &a.Boot, &a.AcceptBootMS,
		&a.CreatedMS, &a.AcceptedMS, &a.StartedMS, &a.EndedMS, &res, &a.ReportN, &a.ApprovedMS)
	if err != nil {
		return a, err
	}
	var kept result
	if err := json.Unmarshal(res, &kept); err != nil {
		return a, fmt.Errorf("result of action %s: %w", id, err)
	}
	a.Exit, a.Output, a.Within = kept.Exit, kept.Output, kept.Within
	if a.ID, err = protocol.ParseActionID(id); err != nil {
		return a, err
	}
	a.Digest, err = protocol.ParseDigest(digest)
	return a, err
}

func scanID(r sqldb.Row) (protocol.ActionID, error) {
	var id string
	var seq uint64
	if err := r.Scan(&id, &seq); err != nil {
		return protocol.ActionID{}, err
	}
	return protocol.ParseActionID(id)
}
