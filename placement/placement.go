// Package placement chooses hosts for workloads. It is pure and deterministic: the same
// hosts and workloads give the same plan, whatever their order.
//
// Hosts that cannot take a workload are filtered out, each with the reason; the others
// get a score, and the best one is taken: by score, then fewest workloads, then name.
// Workloads are placed by priority, then those that have a host, then the largest first.
// If one finds no room, one bounded pass moves others out of its way; then workloads of a
// lower priority give way. Pacemaker's documented example (nodes of 2 and 4 processors,
// workloads of 1, 2 and 3), of which a single pass leaves one stopped, is placed whole.
package placement

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"
)

// Infinity is a score that must, or negative, must not be.
const Infinity = 1_000_000

// Size is what a workload takes, or a host has.
type Size struct {
	CPU    int64 `json:"cpu,omitzero"`    // thousandths of a processor
	Memory int64 `json:"memory,omitzero"` // bytes
	Disk   int64 `json:"disk,omitzero"`   // bytes
}

// Plus is the sum of both.
func (s Size) Plus(t Size) Size { return Size{s.CPU + t.CPU, s.Memory + t.Memory, s.Disk + t.Disk} }

func (s Size) less(t Size) Size { return Size{s.CPU - t.CPU, s.Memory - t.Memory, s.Disk - t.Disk} }

// fits names what of a size is more than there is; empty if all of it fits.
func (s Size) fits(free Size) string {
	switch {
	case s.CPU > free.CPU:
		return "processors"
	case s.Memory > free.Memory:
		return "memory"
	case s.Disk > free.Disk:
		return "disk"
	}
	return ""
}

// compare orders sizes: memory counts first, because it cannot be shared.
func (s Size) compare(t Size) int {
	return cmp.Or(cmp.Compare(s.Memory, t.Memory), cmp.Compare(s.CPU, t.CPU), cmp.Compare(s.Disk, t.Disk))
}

// Host is a host that workloads may be placed on.
type Host struct {
	Name   string
	Labels map[string]string
	// Has is what it has for workloads: what it tells, less a reserve and less what the
	// workloads take that are not named to [Place], of which it has Load.
	Has  Size
	Load int
	// Closed says why it takes nothing new; Empties that what it holds is to leave, too.
	// Empty: it is open.
	Closed  string
	Empties bool
}

// Rule is a wish about hosts. The score of each rule that fits a host is added up.
type Rule struct {
	Labels map[string]string `json:"labels,omitempty"` // of the host; all of them. Empty fits all
	Host   string            `json:"host,omitempty"`   // its name; empty fits all
	// Score of a host that fits: −Infinity forbids it. Must forbids those that do not fit.
	Score int  `json:"score,omitzero"`
	Must  bool `json:"must,omitempty"`
}

func (r Rule) fits(h *Host) bool {
	for k, v := range r.Labels {
		if is, ok := h.Labels[k]; !ok || is != v {
			return false
		}
	}
	return r.Host == "" || r.Host == h.Name
}

// Near is a wish to be on the host of another workload: with a positive score, or apart
// from it with a negative one. ±Infinity must be.
type Near struct {
	Workload string `json:"workload"`
	Score    int    `json:"score"`
}

// Workload is what is to run.
type Workload struct {
	Name     string
	Priority int
	Size     Size
	// On is the host that has it; empty if none has.
	On string
	// To is the host to which a person moves it: its room there is not given to others,
	// wherever it is now. Empty: it is not moved.
	To string
	// Stays is the score of staying there.
	Stays int
	// Fixed tells that it cannot leave On: it is counted there, and not placed.
	Fixed bool
	Rules []Rule
	Near  []Near
	// Banned are hosts on which it failed too often.
	Banned []string
	// Taken are hosts that have another container of its name, so it cannot be made there. Called
	// is that name, if other workloads bear it, too; empty: none does.
	Taken  []string
	Called string
	// Aged are hosts that have a copy of it with old data, which would be started.
	Aged []string
	// Only are the hosts that it may be on, those that fit one of these; empty: all.
	Only []Rule
	// Waits says why no other host than its own may take it now; empty if one may.
	Waits string
}

// Strategy says which of the hosts that are equally good is taken.
type Strategy string

// The strategies.
const (
	Spread  Strategy = "spread"  // the one with the fewest workloads, then with most free
	Binpack Strategy = "binpack" // the one with least free
)

// Verdict is what speaks for or against a host.
type Verdict struct {
	Host   string `json:"host"`
	Score  int    `json:"score"`
	Reason string `json:"reason,omitempty"` // why it is filtered out; empty if it is not
}

// Placed is where a workload goes.
type Placed struct {
	Workload string `json:"workload"`
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`  // empty: it fits nowhere
	Why      string `json:"why,omitempty"` // why it moves, or fits nowhere
	// For is the workload to which it gives way; empty if it gives way to none.
	For string `json:"for,omitempty"`
}

// maxSteps bounds the search for room: moves that are tried, in all.
const maxSteps = 1000

// Place returns where each workload goes, sorted by name.
func Place(hosts []Host, workloads []Workload, s Strategy) []Placed {
	p := newPlan(hosts, workloads, s)
	for _, w := range p.order {
		p.put(w)
	}
	out := make([]Placed, 0, len(workloads))
	for _, w := range p.order {
		out = append(out, p.placed(w))
	}
	slices.SortFunc(out, func(a, b Placed) int { return cmp.Compare(a.Workload, b.Workload) })
	return out
}

// plan is the work of one [Place].
type plan struct {
	strategy Strategy
	hosts    []*node // by name
	ranked   ranks   // the same, as a heap: the one that is preferred first
	byName   map[string]*node
	order    []*item
	items    map[string]*item
	steps    int
}

// node is a host with what was put on it.
type node struct {
	*Host
	free   Size // of what is on it, or is moved there
	on     []*item
	near   int     // wishes of these to be near others, or apart from them
	coming []*item // what persons move there: it is counted there, wherever it is
	order  int     // its place by name
	rank   int     // its place in ranks
}

// room is what a host has free for a workload when those that are gone have left it. What a
// workload has on its host, no other that comes there takes from it.
func (n *node) room(w *item, gone ...*item) Size {
	free := n.free
	if w.comes(n) {
		free = free.Plus(w.Size)
	}
	if w.On == n.Name {
		for _, o := range n.coming {
			if !slices.Contains(n.on, o) {
				free = free.Plus(o.Size)
			}
		}
	}
	for _, o := range gone {
		if !o.comes(n) {
			free = free.Plus(o.Size)
		}
	}
	return free
}

// ranks is a heap of hosts, so that a workload without wishes finds its host among
// thousands without a look at each.
type ranks struct {
	*plan
	nodes []*node
}

func (r *ranks) Len() int           { return len(r.nodes) }
func (r *ranks) Less(i, j int) bool { return r.prefer(r.nodes[i], r.nodes[j]) }
func (r *ranks) Swap(i, j int) {
	r.nodes[i], r.nodes[j] = r.nodes[j], r.nodes[i]
	r.nodes[i].rank, r.nodes[j].rank = i, j
}
func (r *ranks) Push(x any) {
	n := x.(*node)
	n.rank = len(r.nodes)
	r.nodes = append(r.nodes, n)
}
func (r *ranks) Pop() any {
	n := r.nodes[len(r.nodes)-1]
	r.nodes = r.nodes[:len(r.nodes)-1]
	return n
}

// item is a workload with where it was put.
type item struct {
	*Workload
	at  *node
	why string
	to  string // the workload to which it gives way
}

// comes reports whether a host is the one to which a person moves a workload.
func (w *item) comes(n *node) bool { return w.To == n.Name && w.On != n.Name }

func newPlan(hosts []Host, workloads []Workload, s Strategy) *plan {
	p := &plan{strategy: s, byName: make(map[string]*node, len(hosts)), items: make(map[string]*item, len(workloads))}
	p.hosts, p.order = make([]*node, 0, len(hosts)), make([]*item, 0, len(workloads))
	nodes, items := make([]node, len(hosts)), make([]item, len(workloads))
	for i := range hosts {
		n := &nodes[i]
		n.Host, n.free = &hosts[i], hosts[i].Has
		p.hosts = append(p.hosts, n)
		p.byName[n.Name] = n
	}
	slices.SortFunc(p.hosts, func(a, b *node) int { return cmp.Compare(a.Name, b.Name) })
	p.ranked.plan = p
	for i, n := range p.hosts {
		n.order, n.rank = i, i
	}
	p.ranked.nodes = slices.Clone(p.hosts)
	heap.Init(&p.ranked)
	for i := range workloads {
		w := &items[i]
		w.Workload = &workloads[i]
		p.items[w.Name] = w
		if n := p.byName[w.To]; n != nil && w.comes(n) {
			n.coming = append(n.coming, w)
			n.free = n.free.less(w.Size)
			heap.Fix(&p.ranked, n.rank)
		}
		if n := p.byName[w.On]; w.Fixed && n != nil {
			p.take(w, n)
			continue
		}
		p.order = append(p.order, w)
	}
	slices.SortFunc(p.order, func(a, b *item) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(homeless(a), homeless(b)), b.Size.compare(a.Size), cmp.Compare(a.Name, b.Name))
	})
	for _, w := range p.order { // what has a host keeps its room there, unless a better one has need of it
		if n := p.byName[w.On]; n != nil && p.filter(w, n) == "" && !n.Empties {
			p.take(w, n)
		}
	}
	return p
}

func homeless(w *item) int {
	if w.On == "" {
		return 1
	}
	return 0
}

func (p *plan) take(w *item, n *node) {
	w.at, w.why, w.to = n, "", ""
	n.on, n.near = append(n.on, w), n.near+len(w.Near)
	if !w.comes(n) { // else it is counted already
		n.free = n.free.less(w.Size)
	}
	heap.Fix(&p.ranked, n.rank)
}

func (p *plan) leave(w *item) {
	n := w.at
	i := slices.Index(n.on, w)
	n.on, n.near = slices.Delete(n.on, i, i+1), n.near-len(w.Near)
	if !w.comes(n) {
		n.free = n.free.Plus(w.Size)
	}
	w.at = nil
	heap.Fix(&p.ranked, n.rank)
}

// put finds a host for a workload: a better one than it has, if it has one.
func (p *plan) put(w *item) {
	higher := w.to // to which it gave way before its turn
	if w.at != nil {
		p.leave(w)
	}
	if n := p.best(w); n != nil {
		p.take(w, n)
		return
	}
	if p.makeRoom(w) || p.preempt(w) {
		return
	}
	if w.why, w.to = cmp.Or(w.Waits, nowhere), higher; higher != "" {
		w.why = givesWay(higher)
	}
}

// nowhere is said of a workload that fits on no host.
const nowhere = "no host can take it"

func givesWay(to string) string { return "workload " + to + " has a higher priority" }

// best is the best host for a workload as things stand; nil if none can take it.
func (p *plan) best(w *item) (best *node) {
	if len(w.Rules) == 0 && len(w.Near) == 0 && w.Stays >= 0 {
		if n := p.byName[w.On]; n != nil && w.Stays > 0 && p.filter(w, n) == "" {
			return n
		}
		return p.first(w)
	}
	top := 0
	for _, n := range p.hosts {
		if p.filter(w, n) != "" {
			continue
		}
		score := p.score(w, n)
		if best == nil || score > top || score == top && p.prefer(n, best) {
			best, top = n, score
		}
	}
	return best
}

// first is the best host for a workload to which all hosts are equally good.
func (p *plan) first(w *item) (found *node) {
	if n := p.ranked.nodes; len(n) > 0 && p.filter(w, n[0]) == "" {
		return n[0]
	}
	var passed []*node
	for len(p.ranked.nodes) > 0 && found == nil {
		n := heap.Pop(&p.ranked).(*node)
		if passed = append(passed, n); p.filter(w, n) == "" {
			found = n
		}
	}
	for _, n := range passed {
		heap.Push(&p.ranked, n)
	}
	return found
}

// prefer decides between hosts of one score.
func (p *plan) prefer(a, b *node) bool {
	name := cmp.Compare(a.order, b.order)
	if p.strategy == Binpack {
		return cmp.Or(a.free.compare(b.free), name) < 0
	}
	return cmp.Or(cmp.Compare(a.Load+len(a.on), b.Load+len(b.on)), b.free.compare(a.free), name) < 0
}

// filter says why a host cannot take a workload; empty if it can.
func (p *plan) filter(w *item, n *node) string {
	if why := p.forbidden(w, n); why != "" {
		return why
	}
	if lacks := w.Size.fits(n.room(w)); lacks != "" {
		return "not enough " + lacks
	}
	return ""
}

// taken is said of a host on which the name of a workload is taken.
const taken = "it has another container of this name; rename or remove that: hostler ct rename"

// namesakes reports whether two workloads have one name.
func namesakes(a, b *item) bool { return a.Called != "" && a.Called == b.Called }

// forbidden says why a host must not have a workload, however much room it has.
func (p *plan) forbidden(w *item, n *node) string {
	if n.Closed != "" && (n.Name != w.On || n.Empties) {
		return n.Closed
	}
	switch {
	case w.Waits != "" && n.Name != w.On:
		return w.Waits
	case slices.Contains(w.Banned, n.Name):
		return "it failed there too often"
	case w.On != n.Name && slices.Contains(w.Taken, n.Name):
		return taken
	case slices.Contains(w.Aged, n.Name):
		return "it has a copy with old data; remove that first: hostler ct rm"
	case len(w.Only) > 0 && !slices.ContainsFunc(w.Only, func(r Rule) bool { return r.fits(n.Host) }):
		return "its discovery is exclusive to " + w.Only[0].String()
	}
	for _, r := range w.Rules {
		switch fits := r.fits(n.Host); {
		case r.Must && !fits:
			return "it wants " + r.String()
		case fits && r.Score <= -Infinity:
			return "it must not be on " + r.String()
		}
	}
	for _, other := range n.on {
		if len(w.Near)+n.near == 0 && w.Called == "" {
			break // most have no such wish, and all of them are asked
		}
		if w.On != n.Name && namesakes(w, other) {
			return taken
		}
		if apart(w, other) || apart(other, w) {
			return "it must be apart from " + other.Name
		}
	}
	for _, other := range n.coming {
		if other != w && w.On != n.Name && namesakes(w, other) {
			return taken
		}
		if other != w && w.On != n.Name && (apart(w, other) || apart(other, w)) {
			return "it must be apart from " + other.Name + ", which moves there"
		}
	}
	for _, near := range w.Near {
		if o := p.items[near.Workload]; near.Score >= Infinity && o != nil && o.at != nil && o.at != n {
			return "it must be beside " + near.Workload
		}
	}
	return ""
}

// String names the hosts that fit.
func (r Rule) String() string {
	if r.Host != "" {
		return "host " + r.Host
	}
	text := "hosts"
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		text += fmt.Sprintf(" %s=%s", k, r.Labels[k])
	}
	return text
}

// apart reports whether a must not be on the host of b.
func apart(a, b *item) bool {
	return slices.ContainsFunc(a.Near, func(n Near) bool { return n.Workload == b.Name && n.Score <= -Infinity })
}

func (p *plan) score(w *item, n *node) (score int) {
	for _, r := range w.Rules {
		if r.fits(n.Host) {
			score += r.Score
		}
	}
	for _, near := range w.Near {
		if o := p.items[near.Workload]; o != nil && o.at == n {
			score += near.Score
		}
	}
	if w.On == n.Name {
		score += w.Stays
	}
	return min(score, Infinity)
}

// makeRoom moves one other workload to another host so that this one fits. Of all such
// moves, in the order of names, the first one is taken.
func (p *plan) makeRoom(w *item) bool {
	for _, n := range p.hosts {
		if p.forbidden(w, n) != "" {
			continue
		}
		for _, o := range sorted(n) {
			if p.steps++; p.steps > maxSteps {
				return false
			}
			if o.Fixed || w.Size.fits(n.room(w, o)) != "" {
				continue
			}
			p.leave(o)
			p.take(w, n)
			if to := p.best(o); to != nil {
				p.take(o, to)
				return true
			}
			p.leave(w)
			p.take(o, n)
		}
	}
	return false
}

// preempt ends workloads of a lower priority on the host where the least has to end.
func (p *plan) preempt(w *item) bool {
	var best *node
	var victims []*item
	for _, n := range p.hosts {
		if p.forbidden(w, n) != "" {
			continue
		}
		var out []*item
		for _, o := range sorted(n) {
			if w.Size.fits(n.room(w, out...)) == "" {
				break
			}
			if o.Priority < w.Priority && !o.Fixed {
				out = append(out, o)
			}
		}
		if w.Size.fits(n.room(w, out...)) == "" && (best == nil || len(out) < len(victims)) {
			best, victims = n, out
		}
	}
	if best == nil {
		return false
	}
	for _, o := range victims {
		p.leave(o)
		o.why, o.to = givesWay(w.Name), w.Name
	}
	p.take(w, best)
	for _, o := range victims { // elsewhere there may be room
		if n := p.best(o); n != nil {
			p.take(o, n)
		}
	}
	return true
}

// sorted are the workloads on a host, those of the lowest priority first.
func sorted(n *node) []*item {
	return slices.SortedFunc(slices.Values(n.on), func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
}

// placed is what became of a workload.
func (p *plan) placed(w *item) Placed {
	out := Placed{Workload: w.Name, From: w.On, Why: w.why, For: w.to}
	if w.at != nil {
		out.To = w.at.Name
		if out.To == out.From {
			return out
		}
	}
	if n := p.byName[w.On]; out.Why == "" && n != nil {
		if out.Why = p.forbidden(w, n); out.Why == "" {
			out.Why = "another host is better"
		}
	}
	return out
}

// Explain returns what each host says to one workload, with all others where they are:
// those without a host take no room.
func Explain(hosts []Host, workloads []Workload, name string) []Verdict {
	p := newPlan(hosts, workloads, Spread)
	w := p.items[name]
	if w == nil {
		return nil
	}
	if w.at != nil {
		p.leave(w)
	}
	out := make([]Verdict, 0, len(p.hosts))
	for _, n := range p.hosts {
		out = append(out, Verdict{Host: n.Name, Score: p.score(w, n), Reason: p.filter(w, n)})
	}
	return out
}
