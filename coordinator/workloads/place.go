package workloads

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/setting"
	"github.com/hostler-io/hostler/unique"
)

// settlePending takes the end of the action that creates a workload on its host: it is
// there, or that host is banned and another one is tried. One that could not be created
// where its requester wanted it is forgotten. One whose container was destroyed, too. One
// that has another image now is made of that by other hosts.
func (r *Room) settlePending(ctx context.Context, id protocol.CTID) error {
	r.mu.Lock()
	w := r.all[id]
	var pending protocol.ActionID
	if w != nil {
		pending = w.Pending
	}
	r.mu.Unlock()
	if pending.IsZero() {
		return nil
	}
	a, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Action, error) { return tx.Actions.Get(pending) })
	if errors.Is(err, core.ErrNotFound) {
		a.State, err = protocol.StateLost, nil
	}
	if err != nil || !a.State.Final() {
		return err
	}
	failed, made := false, []byte(nil)
	switch info, _ := protocol.KindOf(a.Kind); {
	case a.Host != w.Host && a.Host != "": // it went elsewhere meanwhile
	case a.Kind == protocol.KindContainerUpgrade:
		if a.State == protocol.StateDone {
			if made, err = changed(w.Spec, a.Spec); err != nil {
				return err
			}
		}
	case info.Removes && a.State == protocol.StateDone:
		return r.forget(ctx, w, "its container was removed")
	case !info.Removes && a.State != protocol.StateDone:
		if a.Requester != string(protocol.Coordinator) {
			return r.forget(ctx, w, "it could not be created: "+a.Detail)
		}
		failed = true
	}
	return r.store(ctx, w, "", func(s *core.Workload) {
		if s.Pending == pending {
			s.Pending = protocol.ActionID{}
		}
		if a.Host == s.Host {
			carried(s, &a)
		}
		switch m := s.Move; {
		case m.To != s.Host || a.Host != s.Host:
		case failed:
			endMove(s, m, "it did not start there: "+cmp.Or(a.Detail, string(a.Reason)), r.base.NowMS())
		case a.State == protocol.StateDone:
			endMove(s, m, "", r.base.NowMS())
		}
		if made != nil {
			s.Spec = made
		}
		if failed {
			s.Moves, s.Failed = true, failedOn(s.Failed, s.Host, cmp.Or(a.Detail, string(a.Reason)), r.base.NowMS())
		}
	}, nil)
}

// maxChanges bounds the changes of one workload that have not ended.
const maxChanges = 64

// changes reports whether actions of a kind change how a container is made elsewhere,
// beside upgrades.
func changes(k protocol.Kind) bool {
	return k == protocol.KindLimit || k == protocol.KindSet || k == protocol.KindConfig
}

// settleChanges takes the ends of changes, in their order: a workload that was changed is
// made so by other hosts.
func (r *Room) settleChanges(ctx context.Context, id protocol.CTID) error {
	r.mu.Lock()
	w := r.all[id]
	if w == nil || len(w.Changes) == 0 {
		r.mu.Unlock()
		return nil
	}
	open, spec, host := slices.Clone(w.Changes), w.Spec, w.Host
	r.mu.Unlock()
	var ended []core.Action
	err := r.base.View(ctx, func(tx core.Tx) error {
		ended = nil
		for _, id := range open {
			a, err := tx.Actions.Get(id)
			switch {
			case errors.Is(err, core.ErrNotFound):
				a.ID, err = id, nil
			case err == nil && !a.State.Final():
				return nil
			}
			if err != nil {
				return err
			}
			ended = append(ended, a)
		}
		return nil
	})
	if err != nil || len(ended) == 0 {
		return err
	}
	for _, a := range ended {
		if a.State != protocol.StateDone || a.Host != host {
			continue
		}
		next, err := changed(spec, a.Spec)
		if err != nil { // it keeps nothing else from being decided
			r.base.Log.ErrorContext(ctx, "a change of a unique workload will not hold on other hosts", "name", string(w.Name), "action", a.ID.String(), "err", err)
			continue
		}
		spec = next
	}
	return r.store(ctx, w, "", func(s *core.Workload) {
		s.Spec = spec
		s.Changes = slices.DeleteFunc(slices.Clone(s.Changes), func(id protocol.ActionID) bool { return slices.Contains(open[:len(ended)], id) })
	}, nil)
}

// changed is the specification of a workload after a change of its container.
func changed(spec, change []byte) ([]byte, error) {
	s, err := protocol.DecodeRequest(spec)
	if err != nil {
		return nil, err
	}
	c, err := protocol.DecodeRequest(change)
	if err != nil {
		return nil, err
	}
	args, ok := s.Args.(*protocol.CreateArgs)
	if !ok {
		return nil, fmt.Errorf("%w: workload %s was not created", protocol.ErrSpec, s.Name)
	}
	again := *args
	var limits limit.Limits
	switch by := c.Args.(type) {
	case *protocol.ContainerUpgradeArgs:
		again.Template = cmp.Or(by.Image, again.Template)
	case *protocol.LimitArgs:
		limits, err = limit.Parse(by.Set)
	case *protocol.SetArgs:
		if by.Health != nil {
			if again.Health = by.Health; by.Health.Off {
				again.Health = nil
			}
		}
		again.Schedules = args.With(by.Schedules)
	case *protocol.ConfigArgs:
		var to setting.Changes
		if to, err = setting.Parse(by.Set); err == nil {
			limits, again.Labels = to.Limits, to.Labelled(args.Labels)
		}
		if to.Hostname != nil {
			again.Hostname = protocol.ContainerName(*to.Hostname)
		}
	}
	if err == nil && limits != nil {
		limits, err = with(args.Limits, limits)
		again.Limits = limits.Strings()
	}
	if err != nil {
		return nil, err
	}
	s.Args = &again
	return json.Marshal(s)
}

// with are limits after a change.
func with(set []string, change limit.Limits) (limit.Limits, error) {
	was, err := limit.Parse(set)
	return was.With(change), err
}

// failedOn adds a host on which a workload does not run as it should.
func failedOn(all map[protocol.HostID]core.Failure, host protocol.HostID, why string, atMS int64) map[protocol.HostID]core.Failure {
	next := map[protocol.HostID]core.Failure{host: {AtMS: atMS, Why: why}}
	for h, f := range all {
		if h != host {
			next[h] = f
		}
	}
	return next
}

// forget removes a workload.
func (r *Room) forget(ctx context.Context, w *workload, why string) error {
	err := r.base.Update(ctx, failpoint.WorkloadDecided, func(tx core.Tx) error { return tx.Workloads.Remove(w.CTID) })
	if err != nil {
		return err
	}
	r.base.Log.InfoContext(ctx, "a unique workload is forgotten", "name", string(w.Name), "host", string(w.Host), "why", why)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, w.CTID)
	delete(r.open, w.CTID)
	r.held.remove(w)
	r.news.moved()
	return nil
}

// placer is the part of a room that finds hosts for workloads. Its methods are called by
// the decision that is under way.
type placer struct{ *Room }

// retry is how often placement is asked again although nothing has changed that the room
// was told of: hosts come and go.
const retry = 5 * time.Second

// place finds hosts for what is free, and has them create it. What was placed by a process
// that ended before it could ask for that is asked for again. Then it has those leave their
// hosts that are to be on others.
func (r placer) place(ctx context.Context) error {
	r.mu.Lock()
	v := r.view()
	asked := []*workload{}
	leaving := false // some are on their way already
	for _, w := range r.open {
		if w.Phase == unique.Held && w.Pending.IsZero() && w.Epoch.Counter > 1 && w.named == (protocol.Seq{}) && !v.Settling() {
			asked = append(asked, w)
		}
		// One that is free and waits for room holds up no others.
		leaving = leaving || w.Leaves() && w.Phase != unique.Free
	}
	// While our own side is suspected nothing leaves a host, and what has changed is kept for
	// when it is not. What is free is so by a proof, as that a person has had its host switched
	// off: that is placed.
	changed, ours := r.changed, r.ourSide(v)
	due := changed && !ours || v.NowMS-r.placedMS >= retry.Milliseconds() && (changed || index(r).unplaced())
	if due = due && len(r.all) > 0 && !v.Settling(); due {
		r.changed, r.placedMS = changed && ours, v.NowMS
	}
	r.mu.Unlock()
	var failed error
	for _, w := range asked {
		there, err := has(ctx, r.base, w)
		switch {
		case err == nil && !there:
			err = r.create(ctx, w)
		case err == nil && w.Data == unique.DataBackup && w.DataHost != w.Host:
			err = r.store(ctx, w, "", func(s *core.Workload) { s.DataHost = s.Host }, nil)
		}
		failed = errors.Join(failed, err)
	}
	if !due {
		return failed
	}
	s, err := r.scene(ctx, WhatIf{}, unique.FenceGuard)
	if err != nil {
		return errors.Join(failed, err)
	}
	waiting, err := r.placeFree(ctx, s)
	failed = errors.Join(failed, err)
	if !leaving && !ours && (changed || waiting || s.disturbed()) {
		failed = errors.Join(failed, r.leave(ctx, s))
	}
	return failed
}

// placeFree places what is free where there is room for it now. waiting tells that there
// is more.
func (r placer) placeFree(ctx context.Context, s *scene) (waiting bool, failed error) {
	if !s.anyFree() {
		return false, nil
	}
	all := s.settled()
	placed := placement.Place(s.hosts, all, r.cfg.Placing.Strategy)
	// The reasons of the workloads that wait count the room that is left after these placements.
	after := withPlaced(all, placed)
	for _, to := range placed {
		w := s.of[to.Workload]
		switch {
		case w.Phase != unique.Free:
		case to.To == "":
			waiting = true
			_, why := w.Anywhere()
			why = cmp.Or(s.late[to.Workload], why, to.Why+reasons(placement.Explain(s.hosts, after, to.Workload)))
			failed = errors.Join(failed, r.waits(ctx, w, why))
		default:
			failed = errors.Join(failed, r.move(ctx, w, protocol.HostID(to.To)))
		}
	}
	return waiting, failed
}

// withPlaced are workloads with those on their hosts that are placed.
func withPlaced(all []placement.Workload, placed []placement.Placed) []placement.Workload {
	to := make(map[string]string, len(placed))
	for _, p := range placed {
		to[p.Workload] = p.To
	}
	after := slices.Clone(all)
	for i := range after {
		if w := &after[i]; w.On == "" && to[w.Name] != "" {
			w.On, w.Fixed = to[w.Name], true
		}
	}
	return after
}

// leave has workloads leave their hosts: those for which another host is better, as when
// theirs is drained, and those that give way to others. They go on until then, and what
// finds no other host goes on where it is.
func (r placer) leave(ctx context.Context, s *scene) (failed error) {
	for _, to := range placement.Place(s.hosts, s.movable, r.cfg.Placing.Strategy) {
		w := s.of[to.Workload]
		// What was placed since the scene was read is nowhere in it.
		if w.Phase != unique.Held || w.Leaves() || to.From != string(w.Host) || to.To == to.From || to.To == "" && to.For == "" {
			continue
		}
		failed = errors.Join(failed, r.store(ctx, w, "", func(c *core.Workload) {
			c.Moves = true
			if why := s.broken[to.Workload]; why != "" {
				c.Failed = failedOn(c.Failed, c.Host, why, r.base.NowMS())
			}
		}, nil))
		r.base.Log.InfoContext(ctx, "a unique workload is to leave its host", "name", string(w.Name), "host", to.From, "to", to.To, "why", to.Why)
	}
	return failed
}

// told is how many hosts are named of those that cannot take a workload.
const told = 3

// reasons says of the first hosts why they cannot take a workload.
func reasons(all []placement.Verdict) string {
	var texts []string
	for _, v := range all[:min(len(all), told)] {
		texts = append(texts, v.Host+": "+v.Reason)
	}
	if more := len(all) - told; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	if len(texts) == 0 {
		return ": the fleet has no hosts"
	}
	return ": " + strings.Join(texts, "; ")
}

// waits notes why a free workload has no host.
func (r placer) waits(ctx context.Context, w *workload, why string) error {
	if w.Why == why {
		return nil
	}
	return r.store(ctx, w, "", func(s *core.Workload) { s.Why = why }, nil)
}

// move places a free workload, durably, and then has its host create it.
func (r placer) move(ctx context.Context, w *workload, to protocol.HostID) error {
	next, err := w.Place(to, r.cfg.Term)
	if err != nil {
		return err
	}
	if err := r.store(ctx, w, "workload.placed", func(s *core.Workload) {
		s.Workload = next
		holds(s)
	}, func() {
		w.named, w.quiet = protocol.Seq{}, false
	}); err != nil {
		return err
	}
	return r.create(ctx, w)
}

// has reports whether the host of a workload has told, since it was placed there, that it
// has it: a process before has had it created.
func has(ctx context.Context, base *core.Base, w *workload) (bool, error) {
	host, err := core.Read(ctx, base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(w.Host) })
	if errors.Is(err, core.ErrNotFound) {
		return false, nil
	}
	return host.Inventory.AtMS >= w.ChangedMS && slices.ContainsFunc(host.Inventory.Containers, func(c protocol.Container) bool { return c.CTID == w.CTID }), err
}

// create asks the host of a workload to make it.
func (r placer) create(ctx context.Context, w *workload) error {
	r.mu.Lock()
	features := r.host(w.Host).features
	r.mu.Unlock()
	spec, err := started(&w.Workload, features)
	if err != nil {
		return err
	}
	a, err := r.cfg.Propose(ctx, w.Host, spec)
	if err != nil {
		return r.waitsOrBans(ctx, w, err)
	}
	return r.store(ctx, w, "", func(s *core.Workload) { s.Pending = a.ID }, nil)
}

// waitsOrBans takes that a host may not be asked to create a workload.
func (r placer) waitsOrBans(ctx context.Context, w *workload, err error) error {
	if !errors.Is(err, core.ErrDenied) && !errors.Is(err, core.ErrConflict) {
		return err
	}
	return r.store(ctx, w, "", func(s *core.Workload) {
		s.Moves, s.Failed = true, failedOn(s.Failed, s.Host, err.Error(), r.base.NowMS())
		if s.Move.To == s.Host {
			endMove(s, s.Move, err.Error(), r.base.NowMS())
		}
	}, nil)
}

// started is the specification by which a workload was created, with its start, for a host
// that has these features.
func started(w *core.Workload, features []string) ([]byte, error) {
	s, err := protocol.DecodeRequest(w.Spec)
	if err != nil {
		return nil, err
	}
	args, ok := s.Args.(*protocol.CreateArgs)
	if !ok {
		return nil, errors.New("a workload is not made by a creation")
	}
	again := *args
	again.Start, s.Args = true, &again
	if w.Data == unique.DataBackup {
		again.Restore = w.Holders
		if slices.Contains(features, protocol.FeatureHolders) {
			again.Epochs = epochs(w)
		}
	}
	return json.Marshal(s)
}
