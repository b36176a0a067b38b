package sim

import (
	"slices"
	"strings"

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

	// all is durable, by name, and so is sizes. where is the host of each, nil if it has none.
	all   []*unique.Workload
	sizes []Workload
	where []*host
	waits bool // some start after others

	// The rest is memory of one process.
	known   []knowledge // of each host
	lastWhy map[string]string
	side    unique.Suspicion
	drained map[*host]bool
	shut    []int64 // since when each workload is withheld
	runs    []bool  // of each workload: its host has told that it runs, since it was placed there

	fencer *fencer
}

// knowledge is what one process of the coordinator knows of a host.
type knowledge struct {
	heardMS int64 // 0: it was not heard
	fence   unique.SelfFence
	named   []int     // the newest grant that named each workload
	quiet   []bool    // of each workload: a lease has shown that it does not run there
	told    []holding // what it has told; nil: nothing
	gone    bool
	// inc is its process, and back is how many times it came back: with another process, or
	// after a silence in which its lease ended. After that it tells what it has, and is listed
	// when that has come.
	inc, back int
	listed    bool
}

func newHead(p *play) *head {
	h := &head{play: p, drained: make(map[*host]bool), sizes: slices.Clone(p.Workloads)}
	slices.SortFunc(h.sizes, func(a, b Workload) int { return strings.Compare(a.Name, b.Name) })
	for _, w := range h.sizes {
		x := &unique.Workload{Name: protocol.ContainerName(w.Name), Phase: unique.Free, Keeps: w.Keeps, Data: w.Data}
		x.Epoch.Counter = 1
		if x.Data == "" {
			x.Data = unique.DataNone
		}
		if w.On != "" {
			x.Host, x.Phase = protocol.HostID(w.On), unique.Held
		}
		h.all, h.where = append(h.all, x), append(h.where, p.byName[x.Host])
		h.waits = h.waits || len(w.After) > 0
	}
	h.fencer = newFencer(h)
	return h
}

// at is the place of a workload by name, which is there.
func (h *head) at(name string) int {
	i, _ := slices.BinarySearch(h.names, name)
	return i
}

func (h *head) start() {
	h.on = true
	h.term++
	h.started = h.now
	if h.term == 1 { // the fleet is new: nothing was granted before
		h.started = -h.Timing.Takeover().Milliseconds()
	}
	h.known, h.lastWhy = make([]knowledge, len(h.hosts)), make(map[string]string)
	for i := range h.known {
		h.known[i].named, h.known[i].quiet = make([]int, len(h.all)), make([]bool, len(h.all))
	}
	h.shut, h.runs = make([]int64, len(h.all)), make([]bool, len(h.all))
	h.watch.started, h.side = h.now, unique.Suspicion{}
	h.fencer.restart()
	if h.term == 1 {
		for _, x := range h.hosts { // as if all had been heard just now
			k := &h.known[x.n]
			k.heardMS, k.fence, k.inc, k.listed = 1, x.Fence, x.inc, true
		}
	}
	h.look(h.term)
}

func (h *head) stop() { h.on = false }

// heard takes a lease and grants.
func (h *head) heard(x *host, inc, number int, held []holding, took int) {
	if !h.on {
		return
	}
	k := &h.known[x.n]
	if k.inc != inc || h.now-k.heardMS >= h.Timing.TTL.Milliseconds() {
		k.inc, k.listed = inc, false
		k.back++
	}
	if back, term := k.back, h.term; !k.listed && !x.cut {
		h.send(x, func() { x.tell(inc, func(at int64) { h.listed(x, term, back, at) }) })
	}
	k.heardMS, k.fence, k.told = max(1, h.now), x.Fence, held
	h.watch.came(x)
	closed := h.fencer.closed(x.id)
	for i := range h.all {
		mine := h.where[i] == x
		if mine {
			h.runs[i] = held[i] == running
		}
		k.quiet[i] = mine && held[i] == 0 && (took > k.named[i] || h.noEcho)
	}
	h.seq++
	g := grant{seq: h.seq, epochs: make([]uint64, len(h.all))}
	settling := h.view().Settling()
	for i, w := range h.all {
		if h.where[i] != x || w.Phase != unique.Held || w.Stopped || closed {
			continue
		}
		if settling && held[i] != running { // only what runs is renewed
			continue
		}
		g.epochs[i], k.named[i] = w.Epoch.Counter, g.seq
		h.watch.granted(x, i, w.Epoch.Counter)
	}
	if !x.cut {
		h.send(x, func() { x.granted(inc, number, g) })
	}
	for i, w := range h.all { // what is to move is stopped there
		if h.where[i] == x && w.Phase == unique.Withheld && w.Leaves() && held[i] == running && !x.cut {
			h.send(x, func() { x.stop(i) })
		}
	}
}

// listed takes what a host has, as it told at a time after it came back.
func (h *head) listed(x *host, term uint64, back int, at int64) {
	if k := &h.known[x.n]; h.on && h.term == term && k.back == back {
		k.listed = true
		h.watch.listed[x.n] = at
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
	there, gone, newest := 0, 0, int64(0)
	for _, x := range h.hosts {
		k := &h.known[x.n]
		at := max(k.heardMS, h.started) // one that was never heard is missed since then
		if k.gone {
			k.gone = v.NowMS-at >= h.Timing.TTL.Milliseconds()
			continue
		}
		there, newest = there+1, max(newest, at)
		if v.NowMS-at >= h.Timing.TTL.Milliseconds()*2/3 {
			gone++
		}
	}
	if v.OurSide = h.side.Ours(v, there, gone, newest); h.briefUs {
		v.OurSide = unique.Vanished(there, gone)
	}
	for i := range h.all {
		h.decide(i, v)
	}
	if !v.OurSide {
		for _, x := range h.hosts { // one by one: what is gone for long is no window any more
			if k := &h.known[x.n]; v.NowMS-max(k.heardMS, h.started) >= 2*h.Timing.TTL.Milliseconds() {
				k.gone = true
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

// holder is what is known of the host of workload i.
func (h *head) holder(i int, x *host) unique.Holder {
	k := &h.known[x.n]
	return unique.Holder{
		HeardMS: k.heardMS, Fence: k.fence, Pausable: x.Pausable, Maintenance: x.maintenance,
		Quiet: k.quiet[i], Off: h.fencer.off(x.id),
	}
}

func (h *head) decide(i int, v unique.View) {
	w := h.all[i]
	x := h.where[i]
	if x == nil {
		return
	}
	next, changed := h.rules.decide(*w, h.holder(i, x), v)
	if !changed {
		return
	}
	if next.Phase != w.Phase {
		h.watch.decided(x, i, next.Phase)
	}
	if next.Phase == unique.Withheld && w.Phase == unique.Held {
		h.known[x.n].quiet[i] = false // what was told before proves nothing
		h.shut[i] = h.now
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
func (h *head) candidates() []placement.Host {
	hosts := make([]placement.Host, 0, len(h.hosts))
	for _, x := range h.hosts {
		p := placement.Host{Name: x.Name, Has: x.Has}
		switch at := h.known[x.n].heardMS; {
		case at == 0 || h.now-at >= h.Timing.TTL.Milliseconds():
			p.Closed = "it is away"
		case !h.known[x.n].listed && !h.noTelling:
			p.Closed = "it is back, and has not told what it has since"
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
	var up map[string]bool
	if h.waits {
		up = make(map[string]bool, len(h.all))
		for i, w := range h.all {
			up[h.names[i]] = w.Phase == unique.Held && h.runs[i]
		}
	}
	all = make([]placement.Workload, 0, len(h.all))
	for i, w := range h.all {
		s := h.sizes[i]
		p := placement.Workload{Name: s.Name, Priority: s.Priority, Size: s.Size, Waits: placement.WaitsFor(s.After, up)}
		if w.Moving() {
			p.To = string(w.Move.To)
		}
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
	if w := h.all[h.at(name)]; h.on {
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
		i := h.at(to.Workload)
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
		h.ordered(i)
		h.runs[i] = false
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
		x := h.byName[w.Host]
		h.watch.placed(x, i)
		if h.where[i] = x; !x.cut {
			h.send(x, x.nudged)
		}
		h.log("coordinator: %s goes to %s under epoch %d", w.Name, w.Host, w.Epoch.Counter)
	}
}

// ordered reports a workload that is placed before those after which it starts: each was
// started by the host that holds it.
func (h *head) ordered(w int) {
	for i, o := range h.all {
		if !slices.Contains(h.sizes[w].After, h.names[i]) {
			continue
		}
		if last := h.really[i].last; o.Phase != unique.Held || last.host == nil || last.host.id != o.Host || last.epoch != o.Epoch.Counter {
			h.violated("%s is placed before %s runs", h.names[w], o.Name)
		}
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
