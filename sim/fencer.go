package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// stale is how old a step may be when its device is asked, and auditEvery how often the
// devices are asked whether they name the right hosts as on: the times of the coordinator.
const (
	stale      = 10 * time.Second
	auditEvery = 5 * time.Minute
)

// fencer is the part of a coordinator of a play that fences.
type fencer struct {
	*head
	// devices and ops are durable; operations have the oldest first.
	devices []*device
	ops     []fence.Op

	// The rest is memory of one process.
	held map[protocol.HostID]string // why a host is not fenced, as it was said last
	back map[*host]int64            // since when a fenced host is heard again
}

func newFencer(h *head) *fencer {
	f := &fencer{head: h}
	for _, d := range h.Devices {
		f.devices = append(f.devices, newDevice(h.play, d))
	}
	return f
}

// plan is what the devices of a host are to do.
func (f *fencer) plan(host protocol.HostID) []fence.Step {
	all := make([]fence.Device, 0, len(f.devices))
	for _, d := range f.devices {
		all = append(all, d.known)
	}
	steps := fence.Plan(all, host)
	for i := range steps {
		steps[i].Status = steps[i].Status && !f.exitCode
	}
	return steps
}

// closed reports whether a host is granted nothing.
func (f *fencer) closed(host protocol.HostID) bool {
	for i := range f.ops {
		if f.ops[i].Host == host && f.ops[i].Closes() {
			return true
		}
	}
	return false
}

// off reports whether a host was shown to be off.
func (f *fencer) off(host protocol.HostID) bool {
	for i := range f.ops {
		if f.ops[i].Host == host && f.ops[i].Off() {
			return true
		}
	}
	return false
}

// restart finishes what a process before has left.
func (f *fencer) restart() {
	f.held, f.back = make(map[protocol.HostID]string), make(map[*host]int64)
	for _, o := range slices.Clone(f.ops) {
		if !o.State.Ended() {
			f.carry(o.Restarted(f.now))
		}
	}
}

// look is what the coordinator does each second.
func (f *fencer) look(v unique.View) {
	if len(f.devices) == 0 {
		return
	}
	if f.now/auditEvery.Milliseconds() != (f.now-tick)/auditEvery.Milliseconds() {
		f.audit()
	}
	view := fence.View{Policy: f.Fencing, TTL: f.Timing.TTL, Settling: v.Settling() && !f.noSettling, Hosts: f.suspects(v), Ops: slices.Clone(f.ops), NowMS: f.now}
	if f.forgets {
		view.Ops = nil
	}
	if v.OurSide && !f.neverUs {
		view.OurSide = "half of the hosts went at once, so our own side may be what failed"
	}
	held := make(map[protocol.HostID]string)
	for _, d := range fence.Judge(view) {
		if d.Held == "" && f.Witness && f.cut && !f.neverUs {
			d.Held = "no witness answers, so the coordinator's own network may be what failed"
		}
		if d.Held == "" {
			f.begin(d)
			continue
		}
		if held[d.Host] = d.Held; f.held[d.Host] == "" {
			f.log("coordinator: %s is not fenced: %s", d.Host, d.Held)
		}
	}
	f.held = held
	f.letIn()
}

// suspects are the hosts that may run what is withheld from them.
func (f *fencer) suspects(v unique.View) (all []fence.Host) {
	for _, x := range f.hosts {
		k := &f.known[x.n]
		silent := v.NowMS - max(k.heardMS, v.StartedMS)
		h := fence.Host{
			ID: x.id, Lost: silent >= f.Timing.TTL.Milliseconds(), Silent: time.Duration(silent) * time.Millisecond, Maintenance: x.maintenance,
			Pinned: x.Pinned, Site: x.Site,
		}
		for i, w := range f.all {
			if f.where[i] != x || w.Phase == unique.Free || w.Phase == unique.Held && !h.Lost {
				continue
			}
			holder := f.holder(i, x)
			proof, why := unique.Proof(*w, holder, v)
			if proof != "" {
				continue
			}
			name := string(w.Name)
			runs := k.told == nil || k.told[i] == running
			h.Work = append(h.Work, fence.Work{
				CTID: name, Name: name, Why: why, ByLease: unique.ByLease(*w, holder, v), Runs: runs,
				Stuck: !h.Lost && w.Phase == unique.Withheld && runs && v.NowMS-max(f.shut[i], v.StartedMS) > v.Timing.Takeover().Milliseconds(),
			})
		}
		if len(h.Work) > 0 {
			h.Device = len(f.plan(x.id)) > 0
			all = append(all, h)
		}
	}
	return all
}

// begin begins an operation.
func (f *fencer) begin(d fence.Verdict) {
	f.number++
	f.report.Fences++
	f.log("coordinator: %s is fenced: %s", d.Host, d.Evidence[0])
	f.watch.begun(d, f)
	o := fence.Op{ID: string(d.Host) + "/" + time.Duration(f.now*int64(time.Millisecond)).String(), Host: d.Host, Site: d.Site, Action: f.Fencing.Action, Cause: d.Cause, Evidence: d.Evidence, Work: d.Work, Steps: f.plan(d.Host)}
	f.carry(o.Begin(f.now, f.rand.Float64()))
}

// carry stores an operation, and then does what it asks for.
func (f *fencer) carry(o fence.Op, next fence.Effect) {
	f.store(o)
	term := f.term
	again := func(do func()) func() {
		return func() { // a process that has ended does nothing more
			if f.on && f.term == term {
				do()
			}
		}
	}
	switch {
	case next.Run != "":
		f.ask(o, next.Run, f.now, again)
	case next.Wait > 0:
		f.in(next.Wait.Milliseconds(), again(func() {
			if why := f.moot(o); why != "" {
				f.store(o.GiveUp(f.now, why))
				return
			}
			f.carry(o.Waited(f.now))
		}))
	}
}

func (f *fencer) store(o fence.Op) {
	i := slices.IndexFunc(f.ops, func(x fence.Op) bool { return x.ID == o.ID })
	said := 0
	if o.Proof != "" && (i < 0 || f.ops[i].Proof == "") {
		f.watch.proved(o)
	}
	if i < 0 {
		f.ops = append(f.ops, o)
	} else {
		said, f.ops[i] = len(f.ops[i].Log), o
	}
	for _, l := range o.Log[min(said, len(o.Log)):] {
		f.log("fence of %s: %s", o.Host, l.Text)
	}
}

// moot says why nothing has to be sent any more.
func (f *fencer) moot(o fence.Op) string {
	x := f.byName[o.Host]
	at := f.known[x.n].heardMS
	return fence.Moot(o, at > 0 && f.now-at < f.Timing.TTL.Milliseconds(), x.maintenance)
}

// ask has the device of a step asked, one question after the other.
func (f *fencer) ask(o fence.Op, verb fence.Verb, began int64, again func(func()) func()) {
	s := o.Steps[o.At]
	i := slices.IndexFunc(f.devices, func(d *device) bool { return d.Name == s.Device })
	d := f.devices[i]
	if d.free > f.now {
		f.in(d.free-f.now, again(func() { f.ask(o, verb, began, again) }))
		return
	}
	if verb == fence.Off {
		if why := f.moot(o); why != "" && !f.lateOff {
			f.store(o.GiveUp(f.now, why))
			return
		}
		if late := time.Duration(f.now-began) * time.Millisecond; !f.lateOff && late > stale {
			f.carry(o.Ran(fence.OutcomeTimeout, "the device was busy, and an off that late is not sent", 0, f.now))
			return
		}
		f.watch.sent(o)
	}
	d.ask(verb, f.byName[o.Host], func(out fence.Outcome, took int64) {
		again(func() { f.carry(o.Ran(out, "", time.Duration(took)*time.Millisecond, f.now)) })()
	})
}

// audit asks devices about the hosts that are heard: one that names such a host as off is
// not used for it any more.
func (f *fencer) audit() {
	term := f.term
	heard := func(x *host) bool {
		at := f.known[x.n].heardMS
		return f.on && f.term == term && at > 0 && f.now-at < f.Timing.TTL.Milliseconds()
	}
	for _, d := range f.devices {
		for i := range d.known.Targets {
			t := &d.known.Targets[i]
			x := f.byName[t.Host]
			if !heard(x) || !d.known.Status || d.free > f.now {
				continue
			}
			d.ask(fence.Status, x, func(out fence.Outcome, _ int64) {
				unusable, trouble := fence.MustSayOn(t.Host, out, "")
				if !heard(x) || trouble != "" {
					return
				}
				if unusable != t.Unusable {
					f.log("coordinator: device %s: %s", d.Name, cmp.Or(unusable, "it is used again for "+x.Name))
				}
				t.Unusable = unusable
			})
		}
	}
}

// letIn lets hosts in again that were fenced, are heard, and run nothing of what they held.
func (f *fencer) letIn() {
	for i := range f.ops {
		o := &f.ops[i]
		if !o.Closes() || o.State != fence.Done {
			continue
		}
		x := f.byName[o.Host]
		at := f.known[x.n].heardMS
		switch {
		case at == 0 || f.now-at >= f.Timing.TTL.Milliseconds():
			delete(f.back, x)
		case f.back[x] == 0 && at > o.EndedMS:
			f.back[x] = f.now
		}
		since := f.back[x]
		if since == 0 || slices.Contains(f.known[x.n].told, running) || f.now-since < f.Fencing.Reconnect.Milliseconds() || f.Fencing.Unfence == "manual" {
			continue
		}
		o.ReturnedMS = f.now
		delete(f.back, x)
		f.log("coordinator: %s is let in again", x.Name)
	}
}
