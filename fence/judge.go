package fence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Order says what comes first where both the end of a lease and a device can show that a
// lost host runs nothing.
type Order string

// The orders.
const (
	// Auto uses a device first, but waits for the lease where other work runs on the
	// host: that would be switched off too.
	Auto        Order = "auto"
	LeaseFirst  Order = "lease"
	DeviceFirst Order = "device"
)

func (o Order) known() bool { return o == Auto || o == LeaseFirst || o == DeviceFirst }

// Policy is what a fleet wants of fencing.
type Policy struct {
	Order Order
	// Sites are the orders of the sites that have one of their own.
	Sites map[string]Order
	// Action is what is done to a host: off or reboot.
	Action Action
	// Grace is how long after the end of its lease a host is waited for.
	Grace time.Duration
	// PerHour is how many hosts of one site are fenced in an hour at most, without a
	// person.
	PerHour int
	// Reconnect is how long a host that was fenced must be heard before it is let in.
	Reconnect time.Duration
	// Unfence is whether a person lets a fenced host in again: manual, or auto.
	Unfence string
}

// DefaultPolicy is the policy without any configuration.
func DefaultPolicy() Policy {
	return Policy{Order: Auto, Action: ActionReboot, Grace: 10 * time.Second, PerHour: 3, Reconnect: 30 * time.Second, Unfence: "auto"}
}

// OrderAt is the order of a site.
func (p Policy) OrderAt(site string) Order { return cmp.Or(p.Sites[site], p.Order) }

// Check refuses a policy that makes no sense.
func (p Policy) Check() error {
	for _, site := range slices.Sorted(maps.Keys(p.Sites)) {
		if order := p.Sites[site]; site == "" || !order.known() {
			return fmt.Errorf("fence.first_at: \"%.63s=%.20s\": use SITE=auto, SITE=lease or SITE=device", site, order)
		}
	}
	switch {
	case !p.Order.known():
		return fmt.Errorf("fence.first: %q: use auto, lease or device", p.Order)
	case p.Action != ActionOff && p.Action != ActionReboot:
		return fmt.Errorf("fence.action: %q: use reboot or off", p.Action)
	case p.Unfence != "auto" && p.Unfence != "manual":
		return fmt.Errorf("fence.unfence: %q: use auto or manual", p.Unfence)
	case p.Grace < 0 || p.Grace > time.Hour:
		return fmt.Errorf("fence.grace_seconds: %s is out of range: use 0 to 3600", p.Grace)
	case p.Reconnect < 0 || p.Reconnect > time.Hour:
		return fmt.Errorf("fence.reconnect_seconds: %s is out of range: use 0 to 3600", p.Reconnect)
	case p.PerHour < 0 || p.PerHour > 1000:
		return fmt.Errorf("fence.per_hour: %d is out of range: use 0 to 1000", p.PerHour)
	}
	return nil
}

// Bounds of tries for one host. Source: Pacemaker's fencing-max-attempts.
const (
	maxAttempts  = 10
	attemptPause = 15 * time.Minute
	hour         = time.Hour
	// stopMemory is for how long a workload that could not be stopped once fences no
	// other host.
	stopMemory = 24 * time.Hour
)

// Work is a unique workload that a host may be running and is not granted any more.
type Work struct {
	CTID, Name string
	// Why says what keeps the workload from being started elsewhere.
	Why string
	// ByLease tells that the end of the lease will show that it does not run.
	ByLease bool
	// Runs tells that the host said so last, or that it is not known.
	Runs bool
	// Stuck tells that the host is heard, and has not stopped it in all the time in
	// which its lease must have ended.
	Stuck bool
}

// Host is what is known of a host that matters here.
type Host struct {
	ID     protocol.HostID
	Site   string
	Lost   bool          // its leases have ended
	Silent time.Duration // since it was heard last
	// Goodbye tells that it has ended its connection on purpose.
	Goodbye     bool
	Maintenance bool
	Pinned      bool // other work runs there
	Device      bool // a usable device can switch it off
	Work        []Work
}

// View is what a judgement is made of.
type View struct {
	Policy Policy
	TTL    time.Duration
	// Settling tells that the coordinator has just begun, or has just begun to lead, and
	// OurSide why it may be what failed; empty if it is not.
	Settling bool
	OurSide  string
	Hosts    []Host
	Ops      []Op  // newest last
	NowMS    int64 // Unix
}

// Verdict is a host that is to be fenced, or would be.
type Verdict struct {
	Host     protocol.HostID
	Site     string
	Cause    Cause
	Evidence []string
	Work     []string
	// Held says why the host is not fenced now; empty if it is.
	Held string
}

// Judge says which hosts are to be fenced now. At most one host of a site is: what is lost
// together is looked at one by one.
func Judge(v View) (all []Verdict) {
	busy := make(map[string]bool)
	spent := make(map[string]int)
	for _, o := range v.Ops {
		if o.Cause == CausePerson {
			continue
		}
		busy[o.Site] = busy[o.Site] || !o.State.Ended()
		if Age(o.BegunMS, v.NowMS) < hour {
			spent[o.Site]++
		}
	}
	hosts := slices.Clone(v.Hosts)
	slices.SortFunc(hosts, func(a, b Host) int { return cmp.Compare(a.ID, b.ID) })
	for _, h := range hosts {
		d, ok := judge(h, v)
		if !ok {
			continue
		}
		switch {
		case v.Settling:
			d.Held = "the coordinator has just started"
		case v.OurSide != "":
			d.Held = v.OurSide
		case d.Held != "":
		case spent[h.Site] >= v.Policy.PerHour:
			d.Held = fmt.Sprintf("%d hosts were fenced within an hour%s, and no more are without a person (fence.per_hour)", spent[h.Site], after(" at site ", h.Site))
		case busy[h.Site]:
			d.Held = "another host is being fenced"
		default:
			busy[h.Site] = true
			spent[h.Site]++
		}
		all = append(all, d)
	}
	return all
}

// judge looks at one host.
func judge(h Host, v View) (d Verdict, ok bool) {
	d = Verdict{Host: h.ID, Site: h.Site}
	if h.Maintenance || !h.Device {
		return d, false
	}
	for i := range v.Ops {
		if o := &v.Ops[i]; o.Host == h.ID && (!o.State.Ended() || o.Closes()) {
			return d, false // it is under way, or it is off
		}
	}
	var needs []Work
	switch {
	case !h.Lost:
		d.Cause = CauseStop
		needs = slices.DeleteFunc(slices.Clone(h.Work), func(w Work) bool { return !w.Stuck })
	case h.Silent < v.TTL+v.Policy.Grace:
		return d, false
	default:
		d.Cause = CauseLost
		needs = slices.DeleteFunc(slices.Clone(h.Work), func(w Work) bool { return h.Goodbye && !w.Runs || w.ByLease && !deviceFirst(h, v.Policy) })
		d.Evidence = append(d.Evidence, fmt.Sprintf("host %s was silent for %s", h.ID, h.Silent.Round(time.Second)))
	}
	if len(needs) == 0 {
		return d, false
	}
	if slices.ContainsFunc(needs, func(w Work) bool { return w.ByLease && d.Cause == CauseLost }) {
		d.Evidence = append(d.Evidence, fmt.Sprintf("a device comes before the end of the lease%s (%s)", after(" at site ", h.Site), v.Policy.setting(h.Site)))
	}
	for _, w := range needs {
		d.Work = append(d.Work, w.CTID)
		d.Evidence = append(d.Evidence, w.Name+": "+w.Why)
	}
	d.Held = spared(d, v)
	return d, true
}

func deviceFirst(h Host, p Policy) bool {
	order := p.OrderAt(h.Site)
	return order == DeviceFirst || order == Auto && !h.Pinned
}

// First says what is tried first when a host is lost whose lease proves that it runs nothing.
func (p Policy) First(h Host) string {
	if deviceFirst(h, p) {
		return fmt.Sprintf("a device comes before the end of its lease (%s)", p.setting(h.Site))
	}
	return fmt.Sprintf("the end of its lease comes before a device (%s)", p.setting(h.Site))
}

// setting names the setting that gives a site its order.
func (p Policy) setting(site string) string {
	if p.Sites[site] != "" {
		return fmt.Sprintf("fence.first_at: %s=%s", site, p.Sites[site])
	}
	return fmt.Sprintf("fence.first = %s", p.Order)
}

// Age is how long ago something was, by dates (Unix ms). What lies in the future was before the
// date went back: it counts as long ago as it lies ahead, for else it would count until the date
// has come again.
func Age(atMS, nowMS int64) time.Duration {
	return max(time.Duration(nowMS-atMS)*time.Millisecond, time.Duration(atMS-nowMS)*time.Millisecond)
}

// spared says why a host is not fenced by what was done before: a workload that could not
// be stopped fences one host, and a device that does not work is left alone for a while.
func spared(d Verdict, v View) string {
	failed := 0
	var last int64
	for _, o := range v.Ops {
		if o.Host == d.Host {
			if o.State == Failed {
				failed, last = failed+1, o.EndedMS
			} else if o.State == Done {
				failed = 0
			}
		}
		if d.Cause != CauseStop || o.Cause != CauseStop || o.Host == d.Host || Age(o.BegunMS, v.NowMS) >= stopMemory {
			continue
		}
		for _, w := range d.Work {
			if slices.Contains(o.Work, w) {
				return fmt.Sprintf("host %s was fenced because of the same container, and no second host is", o.Host)
			}
		}
	}
	wait := attemptPause
	if failed == 0 {
		return ""
	} else if failed < maxAttempts {
		wait = min(attemptPause, time.Duration(failed*failed)*5*time.Second)
	}
	if left := wait - Age(last, v.NowMS); left > 0 {
		return fmt.Sprintf("%d fences of it have failed; the next try is in %s", failed, left.Round(time.Second))
	}
	return ""
}

// Moot says why an off that was decided is not sent any more; empty if it is. heard tells that
// the host is heard again. What a person has asked for is sent.
func Moot(o Op, heard, maintenance bool) string {
	switch {
	case o.Cause == CausePerson:
	case maintenance:
		return "the host is in maintenance"
	case o.Cause == CauseLost && heard:
		return "the host is heard again"
	}
	return ""
}

// Same returns the operation, of those with the newest first, that a new request for a host is merged with: one for the
// same that is under way, or that was done within the tolerance and still holds.
func Same(ops []Op, host protocol.HostID, action Action, tolerance time.Duration, nowMS int64) (Op, bool) {
	for _, o := range ops {
		if o.Host != host || o.Action != action {
			continue
		}
		if !o.State.Ended() || o.Off() && nowMS-o.EndedMS < tolerance.Milliseconds() {
			return o, true
		}
	}
	return Op{}, false
}

// MustSayOn judges what a device says of a host that talks to us: one that says off is the
// device of another host, or lies, and is not used any more. It returns why; empty if all
// is well.
func MustSayOn(host protocol.HostID, out Outcome, text string) (unusable, trouble string) {
	switch out {
	case OutcomeOK:
		return "", ""
	case OutcomeOff:
		return fmt.Sprintf("it says that host %s is off, which talks to the coordinator: it is the device of another host, or it lies", host), ""
	}
	return "", strings.TrimSuffix(string(out)+": "+text, ": ")
}
