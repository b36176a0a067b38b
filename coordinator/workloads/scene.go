package workloads

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/unique"
)

// Placing is by which rules workloads are placed. The zero value is [DefaultPlacing].
type Placing struct {
	// Strategy chooses between hosts that are equally good.
	Strategy placement.Strategy
	// Reserve is the part of a host that workloads do not get, in percent.
	Reserve int
	// Stays is the score of the host that a workload is on.
	Stays int
	// Starts is after how many failed starts in a row a workload leaves its host.
	Starts int
	// Forgiven is how long a host counts as one on which a workload failed.
	Forgiven time.Duration
}

// DefaultPlacing spreads workloads, keeps a tenth of each host free, and moves no workload
// from a host that can go on with it.
func DefaultPlacing() Placing {
	return Placing{Strategy: placement.Spread, Reserve: 10, Stays: placement.Infinity, Starts: 5, Forgiven: time.Hour}
}

// Check refuses rules that make no sense.
func (p Placing) Check() error {
	switch {
	case p.Strategy != placement.Spread && p.Strategy != placement.Binpack:
		return fmt.Errorf("placement.strategy: %.40q: use spread or binpack", string(p.Strategy))
	case p.Reserve < 0 || p.Reserve > 90:
		return fmt.Errorf("placement.reserve_percent: %d is out of range: use 0 to 90", p.Reserve)
	case p.Stays < 0 || p.Stays > placement.Infinity:
		return fmt.Errorf("placement.stickiness: %d is out of range: use 0 to %d", p.Stays, placement.Infinity)
	case p.Starts < 1 || p.Starts > 5:
		return fmt.Errorf("placement.failed_starts: %d is out of range: use 1 to 5; after 5 a host leaves a container alone", p.Starts)
	case p.Forgiven < time.Minute:
		return fmt.Errorf("placement.failure_minutes: use at least 1")
	}
	return nil
}

// WhatIf is a question about other hosts than there are.
type WhatIf struct {
	Lose []protocol.HostID
	Add  []placement.Host
	name protocol.ContainerName // of a container that is not there yet; empty: none
}

// scene is the fleet as placement sees it.
type scene struct {
	hosts []placement.Host
	of    map[string]*workload // by the name that placement has for it, which people can read
	named map[protocol.CTID]string
	// movable are all workloads, those that can leave their host among them.
	movable []placement.Workload
	// broken says of workloads why they fail where they are, and late which others must run
	// before they start.
	broken, late map[string]string
	up           map[string]bool // see [order.up]
	called       map[string][]holding
}

// holding is a container of a host.
type holding struct {
	id   protocol.CTID // zero: foreign
	host protocol.HostID
}

// taken are the hosts that have another container of the name of a workload than itself.
func (s *scene) taken(name protocol.ContainerName, id protocol.CTID) (hosts []string) {
	for _, h := range s.called[string(name)] {
		if h.id != id {
			hosts = append(hosts, string(h.host))
		}
	}
	return hosts
}

// scene reads hosts and workloads. It does not change them. Hosts that show less than the
// self-fence least take nothing.
func (r *Room) scene(ctx context.Context, q WhatIf, least unique.SelfFence) (*scene, error) {
	hosts, err := r.sites.All(ctx, r.base)
	if err != nil {
		return nil, err
	}
	fenced := make(map[protocol.HostID]string)
	for _, h := range hosts {
		if why := r.cfg.Fencing.Closed(h.id); why != "" {
			fenced[h.id] = why
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &scene{of: make(map[string]*workload, len(r.all)), named: make(map[protocol.CTID]string, len(r.all)), broken: make(map[string]string), late: make(map[string]string), up: order{r}.up(hosts), called: make(map[string][]holding)}
	names := namesOf(r.all)
	taken, broken, stopped := make(map[protocol.HostID]placement.Size), make(map[protocol.CTID]string), make(map[protocol.CTID]bool)
	for _, h := range hosts {
		for i := range h.containers {
			c := &h.containers[i]
			if names[c.name] != nil || c.name == string(q.name) {
				s.called[c.name] = append(s.called[c.name], holding{c.id, h.id})
			}
			w := r.all[c.id]
			if w == nil || w.Host != h.id {
				continue
			}
			if c.stopped {
				stopped[c.id] = true
			}
			if (w.ChangedMS <= h.atMS || w.ChangedMS > r.base.NowMS() && order{r}.toldSince(h.id, h.atMS, w)) && r.cfg.Placing.fails(c.broken, c.failures) {
				broken[c.id] = cmp.Or(c.broken, fmt.Sprintf("the last %d starts have failed", c.failures))
			}
		}
	}
	now := r.base.NowMS()
	s.movable, s.hosts = make([]placement.Workload, 0, len(r.all)), make([]placement.Host, 0, len(hosts)+len(q.Add))
	for _, id := range slices.SortedFunc(maps.Keys(r.all), byID) {
		w := r.all[id]
		p := r.cfg.Placing.wanted(w, names, now)
		p.Aged, p.Taken = aged(w, hosts), s.taken(w.Name, id)
		if len(names[string(w.Name)]) > 1 || w.Name == q.name {
			p.Called = string(w.Name)
		}
		s.named[id] = p.Name
		if p.Waits = r.resolved[id].Waits; p.Waits != "" {
			p.Fixed = p.On != ""
		}
		if late := placement.WaitsFor(w.Wants.After, s.up); late != "" {
			s.late[p.Name], p.Waits = late, cmp.Or(p.Waits, late)
		}
		if slices.Contains(q.Lose, w.Host) {
			p.On, p.Fixed = "", false
		}
		// What its user has stopped would be started by another host.
		p.Fixed = p.Fixed || p.On != "" && stopped[id]
		if broken[id] != "" && w.Phase == unique.Held {
			s.broken[p.Name] = broken[id]
			p.Banned = append(p.Banned, string(w.Host))
		}
		if p.On != "" {
			taken[w.Host] = taken[w.Host].Plus(p.Size)
		}
		s.of[p.Name] = w
		s.movable = append(s.movable, p)
	}
	for _, h := range hosts {
		if slices.Contains(q.Lose, h.id) {
			continue
		}
		s.hosts = append(s.hosts, r.cfg.Placing.candidate(h, r.hosts[h.id], placer{r}.absent(h.id), taken[h.id], fenced[h.id], least))
	}
	s.hosts = append(s.hosts, q.Add...)
	return s, nil
}

// disturbed reports whether some workload should leave its host although nothing waits: it
// fails there, or its host is to be empty.
func (s *scene) disturbed() bool {
	empties := make(map[string]bool)
	for _, h := range s.hosts {
		if h.Empties {
			empties[h.Name] = true
		}
	}
	return slices.ContainsFunc(s.movable, func(w placement.Workload) bool {
		return w.On != "" && !w.Fixed && (empties[w.On] || slices.Contains(w.Banned, w.On))
	})
}

func (s *scene) anyFree() bool {
	return slices.ContainsFunc(s.movable, func(w placement.Workload) bool { return w.On == "" })
}

// settled are the workloads, of which those that have a host stay there.
func (s *scene) settled() []placement.Workload {
	all := slices.Clone(s.movable)
	for i := range all {
		all[i].Fixed = all[i].On != ""
	}
	return all
}

// namesOf is what placement calls the workloads of each name: that name, and with their id
// if there are several.
func namesOf(workloads map[protocol.CTID]*workload) map[string][]string {
	all := make(map[string][]string)
	for id, w := range workloads {
		all[string(w.Name)] = append(all[string(w.Name)], id.String())
	}
	for name, ids := range all {
		if len(ids) == 1 {
			all[name] = []string{name}
			continue
		}
		slices.Sort(ids)
		for i := range ids {
			ids[i] = name + " (" + ids[i] + ")"
		}
	}
	return all
}

// wanted is a workload as placement sees it. One from which grants are withheld is counted
// on its host, for it may still run there.
func (rules Placing) wanted(w *workload, names map[string][]string, nowMS int64) placement.Workload {
	p := placement.Workload{
		Name: nameIn(names, w), Priority: w.Wants.Priority, Size: sizeOf(w.Spec), Stays: rules.Stays,
		Rules: slices.Clone(w.Wants.Rules), Only: w.Wants.Only(),
	}
	for host, f := range w.Failed {
		if fence.Age(f.AtMS, nowMS) < rules.Forgiven {
			p.Banned = append(p.Banned, string(host))
		}
	}
	for _, n := range w.Wants.Near {
		for _, other := range names[n.Workload] {
			if other != p.Name {
				p.Near = append(p.Near, placement.Near{Workload: other, Score: n.Score})
			}
		}
	}
	if w.Phase == unique.Free && w.Moves { // it left that host: not without need back to it
		p.Rules = append(p.Rules, placement.Rule{Host: string(w.Host), Score: -1})
	}
	if w.Moving() {
		p.To = string(w.Move.To)
	}
	if w.Phase == unique.Free && w.Moving() {
		p.Rules = append(p.Rules, placement.Rule{Host: string(w.Move.To), Must: true})
	}
	if w.Phase != unique.Free {
		p.On, p.Fixed = string(w.Host), w.Phase != unique.Held || w.Leaves() || w.Settled() || w.shut || !w.Pending.IsZero()
	}
	if ok, _ := w.Anywhere(); !ok {
		p.Rules = append(p.Rules, placement.Rule{Host: string(w.Host), Must: true})
		p.Fixed = p.On != ""
	}
	return p
}

func nameIn(names map[string][]string, w *workload) string {
	all := names[string(w.Name)]
	if len(all) == 1 {
		return all[0]
	}
	return string(w.Name) + " (" + w.CTID.String() + ")"
}

// sizeOf is what a workload takes: its limits. What has none takes nothing that is counted.
func sizeOf(spec []byte) (s placement.Size) {
	decoded, err := protocol.DecodeRequest(spec)
	if err != nil {
		return s
	}
	args, ok := decoded.Args.(*protocol.CreateArgs)
	if !ok {
		return s
	}
	limits, err := limit.Parse(args.Limits)
	if err != nil {
		return s
	}
	of := func(r limit.Resource) int64 {
		if limits[r] == "" || limits[r] == limit.None {
			return 0
		}
		n, err := limit.Number(r, limits[r])
		if err != nil {
			return 0
		}
		return n
	}
	return placement.Size{CPU: of(limit.CPU) * 10, Memory: of(limit.Memory), Disk: of(limit.Disk)}
}

// labelsOf are the labels of a host.
func labelsOf(h core.Host) map[string]string {
	all := make(map[string]string, len(h.Labels))
	for _, l := range h.Labels {
		k, v, _ := strings.Cut(l, "=")
		all[k] = v
	}
	return all
}

// absent says why a host can be given nothing now; empty if it can. It must be connected and
// have sent a lease in the time for which one is good: what a host is given whose last lease
// is older would be taken back at once. And it must have told what it has since it is back.
// The caller holds the lock.
func (r placer) absent(host protocol.HostID) string {
	h := r.hosts[host]
	switch {
	case h == nil, !r.cfg.Reachable(host), r.base.Boot()-h.heardMS >= r.cfg.Timing.TTL.Milliseconds():
		return "it is away"
	case !h.told:
		return "it is back, and has not told what it has since"
	}
	return ""
}

// askAfter is how long after its return a host is asked for what it has, if it has not told
// that by itself, and then again.
const askAfter = 10 * time.Second

// returned notes that a host is back. The caller holds the lock.
func (r placer) returned(host protocol.HostID, nowMS int64) {
	h := r.host(host)
	h.told, h.askMS, h.backMS = false, nowMS+askAfter.Milliseconds(), nowMS
	r.news.back[host] = true
}

// Untold reports, once in a while, that a host which is back has not told what it has since.
func (r *Room) Untold(host protocol.HostID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.news.back[host] { // as nearly always, for each host and each second
		return false
	}
	h, now := r.host(host), r.base.Boot()
	if now < h.askMS {
		return false
	}
	h.askMS = now + askAfter.Milliseconds()
	return true
}

// candidate is a host as placement sees it, with what the workloads on it take. absent
// says why it can be given nothing now, and fenced
// why the room that fences keeps it closed.
func (rules Placing) candidate(h *site, known *holder, absent string, taken placement.Size, fenced string, least unique.SelfFence) placement.Host {
	p := placement.Host{Name: string(h.id), Labels: h.labels}
	part := int64(100 - rules.Reserve)
	p.Has = placement.Size{
		CPU: h.has.CPU * part / 100,
		// A host that is full has what its workloads take: none of them gives way for that.
		Memory: max(taken.Memory, min(h.has.Memory/100*part, h.free.Memory/100*part+taken.Memory)),
		Disk:   max(taken.Disk, min(h.has.Disk/100*part, h.free.Disk/100*part+taken.Disk)),
	}
	switch {
	case h.state != core.HostApproved:
		p.Closed = "it is " + string(h.state)
	case h.quarantined:
		p.Closed = "it is quarantined"
	case fenced != "":
		p.Closed = fenced
	case h.availability == core.Draining:
		p.Closed, p.Empties = "it is drained", true
	case h.availability != core.Open:
		p.Closed = "it is " + map[core.AvailabilityState]string{core.Cordoned: "cordoned", core.Maintenance: "in maintenance"}[h.availability]
	case absent != "":
		p.Closed = absent
	case !known.Fence.AtLeast(least):
		p.Closed = fmt.Sprintf("nothing there kills a workload when its lease ends (self-fence %s, want %s): set unique.guard = true in its agent.toml", known.Fence, least)
	}
	return p
}
