package sim

import (
	"slices"

	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// head is the coordinator of a play.
type head struct {
	*play
	on, cut bool
	term    uint64
	started int64 // by its clock, which is real time
	seq     int

	// all is durable.
	all   []*unique.Workload
	size  map[string]Workload
	keeps map[string]bool

	// The rest is memory of one process.
	heardMS map[*host]int64
	fence   map[*host]unique.SelfFence
	named   map[*host]map[string]int  // the newest grant that named a workload
	quiet   map[*host]map[string]bool // workloads of which a lease has shown that they do not run
	gone    map[*host]bool
	lastWhy map[string]string
	side    unique.Suspicion
	drained map[*host]bool
	told    map[*host]map[string]bool // what each host has told that it holds: whether that runs
	shut    map[string]int64          // since when a workload is withheld

	fencer *fencer
}

func newHead(p *play) *head {
	h := &head{play: p, size: make(map[string]Workload), keeps: make(map[string]bool), drained: make(map[*host]bool)}
	for _, w := range p.Workloads {
		h.size[w.Name], h.keeps[w.Name] = w, w.Keeps
		x := &unique.Workload{Name: protocol.ContainerName(w.Name), Phase: unique.Free, Keeps: w.Keeps, Data: w.Data}
		x.Epoch.Counter = 1
		if x.Data == "" {
			x.Data = unique.DataNone
		}
		if w.On != "" {
			x.Host, x.Phase = protocol.HostID(w.On), unique.Held
		}
		h.all = append(h.all, x)
	}
	h.fencer = newFencer(h)
	slices.SortFunc(h.all, func(a, b *unique.Workload) int { return compare(a.Name, b.Name) })
	return h
}

func compare(a, b protocol.ContainerName) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (h *head) start() {
	h.on = true
	h.term++
	h.started = h.now
	if h.term == 1 { // the fleet is new: nothing was granted before
		h.started = -h.Timing.Takeover().Milliseconds()
	}
	h.heardMS, h.fence = make(map[*host]int64), make(map[*host]unique.SelfFence)
	h.named, h.quiet = make(map[*host]map[string]int), make(map[*host]map[string]bool)
	h.gone, h.lastWhy = make(map[*host]bool), make(map[string]string)
	h.told, h.shut = make(map[*host]map[string]bool), make(map[string]int64)
	h.watch.started, h.side = h.now, unique.Suspicion{}
	h.fencer.restart()
	if h.term == 1 {
		for _, x := range h.hosts { // as if all had been heard just now
			h.heardMS[x], h.fence[x] = 1, x.Fence
		}
	}
	h.look(h.term)
}

func (h *head) stop() { h.on = false }

// heard takes a lease and grants.
func (h *head) heard(x *host, inc, number int, held map[string]bool, took int) {
	if !h.on {
		return
	}
	h.heardMS[x], h.fence[x], h.told[x] = max(1, h.now), x.Fence, held
	h.watch.came(x)
	closed := h.fencer.closed(x.id)
	quiet := make(map[string]bool)
	for _, w := range h.all {
		name := string(w.Name)
		if _, has := held[name]; w.Host == x.id && !has && (took > h.named[x][name] || h.noEcho) {
			quiet[name] = true
		}
	}
	h.quiet[x] = quiet
	g := grant{names: make(map[string]uint64)}
	h.seq++
	g.seq = h.seq
	settling := h.view().Settling()
	for _, w := range h.all {
		name := string(w.Name)
		if w.Host != x.id || w.Phase != unique.Held || w.Stopped || closed {
			continue
		}
		if settling && !held[name] { // only what runs is renewed
			continue
		}
		g.names[name] = w.Epoch.Counter
		if h.named[x] == nil {
			h.named[x] = make(map[string]int)
		}
		h.named[x][name] = g.seq
	}
	if !x.cut {
		h.send(x, func() { x.granted(inc, number, g) })
	}
	for _, w := range h.all { // what is to move is stopped there
		if name := string(w.Name); w.Host == x.id && w.Phase == unique.Withheld && w.Leaves() && held[name] && !x.cut {
			h.send(x, func() { x.stop(name) })
		}
	}
}

func (h *head) view() unique.View {
	v := unique.View{Timing: h.Timing, Min: h.Min, NowMS: h.now, StartedMS: h.started}
	if h.noWindow {
		v.StartedMS = min(h.started, h.now-h.Timing.Takeover().Milliseconds())
	}
	return v
}

// look is the coordinator's tick.
func (h *head) look(term uint64) {
	if !h.on || h.term != term {
		return
	}
	h.in(tick, func() { h.look(term) })
	v := h.view()
	there, gone := 0, 0
	for _, x := range h.hosts {
		at := max(h.heardMS[x], h.started) // one that was never heard is missed since then
		if h.gone[x] {
			h.gone[x] = v.NowMS-at >= h.Timing.TTL.Milliseconds()
			continue
		}
		there++
		if v.NowMS-at >= h.Timing.TTL.Milliseconds()*2/3 {
			gone++
		}
	}
	if v.OurSide = h.side.Ours(v, there, gone); h.briefUs {
		v.OurSide = unique.Vanished(there, gone)
	}
	for _, w := range h.all {
		h.decide(w, v)
	}
	if !v.OurSide {
		for _, x := range h.hosts { // one by one: what is gone for long is no window any more
			if v.NowMS-max(h.heardMS[x], h.started) >= 2*h.Timing.TTL.Milliseconds() {
				h.gone[x] = true
			}
		}
	}
	h.fencer.look(v)
	if !v.Settling() {
		if !v.OurSide {
			h.follow()
		}
		h.place()
	}
}

// holder is what is known of the host of a workload.
func (h *head) holder(w *unique.Workload, x *host) unique.Holder {
	return unique.Holder{
		HeardMS: h.heardMS[x], Fence: h.fence[x], Pausable: x.Pausable, Maintenance: x.maintenance,
		Quiet: h.quiet[x][string(w.Name)], Off: h.fencer.off(x.id),
	}
}

func (h *head) decide(w *unique.Workload, v unique.View) {
	x := h.byName[w.Host]
	if x == nil {
		return
	}
	next, changed := h.rules.decide(*w, h.holder(w, x), v)
	if !changed {
		return
	}
	if next.Phase == unique.Withheld && w.Phase == unique.Held {
		delete(h.quiet[x], string(w.Name)) // what was told before proves nothing
		h.shut[string(w.Name)] = h.now
		if !w.Leaves() {
			h.report.Suspended++
		}
	}
	if next.Why != "" {
		h.log("coordinator: %s is %s: %s", w.Name, next.Phase, next.Why)
	}
	*w = next
}

// candidates are the hosts as placement sees them.
func (h *head) candidates() (hosts []placement.Host) {
	for _, x := range h.hosts {
		p := placement.Host{Name: x.Name, Has: x.Has}
		switch at, ok := h.heardMS[x]; {
		case !ok || h.now-at >= h.Timing.TTL.Milliseconds():
			p.Closed = "it is away"
		case h.fencer.closed(x.id):
			p.Closed = "it is fenced"
		case x.maintenance:
			p.Closed = "it is in maintenance"
		case h.drained[x]:
			p.Closed, p.Empties = "it is drained", true
		}
		hosts = append(hosts, p)
	}
	return hosts
}

// wanted are the workloads as placement sees them.
func (h *head) wanted() (all []placement.Workload) {
	for _, w := range h.all {
		s := h.size[string(w.Name)]
		p := placement.Workload{Name: s.Name, Priority: s.Priority, Size: s.Size}
		if w.Phase != unique.Free { // what is free is on no host, the one that held it last among them
			p.On, p.Fixed = string(w.Host), true
		} else if w.Moving() {
			p.Rules = []placement.Rule{{Host: string(w.Move.To), Must: true}}
		}
		if ok, _ := w.Anywhere(); !ok && w.Host != "" {
			p.Rules = []placement.Rule{{Host: string(w.Host), Must: true}}
		}
		all = append(all, p)
	}
	return all
}

// refusal says why a host cannot take a workload that a person moves there.
func (h *head) refusal(w *unique.Workload, to protocol.HostID) string {
	for _, v := range placement.Explain(h.candidates(), h.wanted(), string(w.Name)) {
		if v.Host == string(to) {
			return v.Reason
		}
	}
	return ""
}

// move is a person who moves a workload.
func (h *head) move(name string, x *host) {
	i := slices.IndexFunc(h.all, func(w *unique.Workload) bool { return string(w.Name) == name })
	if w := h.all[i]; h.on {
		next, err := w.Ask(unique.Move{To: x.id, By: "a person"}, h.refusal(w, x.id))
		if err != nil {
			h.log("move %s to %s: refused: %v", name, x.Name, err)
			return
		}
		h.log("move %s to %s", name, x.Name)
		*w = next
	}
}

// follow looks at what people move.
func (h *head) follow() {
	for _, w := range h.all {
		if !w.Moving() {
			continue
		}
		why := h.refusal(w, w.Move.To)
		next := w.Follow(why)
		if next.Move != w.Move {
			h.log("coordinator: the move of %s to %s is dropped: %s", w.Name, w.Move.To, why)
		}
		*w = next
	}
}

// place finds hosts for what is free.
func (h *head) place() {
	if !slices.ContainsFunc(h.all, func(w *unique.Workload) bool { return w.Phase == unique.Free }) {
		return
	}
	for _, to := range h.rules.place(h.candidates(), h.wanted(), placement.Spread) {
		i := slices.IndexFunc(h.all, func(w *unique.Workload) bool { return string(w.Name) == to.Workload })
		w := h.all[i]
		if w.Phase != unique.Free {
			continue
		}
		if to.To == "" {
			if _, why := w.Anywhere(); why != "" && w.Host != "" {
				to.Why = why
			}
			if h.lastWhy[to.Workload] != to.Why {
				h.lastWhy[to.Workload] = to.Why
				h.log("coordinator: %s waits: %s", w.Name, to.Why)
			}
			w.Why = to.Why
			continue
		}
		delete(h.lastWhy, to.Workload)
		from := w.Host
		next, err := w.Place(protocol.HostID(to.To), protocol.Term{})
		if err != nil {
			h.violated("%v", err)
			continue
		}
		if from != "" && from != next.Host {
			h.report.Takeovers++
		}
		if *w = next; w.Move.To != "" { // it is where it was to go
			w.Move = unique.Move{}
			h.report.Moves++
		}
		if x := h.byName[w.Host]; !x.cut {
			h.send(x, x.nudged)
		}
		h.log("coordinator: %s goes to %s under epoch %d", w.Name, w.Host, w.Epoch.Counter)
	}
}

// drain has all leave a host, or ends that.
func (h *head) drain(x *host, on bool) {
	h.drained[x] = on
	for _, w := range h.all {
		if w.Host == x.id && w.Phase != unique.Free {
			w.Moves = on
		}
	}
}
