// Package unique decides about workloads of which at most one copy may run: which host
// holds one under which epoch, when a host that is lost can hold nothing any more, and
// what proves it. It is pure: what is known and the time go in, what is to be stored
// comes out. Coordinator, simulator and tests run the same code.
//
// # Why it never runs twice
//
// A host runs a workload only while the newest grant that is still good names it with
// its epoch. A grant is good for TTL from the moment at which the host sent what the
// grant answers; the host kills what it holds at the end, within Kill. The coordinator
// hears of that moment later than it was, so at [Timing.Takeover] after it has heard a
// host last, nothing that it granted can run there any more, as long as both clocks drift
// by less than Drift. Grants stop, durably, before that time is counted: see [Withheld].
//
// A lease alone is worth nothing on a host where nothing outlives the agent to kill at
// the end. So the end of a lease is proof only of hosts that have shown a self-fence.
package unique

import (
	"fmt"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Timing are the times of leases. All sides of a fleet use the same ones: the host gets
// TTL with each grant.
type Timing struct {
	// TTL is how long a grant is good for, from the sending of what it answers.
	TTL time.Duration
	// Kill is how long a host takes to kill what it holds when a grant has ended.
	Kill time.Duration
	// DriftPermille bounds the rate of either clock against real time, in thousandths.
	DriftPermille int64
	// Margin is added for what no bound covers.
	Margin time.Duration
	// Wait is how long after a host was heard last its leases count as ended; 0 is the
	// least that is safe.
	Wait time.Duration
}

// Default are the times without any configuration: takeover after 118 s. Source: the
// model of design, which takes the rule of SBD (wait longer than the watchdog).
func Default() Timing {
	return Timing{TTL: 90 * time.Second, Kill: 15 * time.Second, DriftPermille: 10, Margin: 10 * time.Second}
}

// least is (TTL + Kill)·(1 + 2ρ) + Margin, rounded up to a second.
func (t Timing) least() time.Duration {
	d := t.TTL + t.Kill
	d += d*time.Duration(2*t.DriftPermille)/1000 + t.Margin
	return (d + time.Second - 1).Truncate(time.Second)
}

// Takeover is how long after a host was heard last nothing of it can run any more.
func (t Timing) Takeover() time.Duration { return max(t.Wait, t.least()) }

// Check refuses times under which two copies could run, and times that make no sense.
func (t Timing) Check() error {
	switch {
	case t.TTL < time.Second || t.TTL > time.Hour:
		return fmt.Errorf("lease.ttl: %s is out of range: use 1s to 1h", t.TTL)
	case t.Kill < 500*time.Millisecond || t.Kill > time.Hour:
		return fmt.Errorf("lease.kill: %s is out of range: use 500ms to 1h", t.Kill)
	case t.DriftPermille < 1 || t.DriftPermille > 200:
		return fmt.Errorf("lease.drift: %d thousandths is out of range: use 1 to 200", t.DriftPermille)
	case t.Margin < 0:
		return fmt.Errorf("lease.margin: %s is less than nothing", t.Margin)
	case t.Wait != 0 && t.Wait < t.least():
		return fmt.Errorf("lease.takeover: after %s a host that is lost may still run what it holds: use at least %s, which is (ttl + kill) × (1 + 2 × drift) + margin", t.Wait, t.least())
	}
	return nil
}

// SelfFence is what a host has shown to kill what it holds when its agent does not.
type SelfFence string

// The levels, the least first.
const (
	FenceNone     SelfFence = "none"     // nothing outlives the agent
	FenceGuard    SelfFence = "guard"    // a process of its own, with the deadline
	FenceReboot   SelfFence = "reboot"   // that process, which restarts the machine if a kill fails
	FenceWatchdog SelfFence = "watchdog" // the machine resets itself, also when that process is dead
)

// RebootTime and ResetTime are within which time after the end of a grant a host is restarted
// by its guard, and reset by its watchdog, if it has not killed what it holds. With a shorter
// Timing.Kill they prove nothing.
const (
	RebootTime = 12 * time.Second
	ResetTime  = 15 * time.Second
)

func (s SelfFence) level() int {
	switch s {
	case FenceGuard:
		return 1
	case FenceReboot:
		return 2
	case FenceWatchdog:
		return 3
	}
	return 0
}

// AtLeast reports whether a host that shows s meets what is asked for. Of a word that is
// not known nothing is believed.
func (s SelfFence) AtLeast(want SelfFence) bool { return s.level() >= want.level() }

// Phase is where a workload stands.
type Phase string

// The phases.
//
//	         Create, Place
//	            │
//	            ▼        lost, to move        proof that it does not run
//	(free) ──▶ held ──────────────▶ withheld ───────────────────▶ free, epoch + 1
//	            ▲                      │
//	            └──────────────────────┘
//	              heard again, and not to move
const (
	Held     Phase = "held"     // grants of its host name it
	Withheld Phase = "withheld" // no grant names it any more; its host may still run it
	Free     Phase = "free"     // it runs nowhere, and waits for a host
)

// Data is where a workload keeps what must not be lost.
type Data string

// The places of data.
const (
	DataNone   Data = "none"   // nowhere: it can start from nothing on any host
	DataShared Data = "shared" // on storage that all of its hosts reach
	DataLocal  Data = "local"  // on its host alone: it waits for it, or for a person
	DataBackup Data = "backup" // on its host, and in backups: another host makes it from them when its own is lost
)

// Workload is one unique workload.
type Workload struct {
	CTID  protocol.CTID          `json:"ctid"`
	Name  protocol.ContainerName `json:"name"`
	Host  protocol.HostID        `json:"host"` // that holds it, or held it last
	Epoch protocol.Epoch         `json:"epoch"`
	Phase Phase                  `json:"phase"`
	Why   string                 `json:"why,omitempty"` // of the phase, for people
	// Moves tells that it is to leave its host although that is heard.
	Moves bool `json:"moves,omitempty"`
	// Move is the wish of a person that it go to one host; zero if there is none.
	Move Move `json:"move,omitzero"`
	// Keeps tells that its host goes on running it without a lease: the end of one
	// proves nothing of it.
	Keeps bool `json:"keeps,omitempty"`
	Data  Data `json:"data"`
	// Stopped tells that its user wants it stopped: it stays where it is.
	Stopped bool `json:"stopped,omitempty"`
}

// Holder is what is known of the host of a workload.
type Holder struct {
	// HeardMS is when the newest message came that a grant may have answered, by our boot
	// clock. 0: none since this process began.
	HeardMS int64
	// Fence is what the host has shown.
	Fence SelfFence
	// Pausable tells that the host may be stopped as a whole with its clocks, as a
	// virtual machine: the end of a lease proves nothing of it.
	Pausable bool
	// Unsure tells that another coordinator, which was taken out of the ring, may still
	// grant it leases: it has not confirmed the new ring.
	Unsure bool
	// Maintenance tells that nothing is decided about the host, and Blocked that nothing is
	// about the workload: see [Resolve].
	Maintenance, Blocked bool
	// Quiet says of a signed, current lease whether the workload is not running there:
	// it is not among what the host holds, or is named as stopped, in a lease that was
	// sent after the host could know that nothing is granted any more.
	Quiet bool
	// Off tells that a fence device has shown the host to be off since it was heard
	// last, and Confirmed that a person has signed that it is.
	Off, Confirmed bool
}

// View is what holds for all workloads at a moment.
type View struct {
	Timing Timing
	// Min is the least self-fence by which the end of a lease is believed.
	Min SelfFence
	// NowMS is the boot clock, and StartedMS when this process, or its leadership, began
	// to decide.
	NowMS, StartedMS int64
	// OurSide tells that we may be what failed: too many hosts went at once.
	OurSide bool
}

// Settling reports whether the time after a start has not passed: what the process
// before has granted may still be good, so only what is held is renewed.
func (v View) Settling() bool {
	return v.NowMS < v.StartedMS+v.Timing.Takeover().Milliseconds()
}

// lost reports whether a host has missed its leases.
func (v View) lost(h Holder) bool {
	heard := max(h.HeardMS, v.StartedMS)
	return v.NowMS-heard >= v.Timing.TTL.Milliseconds()
}

// Decide moves one workload. changed tells that it is to be stored, before any grant or
// order follows from it.
func Decide(w Workload, h Holder, v View) (_ Workload, changed bool) {
	if w.Phase == Held && !w.Leaves() && !h.Off && !h.Confirmed && !v.lost(h) {
		return w, false // as nearly always
	}
	if h.Maintenance || h.Blocked || v.Settling() {
		return w, false
	}
	switch w.Phase {
	case Held:
		switch {
		case w.Leaves():
			return w.to(Withheld, w.leaving()), true
		case (h.Off || h.Confirmed) && !w.Stopped:
			w.Move = Move{} // that was to this host
			return w.to(Withheld, "host "+string(w.Host)+" is off"), true
		case v.lost(h) && !v.OurSide && !w.Stopped:
			w.Move = Move{}
			return w.to(Withheld, "host "+string(w.Host)+" is lost"), true
		}
	case Withheld:
		proof, why := Proof(w, h, v)
		switch {
		case proof != "":
			return w.freed(proof), true
		case !w.Leaves() && !v.lost(h):
			return w.to(Held, ""), true
		case why != w.Why:
			return w.to(Withheld, why), true
		}
	}
	return w, false
}

// Proof is what shows that a workload from which grants are withheld does not run any
// more; without one it is empty, and why says what is waited for.
func Proof(w Workload, h Holder, v View) (proof, why string) {
	host := string(w.Host)
	switch {
	case h.Quiet:
		return "host " + host + " says that it has stopped it", ""
	case h.Off:
		return "host " + host + " is off", ""
	case h.Confirmed:
		return "a person has confirmed that host " + host + " is off", ""
	case !v.lost(h):
		return "", "host " + host + " has not stopped it yet"
	case w.Keeps:
		return "", "it goes on without a lease (offline contract keep): fence host " + host + ", or confirm that it is off"
	case h.Pausable:
		return "", "host " + host + " may be paused as a whole, which no lease survives: fence it, or confirm that it is off"
	case h.Unsure:
		return "", "a coordinator that the owners took out may still grant leases to host " + host + ", which has not confirmed the new ring: fence it, or confirm that it is off"
	case !h.Fence.AtLeast(v.Min):
		return "", fmt.Sprintf("the end of the lease of host %s is no proof (self-fence %s, want %s): fence it, or confirm that it is off", host, h.Fence.word(), v.Min)
	}
	if at := v.TakeoverMS(h); v.NowMS < at {
		return "", "the lease of host " + host + " may still be good"
	}
	return "the lease of host " + host + " has ended", ""
}

// ByLease reports whether the end of its lease, and nothing else, will show that a workload
// does not run any more.
func ByLease(w Workload, h Holder, v View) bool {
	h.Off, h.Confirmed, h.Quiet = false, false, false
	v.NowMS = max(v.NowMS, v.TakeoverMS(h))
	proof, _ := Proof(w, h, v)
	return proof != ""
}

// TakeoverMS is when the leases of a host have ended for certain, by our boot clock.
func (v View) TakeoverMS(h Holder) int64 {
	return max(h.HeardMS, v.StartedMS) + v.Timing.Takeover().Milliseconds()
}

func (s SelfFence) word() SelfFence {
	if s.level() == 0 {
		return FenceNone
	}
	return s
}

func (w Workload) to(p Phase, why string) Workload {
	w.Phase, w.Why = p, why
	return w
}

// freed is the workload after a proof: no older epoch than its next one counts.
func (w Workload) freed(proof string) Workload {
	w = w.to(Free, proof)
	w.Epoch.Counter++
	return w
}

// Place has a host hold a workload that is free, under the epoch that it has, or under
// one of this term if that is newer.
func (w Workload) Place(host protocol.HostID, term protocol.Term) (Workload, error) {
	if w.Phase != Free {
		return w, fmt.Errorf("workload %s is %s, and only a free one can be placed", w.Name, w.Phase)
	}
	if w.Epoch.Term.Compare(term) < 0 {
		w.Epoch = protocol.Epoch{Term: term, Counter: w.Epoch.Counter}
	}
	w.Host, w.Moves = host, false
	return w.to(Held, ""), nil
}

// Settled reports whether a workload goes on where it is as long as its host is not lost: to
// leave it would lose what was written since the newest backup.
func (w Workload) Settled() bool { return w.Data == DataBackup && w.Phase != Free && !w.Moves }

// Anywhere reports whether a free workload may start on another host than the one that
// held it, and says why if not.
func (w Workload) Anywhere() (ok bool, why string) {
	if w.Data == DataLocal {
		return false, "its data are on host " + string(w.Host) + ": it waits for that host, or for a person who moves it"
	}
	return true, ""
}

// Vanished reports whether so many of the hosts that were there went within one window
// that our own side is to be suspected: half of them, and three at least.
func Vanished(there, gone int) bool { return gone >= 3 && 2*gone >= there }

// Quiet reports whether our own side is to be suspected although no host is missed yet: of so
// many hosts that were there, none was heard since newestMS (boot clock, ms), for half the
// time of a lease. Each host sends a lease three times within that time, so one lease of each
// host at least has not come. Without this rule an outage of ours could end unnoticed, and a
// host that loses one more message than the others would be fenced.
func Quiet(v View, there int, newestMS int64) bool {
	return there >= 3 && 2*(v.NowMS-max(newestMS, v.StartedMS)) >= v.Timing.TTL.Milliseconds()
}

// Suspicion remembers that our own side was suspected. The zero value is that it never was.
type Suspicion struct {
	ever bool
	atMS int64
}

// Ours reports whether our own side is to be suspected: since so many hosts went at once, or
// no host was heard since newestMS for too long, and for one takeover time after the last
// moment at which that was so. Hosts come back one by one, and those that have not yet are
// not lost.
func (s *Suspicion) Ours(v View, there, gone int, newestMS int64) bool {
	if Vanished(there, gone) || Quiet(v, there, newestMS) {
		s.ever, s.atMS = true, v.NowMS
	}
	return s.ever && v.NowMS-s.atMS < v.Timing.Takeover().Milliseconds()
}
