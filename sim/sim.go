// Package sim plays what a fleet does with unique workloads on virtual time: hosts that
// ask for leases over a network that loses, delays and doubles, clocks that drift,
// agents and machines that stop and come back, and a coordinator that runs the code of
// packages unique and placement, the same that the real one runs. An observer outside of
// that code looks at real time and reports what must never be. Fence devices that hang,
// lie or answer for another host are part of it: package fence decides what they are asked.
//
// A run is a function of its [World] alone: the same seed gives the same log.
package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// World is what is played.
type World struct {
	Seed      uint64
	Timing    unique.Timing
	Min       unique.SelfFence
	Hosts     []Host
	Workloads []Workload
	Faults    []Fault
	// Devices can switch hosts off, as Fencing says. Witness tells that something at the
	// site of the coordinator says when the network of that has failed.
	Devices []Device
	Fencing fence.Policy
	Witness bool
	// Until is when the play ends.
	Until time.Duration
	// Loss is how many messages of a thousand are lost, and as many are doubled.
	Loss int
	// Latency is the most that a message takes.
	Latency time.Duration
	// Calm is how long before the end no message is lost any more, or takes long.
	Calm time.Duration
	// Log is called with each line of what happens, in the order of time; nil for none.
	Log func(at time.Duration, text string)
	// Reached is called when the play comes to another second of its time; nil for none.
	Reached func(at time.Duration)
}

// Host is a host of a world.
type Host struct {
	Name  string
	Has   placement.Size
	Fence unique.SelfFence
	// DriftPermille is how much faster its clock runs than real time, in thousandths.
	DriftPermille int64
	Pausable      bool
	Pinned        bool   // other work runs there, too
	Site          string // of one site, one host at a time is fenced
	// Latency is the most that a message of or to it takes; 0 is that of the world.
	Latency time.Duration
}

// Workload is a unique workload of a world.
type Workload struct {
	Name     string
	On       string // the host that has it at the beginning; empty: it is placed
	Size     placement.Size
	Priority int
	Keeps    bool
	Data     unique.Data // default: none
	After    []string    // workloads that are to run before it is placed
}

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults. Each lasts for its time; the coordinator's have no host.
const (
	Cut         FaultKind = "cut"         // no message of the host arrives, in either direction
	PowerOff    FaultKind = "power-off"   // the machine is off, and boots at the end
	StopAgent   FaultKind = "stop-agent"  // the agent does nothing, and goes on at the end
	KillAgent   FaultKind = "kill-agent"  // the agent is dead, and begins anew at the end
	Pause       FaultKind = "pause"       // the machine stands still with its clocks
	Unkillable  FaultKind = "unkillable"  // what runs there cannot be killed by a signal
	OldDisk     FaultKind = "old-disk"    // as power-off, and the disk is that of the beginning
	Restart     FaultKind = "restart"     // the coordinator's process is away, and begins anew
	CutAll      FaultKind = "cut-all"     // our own side: no message of any host arrives
	Drain       FaultKind = "drain"       // what runs there is to move elsewhere
	Maintenance FaultKind = "maintenance" // nothing is decided about the host
	Move        FaultKind = "move"        // a person moves a workload to the host

	// The faults of devices. Host names the device.
	DeviceHangs FaultKind = "device-hangs" // no answer comes, and what was asked may be done
	DeviceLies  FaultKind = "device-lies"  // it tells that it has switched off what is on
	DeviceMixed FaultKind = "device-mixed" // it tells of another host whether that is on
)

// Fault is one thing that goes wrong.
type Fault struct {
	At   time.Duration
	Kind FaultKind
	Host string
	// Workload is what is moved.
	Workload string
	For      time.Duration
}

// Report is what a play came to.
type Report struct {
	// Violations are what must never be, in the order of time.
	Violations []string
	// Takeovers counts starts on another host than before, and Suspended the times at
	// which grants were withheld because a host was lost.
	Takeovers, Suspended int
	// Moves counts the workloads that have gone to the host to which a person moves them.
	Moves int
	// Fences counts operations that were begun to switch a host off.
	Fences int
	// Longest is the longest time for which a workload ran nowhere after its first start.
	Longest time.Duration
	// Stopped names the workloads that run nowhere at the end, with the reason.
	Stopped map[string]string
	Events  int
}

// Run plays a world to its end.
func Run(w World) Report { return run(w, rules{decide: unique.Decide, place: placement.Place}) }

// rules are the code under test, and what a host does by itself. Tests plant mistakes
// in them.
type rules struct {
	decide func(unique.Workload, unique.Holder, unique.View) (unique.Workload, bool)
	place  func([]placement.Host, []placement.Workload, placement.Strategy) []placement.Placed
	// fromReceipt, noRecheck and anyGrant are mistakes of a host: a grant counts from its
	// arrival, a start is not judged again when it happens, an older epoch is run.
	fromReceipt, noRecheck, anyGrant bool
	// noEcho and noWindow are mistakes of a coordinator: a lease from before the grants
	// ended counts as proof, and nothing waits after a start.
	noEcho, noWindow bool
	// noTelling is another one: a host that is back is given work before it has told what
	// it has.
	noTelling bool
	fencing
}

// fencing are mistakes in fencing: an off is believed by its exit code, is sent however late
// it is, hosts are fenced at once after a start, those that were fenced are forgotten, and
// our own side is never suspected, or not any more when the first hosts are back.
type fencing struct{ exitCode, lateOff, noSettling, forgets, neverUs, briefUs bool }

// play is one run.
type play struct {
	World
	rules
	rand   *rand.Rand
	now    int64 // real time, ms
	queue  events
	number int
	hosts  []*host
	byName map[protocol.HostID]*host
	head   *head
	watch  *watch
	alive  *alive
	report Report

	// names are those of the workloads, sorted: all else that is kept of a workload is kept
	// under its place among them.
	names  []string
	really []reality
}

// reality is what really becomes of a workload.
type reality struct {
	on    []tenure // where it runs
	last  tenure   // where it ran last
	ended int64    // since when it runs nowhere; never: it runs, or has not run yet
}

// never is no time.
const never = -1

// tenure is a host that ran a workload under an epoch.
type tenure struct {
	host  *host
	epoch uint64
}

// event is something that happens at a time.
type event struct {
	at     int64
	number int
	do     func()
}

// events are a heap, the next one first. It is our own because that of the standard library
// allocates for each event, and there are 10,000 of them in a play.
type events []event

func (e events) less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}

func (e *events) push(x event) {
	q := append(*e, x)
	*e = q
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			return
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

func (e *events) pop() event {
	q := *e
	first, n := q[0], len(q)-1
	q[0], q[n] = q[n], event{}
	q = q[:n]
	*e = q
	for i := 0; ; {
		next := 2*i + 1
		if next >= n {
			return first
		}
		if next+1 < n && q.less(next+1, next) {
			next++
		}
		if !q.less(next, i) {
			return first
		}
		q[i], q[next] = q[next], q[i]
		i = next
	}
}

func (p *play) in(ms int64, do func()) {
	p.number++
	p.queue.push(event{p.now + max(0, ms), p.number, do})
}

func (p *play) log(format string, args ...any) {
	if p.Log != nil {
		p.Log(time.Duration(p.now)*time.Millisecond, fmt.Sprintf(format, args...))
	}
}

// violated reports what must never be.
func (p *play) violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.report.Violations = append(p.report.Violations, fmt.Sprintf("%s: %s", time.Duration(p.now)*time.Millisecond, text))
	p.log("VIOLATION: %s", text)
}

// tick is how often the coordinator looks, ms.
const tick = 1000

func run(w World, r rules) Report {
	p := &play{
		World: w, rules: r, rand: rand.New(rand.NewPCG(w.Seed, 1)), byName: make(map[protocol.HostID]*host, len(w.Hosts)),
		really: make([]reality, len(w.Workloads)), queue: make(events, 0, 256),
	}
	for i, x := range w.Workloads {
		p.names = append(p.names, x.Name)
		p.really[i].ended = never
	}
	slices.Sort(p.names)
	p.report.Stopped = make(map[string]string)
	for _, h := range w.Hosts {
		x := &host{play: p, Host: h, n: len(p.hosts), id: protocol.HostID(h.Name), on: true, agent: true, kept: make([]uint64, len(p.names)), runs: make([]*process, len(p.names))}
		p.hosts = append(p.hosts, x)
		p.byName[x.id] = x
	}
	p.watch = newWatch(p)
	p.head = newHead(p)
	p.alive = newAlive(p)
	for _, h := range p.hosts {
		h.boot()
	}
	for _, f := range w.Faults {
		p.in(f.At.Milliseconds(), func() { p.begin(f) })
		if f.For > 0 {
			p.in((f.At + f.For).Milliseconds(), func() { p.end(f) })
		}
	}
	p.head.start()
	for len(p.queue) > 0 && p.queue[0].at <= w.Until.Milliseconds() {
		e := p.queue.pop()
		p.reach(e.at)
		p.report.Events++
		e.do()
	}
	p.now = w.Until.Milliseconds()
	for i, x := range p.head.all {
		if len(p.really[i].on) == 0 && !x.Stopped {
			p.report.Stopped[string(x.Name)] = cmp.Or(x.Why, "host "+string(x.Host)+" has not started it")
		}
		p.report.Longest = max(p.report.Longest, p.away(i))
	}
	return p.report
}

// reach moves the time on.
func (p *play) reach(now int64) {
	if p.Reached != nil && now/1000 > p.now/1000 {
		p.Reached(time.Duration(now) * time.Millisecond)
	}
	p.now = now
}

// away is for how long workload w has run nowhere.
func (p *play) away(w int) time.Duration {
	if since := p.really[w].ended; since != never {
		return time.Duration(p.now-since) * time.Millisecond
	}
	return 0
}

// ran and stopped are the observer: real processes on real time.
func (p *play) ran(h *host, w int, epoch uint64) {
	p.report.Longest = max(p.report.Longest, p.away(w))
	is, name := &p.really[w], p.names[w]
	is.ended = never
	p.watch.starts(h, w, epoch)
	for _, o := range is.on {
		if o.host != h {
			p.violated("%s runs on %s and on %s at one time", name, o.host.Name, h.Name)
		}
	}
	switch last := is.last; {
	case epoch < last.epoch:
		p.violated("%s runs on %s under epoch %d, after epoch %d", name, h.Name, epoch, last.epoch)
	case epoch == last.epoch && last.host != h:
		p.violated("%s runs on %s under epoch %d, as it did on %s", name, h.Name, epoch, last.host.Name)
	}
	is.last = tenure{h, epoch}
	is.on = append(is.on, is.last)
	p.log("%s starts %s under epoch %d", h.Name, name, epoch)
}

func (p *play) stopped(h *host, w int, why string) {
	is := &p.really[w]
	is.on = slices.DeleteFunc(is.on, func(t tenure) bool { return t.host == h })
	if len(is.on) == 0 {
		is.ended = p.now
	}
	p.log("%s ends %s: %s", h.Name, p.names[w], why)
}

// send delivers a message after a while, perhaps twice or never.
func (p *play) send(h *host, deliver func()) {
	times, most := 1, max(1, cmp.Or(h.Latency, p.Latency).Milliseconds())
	switch n := p.rand.IntN(1000); {
	case p.now > (p.Until - p.Calm).Milliseconds():
		most = min(most, 50)
	case n < p.Loss:
		return
	case n < 2*p.Loss:
		times = 2
	}
	for range times {
		p.in(1+p.rand.Int64N(most), func() {
			if !h.cut && !p.head.cut {
				deliver()
			}
		})
	}
}

// device is a device by its name, if there is one.
func (p *play) device(name string) *device {
	for _, d := range p.head.fencer.devices {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// fails begins or ends a fault of a device.
func (p *play) fails(f Fault, on bool) {
	d := p.device(f.Host)
	switch {
	case d == nil:
	case f.Kind == DeviceHangs:
		d.hangs = on
	case f.Kind == DeviceLies:
		d.lies = on
	case f.Kind == DeviceMixed:
		d.mixed = on
	}
}

func (p *play) begin(f Fault) {
	h := p.byName[protocol.HostID(f.Host)]
	if f.Kind == Move {
		p.head.move(f.Workload, h)
		return
	}
	p.log("fault: %s %s", f.Kind, f.Host)
	p.alive.changed()
	switch f.Kind {
	case Cut:
		h.cut = true
	case CutAll:
		if !p.head.cut { // else another one has not ended
			p.head.cut, p.watch.cutMS = true, p.now
		}
	case PowerOff, OldDisk:
		h.mains = true
		h.powerOff()
	case StopAgent:
		h.agent = false
	case KillAgent:
		h.agent, h.dead = false, true
	case Pause:
		h.pause()
	case Unkillable:
		h.unkillable = true
	case Restart:
		p.head.stop()
	case Drain:
		p.head.drain(h, true)
	case Maintenance:
		h.maintenance = true
	default:
		p.fails(f, true)
	}
}

func (p *play) end(f Fault) {
	h := p.byName[protocol.HostID(f.Host)]
	p.log("over: %s %s", f.Kind, f.Host)
	p.alive.changed()
	switch f.Kind {
	case Cut:
		h.cut = false
	case CutAll:
		if p.head.cut {
			p.head.cut, p.watch.joined = false, p.now
		}
	case PowerOff, OldDisk:
		if f.Kind == OldDisk {
			clear(h.kept)
		}
		h.mains = false
		h.power()
	case StopAgent:
		h.agent = true
	case KillAgent:
		h.begin()
	case Pause:
		h.resume()
	case Unkillable:
		h.unkillable = false
	case Restart:
		p.head.start()
	case Drain:
		p.head.drain(h, false)
	case Maintenance:
		h.maintenance = false
	default:
		p.fails(f, false)
	}
}
