package workloads

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// has is an inventory of a host: whether it runs the workload.
func (s *stage) has(host protocol.HostID, state string) {
	s.Helper()
	all := []protocol.Container{{CTID: ctid, Name: "db", Class: "unique", State: state}}
	s.tell(host, func(h *core.Host) {
		h.Inventory.AtMS, h.Inventory.Containers = s.base.NowMS()+1000, all
	})
	s.Told(host, all)
}

// ended has the stop that a host was asked for end.
func (s *stage) ended(host protocol.HostID, state protocol.State) {
	s.Helper()
	id := s.Room.copies[copyKey{ctid, host}].asked
	if err := s.store.Update(s.Context(), func(tx core.Tx) error {
		a, err := tx.Actions.Get(id)
		if err != nil {
			return err
		}
		a.State = state
		return tx.Actions.Put(a)
	}); err != nil {
		s.Fatal(err)
	}
}

// concern is the alert about a host; empty if there is none.
func (s *stage) concern(host protocol.HostID) string {
	for _, a := range s.Concerns()[host] {
		if a.ID == "coordinator.second_copy/"+ctid.String() && a.Severity == "critical" {
			return a.Text
		}
	}
	return ""
}

// TestSecondCopy: a copy on another host raises an alert there, and is stopped as is
// configured, once. When it is gone, so is the alert.
func TestSecondCopy(t *testing.T) {
	for _, c := range []struct {
		copies unique.Copies
		stops  string
		says   string
	}{{unique.StopStale, "[b]", "which action"}, {unique.StopAll, "[a b]", "which action"}, {unique.Block, "[]", "nothing is done (unique.copies = block)"}} {
		t.Run(string(c.copies), func(t *testing.T) {
			s := born(t, "none")
			s.Room.cfg.Copies = c.copies
			s.has("a", "running")
			s.keep(20 * time.Second)
			if len(s.stops) > 0 || len(s.Concerns()) > 0 {
				t.Fatalf("the one copy is found: %v, %v", s.stops, s.Concerns())
			}
			s.has("b", "running")
			s.keep(10 * time.Second)
			if len(s.stops) > 0 || s.concern("b") != "" {
				t.Error("something follows from what a host may just have stopped")
			}
			s.keep(20 * time.Second)
			if got := s.concern("b"); !strings.Contains(got, "host b runs a copy") || !strings.Contains(got, c.says) || !strings.Contains(got, "host a holds it under epoch") {
				t.Errorf("alert: %q", got)
			}
			if got := s.only().Copies; len(got) != 1 || !strings.Contains(got[0], c.says) {
				t.Errorf("it shows %q", got)
			}
			s.keep(10 * time.Minute)
			if fmt.Sprint(s.stops) != c.stops {
				t.Errorf("stopped on %v, want %s", s.stops, c.stops)
			}
			s.has("b", "stopped")
			s.keep(10 * time.Second)
			if s.concern("b") != "" || s.only().Copies != nil {
				t.Errorf("the copy is gone: %q, %q", s.concern("b"), s.only().Copies)
			}
		})
	}
}

// TestSecondCopyIsStoppedAgain: a stop that has failed is asked for again.
func TestSecondCopyIsStoppedAgain(t *testing.T) {
	s := born(t, "none")
	s.has("b", "running")
	s.keep(time.Minute)
	s.ended("b", protocol.StateFailed)
	s.keep(2 * time.Minute)
	if fmt.Sprint(s.stops) != "[b]" {
		t.Errorf("too soon: %v", s.stops)
	}
	s.keep(5 * time.Minute)
	if fmt.Sprint(s.stops) != "[b b]" {
		t.Errorf("not again: %v", s.stops)
	}
}

// TestBlockedStays: while a person is to decide, a workload whose host is lost goes nowhere,
// and nothing is decided about it.
func TestBlockedStays(t *testing.T) {
	s := born(t, "none")
	s.Room.cfg.Copies = unique.Block
	s.has("b", "running")
	s.keep(20 * time.Second)
	s.away["a"] = true
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Held || w.Host != "a" || len(s.asked) > 0 {
		t.Fatalf("%+v, asked %v", w, s.asked)
	}
	s.has("b", "stopped")
	s.keep(20 * time.Second)
	if w := s.only(); w.Host != "b" {
		t.Errorf("%+v", w)
	}
}

// TestFreeWaitsForCopy: a workload that is free is placed nowhere while a host that may not
// run it tells that it does.
func TestFreeWaitsForCopy(t *testing.T) {
	s := born(t, "none")
	s.away["a"], s.away["b"] = true, true
	s.keep(2 * time.Minute)
	if w := s.only(); w.Phase != unique.Free {
		t.Fatalf("%+v", w)
	}
	s.away["a"], s.away["b"] = false, false
	s.has("a", "running")
	s.keep(30 * time.Second)
	if w := s.only(); w.Phase != unique.Free || !strings.Contains(w.Why, "host a still runs a copy, which must stop first") || fmt.Sprint(s.stops) != "[a]" {
		t.Fatalf("%+v, stops %v", w, s.stops)
	}
	if got := s.concern("a"); !strings.Contains(got, "no host may run it") {
		t.Errorf("alert: %q", got)
	}
	s.has("a", "stopped")
	s.keep(20 * time.Second)
	if w := s.only(); w.Phase != unique.Held {
		t.Errorf("%+v", w)
	}
}

// TestOldInventoryIsNoCopy: what a host told before its workload went elsewhere is no copy,
// nor is what one tells that a device has switched off.
func TestOldInventoryIsNoCopy(t *testing.T) {
	s := born(t, "none")
	s.has("a", "running")
	s.tell("a", func(h *core.Host) { h.Inventory.AtMS = s.base.NowMS() - 1000 })
	s.away["a"] = true
	s.keep(5 * time.Minute)
	if w := s.only(); w.Host != "b" || len(s.stops) > 0 || len(s.Concerns()) > 0 {
		t.Fatalf("%+v, stops %v, %v", w, s.stops, s.Concerns())
	}
	s.has("a", "running") // it is back
	s.off["a"] = true     // and was switched off then
	s.keep(time.Minute)
	if len(s.stops) > 0 || len(s.Concerns()) > 0 {
		t.Errorf("stops %v, %v", s.stops, s.Concerns())
	}
	s.off["a"] = false
	s.keep(time.Minute)
	if s.concern("a") == "" || len(s.stops) > 0 {
		t.Errorf("a host that is away: %v, stops %v", s.Concerns(), s.stops)
	}
	s.away["a"] = false
	s.keep(10 * time.Second)
	if fmt.Sprint(s.stops) != "[a]" {
		t.Errorf("stops %v", s.stops)
	}
}

// TestCopyAfterDateBack: a copy is found when the date has gone back since its workload went
// elsewhere, by this process or the one before; and what its host told before is none.
func TestCopyAfterDateBack(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := born(t, "none")
		s.has("a", "running")
		s.tell("a", func(h *core.Host) { h.Inventory.AtMS = s.base.NowMS() - 1000 })
		s.away["a"] = true
		s.keep(5 * time.Minute)
		date := func() time.Time { return time.Now().AddDate(-1, 0, 0) }
		if again {
			s.begin(2)
			s.Greeted("b", &protocol.Hello{SelfFence: "guard", Features: []string{"lxc", "lxc.unique"}})
		}
		s.base.Now = date
		s.has("b", "running")
		s.keep(5 * time.Minute)
		if w := s.only(); w.Host != "b" || len(s.stops) > 0 || s.concern("a") != "" {
			t.Fatalf("again %t: what is told of long ago is a copy: %+v, stops %v, %v", again, w, s.stops, s.Concerns())
		}
		s.away["a"] = false
		s.Greeted("a", &protocol.Hello{SelfFence: "guard", Features: []string{"lxc", "lxc.unique"}})
		s.has("a", "running")
		s.keep(30 * time.Second)
		if fmt.Sprint(s.stops) != "[a]" || !strings.Contains(s.concern("a"), "host a runs a copy") {
			t.Errorf("again %t: stops %v, %v", again, s.stops, s.Concerns())
		}
	}
}

// TestDiscoveryLeavesOut: what a host tells does not count where discovery says never, or
// says exclusive of others; people are told nevertheless.
func TestDiscoveryLeavesOut(t *testing.T) {
	for _, d := range []placement.Discovery{{Host: "b", Mode: placement.Never}, {Host: "a", Mode: placement.Exclusive}} {
		s := born(t, "none")
		if err := s.SetWants(t.Context(), admin, "db", placement.Wants{Discovery: []placement.Discovery{d}}, ""); err != nil {
			t.Fatal(err)
		}
		s.Room.cfg.Copies = unique.StopAll
		s.has("b", "running")
		s.keep(time.Minute)
		if got := s.concern("b"); len(s.stops) > 0 || !strings.Contains(got, "its discovery leaves that host out") {
			t.Errorf("%s: stops %v, alert %q", d, s.stops, got)
		}
		if d.Mode == placement.Exclusive {
			s.away["a"] = true
			s.keep(5 * time.Minute)
			if w := s.only(); w.Phase != unique.Free || !strings.Contains(w.Why, "its discovery is exclusive to host a") {
				t.Errorf("%+v", w)
			}
		}
	}
}

// TestCopiesAfterRestart: a new process finds the copy in what is stored, and stops nothing
// before leases have settled.
func TestCopiesAfterRestart(t *testing.T) {
	s := born(t, "none")
	s.has("b", "running")
	s.begin(2)
	s.keep(time.Minute)
	if len(s.stops) > 0 || !strings.Contains(s.concern("b"), "when leases have settled") {
		t.Errorf("stops %v, alert %q", s.stops, s.concern("b"))
	}
	s.keep(2 * time.Minute)
	if fmt.Sprint(s.stops) != "[b]" {
		t.Errorf("stops %v", s.stops)
	}
}
