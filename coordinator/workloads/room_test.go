package workloads

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/setting"
	"github.com/hostler-io/hostler/unique"
)

// stage is a room with a store, a clock that the test moves, and hosts that ask for leases.
type stage struct {
	*testing.T
	*Room
	store core.Store
	now   int64 // boot clock, ms
	seq   uint64
	fails bool // no change is stored
	asked []string
	away  map[protocol.HostID]bool
	// off and closed are what the room that fences says.
	off, closed map[protocol.HostID]bool
	removed     uint64          // the ring that took a coordinator out
	wants       placement.Wants // of what is created
	copies      unique.Copies
	stops       []string // hosts that were asked to stop something
	refuses     error    // why no host may be asked to create something
	mute        bool     // hosts that are back do not tell what they have
}

// Closed implements [Fencing].
func (s *stage) Closed(h protocol.HostID) string {
	if s.closed[h] {
		return "it is being fenced"
	}
	return ""
}

// Off implements [Fencing].
func (s *stage) Off(h protocol.HostID) (device, person bool) { return s.off[h], false }

// Offs implements [Fencing].
func (s *stage) Offs() (all []protocol.HostID) {
	for h, off := range s.off {
		if off {
			all = append(all, h)
		}
	}
	return all
}

var ctid = protocol.CTID{0, 0, 0, 0, 0, 0, 0x70, 0, 0x80, 1}

func newStage(t *testing.T) *stage {
	s := &stage{T: t, now: 1_000_000, away: make(map[protocol.HostID]bool), off: make(map[protocol.HostID]bool), closed: make(map[protocol.HostID]bool), copies: unique.StopStale}
	s.store = core.Watch(storetest.NewMem(storetest.Faults{Refuse: func() error {
		if s.fails {
			return errors.New("the disk is full")
		}
		return nil
	}}), func(n uint64, h core.Host, sure bool) { s.Stored(n, h, sure) })
	s.begin(1)
	t.Cleanup(s.agrees)
	for _, h := range []protocol.HostID{"a", "b", "c"} {
		if err := s.store.Update(t.Context(), func(tx core.Tx) error {
			return tx.Hosts.Put(core.Host{ID: h, State: core.HostApproved, Key: protocol.KeyID{h[0]}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.later(unique.Default().Takeover())
	for _, h := range []protocol.HostID{"a", "b"} {
		s.Greeted(h, &protocol.Hello{SelfFence: "guard", Features: []string{"lxc", "lxc.unique"}})
		s.renew(h, protocol.Seq{})
	}
	return s
}

// begin is a new process of the coordinator on the same store.
func (s *stage) begin(counter uint64) {
	s.Helper()
	base := &core.Base{Store: s.store, Now: time.Now, Boot: func() int64 { return s.now }, Rand: rand.Reader, Log: slog.New(slog.DiscardHandler), Ctx: s.Context()}
	s.Room = New(base, Config{
		Timing: unique.Default(), Min: unique.FenceGuard, Copies: s.copies, Placing: DefaultPlacing(), Term: protocol.Term{Ring: 1, Counter: counter},
		Reachable: func(h protocol.HostID) bool { return !s.away[h] },
		Left:      func(protocol.HostID) bool { return false },
		Fencing:   s,
		Removed:   func() uint64 { return s.removed },
		Propose: func(_ context.Context, host protocol.HostID, spec []byte) (core.Action, error) {
			if s.refuses != nil {
				return core.Action{}, s.refuses
			}
			if decoded, err := protocol.DecodeRequest(spec); err == nil && decoded.Kind == protocol.KindStop {
				s.stops = append(s.stops, string(host))
			} else {
				s.asked = append(s.asked, string(host))
			}
			return s.request(host, spec, string(protocol.Coordinator)), nil
		},
	})
	if err := s.store.View(s.Context(), s.Load); err != nil {
		s.Fatal(err)
	}
}

// later lets time pass, second by second.
func (s *stage) later(d time.Duration) {
	for end := s.now + d.Milliseconds(); s.now < end; {
		s.now += 1000
		s.Tick(s.Context())
		s.noted()
	}
}

// renew is a lease of a host: took is the newest grant that it has taken, held is what it
// says it runs. It returns the number of the grant, and whether that names the workload.
func (s *stage) renew(host protocol.HostID, took protocol.Seq, held ...protocol.LeaseHeld) (protocol.Seq, bool) {
	s.Helper()
	s.seq++
	seq := protocol.Seq{Inc: 1, Conn: 1, K: s.seq}
	named, ttl := s.Renew(host, &protocol.Lease{Held: held, Took: took}, seq)
	if ttl != 90*time.Second {
		s.Errorf("a grant is good for %s", ttl)
	}
	return seq, len(named) == 1 && named[0].CTID == ctid
}

// Greeted is a host that says hello, and tells what it has, as hosts do.
func (s *stage) Greeted(host protocol.HostID, h *protocol.Hello) {
	s.Room.Greeted(host, h)
	s.tellsAll(host)
}

// Renew is a lease of a host, which tells what it has if it was away.
func (s *stage) Renew(host protocol.HostID, lease *protocol.Lease, seq protocol.Seq) ([]protocol.LeaseHeld, time.Duration) {
	held, ttl := s.Room.Renew(host, lease, seq)
	s.tellsAll(host)
	return held, ttl
}

// tellsAll has a host tell what it has, if it is back and has not.
func (s *stage) tellsAll(host protocol.HostID) {
	s.Helper()
	if s.hosts[host].told || s.mute {
		return
	}
	h, err := core.Read(s.Context(), s.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(host) })
	if err != nil {
		s.Fatal(err)
	}
	s.Told(host, h.Inventory.Containers)
}

// request is an action that creates the workload.
func (s *stage) request(host protocol.HostID, spec []byte, requester string) core.Action {
	s.Helper()
	decoded, err := protocol.DecodeRequest(spec)
	if err != nil {
		s.Fatal(err)
	}
	s.seq++
	a := core.Action{ID: protocol.NewActionID(1, [10]byte{8: byte(s.seq >> 8), 9: byte(s.seq)}), Host: host, Kind: decoded.Kind, Target: decoded.Target, Spec: spec, Requester: requester, State: protocol.StatePendingSchedule}
	err = s.store.Update(s.Context(), func(tx core.Tx) error { return errors.Join(s.Enter(tx, &a, &decoded, s.wants), tx.Actions.Insert(a)) })
	if err != nil {
		s.Fatal(err)
	}
	s.Entered(&a, &decoded, s.wants)
	return a
}

// ends is the end of the action that is pending.
func (s *stage) ends(state protocol.State, detail string) {
	s.Helper()
	s.end(s.only().Pending, state, detail)
}

// end ends an action.
func (s *stage) end(id protocol.ActionID, state protocol.State, detail string) {
	s.Helper()
	if err := s.store.Update(s.Context(), func(tx core.Tx) error {
		a, err := tx.Actions.Get(id)
		a.State, a.Detail = state, detail
		return errors.Join(err, tx.Actions.Put(a))
	}); err != nil {
		s.Fatal(err)
	}
	s.Tick(s.Context())
}

func (s *stage) only() Status {
	s.Helper()
	all := s.List()
	if len(all) != 1 {
		s.Fatalf("%d workloads", len(all))
	}
	return all[0]
}

func create(data string) []byte {
	b, _ := json.Marshal(protocol.Spec{Kind: protocol.KindCreate, Target: ctid, Name: "db", Args: &protocol.CreateArgs{Template: "busybox", Class: "unique", Data: data}})
	return b
}

// born has the workload held by host a.
func born(t *testing.T, data string) *stage {
	t.Helper()
	return bornOf(t, create(data))
}

func bornOf(t *testing.T, spec []byte) *stage {
	t.Helper()
	s := newStage(t)
	s.request("a", spec, "ann")
	s.ends(protocol.StateDone, "")
	if _, named := s.renew("a", protocol.Seq{}); !named {
		t.Fatal("the grant does not name what was created")
	}
	return s
}

// keep has both hosts renew for a time, but for those that are away.
func (s *stage) keep(d time.Duration) {
	for range int(d / (10 * time.Second)) {
		for _, h := range []protocol.HostID{"a", "b"} {
			if !s.away[h] {
				s.renew(h, protocol.Seq{})
			}
		}
		s.later(10 * time.Second)
	}
}

// TestLostHost: nothing follows before the lease has ended for certain; then the workload
// is created on another host under a higher epoch, and the first host is not let any more.
func TestLostHost(t *testing.T) {
	s := born(t, "none")
	first := s.only().Epoch
	s.away["a"] = true           // its connection is lost: that alone takes nothing from it
	s.renew("a", protocol.Seq{}) // its last word
	s.keep(80 * time.Second)
	if w := s.only(); w.Phase != unique.Held || len(s.Suspects()) > 0 {
		t.Fatalf("after 80s: %+v, suspected %+v", w, s.Suspects())
	}
	s.keep(30 * time.Second)
	if w := s.only(); w.Phase != unique.Withheld || w.Host != "a" || len(s.asked) > 0 {
		t.Fatalf("after 110s: %+v, asked %v", w, s.asked)
	}
	s.keep(10 * time.Second)
	w := s.only()
	if w.Phase != unique.Held || w.Host != "b" || w.Epoch.Compare(first) <= 0 || fmt.Sprint(s.asked) != "[b]" {
		t.Fatalf("after 120s: %+v, asked %v", w, s.asked)
	}
	if _, named := s.renew("a", protocol.Seq{}, protocol.LeaseHeld{CTID: ctid, Epoch: first}); named {
		t.Error("the host that is back is let again")
	}
	if _, named := s.renew("b", protocol.Seq{}); !named {
		t.Error("its new host is not let")
	}
	var told []string
	if err := s.store.View(t.Context(), func(tx core.Tx) error {
		events, err := tx.Events.List(0, 1000)
		for _, e := range events {
			told = append(told, fmt.Sprintf("%s %s", e.Type, e.Host))
		}
		return err
	}); err != nil || !slices.Equal(told, []string{"workload.withheld a", "workload.free a", "workload.placed b"}) {
		t.Errorf("the events are %q, %v", told, err)
	}
}

// TestNothingBeforeTheInventory: a host that was lost, and is back, is given nothing before it
// has told what it has, whether it says hello or goes on with its old connection. It is asked
// for that once in a while.
func TestNothingBeforeTheInventory(t *testing.T) {
	for name, back := range map[string]func(*stage){
		"a new connection": func(s *stage) {
			s.Greeted("b", &protocol.Hello{SelfFence: "guard", Features: []string{"lxc", "lxc.unique"}})
		},
		"the old connection": func(*stage) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := born(t, "none")
			s.away["b"] = true
			s.keep(2 * time.Minute)
			if _, at, _ := s.Heard("b"); at > s.now-2*time.Minute.Milliseconds() {
				t.Errorf("at %d, it is there anew at %d, and is away", s.now, at)
			}
			returned := s.now
			s.away["b"], s.away["a"], s.off["a"], s.closed["a"], s.mute = false, true, true, true, true
			back(s)
			asked := 0
			for range 30 {
				s.renew("b", protocol.Seq{})
				s.later(time.Second)
				if s.Untold("b") {
					asked++
				}
			}
			if _, at, _ := s.Heard("b"); at != returned {
				t.Errorf("it is there anew at %d, not %d", at, returned)
			}
			w := s.only()
			if w.Phase != unique.Free || len(s.asked) > 0 || !strings.Contains(w.Why, "b: it is back, and has not told what it has since") {
				t.Fatalf("before it has told: %+v, asked %v", w, s.asked)
			}
			if asked != 3 {
				t.Errorf("in half a minute it is asked %d times for what it has", asked)
			}
			s.Told("b", nil)
			s.later(time.Second)
			if w := s.only(); w.Phase != unique.Held || w.Host != "b" || fmt.Sprint(s.asked) != "[b]" {
				t.Errorf("when it has told: %+v, asked %v", w, s.asked)
			}
			if s.later(time.Minute); s.Untold("b") {
				t.Error("it is asked for what it has told")
			}
		})
	}
}

// TestLocalDataWait: what has its data on the lost host is started nowhere else.
func TestLocalDataWait(t *testing.T) {
	s := born(t, "local")
	s.away["a"] = true
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Free || len(s.asked) > 0 || !strings.Contains(w.Why, "its data are on host a") {
		t.Fatalf("%+v, asked %v", w, s.asked)
	}
	s.away["a"] = false
	s.keep(20 * time.Second)
	if w := s.only(); w.Phase != unique.Held || w.Host != "a" || fmt.Sprint(s.asked) != "[a]" {
		t.Errorf("when its host is back: %+v, asked %v", w, s.asked)
	}
}

// TestDeniedOnlyWhenTaken: a host is believed that it does not run a workload only if it
// has taken a grant that does not name it.
func TestDeniedOnlyWhenTaken(t *testing.T) {
	s := born(t, "none")
	s.mu.Lock()
	s.all[ctid].Moves = true
	index{s.Room}.note(s.all[ctid])
	s.mu.Unlock()
	before, _ := s.renew("a", protocol.Seq{}) // named still
	s.later(time.Second)                      // withheld
	if w := s.only(); w.Phase != unique.Withheld {
		t.Fatalf("%+v", w)
	}
	s.renew("a", before) // it says nothing of the workload, and may have a grant that names it
	s.later(time.Second)
	if w := s.only(); w.Phase != unique.Withheld {
		t.Fatalf("a lease from before counts: %+v", w)
	}
	after, named := s.renew("a", before)
	if named {
		t.Fatal("a grant names what is withheld")
	}
	s.renew("a", after)
	s.later(time.Second)
	if w := s.only(); w.Host != "b" || w.Phase != unique.Held {
		t.Errorf("%+v", w)
	}
}

// TestStartSettles: for one takeover time after its start a coordinator renews what runs,
// and nothing else.
func TestStartSettles(t *testing.T) {
	s := born(t, "none")
	e := s.only().Epoch
	s.begin(2)
	s.Greeted("a", &protocol.Hello{SelfFence: "guard"})
	if _, named := s.renew("a", protocol.Seq{}); named {
		t.Error("a start of what does not run is granted")
	}
	if _, named := s.renew("a", protocol.Seq{}, protocol.LeaseHeld{CTID: ctid, Epoch: e, Running: true}); !named {
		t.Error("what runs is not renewed")
	}
	s.later(117 * time.Second)
	if w := s.only(); w.Phase != unique.Held {
		t.Errorf("%+v", w)
	}
	if _, named := s.renew("a", protocol.Seq{}); named {
		t.Error("it is granted before the time is over")
	}
	s.later(time.Second)
	if _, named := s.renew("a", protocol.Seq{}); !named {
		t.Error("when the time is over it is not granted")
	}
}

// TestNothingFollowsUnstored: while the disk takes nothing, no grant stops for good, and
// nothing is placed.
func TestNothingFollowsUnstored(t *testing.T) {
	s := born(t, "none")
	s.away["a"], s.fails = true, true
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Held || w.Host != "a" || len(s.asked) > 0 {
		t.Fatalf("%+v, asked %v", w, s.asked)
	}
	s.fails = false
	s.keep(10 * time.Second)
	if w := s.only(); w.Phase == unique.Held && w.Host == "a" {
		t.Errorf("%+v", w)
	}
}

// TestStartElsewhereFails: a host on which it does not start is banned, and the workload
// goes on when that host has shown that nothing runs there.
func TestStartElsewhereFails(t *testing.T) {
	s := born(t, "none")
	s.away["a"] = true
	s.keep(130 * time.Second)
	if w := s.only(); w.Host != "b" {
		t.Fatalf("%+v", w)
	}
	s.ends(protocol.StateFailed, "no such template")
	var took protocol.Seq
	for range 5 {
		took, _ = s.renew("b", took)
		s.later(time.Second)
	}
	if w := s.only(); w.Phase != unique.Free || w.Failed["b"].Why != "no such template" || !strings.Contains(w.Why, "a: it is away; b: it failed there too often; c: it is away") {
		t.Errorf("%+v", w)
	}
}

// TestHostRefuses: what the policy of a host forbids is not asked of it again, and goes to
// another host, or waits if there is none.
func TestHostRefuses(t *testing.T) {
	s := born(t, "none")
	s.refuses = fmt.Errorf("%w: the policy of host b wants nothing unique", core.ErrDenied)
	s.away["a"] = true
	s.keep(130 * time.Second)
	if w := s.only(); w.Failed["b"].Why != s.refuses.Error() || !w.Pending.IsZero() {
		t.Fatalf("%+v", w)
	}
	s.refuses = nil
	var took protocol.Seq
	for range 5 {
		took, _ = s.renew("b", took)
		s.later(time.Second)
	}
	if w := s.only(); w.Phase != unique.Free || len(s.asked) > 0 || !strings.Contains(w.Why, "b: it failed there too often") {
		t.Errorf("%+v, asked %v", w, s.asked)
	}
}

// TestCreatedOnce: a unique container of one id is created once, forgotten when it could
// not be created, and when it was removed.
func TestCreatedOnce(t *testing.T) {
	s := newStage(t)
	a := s.request("a", create("none"), "ann")
	spec, _ := protocol.DecodeRequest(a.Spec)
	b := a
	b.Host = "b"
	if err := s.store.Update(t.Context(), func(tx core.Tx) error { return s.Enter(tx, &b, &spec, s.wants) }); !errors.Is(err, core.ErrConflict) {
		t.Errorf("the same on another host: %v", err)
	}
	s.ends(protocol.StateFailed, "no template")
	if all := s.List(); len(all) != 0 {
		t.Errorf("what could not be created is kept: %+v", all)
	}
	s = born(t, "none")
	rm, _ := json.Marshal(protocol.Spec{Kind: protocol.KindDestroy, Target: ctid, Name: "db"})
	s.request("a", rm, "ann")
	s.ends(protocol.StateDone, "")
	if all := s.List(); len(all) != 0 {
		t.Errorf("what was removed is kept: %+v", all)
	}
	s.begin(3)
	if all := s.List(); len(all) != 0 {
		t.Errorf("after a restart: %+v", all)
	}
}

// TestActionBesideDecision: an action that is asked for while a decision is stored takes
// nothing back of it, and a copy that is removed on a host that has lost the workload does
// not end it.
func TestActionBesideDecision(t *testing.T) {
	s := born(t, "none")
	s.away["a"] = true
	rm, _ := json.Marshal(protocol.Spec{Kind: protocol.KindDestroy, Target: ctid, Name: "db"})
	s.keep(100 * time.Second)
	if w := s.only(); w.Phase != unique.Withheld {
		t.Fatalf("%+v", w)
	}
	a := s.request("a", rm, "ann")
	s.keep(30 * time.Second)
	if w := s.only(); w.Host != "b" || w.Phase != unique.Held {
		t.Fatalf("%+v", w)
	}
	if err := s.store.Update(t.Context(), func(tx core.Tx) error {
		a.State = protocol.StateDone
		return tx.Actions.Put(a)
	}); err != nil {
		t.Fatal(err)
	}
	s.keep(10 * time.Second)
	s.begin(2)
	if w := s.only(); w.Host != "b" || w.Phase != unique.Held || w.Epoch.Counter != 2 {
		t.Errorf("after a restart: %+v", w)
	}
}

// TestFencedHost: while a host is being fenced nothing is granted to it; when it is known to
// be off, what it held goes elsewhere at once, also what goes on without a lease; and
// nothing is placed there before it was let in again.
func TestFencedHost(t *testing.T) {
	s := born(t, "none")
	s.mu.Lock()
	s.all[ctid].Keeps = true
	s.mu.Unlock()
	first := s.only().Epoch
	s.away["a"] = true
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Withheld || !strings.Contains(w.Why, "offline contract keep") {
		t.Fatalf("%+v", w)
	}
	all := s.Suspects()
	if len(all) != 1 || all[0].ID != "a" || !all[0].Lost || all[0].Silent < 5*time.Minute || len(all[0].Work) != 1 || all[0].Work[0].ByLease || all[0].Work[0].Stuck {
		t.Errorf("suspects: %+v", all)
	}
	s.closed["a"] = true
	if _, named := s.renew("a", protocol.Seq{}, protocol.LeaseHeld{CTID: ctid, Epoch: first, Running: true}); named {
		t.Error("a host that is being fenced is let")
	}
	s.off["a"] = true
	s.later(time.Second)
	if w := s.only(); w.Host != "b" || w.Phase != unique.Held || w.Epoch.Compare(first) <= 0 {
		t.Errorf("%+v", w)
	}
	if all := s.Suspects(); len(all) != 0 {
		t.Errorf("suspects: %+v", all)
	}
	s.ends(protocol.StateFailed, "no such template")
	s.away["a"] = false
	s.keep(20 * time.Second)
	var took protocol.Seq
	for range 5 {
		took, _ = s.renew("b", took)
		s.later(time.Second)
	}
	if w := s.only(); w.Phase != unique.Free || !strings.Contains(w.Why, "a: it is being fenced") {
		t.Errorf("a host that was not let in again gets it: %+v", w)
	}
}

// TestUnknownCountsAsRunning: what a host was heard of before a start of the coordinator says
// nothing, so it may run what it holds, also if it says goodbye.
func TestUnknownCountsAsRunning(t *testing.T) {
	for _, heard := range []bool{false, true} {
		s := born(t, "none")
		s.mu.Lock()
		s.all[ctid].Keeps = true
		s.mu.Unlock()
		s.begin(2)
		s.mu.Lock()
		s.all[ctid].Keeps = true
		s.mu.Unlock()
		s.Greeted("b", &protocol.Hello{SelfFence: "guard"})
		if heard { // it says that it runs nothing
			s.renew("a", protocol.Seq{})
		}
		s.away["a"] = true
		s.keep(5 * time.Minute)
		if all := s.Suspects(); len(all) != 1 || all[0].ID != "a" || all[0].Work[0].Runs == heard {
			t.Errorf("heard %t: %+v", heard, all)
		}
	}
}

// TestFencedWhileHeard: a host that was heard just now, and is then known to be off, runs
// nothing that it held.
func TestFencedWhileHeard(t *testing.T) {
	s := born(t, "none")
	s.away["a"], s.closed["a"], s.off["a"] = true, true, true
	s.later(3 * time.Second)
	if w := s.only(); w.Host != "b" || w.Phase != unique.Held {
		t.Errorf("%+v", w)
	}
}

// TestStuck: a host that goes on running what is withheld from it, although it is heard, is
// told of when its lease must have ended.
func TestStuck(t *testing.T) {
	s := born(t, "none")
	e := s.only().Epoch
	s.mu.Lock()
	s.all[ctid].Moves = true
	index{s.Room}.note(s.all[ctid])
	s.mu.Unlock()
	for range 14 {
		s.renew("a", protocol.Seq{}, protocol.LeaseHeld{CTID: ctid, Epoch: e, Running: true})
		s.later(10 * time.Second)
	}
	if all := s.Suspects(); len(all) != 1 || all[0].Lost || !all[0].Work[0].Stuck {
		t.Errorf("suspects: %+v", all)
	}
}

// TestPausedHosts: the end of the lease of a host that can be paused as a whole proves
// nothing; a device that has switched it off does.
func TestPausedHosts(t *testing.T) {
	s := born(t, "none")
	s.Greeted("a", &protocol.Hello{SelfFence: "guard", Features: []string{"lxc", protocol.FeaturePausable}})
	s.away["a"] = true
	s.keep(10 * time.Minute)
	if w := s.only(); w.Phase != unique.Withheld || !strings.Contains(w.Why, "may be paused as a whole") {
		t.Fatalf("%+v", w)
	}
	s.off["a"] = true
	s.keep(10 * time.Second)
	if w := s.only(); w.Host != "b" {
		t.Errorf("%+v", w)
	}
}

// TestGuardsThatRestart: where a coordinator asks for hosts that restart themselves when a
// kill fails, the end of the lease of another one proves nothing.
func TestGuardsThatRestart(t *testing.T) {
	for restarts, want := range map[bool]protocol.HostID{false: "a", true: "b"} {
		s := born(t, "none")
		s.cfg.Min = unique.FenceReboot
		features := []string{"lxc"}
		if restarts {
			features = append(features, protocol.FeatureReboots)
		}
		s.Greeted("a", &protocol.Hello{SelfFence: "guard", Features: features})
		if got := s.Standing("a"); !slices.Equal(got.Features, features) {
			t.Errorf("it has told of %q, and is shown with %q", features, got.Features)
		}
		s.away["a"] = true
		s.keep(10 * time.Minute)
		if w := s.only(); w.Host != want || !restarts && !strings.Contains(w.Why, "self-fence guard, want reboot") {
			t.Errorf("it restarts: %t: %+v", restarts, w)
		}
	}
	s := born(t, "none")
	s.Greeted("a", &protocol.Hello{SelfFence: "none", Features: []string{"lxc", protocol.FeatureReboots}})
	if x := s.host("a"); x.Fence != unique.FenceNone {
		t.Errorf("a host that kills nothing shows %s", x.Fence)
	}
}

// TestRemovedCoordinator: after a coordinator was taken out of the ring, the end of a lease
// proves something of those hosts only that have confirmed the new ring, also after a
// restart.
func TestRemovedCoordinator(t *testing.T) {
	for confirms, want := range map[bool]protocol.HostID{false: "a", true: "b"} {
		s := born(t, "none")
		s.removed = 7
		took, _ := s.renew("a", protocol.Seq{})
		ring := uint64(6)
		if confirms {
			ring = 7
		}
		s.seq++
		s.Renew("a", &protocol.Lease{Header: protocol.Header{Ring: 7}}, protocol.Seq{Inc: 1, Conn: 1, K: s.seq}) // it has taken nothing of ours
		s.seq++
		s.Renew("a", &protocol.Lease{Header: protocol.Header{Ring: ring}, Took: took}, protocol.Seq{Inc: 1, Conn: 1, K: s.seq})
		s.later(time.Second)
		s.begin(2)
		s.Greeted("b", &protocol.Hello{SelfFence: "guard"})
		s.away["a"] = true
		s.keep(6 * time.Minute)
		if w := s.only(); w.Host != want || want == "a" && !strings.Contains(w.Why, "has not confirmed the new ring") {
			t.Errorf("confirmed %t: %+v", confirms, w)
		}
	}
}

// TestRestartAsksNothingTwice: a new process does not have a workload created again that
// its host has told since it was placed there.
func TestRestartAsksNothingTwice(t *testing.T) {
	s := born(t, "none")
	s.off["a"], s.closed["a"] = true, true
	s.away["a"] = true
	s.keep(5 * time.Minute)
	w := s.only()
	if w.Phase != unique.Held || w.Host != "b" || w.Epoch.Counter < 2 {
		t.Fatalf("%+v", w)
	}
	s.ends(protocol.StateDone, "")
	s.tell("b", func(h *core.Host) {
		h.Inventory.AtMS = time.Now().Add(time.Hour).UnixMilli()
		h.Inventory.Containers = []protocol.Container{{CTID: ctid, Name: "db"}}
	})
	s.Tick(t.Context())
	asked := len(s.asked)
	s.begin(2)
	s.Greeted("b", &protocol.Hello{SelfFence: "guard"})
	s.keep(unique.Default().Takeover() + 20*time.Second) // in its leases it tells nothing of what it holds
	if got := s.asked[asked:]; len(got) != 0 {
		t.Errorf("it was asked of %v again", got)
	}
}

// TestOurSideIsSuspectedForLong: where no host is heard our own side stays suspected, after a
// restart, too, and until hosts have had the time to come back.
func TestOurSideIsSuspectedForLong(t *testing.T) {
	s := newStage(t)
	hosts := []protocol.HostID{"a", "b", "c"}
	s.Greeted("c", &protocol.Hello{SelfFence: "guard"})
	for i, h := range hosts {
		s.request(h, sized(fmt.Sprint("w", i), byte(20+i)), "ann")
		s.renew(h, protocol.Seq{})
	}
	suspected := func(want bool, when string) {
		t.Helper()
		if _, why := s.OurSide(); (why != "") != want {
			t.Errorf("%s: %q", when, why)
		}
	}
	suspected(false, "all are heard")
	s.later(20 * time.Minute)
	suspected(true, "none is heard for long")
	s.begin(2)
	s.later(20 * time.Minute)
	suspected(true, "none was heard since the restart")
	for _, w := range s.List() {
		if w.Phase != unique.Held {
			t.Errorf("%+v", w)
		}
	}
	s.away["b"], s.away["c"] = true, true
	for range 2 {
		s.renew("a", protocol.Seq{})
		s.later(50 * time.Second)
	}
	suspected(true, "one is back, and the others are not yet")
	for range 12 {
		s.renew("a", protocol.Seq{})
		s.later(50 * time.Second)
	}
	suspected(false, "the others are gone for long")
}

// TestTwentyOfTwentyOne: when 20 of 21 hosts go at once nothing is taken from any for far longer
// than a takeover takes, and all go on when they are back; when one alone is gone then, what it
// holds is taken over.
func TestTwentyOfTwentyOne(t *testing.T) {
	s := newStage(t)
	var hosts []protocol.HostID
	for i := range byte(21) {
		h := protocol.HostID(fmt.Sprintf("h%02d", i))
		hosts = append(hosts, h)
		if err := s.store.Update(t.Context(), func(tx core.Tx) error {
			return tx.Hosts.Put(core.Host{ID: h, State: core.HostApproved, Key: protocol.KeyID{1, i}})
		}); err != nil {
			t.Fatal(err)
		}
		s.Greeted(h, &protocol.Hello{SelfFence: "guard", Features: []string{"lxc", "lxc.unique"}})
		s.request(h, sized(fmt.Sprintf("w%02d", i), i+1), "ann")
	}
	for _, w := range s.List() {
		if err := s.store.Update(t.Context(), func(tx core.Tx) error {
			a, err := tx.Actions.Get(w.Pending)
			a.State = protocol.StateDone
			return errors.Join(err, tx.Actions.Put(a))
		}); err != nil {
			t.Fatal(err)
		}
	}
	lives := func(d time.Duration, there ...protocol.HostID) {
		for range int(d / (10 * time.Second)) {
			for _, h := range there {
				s.renew(h, protocol.Seq{})
			}
			s.later(10 * time.Second)
		}
	}
	lives(time.Minute, append(hosts, "a", "b")...)
	for _, h := range hosts[1:] {
		s.away[h] = true
	}
	lives(5*time.Minute, hosts[0], "a", "b")
	if _, why := s.OurSide(); why == "" {
		t.Error("our own side is not suspected")
	}
	for _, w := range s.List() {
		if spared := strings.Contains(w.Why, "our own side"); w.Phase != unique.Held || len(s.asked) > 0 || spared != (w.Host != hosts[0]) {
			t.Fatalf("%+v, asked %v", w, s.asked)
		}
	}
	// A person has one of them switched off: what that held moves at once, and nothing else.
	s.off["h05"], s.closed["h05"] = true, true
	lives(20*time.Second, hosts[0], "a", "b")
	if _, why := s.OurSide(); why == "" {
		t.Error("our own side is not suspected any more")
	}
	for _, w := range s.List() {
		if moved := w.Name == "w05"; w.Phase != unique.Held || moved != (w.Epoch.Counter > 1) || len(s.asked) != 1 {
			t.Errorf("after a person has released it: %+v, asked %v", w, s.asked)
		}
	}
	s.asked = nil
	clear(s.away)
	lives(5*time.Minute, append(hosts, "a", "b")...)
	s.away["h07"] = true
	lives(5*time.Minute, slices.DeleteFunc(append(hosts, "a", "b"), func(h protocol.HostID) bool { return h == "h07" })...)
	for _, w := range s.List() {
		if w.Name == "w05" {
			continue
		}
		if moved := w.Name == "w07"; w.Phase != unique.Held || moved != (w.Epoch.Counter > 1) || moved == (w.Host == protocol.HostID("h"+string(w.Name[1:]))) {
			t.Errorf("%+v", w)
		}
	}
	if len(s.asked) != 1 {
		t.Errorf("asked %v", s.asked)
	}
}

// TestUpgradedImageMoves: the host that takes a workload over makes it of the image that it
// was upgraded to, and of the old one if the upgrade has failed.
func TestUpgradedImageMoves(t *testing.T) {
	for state, want := range map[protocol.State]string{protocol.StateDone: "web:2", protocol.StateFailed: "busybox"} {
		s := born(t, "none")
		upgrade, _ := json.Marshal(protocol.Spec{Kind: protocol.KindContainerUpgrade, Target: ctid, Name: "db", Args: &protocol.ContainerUpgradeArgs{Upgrade: setting.Upgrade{Image: "web:2"}}})
		a := s.request("a", upgrade, "ann")
		spec, _ := protocol.DecodeRequest(upgrade)
		if err := s.store.Update(t.Context(), func(tx core.Tx) error { return s.Enter(tx, &a, &spec, s.wants) }); !errors.Is(err, core.ErrConflict) {
			t.Errorf("a second upgrade beside it: %v", err)
		}
		s.ends(state, "")
		s.begin(2) // it is durable
		w := s.only()
		decoded, err := protocol.DecodeRequest(w.Spec)
		if err != nil || !w.Pending.IsZero() {
			t.Fatalf("%+v, %v", w, err)
		}
		if got := decoded.Args.(*protocol.CreateArgs).Template; got != want {
			t.Errorf("after an upgrade that is %s it is made of %s, want %s", state, got, want)
		}
	}
}

// TestChangesMove: the host that takes a workload over makes it as it was changed, and as it
// was before if the change has failed.
func TestChangesMove(t *testing.T) {
	off, check := &contract.Schedule{Off: true}, &contract.Check{TCP: 80}
	hourly := &contract.Schedule{EveryMS: 3_600_000}
	for _, c := range []struct {
		kind protocol.Kind
		args protocol.Args
		want func(a *protocol.CreateArgs) bool
	}{
		{protocol.KindLimit, &protocol.LimitArgs{Set: []string{"memory=64MiB", "pids=none"}}, func(a *protocol.CreateArgs) bool {
			return slices.Equal(a.Limits, []string{"cpu=50%", "memory=64MiB"})
		}},
		{protocol.KindConfig, &protocol.ConfigArgs{Set: []string{"label.tier=back", "label.old", "limit.cpu=70%", "hostname=base"}}, func(a *protocol.CreateArgs) bool {
			return slices.Equal(a.Labels, []string{"tier=back"}) && slices.Equal(a.Limits, []string{"cpu=70%", "pids=90"}) && a.Hostname == "base"
		}},
		{protocol.KindSet, &protocol.SetArgs{Change: contract.Change{Health: check, Schedules: contract.Schedules{Backup: hourly, Snapshot: off}}}, func(a *protocol.CreateArgs) bool {
			return a.Health != nil && a.Health.TCP == 80 && a.Backup != nil && a.Backup.EveryMS == hourly.EveryMS && a.Snapshot == nil
		}},
		{protocol.KindSet, &protocol.SetArgs{Change: contract.Change{Health: &contract.Check{Off: true}}}, func(a *protocol.CreateArgs) bool {
			return a.Health == nil && a.Snapshot != nil
		}},
	} {
		for _, state := range []protocol.State{protocol.StateDone, protocol.StateFailed} {
			before := &protocol.CreateArgs{Template: "busybox", Class: contract.Unique, Limits: []string{"cpu=50%", "pids=90"}, Labels: []string{"old=1", "tier=front"},
				Health: &contract.Check{TCP: 22}, Schedules: contract.Schedules{Snapshot: hourly}}
			made, _ := json.Marshal(protocol.Spec{Kind: protocol.KindCreate, Target: ctid, Name: "db", Args: before})
			change, _ := json.Marshal(protocol.Spec{Kind: c.kind, Target: ctid, Name: "db", Args: c.args})
			s := bornOf(t, made)
			first, second := s.request("a", change, "ann"), s.request("a", change, "ann")
			s.end(second.ID, state, "")
			if w := s.only(); len(w.Changes) != 2 || string(w.Spec) != string(made) {
				t.Errorf("a later change counts before an earlier one has ended: %+v", w)
			}
			s.end(first.ID, state, "")
			s.begin(2) // it is durable
			w := s.only()
			decoded, err := protocol.DecodeRequest(w.Spec)
			if err != nil || !w.Pending.IsZero() || len(w.Changes) > 0 {
				t.Fatalf("%s: %+v, %v", c.kind, w, err)
			}
			if got := decoded.Args.(*protocol.CreateArgs); c.want(got) != (state == protocol.StateDone) {
				t.Errorf("after a %s that is %s it is made with %+v", c.kind, state, got)
			}
		}
	}
}
