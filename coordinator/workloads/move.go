package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// Move has a workload go to one host, as a person wants it. It is refused before anything is
// stopped if that host cannot take it now.
func (r *Room) Move(ctx context.Context, by core.Actor, name string, to protocol.HostID, reason string) error {
	if err := r.base.Allow(by, core.RoleOperator, "move unique containers"); err != nil {
		return err
	}
	if len(reason) > maxReason {
		return fmt.Errorf("%w: reason: it has %d bytes; use at most %d", core.ErrInvalid, len(reason), maxReason)
	}
	if _, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(to) }); errors.Is(err, core.ErrNotFound) {
		return fmt.Errorf("host %q: %w", to, core.ErrUnknownHost)
	} else if err != nil {
		return err
	}
	r.deciding.Lock()
	defer r.deciding.Unlock()
	w, err := r.find(name)
	if err != nil {
		return err
	}
	if err := r.settlePending(ctx, w.CTID); err != nil { // an action that has just ended is no obstacle
		return err
	}
	m := unique.Move{To: to, By: by.Name, Reason: reason, AtMS: r.base.NowMS()}
	next, err := (mover{r}).may(ctx, w.CTID, m)
	if err != nil {
		return fmt.Errorf("%w: unique container %s: %w", core.ErrConflict, w.Name, err)
	}
	err = r.base.Update(ctx, failpoint.WorkloadDecided, func(tx core.Tx) error {
		s, err := tx.Workloads.Get(w.CTID)
		switch {
		case err != nil:
			return err
		case !s.Pending.IsZero():
			return fmt.Errorf("%w: action %s of unique container %s has not ended; ask again when it has", core.ErrConflict, s.Pending, s.Name)
		}
		s.Move = next.Move
		detail := moveDetail(&s, m, "asked", "")
		return errors.Join(tx.Workloads.Put(s), r.base.Audit(tx, by, "workload.move", s.CTID.String(), detail), r.base.Event(tx, moveEvent, s.Host, s.CTID.String(), detail))
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	if w := r.all[w.CTID]; w != nil {
		w.Move, r.changed = next.Move, true
		index{r}.note(w)
	}
	r.mu.Unlock()
	r.base.Wake.Fire(core.EventsKey{})
	return nil
}

// moveEvent tells that a person has asked for a move, or what became of it.
const moveEvent = "workload.move"

func moveDetail(w *core.Workload, m unique.Move, state, why string) map[string]any {
	return map[string]any{"name": string(w.Name), "from": string(w.Host), "to": string(m.To), "by": m.By, "reason": m.Reason, "state": state, "why": why}
}

// endMove ends the move of a workload. why says why it was dropped; empty if the workload is
// where it was to go.
func endMove(w *core.Workload, m unique.Move, why string, nowMS int64) {
	w.Move, w.Moved = unique.Move{}, core.MoveEnd{Move: m, Why: why, EndMS: nowMS}
}

// tellMove tells what became of the move of a workload, if that has just ended.
func (r *Room) tellMove(tx core.Tx, before core.MoveEnd, w *core.Workload) error {
	m := w.Moved
	if m == before {
		return nil
	}
	state := "done"
	if m.Why != "" {
		state = "dropped"
	}
	return r.base.Event(tx, moveEvent, w.Host, w.CTID.String(), moveDetail(w, m.Move, state, m.Why))
}

// mover is the part of a room that follows the moves that people have asked for. Its methods
// are called by the decision that is under way.
type mover struct{ *Room }

// may returns a workload with the wish to move it, or why that is refused.
func (r mover) may(ctx context.Context, id protocol.CTID, m unique.Move) (next unique.Workload, err error) {
	s, err := r.scene(ctx, WhatIf{}, unique.FenceGuard)
	if err != nil {
		return next, err
	}
	r.mu.Lock()
	w := r.all[id]
	next = w.Workload.Workload
	held := r.host(w.Host).availability.State == core.Maintenance
	r.mu.Unlock()
	if held {
		return next, fmt.Errorf("host %s is in maintenance, and nothing is decided about what it has; end that first: hostler host undrain %[1]s", w.Host)
	}
	if next.Stopped, err = r.stopped(ctx, w); err != nil {
		return next, err
	}
	next, err = next.Ask(m, r.refusal(s, w, m.To))
	next.Stopped = false // its host tells it; it is not stored
	return next, err
}

// refusal says why a host cannot take a workload that is to move there; empty if it can.
func (r mover) refusal(s *scene, w *workload, to protocol.HostID) string {
	all := slices.Clone(s.movable)
	for i := range all {
		if s.of[all[i].Name] == w {
			all[i].Waits = s.late[all[i].Name] // the end of another copy is awaited, and passes
		}
	}
	why := "it is not one of the fleet any more"
	for _, v := range placement.Explain(s.hosts, all, s.named[w.CTID]) {
		if v.Host == string(to) {
			why = v.Reason
		}
	}
	if why != "" {
		return why
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return lacks(r.host(to).features, w.Spec)
}

// lacks says which runtime a host lacks for a workload; empty if it lacks none.
func lacks(features []string, spec []byte) string {
	decoded, err := protocol.DecodeRequest(spec)
	if err != nil {
		return err.Error()
	}
	args, _ := decoded.Args.(*protocol.CreateArgs)
	if args != nil && args.Runtime != "" {
		if !slices.Contains(features, args.Runtime+".unique") {
			return "its " + args.Runtime + " has no unique containers: install it, or update the agent"
		}
		return ""
	}
	if !slices.ContainsFunc(features, func(f string) bool { return strings.HasSuffix(f, ".unique") }) {
		return "it has no runtime for unique containers: install lxc or podman, or update the agent"
	}
	return ""
}

// follow looks at the workloads that people move: one that is where it was to go has moved,
// and a wish whose host cannot take the workload any more is dropped.
func (r mover) follow(ctx context.Context) (failed error) {
	r.mu.Lock()
	var moving, there []*workload
	v := r.view()
	for _, w := range r.open {
		switch {
		case w.Moving() && !v.Settling() && !r.ourSide(v):
			moving = append(moving, w)
		case w.Move.To == w.Host && w.Phase == unique.Held && w.Pending.IsZero():
			there = append(there, w)
		}
	}
	r.mu.Unlock()
	for _, w := range there {
		is, err := has(ctx, r.base, w)
		if err == nil && is {
			err = r.store(ctx, w, "", func(s *core.Workload) { endMove(s, s.Move, "", r.base.NowMS()) }, nil)
		}
		failed = errors.Join(failed, err)
	}
	if len(moving) == 0 {
		return failed
	}
	s, err := r.scene(ctx, WhatIf{}, unique.FenceGuard)
	if err != nil {
		return errors.Join(failed, err)
	}
	// Where there is no room for all, those that were asked for first go on.
	slices.SortFunc(moving, func(a, b *workload) int {
		return cmp.Or(cmp.Compare(b.Move.AtMS, a.Move.AtMS), strings.Compare(b.CTID.String(), a.CTID.String()))
	})
	for _, w := range moving {
		why := r.refusal(s, w, w.Move.To)
		next := w.Follow(why)
		if next.Move == w.Move {
			continue
		}
		s.moveEnds(w)
		failed = errors.Join(failed, r.store(ctx, w, "", func(c *core.Workload) { endMove(c, c.Move, why, r.base.NowMS()) }, nil))
		r.base.Log.InfoContext(ctx, "the move of a unique workload was dropped", "name", string(w.Name), "host", string(w.Host), "why", why)
	}
	return failed
}

// moveEnds has the room that is kept for the move of a workload be free.
func (s *scene) moveEnds(w *workload) {
	for i := range s.movable {
		if s.of[s.movable[i].Name] == w {
			s.movable[i].To = ""
		}
	}
}

// underWay are the moves that people have asked for, as steps of a plan.
func (r mover) underWay(s *scene) (steps []Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range s.movable {
		if w := s.of[p.Name]; w.Moving() {
			why := w.Move.By + " moves it"
			if w.Move.Reason != "" {
				why += ": " + w.Move.Reason
			}
			steps = append(steps, Step{CTID: w.CTID, Placed: placement.Placed{Workload: p.Name, From: string(w.Host), To: string(w.Move.To), Why: why}})
		}
	}
	return steps
}
