// Package workloads keeps unique workloads: which host holds one, under which epoch, and
// where one goes whose host is lost. What is decided is decided by packages unique and
// placement; the room knows what they are asked with, and carries out what they say.
package workloads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/unique"
)

// Config is what the room works with. All of it is needed.
type Config struct {
	Timing unique.Timing
	// Min is the least self-fence by which the end of a lease is believed.
	Min unique.SelfFence
	// Copies is what becomes of a workload that runs where it may not.
	Copies unique.Copies
	// Term is that of this process.
	Term protocol.Term
	// Propose asks for an action in the coordinator's own name.
	Propose func(ctx context.Context, host protocol.HostID, spec []byte) (core.Action, error)
	// Reachable reports whether a host is there, and Left whether it has ended its
	// connection on purpose.
	Reachable, Left func(protocol.HostID) bool
	Fencing         Fencing
	// Removed is the number of the newest ring that took a coordinator out; 0 if none did.
	Removed func() uint64
	Placing Placing
}

// Room keeps unique workloads. All methods are safe for concurrent use.
type Room struct {
	base     *core.Base
	cfg      Config
	started  int64                     // boot clock, ms
	deciding sync.Mutex                // one decision after the other
	stored   map[protocol.HostID]shown // what hosts have shown; of who decides
	sites    core.Roster[*site]

	mu    sync.Mutex
	all   map[protocol.CTID]*workload
	held  heldBy // the same, by host
	hosts map[protocol.HostID]*holder
	// open are the workloads that [workload.settled] reports false for: they move, wait or end.
	open map[protocol.CTID]*workload
	news news
	// copies are the workloads that hosts tell they run although they may not, with those of
	// the hosts that may, and resolved is what follows from them.
	copies   map[copyKey]*found
	resolved map[protocol.CTID]unique.Resolved
	side     unique.Suspicion
	// ours is whether our own side is suspected, as it was judged at oursMS of the boot clock;
	// 0: it is to be judged anew.
	ours   bool
	oursMS int64
	// changed tells that something that placement asks of may be otherwise than when
	// placement was asked last, at the boot clock of placedMS.
	changed  bool
	placedMS int64
}

// workload is what is stored, and what only this process knows.
type workload struct {
	core.Workload
	named protocol.Seq // the newest grant that named it
	quiet bool         // its host has told since that it does not run
	shut  bool         // grants are withheld: a decision about it is on its way to the disk
	// shutMS is since when, by the boot clock; 0 if a process before did that.
	shutMS int64
	// movedMS is when it went where it is, by the boot clock; 0 if a process before did that.
	movedMS int64
	idle    bool // its host has told last that it does not run
	// stopped tells that its user wants it stopped, as its host told before it was lost.
	stopped bool
}

// holder is what is known of a host.
type holder struct {
	heardMS int64 // boot clock
	shown
	there bool // it was heard, or holds a workload since the start, and is not missed for long
	// runs are the containers that run by its newest inventory, and epochs those under
	// which its newest lease tells that workloads run which other hosts hold.
	runs   map[protocol.CTID]bool
	epochs map[protocol.CTID]protocol.Epoch
	// told tells that it has told what it has since it said hello last, or was heard again
	// after a silence in which its lease ended; nothing is placed there before. It is asked
	// for that from askMS of the boot clock on.
	told  bool
	askMS int64
	// backMS is when that was last, and toldMS when it told last what it has, boot clock.
	backMS, toldMS int64

	availability core.Availability
	ailing       []protocol.CTID // what fails there, by its newest inventory
	// features are what the host has, by its newest hello.
	features []string
}

// New returns a room without workloads. Load follows.
func New(base *core.Base, cfg Config) *Room {
	return &Room{base: base, cfg: cfg, sites: core.Roster[*site]{Of: siteOf}, started: base.Boot(), changed: true, all: make(map[protocol.CTID]*workload), held: make(heldBy), hosts: make(map[protocol.HostID]*holder), open: make(map[protocol.CTID]*workload), news: newNews()}
}

// Load reads what is stored. It is called once, before anything is granted. The store of the
// room's base is one of [core.Watch] that tells Stored.
func (r *Room) Load(tx core.Tx) error {
	all, err := tx.Workloads.List()
	for _, w := range all {
		kept := &workload{Workload: w}
		r.all[w.CTID] = kept
		index{r}.hold(kept)
		if w.Phase != unique.Free { // it is missed if it is not heard
			r.host(w.Host).there = true
		}
	}
	if err != nil {
		return err
	}
	if err := r.loadShown(tx); err != nil {
		return err
	}
	take := func(h core.Host) error {
		if h.Availability.State != core.Open {
			index{r}.avail(h.ID, h.Availability)
		}
		index{r}.tells(h.ID, h.Inventory.Containers)
		return nil
	}
	if len(r.all) == 0 { // nothing is placed now
		return core.EachHost(tx, take)
	}
	return r.sites.Load(func(keep func(core.Host) error) error {
		return core.EachHost(tx, func(h core.Host) error { return errors.Join(take(h), keep(h)) })
	})
}

// Greeted notes what a host that has proved itself says of itself.
func (r *Room) Greeted(host protocol.HostID, h *protocol.Hello) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.host(host)
	x.features = h.Features
	placer{r}.returned(host, r.base.Boot())
	x.Fence, x.Pausable = unique.SelfFence(h.SelfFence), slices.Contains(h.Features, protocol.FeaturePausable)
	if x.Fence == unique.FenceGuard && slices.Contains(h.Features, protocol.FeatureReboots) {
		x.Fence = unique.FenceReboot
	}
	r.changed, r.news.shown = true, true
}

func (r *Room) host(id protocol.HostID) *holder {
	h := r.hosts[id]
	if h == nil {
		h = &holder{}
		r.hosts[id] = h
	}
	return h
}

// Renew takes a verified lease and returns what the grant of number seq, which answers
// it, is to name. It is memory alone, and never waits for a decision.
func (r *Room) Renew(host protocol.HostID, lease *protocol.Lease, seq protocol.Seq) (held []protocol.LeaseHeld, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.host(host)
	now := r.base.Boot()
	if h.heardMS > 0 && now-h.heardMS >= r.cfg.Timing.TTL.Milliseconds() {
		placer{r}.returned(host, now)
	}
	h.heardMS, h.there, r.oursMS = now, true, 0
	if lease.Took.Inc == seq.Inc && lease.Ring > h.Ring {
		h.Ring, r.news.shown = lease.Ring, true
	}
	runs := make(map[protocol.CTID]protocol.Epoch, len(lease.Held))
	names := make(map[protocol.CTID]bool, len(lease.Held))
	for _, x := range lease.Held {
		if names[x.CTID] = true; x.Running {
			runs[x.CTID] = x.Epoch
		}
	}
	h.epochs = nil
	for id, e := range runs {
		if w := r.all[id]; w != nil && w.Host != host {
			if h.epochs == nil {
				h.epochs = make(map[protocol.CTID]protocol.Epoch)
			}
			h.epochs[id] = e
		}
	}
	held = []protocol.LeaseHeld{}
	closed := r.cfg.Fencing.Closed(host) != ""
	settling := r.view().Settling()
	for _, w := range r.held[host] {
		e, running := runs[w.CTID]
		w.idle = !running
		if !names[w.CTID] && w.named.Compare(lease.Took) < 0 {
			w.quiet = true
		} else if names[w.CTID] {
			w.quiet = false
		}
		if w.Phase != unique.Held || w.shut || closed || settling && !(running && e == w.Epoch) || len(held) == protocol.MaxHeld {
			continue
		}
		first := w.named == (protocol.Seq{})
		if w.named = seq; first {
			index{r}.note(w)
		}
		held = append(held, protocol.LeaseHeld{CTID: w.CTID, Epoch: w.Epoch, Running: running})
	}
	return held, r.cfg.Timing.TTL
}

func (r *Room) view() unique.View {
	return unique.View{Timing: r.cfg.Timing, Min: r.cfg.Min, NowMS: r.base.Boot(), StartedMS: r.started}
}

// Enter notes within the transaction of a request what it makes of unique workloads: one
// that is created is held by its host from then on. Entered follows the transaction.
func (r *Room) Enter(tx core.Tx, a *core.Action, spec *protocol.Spec, wants placement.Wants) error {
	info, _ := protocol.KindOf(spec.Kind)
	args, creates := spec.Args.(*protocol.CreateArgs)
	upgrades, alters := spec.Kind == protocol.KindContainerUpgrade, changes(spec.Kind)
	if creates = creates && args.Class == contract.Unique; !creates && !info.Removes && !upgrades && !alters {
		return nil
	}
	// What is stored counts, and not what is known: a decision may be on its way.
	old, err := tx.Workloads.Get(spec.Target)
	switch there := err == nil; {
	case err != nil && !errors.Is(err, core.ErrNotFound):
		return err
	case alters && there && old.Host == a.Host && len(old.Changes) >= maxChanges:
		return fmt.Errorf("%w: %d changes of unique container %s have not ended; ask again when the first has", core.ErrConflict, maxChanges, old.Name)
	case alters && there && old.Host == a.Host:
		old.Changes = append(old.Changes, a.ID)
		return tx.Workloads.Put(old)
	case upgrades && there && old.Host == a.Host && !old.Pending.IsZero():
		return fmt.Errorf("%w: action %s of unique container %s has not ended; ask again when it has", core.ErrConflict, old.Pending, old.Name)
	case !creates && there && old.Host == a.Host:
		old.Pending = a.ID
		return tx.Workloads.Put(old)
	case !creates:
		return nil
	case there && old.Host == a.Host && a.Requester == string(protocol.Coordinator):
		return nil // it is made anew where it was placed
	case there:
		return fmt.Errorf("%w: unique container %s is on host %s, or was; see: hostler lease ls", core.ErrConflict, old.Name, old.Host)
	}
	if err := mayFollow(tx, spec.Target, spec.Name, wants.After); err != nil {
		return err
	}
	return tx.Workloads.Put(newborn(a, spec, args, wants, r.cfg.Term, r.base.NowMS()).Workload)
}

// newborn is the workload that a creation makes.
func newborn(a *core.Action, spec *protocol.Spec, args *protocol.CreateArgs, wants placement.Wants, term protocol.Term, nowMS int64) *workload {
	w := &workload{Workload: core.Workload{
		Workload: unique.Workload{
			CTID: spec.Target, Name: spec.Name, Host: a.Host, Phase: unique.Held, Epoch: protocol.Epoch{Term: term, Counter: 1},
			Keeps: args.Offline == contract.Keep, Data: unique.Data(args.Data),
		},
		Wants: wants, Spec: a.Spec, Requester: a.Requester, Pending: a.ID, ChangedMS: nowMS,
		DataHost: a.Host,
	}}
	holds(&w.Workload)
	if w.Data == "" {
		w.Data = unique.DataLocal
	}
	return w
}

// Entered follows a request that is durable.
func (r *Room) Entered(a *core.Action, spec *protocol.Spec, wants placement.Wants) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.all[spec.Target]
	if info, _ := protocol.KindOf(spec.Kind); old != nil && old.Host == a.Host {
		switch {
		case info.Removes || spec.Kind == protocol.KindContainerUpgrade:
			old.Pending = a.ID
		case changes(spec.Kind):
			old.Changes = append(slices.Clone(old.Changes), a.ID)
		}
		index{r}.note(old)
	}
	args, ok := spec.Args.(*protocol.CreateArgs)
	if !ok || args.Class != contract.Unique || old != nil {
		return
	}
	w := newborn(a, spec, args, wants, r.cfg.Term, r.base.NowMS())
	r.all[spec.Target] = w
	index{r}.hold(w)
	r.changed = true
}

// Status is a workload as people see it.
type Status struct {
	core.Workload
	// LeftMS is how long the lease of its host is good for, as far as is known here; 0 if
	// it has ended or no host holds it.
	LeftMS int64
	Fence  unique.SelfFence
	// Copies says where else it runs, and what becomes of that.
	Copies []string
}

// List returns all workloads, by name.
func (r *Room) List() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.view()
	now, spared := v.NowMS, spares(r, v)
	var all []Status
	for _, w := range r.all {
		s := Status{Workload: w.Workload}
		_, s.Copies = finder{r}.strays(w)
		if h := r.hosts[w.Host]; h != nil && w.Phase == unique.Held {
			s.Fence = h.Fence
			if h.heardMS > 0 {
				s.LeftMS = max(0, h.heardMS+r.cfg.Timing.TTL.Milliseconds()-now)
			}
			if s.LeftMS == 0 && s.Why == "" {
				s.Why = spared
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Status) int {
		if c := strings.Compare(string(a.Name), string(b.Name)); c != 0 {
			return c
		}
		return strings.Compare(a.CTID.String(), b.CTID.String())
	})
	return all
}

// Tick decides about the workloads that may be otherwise than before, and places what is free.
// It is called every second.
func (r *Room) Tick(ctx context.Context) {
	if r.base.Recovery() != "" {
		return
	}
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if err := r.keepShown(ctx); err != nil && ctx.Err() == nil {
		r.base.Log.ErrorContext(ctx, "cannot store what hosts have shown; it is tried again", "err", err)
	}
	if err := r.endMaintenance(ctx); err != nil && ctx.Err() == nil {
		r.base.Log.ErrorContext(ctx, "cannot end the maintenance of a host; it is tried again", "err", err)
	}
	if err := (finder{r}).discover(ctx); err != nil && ctx.Err() == nil {
		r.base.Log.ErrorContext(ctx, "cannot stop copies of unique workloads; it is tried again", "err", err)
	}
	if err := (mover{r}).follow(ctx); err != nil && ctx.Err() == nil {
		r.base.Log.ErrorContext(ctx, "cannot follow the moves of unique workloads; it is tried again", "err", err)
	}
	for _, id := range (index{r}).undecided() {
		if err := r.decide(ctx, id); err != nil && ctx.Err() == nil {
			r.base.Log.ErrorContext(ctx, "cannot decide about a unique workload; it is tried again", "container", id.String(), "err", err)
		}
	}
	if err := (placer{r}).place(ctx); err != nil && ctx.Err() == nil {
		r.base.Log.ErrorContext(ctx, "cannot place unique workloads; it is tried again", "err", err)
	}
}

// decide moves one workload. Grants stop before the decision is stored, and the time of
// its host counts from what was heard until then.
func (r *Room) decide(ctx context.Context, id protocol.CTID) error {
	if err := r.settleChanges(ctx, id); err != nil {
		return err
	}
	if err := r.settlePending(ctx, id); err != nil {
		return err
	}
	w, next, changed := r.next(id, false)
	if changed && next.Phase == unique.Withheld && w.Phase == unique.Held && !next.Leaves() {
		stopped, err := r.stopped(ctx, w)
		if err != nil {
			return err
		}
		r.mu.Lock()
		w.stopped = stopped
		r.mu.Unlock()
		w, next, changed = r.next(id, stopped)
	}
	if !changed {
		return nil
	}
	r.mu.Lock()
	if w.shut = next.Phase != unique.Held; w.shut && w.Phase == unique.Held {
		w.shutMS = r.base.Boot()
	}
	index{r}.note(w)
	r.mu.Unlock()
	return r.store(ctx, w, "workload."+string(next.Phase), func(s *core.Workload) {
		m := s.Move
		if s.Workload = next; m != next.Move {
			endMove(s, m, next.Why, r.base.NowMS())
		}
	}, func() {
		w.shut = false // its phase says it, or the decision was not stored
		if w.Phase == unique.Withheld {
			w.quiet = false // what was told before proves nothing
		}
	})
}

// next is what a workload is to be. stopped tells that its user wants it stopped.
func (r *Room) next(id protocol.CTID, stopped bool) (w *workload, next unique.Workload, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w = r.all[id]; w == nil {
		return nil, next, false
	}
	v := r.view()
	v.OurSide = r.ourSide(v)
	now := w.Workload.Workload
	now.Stopped = stopped
	next, changed = unique.Decide(now, r.holderOf(w), v)
	next.Stopped = false // its host tells it; it is not stored
	return w, next, changed
}

// store makes a change of a workload durable, with its record in the audit log and its event if
// it has a verb. The change is made to what is stored, which an action may have changed meanwhile,
// and then to what is known; then, also if it failed, after is called, under the lock.
func (r *Room) store(ctx context.Context, w *workload, verb string, change func(*core.Workload), after func()) error {
	stamped := func(s *core.Workload) {
		change(s)
		s.ChangedMS = r.base.NowMS()
		if verb != "" {
			s.History = append(s.History[max(0, len(s.History)+1-maxHistory):len(s.History):len(s.History)], core.WorkloadStep{AtMS: s.ChangedMS, Host: s.Host, Epoch: s.Epoch, Phase: s.Phase, Why: s.Why})
		}
	}
	var s core.Workload
	err := r.base.Update(ctx, failpoint.WorkloadDecided, func(tx core.Tx) (err error) {
		if s, err = tx.Workloads.Get(w.CTID); err != nil {
			return err
		}
		before := s
		stamped(&s)
		if err := errors.Join(tx.Workloads.Put(s), r.tellMove(tx, before.Moved, &s), tellRestore(r, tx, before.Restored, &s)); err != nil || verb == "" {
			return err
		}
		detail := map[string]any{"name": string(w.Name), "host": string(s.Host), "epoch": s.Epoch.String(), "why": s.Why}
		err = r.base.Record(tx, core.Self(), audit.Record{Verb: verb, Object: w.CTID.String(), Detail: detail})
		if before.Phase == s.Phase && before.Host == s.Host { // only what it waits for is another
			return err
		}
		return errors.Join(err, r.base.Event(tx, verb, s.Host, w.CTID.String(), detail))
	})
	if err == nil && verb != "" {
		r.base.Wake.Fire(core.EventsKey{})
		r.base.Log.InfoContext(ctx, "a unique workload moved", "name", string(w.Name), "host", string(s.Host), "phase", string(s.Phase), "epoch", s.Epoch.String(), "why", s.Why)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.held.remove(w)
		stamped(&w.Workload)
		if verb != "" && w.Phase != unique.Withheld {
			w.movedMS = r.base.Boot()
		}
		index{r}.hold(w)
		r.changed = true
	}
	if after != nil {
		after()
	}
	index{r}.note(w)
	return err
}

// ourSide reports whether so many hosts went at once that we may be what failed. It is judged
// once for a moment, and not for each workload.
func (r *Room) ourSide(v unique.View) bool {
	if r.oursMS != v.NowMS || r.oursMS == 0 {
		r.ours, r.oursMS = judgeOurs(r, v), v.NowMS
	}
	return r.ours
}

func judgeOurs(r *Room, v unique.View) bool {
	there, gone, newest := 0, 0, int64(0)
	ttl := v.Timing.TTL.Milliseconds()
	var long []*holder // one by one: what is gone for long no window counts
	for _, h := range r.hosts {
		if !h.there {
			continue
		}
		there, newest = there+1, max(newest, h.heardMS)
		silent := v.NowMS - max(h.heardMS, v.StartedMS)
		if silent >= ttl*2/3 {
			gone++
		}
		if silent >= 4*ttl {
			long = append(long, h)
		}
	}
	if gone < there { // where nothing is heard, our own side stays suspected
		for _, h := range long {
			h.there = false
		}
	}
	return r.side.Ours(v, there, gone, newest)
}

// maxHistory is how many of its newest steps are kept of a workload.
const maxHistory = 10

// stopped reports whether the user of a container wants it stopped, by what its host told
// last.
func (r *Room) stopped(ctx context.Context, w *workload) (stopped bool, err error) {
	host, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(w.Host) })
	if errors.Is(err, core.ErrNotFound) {
		return false, nil
	}
	for _, c := range host.Inventory.Containers {
		stopped = stopped || c.CTID == w.CTID && c.Intended == contract.Stopped
	}
	return stopped, err
}
