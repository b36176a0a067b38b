package workloads

import (
	"cmp"
	"context"
	"encoding/json"
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

// settlePending takes the end of the action that creates a workload on its host: it is
// there, or that host is banned and another one is tried. One that could not be created
// where its requester wanted it is forgotten. One whose container was destroyed, too.
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
	failed := false
	switch info, _ := protocol.KindOf(a.Kind); {
	case a.Host != w.Host && a.Host != "": // it went elsewhere meanwhile
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
		if failed {
			s.Moves, s.Banned = true, ban(s.Banned, s.Host, cmp.Or(a.Detail, string(a.Reason)))
		}
	}, nil)
}

// ban adds a host on which a workload does not start.
func ban(all map[protocol.HostID]string, host protocol.HostID, why string) map[protocol.HostID]string {
	next := map[protocol.HostID]string{host: why}
	for h, w := range all {
		next[h] = w
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
	return nil
}

// place finds hosts for what is free, and has them create it. What was placed by a process
// that ended before it could ask for that is asked for again.
func (r *Room) place(ctx context.Context) error {
	r.mu.Lock()
	v := r.view()
	var free []*workload
	asked := []*workload{}
	for _, w := range r.all {
		switch {
		case w.Phase == unique.Free:
			free = append(free, w)
		case w.Phase == unique.Held && w.Pending.IsZero() && w.Epoch.Counter > 1 && w.named == (protocol.Seq{}) && !v.Settling():
			asked = append(asked, w)
		}
	}
	r.mu.Unlock()
	var failed error
	for _, w := range asked {
		failed = errors.Join(failed, r.create(ctx, w))
	}
	if len(free) == 0 || v.Settling() {
		return failed
	}
	hosts, err := r.candidates(ctx)
	if err != nil {
		return errors.Join(failed, err)
	}
	var all []placement.Workload
	for _, w := range free {
		all = append(all, wanted(w))
	}
	for _, to := range placement.Place(hosts, all, placement.Spread) {
		w := free[slices.IndexFunc(free, func(w *workload) bool { return w.CTID.String() == to.Workload })]
		if to.To == "" {
			_, why := w.Anywhere()
			failed = errors.Join(failed, r.waits(ctx, w, cmp.Or(why, to.Why+reasons(placement.Explain(hosts, all, to.Workload)))))
			continue
		}
		failed = errors.Join(failed, r.move(ctx, w, protocol.HostID(to.To)))
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
func (r *Room) waits(ctx context.Context, w *workload, why string) error {
	if w.Why == why {
		return nil
	}
	return r.store(ctx, w, "", func(s *core.Workload) { s.Why = why }, nil)
}

// wanted is a free workload as placement sees it.
func wanted(w *workload) placement.Workload {
	p := placement.Workload{Name: w.CTID.String(), Size: placement.Size{}}
	for h := range w.Banned {
		p.Banned = append(p.Banned, string(h))
	}
	if ok, _ := w.Anywhere(); !ok {
		p.Rules = []placement.Rule{{Host: string(w.Host), Must: true}}
	}
	return p
}

// candidates are the hosts of the fleet: those that are there, can hold unique work, and
// are open, take some.
func (r *Room) candidates(ctx context.Context) (all []placement.Host, err error) {
	err = r.base.View(ctx, func(tx core.Tx) error {
		all = nil
		return core.EachHost(tx, func(h core.Host) error {
			p := placement.Host{Name: string(h.ID), Labels: make(map[string]string)}
			r.mu.Lock()
			known := r.hosts[h.ID]
			p.Load = len(r.of(h.ID))
			r.mu.Unlock()
			switch {
			case h.State != core.HostApproved:
				p.Closed = "it is " + string(h.State)
			case h.Quarantined != "":
				p.Closed = "it is quarantined"
			case r.cfg.Fencing.Closed(h.ID) != "":
				p.Closed = r.cfg.Fencing.Closed(h.ID)
			case known == nil || !r.cfg.Reachable(h.ID):
				p.Closed = "it is away"
			case !known.Fence.AtLeast(r.cfg.Min):
				p.Closed = fmt.Sprintf("nothing there kills a workload when its lease ends (self-fence %s, want %s): set unique.guard = true in its agent.toml", known.Fence, r.cfg.Min)
			}
			all = append(all, p)
			return nil
		})
	})
	return all, err
}

// move places a free workload, durably, and then has its host create it.
func (r *Room) move(ctx context.Context, w *workload, to protocol.HostID) error {
	next, err := w.Place(to, r.cfg.Term)
	if err != nil {
		return err
	}
	if err := r.store(ctx, w, "workload.placed", func(s *core.Workload) { s.Workload = next }, func() {
		w.named, w.quiet = protocol.Seq{}, false
	}); err != nil {
		return err
	}
	return r.create(ctx, w)
}

// create asks the host of a workload to make it.
func (r *Room) create(ctx context.Context, w *workload) error {
	spec, err := started(w.Spec)
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
func (r *Room) waitsOrBans(ctx context.Context, w *workload, err error) error {
	if !errors.Is(err, core.ErrDenied) && !errors.Is(err, core.ErrConflict) {
		return err
	}
	return r.store(ctx, w, "", func(s *core.Workload) { s.Moves, s.Banned = true, ban(s.Banned, s.Host, err.Error()) }, nil)
}

// started is the specification by which a workload was created, with its start.
func started(spec []byte) ([]byte, error) {
	s, err := protocol.DecodeRequest(spec)
	if err != nil {
		return nil, err
	}
	args, ok := s.Args.(*protocol.CreateArgs)
	if !ok {
		return nil, errors.New("a workload is not made by a creation")
	}
	again := *args
	again.Start, s.Args = true, &again
	return json.Marshal(s)
}
