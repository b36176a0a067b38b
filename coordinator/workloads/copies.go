package workloads

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// Times of second copies, in the order in which they matter.
const (
	// lasting is how long a copy must be told of before anything follows from it but that
	// nothing is placed: a host may tell of what it has just stopped.
	lasting = 15 * time.Second
	// current is after which time a host that is heard has told of each change.
	current = time.Minute
	// stopEvery is how long after a stop another one is asked for, if that has ended and
	// the copy is still told of.
	stopEvery = 5 * time.Minute
)

// running is the state of a container that runs.
const running = "running"

// copyKey is a workload on a host.
type copyKey struct {
	id   protocol.CTID
	host protocol.HostID
}

// found is a workload that a host tells it runs.
type found struct {
	unique.Copy
	name    protocol.ContainerName // that the host has for it
	sinceMS int64                  // since when it is known, boot clock
	asked   protocol.ActionID      // the newest stop
	askedMS int64                  // boot clock; 0: none
	failed  string                 // why no stop could be asked for
}

// Told takes the containers of an inventory that is durable.
func (r *Room) Told(host protocol.HostID, all []protocol.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.host(host)
	index{r}.tells(host, all)
	r.changed = r.changed || !h.told
	h.told, h.toldMS = true, r.base.Boot()
	delete(r.news.back, host)
}

// runsOf are the containers that run.
func runsOf(all []protocol.Container) map[protocol.CTID]bool {
	var runs map[protocol.CTID]bool
	for _, c := range all {
		if c.State != running || c.CTID.IsZero() {
			continue
		}
		if runs == nil {
			runs = make(map[protocol.CTID]bool)
		}
		runs[c.CTID] = true
	}
	return runs
}

// sinceMS is since when a workload is where it is, Unix milliseconds; 0 if it was never
// anywhere else.
func sinceMS(w *workload) int64 {
	for _, s := range slices.Backward(w.History) {
		if s.Phase != unique.Withheld {
			return s.AtMS
		}
	}
	return 0
}

// finder is the part of a room that looks for workloads which run where they may not.
type finder struct{ *Room }

// suspected lists the workloads that some other host than theirs may run, by what hosts
// have told. It is memory alone: most of the time there are none.
func (r finder) suspected() map[protocol.HostID][]protocol.CTID {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(index(r).astray())
	for host, ids := range all { // what else is told of these workloads counts with them
		for _, id := range ids {
			if w := r.all[id]; w.Host != host && !slices.Contains(all[w.Host], id) && r.host(w.Host).runs[id] {
				all[w.Host] = append(slices.Clip(all[w.Host]), id)
			}
		}
	}
	return all
}

// discover looks for workloads that run where they may not, and has them stopped as is
// configured.
func (r finder) discover(ctx context.Context) error {
	asked := r.suspected()
	hosts := make(map[protocol.HostID]core.Host, len(asked))
	if len(asked) > 0 {
		err := r.base.View(ctx, func(tx core.Tx) error {
			for id := range asked {
				h, err := tx.Hosts.Get(id)
				if err != nil && !errors.Is(err, core.ErrNotFound) {
					return err
				}
				hosts[id] = h
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	var failed error
	for _, f := range r.sight(hosts, asked) {
		failed = errors.Join(failed, r.stopCopy(ctx, f))
	}
	return failed
}

// sight notes the copies that hosts tell of, and returns those that are to be stopped now.
func (r finder) sight(hosts map[protocol.HostID]core.Host, asked map[protocol.HostID][]protocol.CTID) (due []copyKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.view()
	seen := make(map[copyKey]*found)
	told := make(map[protocol.CTID][]unique.Copy)
	for id, h := range hosts {
		for _, ctid := range asked[id] {
			key := copyKey{ctid, id}
			if f := r.sighted(key, h, v); f != nil {
				seen[key] = f
				told[ctid] = append(told[ctid], f.Copy)
			}
		}
	}
	before := len(r.resolved)
	r.copies, r.resolved = seen, make(map[protocol.CTID]unique.Resolved)
	for id, all := range told {
		slices.SortFunc(all, func(a, b unique.Copy) int { return cmp.Compare(a.Host, b.Host) })
		res := unique.Resolve(r.all[id].Workload.Workload, all, r.cfg.Copies)
		if len(res.Stray) == 0 {
			continue
		}
		r.resolved[id] = res
		for _, host := range res.Stop {
			if f := seen[copyKey{id, host}]; !v.Settling() && r.lasts(id, res) && r.cfg.Reachable(host) && (f.askedMS == 0 || v.NowMS-f.askedMS >= stopEvery.Milliseconds()) {
				f.askedMS = v.NowMS
				due = append(due, copyKey{id, host})
			}
		}
	}
	r.changed = r.changed || len(r.resolved) != before
	slices.SortFunc(due, func(a, b copyKey) int {
		return cmp.Or(strings.Compare(a.id.String(), b.id.String()), cmp.Compare(a.host, b.host))
	})
	return due
}

// lasts reports whether a copy that counts is told of for so long that it is no echo.
func (r finder) lasts(id protocol.CTID, res unique.Resolved) bool {
	return slices.ContainsFunc(res.Stray, func(c unique.Copy) bool {
		f := r.copies[copyKey{id, c.Host}]
		return !c.Ignored && r.base.Boot()-f.sinceMS >= lasting.Milliseconds()
	})
}

// sighted is what a host tells of a workload, if it says that it runs and could know that
// it may not. The caller holds the lock.
func (r finder) sighted(key copyKey, h core.Host, v unique.View) *found {
	w, known := r.all[key.id], r.host(key.host)
	i := slices.IndexFunc(h.Inventory.Containers, func(c protocol.Container) bool { return c.CTID == key.id && c.State == running })
	if w == nil || i < 0 {
		return nil
	}
	off, confirmed := r.cfg.Fencing.Off(key.host)
	if (off || confirmed) && !r.cfg.Reachable(key.host) {
		return nil
	}
	old := r.copies[key]
	rightful := key.host == w.Host && w.Phase != unique.Free
	if !order(r).toldSince(h.ID, h.Inventory.AtMS, w) && old == nil && !rightful {
		return nil
	}
	f := &found{sinceMS: v.NowMS}
	if old != nil {
		*f = *old
	}
	name, labels := h.Inventory.Containers[i].Name, placement.Host{Name: string(key.host), Labels: labelsOf(h)}
	f.name = protocol.ContainerName(name)
	f.Copy = unique.Copy{
		Host: key.host, Epoch: known.epochs[key.id], Ignored: w.Wants.Discovers(&labels) == placement.Never,
		Maintenance: known.availability.State == core.Maintenance || h.State != core.HostApproved,
	}
	return f
}

// stopCopy asks a host to stop a workload, unless it is asked already.
func (r finder) stopCopy(ctx context.Context, key copyKey) error {
	r.mu.Lock()
	f := r.copies[key]
	asked := f.asked
	r.mu.Unlock()
	if !asked.IsZero() {
		a, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Action, error) { return tx.Actions.Get(asked) })
		if err == nil && !a.State.Final() {
			return nil
		}
	}
	r.mu.Lock()
	spec, err := json.Marshal(protocol.Spec{Kind: protocol.KindStop, Target: key.id, Name: f.name, Args: &protocol.StopArgs{}})
	r.mu.Unlock()
	if err != nil {
		return err
	}
	a, err := r.cfg.Propose(ctx, key.host, spec)
	r.mu.Lock()
	if f.asked, f.failed = a.ID, ""; err != nil {
		f.failed = err.Error()
	}
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("stop a copy of container %s on host %s: %w", f.name, key.host, err)
	}
	r.base.Log.WarnContext(ctx, "a copy of a unique workload is stopped", "name", string(f.name), "host", string(key.host), "action", a.ID.String())
	return nil
}

// strays says of each copy of a workload that runs where it may not what becomes of it. The
// caller holds the lock.
func (r finder) strays(w *workload) (hosts []protocol.HostID, texts []string) {
	res := r.resolved[w.CTID]
	if !slices.ContainsFunc(res.Stray, func(c unique.Copy) bool { return c.Ignored }) && !r.lasts(w.CTID, res) {
		return nil, nil
	}
	for _, c := range res.Stray {
		f := r.copies[copyKey{w.CTID, c.Host}]
		text := "host " + string(c.Host) + " runs a copy"
		if c.Epoch != (protocol.Epoch{}) {
			text += " under epoch " + c.Epoch.String()
		}
		switch {
		case c.Ignored:
			text += ", and nothing is done: its discovery leaves that host out"
		case c.Maintenance:
			text += ", and nothing is done: that host is in maintenance, or is not approved"
		case f.failed != "":
			text += ", and no stop can be asked for: " + f.failed
		case f.askedMS != 0:
			text += fmt.Sprintf(", which action %s stops", f.asked)
		case r.cfg.Copies == unique.Block:
			text += ", and nothing is done (unique.copies = block)"
		default:
			text += ", which is stopped when leases have settled"
		}
		hosts, texts = append(hosts, c.Host), append(texts, text)
	}
	return hosts, texts
}

// waitsLong is for how long a workload runs nowhere before people are told: a takeover that
// goes well takes seconds.
const waitsLong = time.Minute

// Concerns are the alerts about hosts that run copies which they may not run, and about those
// that held last what runs nowhere.
func (r *Room) Concerns() map[protocol.HostID][]protocol.AlertInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[protocol.HostID][]protocol.AlertInfo)
	now := r.base.NowMS()
	for id := range r.resolved {
		w := r.all[id]
		if w == nil {
			continue
		}
		rightful := "no host may run it"
		if w.Phase != unique.Free {
			rightful = "host " + string(w.Host) + " holds it under epoch " + w.Epoch.String()
		}
		hosts, texts := finder{r}.strays(w)
		for i, host := range hosts {
			all[host] = append(all[host], warnings.New(warnings.SecondCopy, id.String(), fmt.Sprintf("unique container %s: %s; %s", w.Name, texts[i], rightful), now))
		}
	}
	for _, w := range r.open {
		if w.Phase == unique.Free && now-sinceMS(w) >= waitsLong.Milliseconds() {
			all[w.Host] = append(all[w.Host], warnings.New(warnings.RunsNowhere, w.CTID.String(), fmt.Sprintf("unique container %s runs on no host: %s", w.Name, w.Why), now))
		}
	}
	for _, alerts := range all {
		slices.SortFunc(alerts, func(a, b protocol.AlertInfo) int { return cmp.Compare(a.ID, b.ID) })
	}
	return all
}
