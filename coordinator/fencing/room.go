// Package fencing cuts hosts off for certain: it keeps the fence devices, carries out what
// package fence decides, and keeps what came of it. Every step is stored before it is done.
// What is proved is told to the room of unique workloads, which alone decides what follows.
package fencing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// Programs runs the programs of fence-agents. It is safe for concurrent use.
type Programs interface {
	Run(context.Context, agents.Call) agents.Result
	Describe(ctx context.Context, agent string) (agents.Metadata, error)
}

// Workloads knows which hosts unique workloads are withheld from. It is safe for
// concurrent use, and must not call the room while it is asked.
type Workloads interface {
	// Suspects lists the hosts that may run what they are not granted any more.
	Suspects() []fence.Host
	// OurSide says whether we have just begun, and why we may be what failed.
	OurSide() (settling bool, why string)
	// Heard is when a host was heard last, by the boot clock; when it was there anew last: it
	// said hello, or was heard after a silence in which its lease had ended; and when it told
	// last what it has. 0: not since the process began.
	Heard(protocol.HostID) (lastMS, anewMS, toldMS int64)
	// Maintenance reports whether nothing is to be decided about a host.
	Maintenance(protocol.HostID) bool
}

// Config is what the room works with.
type Config struct {
	Policy    fence.Policy
	TTL       time.Duration // of leases
	Term      protocol.Term
	Programs  Programs
	Workloads Workloads
	Hosts     Hosts // ask the devices that they alone reach
	// Secret reads a file of the directory of secrets.
	Secret func(file string) (string, error)
	// Witness asks an address at the site of the coordinator whether our network is up,
	// and returns what is wrong; empty if nothing is, or none is configured.
	Witness func(context.Context) string
}

// maxOps is how many operations are kept; beyond it the oldest ones that have ended and
// whose hosts are back go, down to half of that. Source: Pacemaker's history.
const maxOps = 500

// Room fences. All methods are safe for concurrent use.
type Room struct {
	base *core.Base
	cfg  Config
	kick chan carry // operations that are to be carried out

	requesting sync.Mutex // one request of a person after the other

	mu      sync.RWMutex
	devices []fence.Device // by name
	number  uint64         // of the change of devices
	ops     []fence.Op     // the oldest first
	held    []fence.Verdict
	back    map[protocol.HostID]int64 // since when a fenced host is heard again, boot clock
	ended   map[string]int64          // when operations of this process have ended, boot clock
	locks   map[string]chan struct{}  // one operation of a device at a time
}

// carry is an operation, and what is to be done next of it.
type carry struct {
	op   fence.Op
	next fence.Effect
}

// New returns a room without devices. Load follows.
func New(base *core.Base, cfg Config) *Room {
	return &Room{base: base, cfg: cfg, kick: make(chan carry, 64), back: make(map[protocol.HostID]int64), ended: make(map[string]int64), locks: make(map[string]chan struct{})}
}

// Load reads what is stored. It is called once, before anything is granted.
func (r *Room) Load(tx core.Tx) error {
	b, err := readBook(tx)
	if err != nil {
		return err
	}
	ops, err := tx.Fences.List()
	r.devices, r.number, r.ops = b.Devices, b.Number, ops
	return err
}

// Closed says why a host is granted nothing; empty if it may be.
func (r *Room) Closed(host protocol.HostID) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, o := range slices.Backward(r.ops) {
		if o.Host == host && o.Closes() {
			return "it is " + word(&o)
		}
	}
	return ""
}

// word is where a host stands by an operation that closes it.
func word(o *fence.Op) string {
	switch {
	case !o.State.Ended():
		return "being fenced"
	case o.Action == fence.ActionConfirm:
		return "confirmed to be off, and was not let in again"
	}
	return "fenced, and was not let in again"
}

// Off tells what shows that a host runs nothing, since nothing was granted to it: a device,
// or the word of a person.
func (r *Room) Off(host protocol.HostID) (device, person bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, o := range r.ops {
		if o.Host == host && o.Off() {
			device, person = device || o.Action != fence.ActionConfirm, person || o.Action == fence.ActionConfirm
		}
	}
	return device, person
}

// Ops lists the operations, the newest first.
func (r *Room) Ops() []fence.Op {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := slices.Clone(r.ops)
	slices.Reverse(all)
	return all
}

// Held lists the hosts that would be fenced, with what keeps them from it.
func (r *Room) Held() []fence.Verdict {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.held)
}

// judgeEvery is how often it is judged whether a host is to be fenced, and auditEvery how
// often the devices are asked whether they name the right hosts as on.
const (
	judgeEvery = time.Second
	auditEvery = 5 * time.Minute
	// auditOthersEvery is how often a device is asked that another host reaches, unless there
	// is a reason to ask it sooner: each question is an action of that host.
	auditOthersEvery = 30 * time.Minute
	// auditAtOnce is how many devices are looked at at once.
	auditAtOnce = 16
)

// Run finishes what a process before has left, judges, and carries operations out, until
// ctx ends.
func (r *Room) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	start := func(c carry) {
		g.Go(func() error {
			r.carryOut(ctx, c)
			return nil
		})
	}
	for _, o := range r.Ops() {
		if !o.State.Ended() {
			op, next := o.Restarted(r.base.NowMS())
			start(carry{op, next})
		}
	}
	g.Go(func() error { return r.auditLoop(ctx) })
	g.Go(func() error {
		t := time.NewTicker(judgeEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case c := <-r.kick:
				start(c)
			case <-t.C:
				if r.base.Recovery() != "" {
					continue
				}
				for _, c := range r.judge(ctx) {
					start(c)
				}
				r.letIn(ctx)
			}
		}
	})
	return g.Wait()
}

// judge begins the operations that are due.
func (r *Room) judge(ctx context.Context) (begun []carry) {
	hosts := r.cfg.Workloads.Suspects()
	v := fence.View{Policy: r.cfg.Policy, TTL: r.cfg.TTL, Hosts: hosts, NowMS: r.base.NowMS()}
	v.Settling, v.OurSide = r.cfg.Workloads.OurSide()
	if err := r.complete(ctx, v.Hosts); err != nil {
		if ctx.Err() == nil {
			r.base.Log.ErrorContext(ctx, "cannot judge whether a host is to be fenced; it is tried again", "err", err)
		}
		return nil
	}
	r.mu.RLock()
	v.Ops = slices.Clone(r.ops)
	r.mu.RUnlock()
	verdicts := fence.Judge(v)
	asked, witness := false, ""
	for i := range verdicts {
		d := &verdicts[i]
		if d.Held == "" && r.cfg.Witness != nil {
			if !asked {
				asked, witness = true, r.cfg.Witness(ctx)
			}
			d.Held = witness
		}
		if d.Held != "" {
			continue
		}
		c, err := r.begin(ctx, core.Self(), fence.Op{
			Host: d.Host, Site: d.Site, Action: r.cfg.Policy.Action, Cause: d.Cause, Evidence: d.Evidence, Work: d.Work,
		})
		if err != nil {
			r.base.Log.ErrorContext(ctx, "cannot begin to fence a host; it is tried again", "host", d.Host, "err", err)
			continue
		}
		begun = append(begun, c)
	}
	verdicts = slices.DeleteFunc(verdicts, func(d fence.Verdict) bool { return d.Held == "" })
	r.mu.Lock()
	r.held = verdicts
	r.mu.Unlock()
	return begun
}

// complete adds to what is known of hosts what the store and the devices say.
func (r *Room) complete(ctx context.Context, hosts []fence.Host) error {
	if len(hosts) == 0 {
		return nil
	}
	r.mu.RLock()
	devices := slices.Clone(r.devices)
	r.mu.RUnlock()
	return r.base.View(ctx, func(tx core.Tx) error {
		for i := range hosts {
			h := &hosts[i]
			stored, err := tx.Hosts.Get(h.ID)
			if err != nil {
				return fmt.Errorf("host %s: %w", h.ID, err)
			}
			h.Device = len(fence.Plan(devices, h.ID)) > 0
			h.Site, h.Pinned = siteOf(stored), pinned(stored)
		}
		return nil
	})
}

// siteOf is the value of a host's label site.
func siteOf(h core.Host) string {
	for _, l := range h.Labels {
		if site, ok := strings.CutPrefix(l, "site="); ok {
			return site
		}
	}
	return ""
}

// begin makes a new operation durable, with its first step.
func (r *Room) begin(ctx context.Context, by core.Actor, o fence.Op) (carry, error) {
	r.mu.RLock()
	o.Steps = fence.Plan(r.devices, o.Host)
	r.mu.RUnlock()
	o.ID, o.By = r.base.NewActionID(r.base.NowMS()).String(), by.LogName()
	var chance [1]byte
	r.base.Random(chance[:])
	op, next := o.Begin(r.base.NowMS(), float64(chance[0])/256)
	return carry{op, next}, r.store(ctx, by, op)
}

// store makes an operation durable, with its records when it begins and when it ends, and
// what follows from a proof: what the host was asked and has not ended is lost.
func (r *Room) store(ctx context.Context, by core.Actor, o fence.Op) error {
	r.mu.RLock()
	i := slices.IndexFunc(r.ops, func(x fence.Op) bool { return x.ID == o.ID })
	var before fence.Op
	if i >= 0 {
		before = r.ops[i]
	}
	r.mu.RUnlock()
	err := r.base.Update(ctx, failpoint.FenceStepped, func(tx core.Tx) error {
		if o.Proof != "" && before.Proof == "" {
			if err := lose(r.base, tx, o.Host); err != nil {
				return err
			}
		}
		if err := tx.Fences.Put(o); err != nil {
			return err
		}
		verb := ""
		switch {
		case i < 0:
			verb = "fence.begun"
		case o.State.Ended() && !before.State.Ended():
			verb = "fence." + string(o.State)
		case o.ReturnedMS != 0 && before.ReturnedMS == 0:
			verb = "fence.returned"
		default:
			return nil
		}
		if o.State.Ended() && i < 0 {
			verb = "fence." + string(o.State)
		}
		detail := map[string]any{"fence": o.ID, "action": string(o.Action), "cause": string(o.Cause), "by": o.By}
		for key, text := range map[string]string{"reason": o.Reason, "proof": o.Proof, "evidence": strings.Join(o.Evidence, "; ")} {
			if text != "" {
				detail[key] = text
			}
		}
		if err := r.base.Audit(tx, by, "host."+verb, string(o.Host), detail); err != nil {
			return err
		}
		return r.base.Event(tx, verb, o.Host, o.ID, detail)
	})
	if err != nil {
		return err
	}
	if i < 0 || o.State.Ended() {
		r.base.Log.InfoContext(ctx, "fence", "host", string(o.Host), "state", string(o.State), "cause", string(o.Cause), "by", o.By, "proof", o.Proof)
	}
	r.mu.Lock()
	if o.State.Ended() && !before.State.Ended() {
		r.ended[o.ID] = r.base.Boot()
	}
	if i = slices.IndexFunc(r.ops, func(x fence.Op) bool { return x.ID == o.ID }); i >= 0 {
		r.ops[i] = o
	} else {
		r.ops = append(r.ops, o)
	}
	r.mu.Unlock()
	r.base.Wake.Fire(core.EventsKey{})
	return nil
}

// lose ends what a host was sent and has not ended: it is off.
func lose(base *core.Base, tx core.Tx, host protocol.HostID) error {
	return core.EachOpen(tx, host, func(a core.Action) error {
		if a.State == protocol.StatePendingApprove || a.State == protocol.StatePendingSchedule && a.Unnumbered() {
			return nil // it was never sent, and is when the host is back
		}
		a.Detail = "its host was fenced; how far it came is not known"
		return base.Move(tx, &a, protocol.EventHostFenced)
	})
}

// prune forgets the oldest operations.
func (r *Room) prune(ctx context.Context) error {
	r.mu.RLock()
	var old []string
	if len(r.ops) > maxOps {
		for _, o := range r.ops {
			if o.State.Ended() && !o.Closes() && len(r.ops)-len(old) > maxOps/2 {
				old = append(old, o.ID)
			}
		}
	}
	r.mu.RUnlock()
	if len(old) == 0 {
		return nil
	}
	err := r.base.Update(ctx, failpoint.FenceStepped, func(tx core.Tx) error {
		for _, id := range old {
			if err := tx.Fences.Remove(id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = slices.DeleteFunc(r.ops, func(o fence.Op) bool { return slices.Contains(old, o.ID) })
	for _, id := range old {
		delete(r.ended, id)
	}
	return nil
}
