package workloads

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/unique"
)

// Step is where placement would have a workload that is somewhere else, or nowhere.
type Step struct {
	placement.Placed
	CTID protocol.CTID
	// Stays tells that it goes on where it is, because no other host can take it.
	Stays bool
}

// Plan tells what placement would change if the fleet were as q asks: workloads that would
// move, and those that have no host. It changes nothing.
func (r *Room) Plan(ctx context.Context, q WhatIf) ([]Step, error) {
	s, err := r.scene(ctx, q, unique.FenceGuard)
	if err != nil {
		return nil, err
	}
	steps := (mover{r}).underWay(s)
	moving := make(map[protocol.CTID]bool, len(steps))
	for _, m := range steps {
		moving[m.CTID] = true
	}
	for _, to := range placement.Place(s.hosts, s.movable, r.cfg.Placing.Strategy) {
		w := s.of[to.Workload]
		if from := string(w.Host); to.From == "" && slices.Contains(q.Lose, w.Host) {
			to.From = from
			to.Why = "host " + from + " is lost"
			if ok, why := w.Anywhere(); !ok {
				to.Why = why
			}
		}
		if to.To == to.From && to.To != "" || moving[w.CTID] {
			continue
		}
		if to.To == "" && to.Why == "no host can take it" {
			to.Why += reasons(placement.Explain(s.hosts, s.movable, to.Workload))
		}
		steps = append(steps, Step{Placed: to, CTID: w.CTID, Stays: to.To == "" && to.From != "" && to.For == "" && !slices.Contains(q.Lose, w.Host)})
	}
	return steps, nil
}

// Explanation is what placement says about one workload.
type Explanation struct {
	Status
	Verdicts []placement.Verdict // by host
}

// Explain returns what each host says to a workload, which is named by its name or its id.
func (r *Room) Explain(ctx context.Context, name string) (Explanation, error) {
	w, err := r.find(name)
	if err != nil {
		return Explanation{}, err
	}
	s, err := r.scene(ctx, WhatIf{}, unique.FenceGuard)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{Status: w, Verdicts: placement.Explain(s.hosts, s.movable, s.named[w.CTID])}, nil
}

// find returns the workload of a name or an id.
func (r *Room) find(name string) (found Status, err error) {
	all := r.List()
	if id, err := protocol.ParseCTID(name); err == nil {
		all = slices.DeleteFunc(all, func(s Status) bool { return s.CTID != id })
	} else {
		all = slices.DeleteFunc(all, func(s Status) bool { return string(s.Name) != name })
	}
	switch len(all) {
	case 0:
		return Status{}, fmt.Errorf("unique container %.80q: %w", name, core.ErrNotFound)
	case 1:
		return all[0], nil
	}
	return Status{}, fmt.Errorf("%w: %d unique containers are named %s; name one by its id: hostler lease ls -o wide", core.ErrConflict, len(all), name)
}

// SetWants gives a workload these wishes and no others. as is the [core.Tag] of the wishes
// that the requester has read; of empty any will do.
func (r *Room) SetWants(ctx context.Context, by core.Actor, name string, wants placement.Wants, as string) error {
	if err := r.base.Allow(by, core.RoleOperator, "decide where workloads run"); err != nil {
		return err
	}
	if err := wants.Check(); err != nil {
		return fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	s, err := r.find(name)
	if err != nil {
		return err
	}
	r.deciding.Lock()
	defer r.deciding.Unlock()
	err = r.base.Update(ctx, failpoint.WorkloadDecided, func(tx core.Tx) error {
		w, err := tx.Workloads.Get(s.CTID)
		if err != nil {
			return err
		}
		if err := mayFollow(tx, w.CTID, w.Name, wants.After); err != nil {
			return err
		}
		if err := core.AsRead(fmt.Sprintf("the placement of %s", s.Name), as, core.Tag(w.Wants)); err != nil {
			return err
		}
		w.Wants = wants
		return errors.Join(tx.Workloads.Put(w), r.base.Audit(tx, by, "workload.wants", s.CTID.String(), map[string]any{"name": string(s.Name), "wants": wants}))
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.all[s.CTID]; w != nil {
		w.Wants, r.changed = wants, true
	}
	return nil
}

// Choose returns the host that a new container is best placed on. Containers that are not
// unique are placed once, and then belong to their host.
func (r *Room) Choose(ctx context.Context, spec []byte, wants placement.Wants) (protocol.HostID, error) {
	if err := wants.Check(); err != nil {
		return "", fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	decoded, err := protocol.DecodeRequest(spec)
	if err != nil {
		return "", fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	if decoded.Kind != protocol.KindCreate {
		return "", fmt.Errorf("%w: place: only a container that is created can be placed", core.ErrInvalid)
	}
	least, starts := unique.FenceNone, false
	if args, ok := decoded.Args.(*protocol.CreateArgs); ok && args.Class == contract.Unique {
		least, starts = unique.FenceGuard, args.Start // agents without one refuse it
	} else if len(wants.After) > 0 {
		return "", fmt.Errorf("%w: place.after: only a unique container starts after others; for those of one host: hostler ct set HOST/NAME --start-after", core.ErrInvalid)
	}
	if err := r.base.View(ctx, func(tx core.Tx) error { return mayFollow(tx, decoded.Target, decoded.Name, wants.After) }); err != nil {
		return "", err
	}
	s, err := r.scene(ctx, WhatIf{name: decoded.Name}, least)
	if err != nil {
		return "", err
	}
	if late := placement.WaitsFor(wants.After, s.up); late != "" && starts {
		return "", fmt.Errorf("%w: container %s: %s; create it then, or now without --start", core.ErrConflict, decoded.Name, late)
	}
	r.mu.Lock()
	w := r.cfg.Placing.wanted(&workload{Workload: core.Workload{Workload: unique.Workload{CTID: decoded.Target, Name: decoded.Name, Phase: unique.Free, Data: unique.DataNone}, Spec: spec, Wants: wants}}, namesOf(r.all), 0)
	r.mu.Unlock()
	w.Name, w.Called, w.Taken = "the new container", string(decoded.Name), s.taken(decoded.Name, decoded.Target)
	all := append(s.settled(), w)
	for _, to := range placement.Place(s.hosts, all, r.cfg.Placing.Strategy) {
		if to.Workload == w.Name && to.To != "" {
			return protocol.HostID(to.To), nil
		}
	}
	return "", fmt.Errorf("%w: no host can take container %s%s", core.ErrConflict, decoded.Name, reasons(placement.Explain(s.hosts, all, w.Name)))
}
