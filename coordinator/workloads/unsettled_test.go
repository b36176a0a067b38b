package workloads

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/unique"
)

// noted has all that is under way about workloads be noted.
func (s *stage) noted() {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.all {
		if (s.open[id] == w) == w.settled() {
			s.Errorf("workload %s is settled: %t, and is noted as under way: %t", w.Name, w.settled(), !w.settled())
		}
	}
	for id := range s.open {
		if s.all[id] == nil {
			s.Errorf("workload %s was forgotten, and is noted as under way", id)
		}
	}
	astray := make(map[protocol.HostID]int)
	for host, h := range s.hosts {
		for id := range h.runs {
			if w := s.all[id]; w != nil && (w.Host != host || w.Phase == unique.Free) {
				astray[host]++
			}
		}
	}
	for host, ids := range (index{s.Room}).astray() {
		if astray[host] -= len(ids); astray[host] == 0 {
			delete(astray, host)
		}
	}
	if len(astray) > 0 {
		s.Errorf("what runs where it may not is not noted: %v", astray)
	}
}

// userWants changes nothing but what the user of the workload wants of it, as its host has told.
func (s *stage) userWants(host protocol.HostID, intended string) {
	s.Helper()
	s.tell(host, func(h *core.Host) {
		h.Inventory.Containers = []protocol.Container{{CTID: ctid, Name: "db", Intended: intended}}
	})
}

// TestWantedStateAlone: whether a workload moves follows what its user wants of it, also if
// that alone changes.
func TestWantedStateAlone(t *testing.T) {
	s := born(t, "none")
	s.userWants("a", contract.Stopped)
	s.away["a"] = true
	s.keep(10 * time.Minute)
	if w := s.only(); w.Phase != unique.Held || w.Host != "a" || len(s.Suspects()) != 0 {
		t.Fatalf("it was stopped, and left its host: %+v, suspects %+v", w, s.Suspects())
	}
	s.userWants("a", contract.Running)
	s.keep(10 * time.Second)
	if w := s.only(); w.Phase != unique.Held || w.Host != "b" || w.Epoch.Counter != 2 {
		t.Fatalf("it is wanted, and did not leave the host that is lost: %+v", w)
	}

	// It was started, and is stopped.
	s = born(t, "none")
	s.userWants("a", contract.Running)
	s.keep(time.Minute)
	s.userWants("a", contract.Stopped)
	s.away["a"] = true
	s.keep(10 * time.Minute)
	if w := s.only(); w.Phase != unique.Held || w.Host != "a" {
		t.Errorf("it was stopped, and left its host: %+v", w)
	}
}

// TestOffIsSeen: what shows a host to be off is looked at, although that host is heard and
// nothing is under way about its workload.
func TestOffIsSeen(t *testing.T) {
	s := born(t, "none")
	s.keep(time.Minute)
	s.off["a"], s.closed["a"] = true, true
	s.keep(20 * time.Second)
	if w := s.only(); w.Host != "b" || w.Epoch.Counter != 2 {
		t.Errorf("%+v", w)
	}
}

// TestNeverHeard: a host that was not heard since the start counts as lost since then, also if it
// got its workload later. It has shown nothing, so no end of a lease proves anything of it, and it
// may run what it has: the workload goes elsewhere when a device has switched the host off.
func TestNeverHeard(t *testing.T) {
	s := newStage(t)
	if err := s.store.Update(t.Context(), func(tx core.Tx) error {
		return tx.Hosts.Put(core.Host{ID: "d", State: core.HostApproved, Key: protocol.KeyID{'d'}})
	}); err != nil {
		t.Fatal(err)
	}
	s.request("d", create("none"), "ann")
	s.ends(protocol.StateDone, "")
	s.away["d"] = true
	first := s.only().Epoch
	for _, d := range []time.Duration{10 * time.Second, 10 * time.Minute} {
		s.keep(d)
		w, all := s.only(), s.Suspects()
		if w.Phase != unique.Withheld || w.Host != "d" || w.Epoch != first || w.Why != "the end of the lease of host d is no proof (self-fence none, want guard): fence it, or confirm that it is off" {
			t.Errorf("after %s: %+v", d, w)
		}
		silent := time.Duration(s.now-s.started) * time.Millisecond
		if len(all) != 1 || all[0].ID != "d" || !all[0].Lost || all[0].Silent != silent || all[0].Goodbye || len(all[0].Work) != 1 {
			t.Fatalf("after %s, %s after the start, are suspected: %+v", d, silent, all)
		}
		if x := all[0].Work[0]; x.ByLease || !x.Runs || x.Stuck || x.Why != w.Why {
			t.Errorf("after %s: %+v", d, x)
		}
	}
	if heard, _, _ := s.Heard("d"); heard != 0 || len(s.asked) > 0 {
		t.Errorf("host d was heard at %d, and asked were %v", heard, s.asked)
	}
	s.off["d"], s.closed["d"] = true, true
	s.keep(20 * time.Second)
	if w := s.only(); w.Phase != unique.Held || w.Host == "d" || w.Epoch.Compare(first) <= 0 {
		t.Errorf("when host d is off: %+v", w)
	}
}

// TestNothingIsAskedOfPlacement: where nothing waits, fails or is to leave, no look reads the
// whole fleet.
func TestNothingIsAskedOfPlacement(t *testing.T) {
	s := fleet(t)
	host := s.made("db", 1, placement.Wants{})
	s.obey(2 * time.Minute)
	if s.changed || (index{s.Room}).unplaced() {
		t.Errorf("placement is asked: changed %t, open %v", s.changed, s.open)
	}
	id := protocol.CTID{6: 0x70, 8: 0x80, 9: 1}
	s.Told(host, []protocol.Container{{CTID: id, Name: "db", Failures: DefaultPlacing().Starts}})
	if !(index{s.Room}).unplaced() {
		t.Error("it fails, and placement is not asked")
	}
	s.Told(host, []protocol.Container{{CTID: id, Name: "db", State: running}})
	if (index{s.Room}).unplaced() {
		t.Error("it runs again, and placement is asked")
	}
	if err := s.SetAvailability(t.Context(), admin, host, core.Draining, "", 0); err != nil {
		t.Fatal(err)
	}
	if !(index{s.Room}).unplaced() {
		t.Error("its host is drained, and placement is not asked")
	}
}
