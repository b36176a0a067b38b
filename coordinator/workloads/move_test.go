package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// moves lists the events about moves: the state of each, with why.
func (s *stage) moves() (all []string) {
	s.Helper()
	if err := s.store.View(s.Context(), func(tx core.Tx) error {
		events, err := tx.Events.List(0, 1000)
		for _, e := range events {
			var d struct{ To, By, State, Why string }
			if e.Type != moveEvent {
				continue
			}
			if err := json.Unmarshal(e.Data, &d); err != nil {
				return err
			}
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s by %s to %s %s", d.State, d.By, d.To, d.Why)))
		}
		return err
	}); err != nil {
		s.Fatal(err)
	}
	return all
}

// moved has db on host a on its way to host c, which the plan tells.
func moved(t *testing.T) *stage {
	s := fleet(t)
	s.made("db", 1, placement.Wants{})
	s.obey(10 * time.Second)
	if err := s.Move(t.Context(), admin, "db", "c", "new disks"); err != nil {
		t.Fatal(err)
	}
	steps, err := s.Plan(t.Context(), WhatIf{})
	if err != nil || len(steps) != 1 || steps[0].From != "a" || steps[0].To != "c" || steps[0].Why != "ann moves it: new disks" {
		t.Errorf("plan %+v, %v", steps, err)
	}
	return s
}

// TestMove: a workload goes to the host that a person names and to no other one, under the
// next epoch, and stays there.
func TestMove(t *testing.T) {
	s := moved(t)
	first := s.only()
	s.begin(2) // the wish is durable
	for _, h := range []protocol.HostID{"a", "b", "c"} {
		s.Greeted(h, &protocol.Hello{SelfFence: "guard", Features: []string{"lxc", "lxc.unique"}})
	}
	s.obey(unique.Default().Takeover() + 30*time.Second)
	w := s.only()
	if w.Host != "c" || w.Phase != unique.Held || w.Epoch.Compare(first.Epoch) <= 0 || fmt.Sprint(s.asked) != "[c]" {
		t.Fatalf("%+v, asked %v", w, s.asked)
	}
	s.ends(protocol.StateDone, "")
	s.obey(time.Minute)
	if w := s.only(); w.Host != "c" || w.Phase != unique.Held || w.Move != (unique.Move{}) || w.Moved.To != "c" || w.Moved.Why != "" || w.Moved.EndMS == 0 {
		t.Errorf("%+v", w)
	}
	if got := fmt.Sprint(s.moves()); got != "[asked by ann to c done by ann to c]" {
		t.Error(got)
	}
	steps, err := s.Plan(t.Context(), WhatIf{})
	if err != nil || len(steps) != 0 {
		t.Errorf("plan %+v, %v", steps, err)
	}
}

// TestMoveTargetDies: when the host that a person has named is lost, before or after the
// workload was stopped or granted to it, the workload runs by the normal rules, and an event
// says that the move was dropped.
func TestMoveTargetDies(t *testing.T) {
	t.Run("before it is stopped", func(t *testing.T) {
		s := moved(t)
		e := s.only().Epoch
		s.away["c"] = true
		s.obeyOn(time.Minute, "a", "b")
		if w := s.only(); w.Host != "a" || w.Phase != unique.Held || w.Epoch != e || w.Moved.Why != "it is away" || len(s.asked) > 0 {
			t.Errorf("%+v, asked %v", w, s.asked)
		}
		if got := fmt.Sprint(s.moves()); got != "[asked by ann to c dropped by ann to c it is away]" {
			t.Error(got)
		}
	})
	t.Run("when it is stopped", func(t *testing.T) {
		s := moved(t)
		s.later(time.Second)
		if w := s.only(); w.Phase != unique.Withheld {
			t.Fatalf("%+v", w)
		}
		s.mu.Lock()
		for _, w := range s.all {
			w.quiet = true
		}
		s.mu.Unlock()
		s.away["c"] = true
		s.obeyOn(time.Minute, "a", "b")
		if w := s.only(); w.Host == "c" || w.Phase != unique.Held || w.Move != (unique.Move{}) || w.Moved.Why != "it is away" {
			t.Errorf("%+v", w)
		}
	})
	t.Run("when it holds it", func(t *testing.T) {
		s := moved(t)
		s.obey(20 * time.Second)
		if w := s.only(); w.Host != "c" || w.Phase != unique.Held || w.Move.To != "c" {
			t.Fatalf("%+v", w)
		}
		s.ends(protocol.StateLost, "")
		s.away["c"] = true
		s.obeyOn(5*time.Minute, "a", "b")
		if w := s.only(); w.Host == "c" || w.Phase != unique.Held || w.Move != (unique.Move{}) || w.Moved.Why == "" {
			t.Errorf("%+v", w)
		}
	})
	t.Run("when it is lost before it has told", func(t *testing.T) {
		s := moved(t)
		s.obey(20 * time.Second)
		s.away["c"] = true
		s.obeyOn(5*time.Minute, "a", "b")
		if w := s.only(); w.Host == "c" || w.Phase != unique.Held || w.Moved.Why != "host c is lost" {
			t.Errorf("%+v", w)
		}
	})
}

// TestMoveAfterARestart: a process that ended after it had asked the new host left the wish
// behind, and what that host tells ends it.
func TestMoveAfterARestart(t *testing.T) {
	s := moved(t)
	s.obey(20 * time.Second)
	id := s.only().CTID
	if err := s.store.Update(t.Context(), func(tx core.Tx) error {
		w, err := tx.Workloads.Get(id)
		w.Pending = protocol.ActionID{}
		return errors.Join(err, tx.Workloads.Put(w))
	}); err != nil {
		t.Fatal(err)
	}
	s.begin(2)
	s.tell("c", func(h *core.Host) {
		h.Inventory.AtMS = time.Now().Add(time.Hour).UnixMilli()
		h.Inventory.Containers = []protocol.Container{{CTID: id, Name: "db"}}
	})
	s.later(2 * time.Second)
	if w := s.only(); w.Host != "c" || w.Move != (unique.Move{}) || w.Moved.Why != "" || w.Moved.To != "c" {
		t.Errorf("%+v", w)
	}
}

// TestMoveKeepsItsRoom: the room at the host to which a workload moves is given to no other
// one while the workload still runs where it was.
func TestMoveKeepsItsRoom(t *testing.T) {
	onC := placement.Wants{Rules: []placement.Rule{{Host: "c", Must: true}}}
	s := fleet(t)
	s.available("c", core.Cordoned)
	s.made("db", 1, placement.Wants{Rules: []placement.Rule{{Host: "a", Score: 5}}}, "memory=6GB")
	s.made("web", 2, placement.Wants{Rules: []placement.Rule{{Host: "b", Score: 5}}}, "memory=6GB")
	s.away["b"] = true
	s.obeyOn(unique.Default().Takeover()+time.Minute, "a", "c") // web finds no room
	s.available("c", core.Open)
	if err := s.Move(t.Context(), admin, "db", "c", ""); err != nil {
		t.Fatal(err)
	}
	if host, err := s.Choose(t.Context(), sized("new", 3, "memory=6GB"), onC); err == nil {
		t.Errorf("a new container takes the room of the move on host %s", host)
	}
	if host, err := s.Choose(t.Context(), sized("new", 3, "memory=3GB"), onC); err != nil || host != "c" {
		t.Errorf("what fits beside it goes to %q, %v", host, err)
	}
	s.obeyOn(time.Minute, "a", "c")
	if got, want := s.on(), "db held c; web held a"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestMovesForOneRoom: if the host to which two workloads move has less room than it had,
// the move that was asked for last is dropped, and the other one goes on.
func TestMovesForOneRoom(t *testing.T) {
	s := fleet(t)
	for i, name := range []string{"db", "web"} {
		s.made(name, byte(1+i), placement.Wants{Rules: []placement.Rule{{Host: "c", Score: -placement.Liking}}}, "memory=4GB")
		s.obey(5 * time.Second)
		if err := s.Move(t.Context(), admin, name, "c", ""); err != nil {
			t.Fatal(err)
		}
	}
	s.tell("c", func(h *core.Host) { h.Inventory.Host.MemoryFree = 5_000_000_000 })
	s.later(time.Second)
	all := s.List()
	if db, web := all[0], all[1]; db.Move.To != "c" || web.Move.To != "" || web.Moved.Why != "not enough memory" {
		t.Errorf("db %+v, web %+v", db.Move, web.Move)
	}
}

// TestMoveIsRefused: nothing is stopped, and nothing is stored, if the host of the wish cannot
// take the workload.
func TestMoveIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*stage)
		to     protocol.HostID
		want   string
	}{
		"away":        {func(s *stage) { s.away["c"] = true }, "c", "host c cannot take it: it is away"},
		"cordoned":    {func(s *stage) { s.available("c", core.Cordoned) }, "c", "it is cordoned"},
		"drained":     {func(s *stage) { s.available("c", core.Draining) }, "c", "it is drained"},
		"maintenance": {func(s *stage) { s.available("c", core.Maintenance) }, "c", "it is in maintenance"},
		"its own":     {func(s *stage) { s.available("a", core.Maintenance) }, "c", "host a is in maintenance"},
		"fenced":      {func(s *stage) { s.closed["c"] = true }, "c", "it is being fenced"},
		"no guard":    {func(s *stage) { s.Greeted("c", &protocol.Hello{Features: []string{"lxc.unique"}}) }, "c", "nothing there kills a workload"},
		"no runtime":  {func(s *stage) { s.Greeted("c", &protocol.Hello{SelfFence: "guard"}) }, "c", "no runtime for unique containers"},
		"no room": {func(s *stage) {
			s.tell("c", func(h *core.Host) { h.Inventory.Host.MemoryFree = 1e6 })
		}, "c", "not enough memory"},
		"wishes": {func(s *stage) {
			if err := s.SetWants(s.Context(), admin, "db", placement.Wants{Rules: []placement.Rule{{Labels: map[string]string{"site": "lab"}, Must: true}}}, ""); err != nil {
				s.Fatal(err)
			}
		}, "c", "it wants hosts site=lab"},
		"there already": {func(*stage) {}, "a", "it is on host a already"},
		"stopped": {func(s *stage) {
			s.tell("a", func(h *core.Host) {
				h.Inventory.Containers = []protocol.Container{{CTID: s.only().CTID, Name: "db", Intended: "stopped"}}
			})
		}, "c", "its user has stopped it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fleet(t)
			s.made("db", 1, placement.Wants{}, "memory=1GB")
			s.obey(10 * time.Second)
			c.change(s)
			err := s.Move(t.Context(), admin, "db", c.to, "")
			if !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if w := s.only(); w.Phase != unique.Held || w.Move != (unique.Move{}) || len(s.moves()) > 0 {
				t.Errorf("%+v, %v", w, s.moves())
			}
		})
	}
	s := fleet(t)
	s.made("db", 1, placement.Wants{})
	for what, c := range map[string]struct{ got, want error }{
		"a viewer":        {s.Move(t.Context(), core.Actor{Name: "eve", Role: core.RoleViewer}, "db", "c", ""), core.ErrDenied},
		"an unknown host": {s.Move(t.Context(), admin, "db", "nowhere", ""), core.ErrUnknownHost},
		"no workload":     {s.Move(t.Context(), admin, "web", "c", ""), core.ErrNotFound},
		"a long reason":   {s.Move(t.Context(), admin, "db", "c", strings.Repeat("x", 201)), core.ErrInvalid},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v", what, c.got)
		}
	}
	s.fails = true
	if err := s.Move(t.Context(), admin, "db", "c", ""); err == nil || s.only().Move != (unique.Move{}) {
		t.Errorf("what could not be stored is done: %v, %+v", err, s.only())
	}
}

// available decides about a host.
func (s *stage) available(h protocol.HostID, state core.AvailabilityState) {
	s.Helper()
	if err := s.SetAvailability(s.Context(), admin, h, state, "", 0); err != nil {
		s.Fatal(err)
	}
}

// TestMoveByRuntime: a workload of one runtime goes to no host whose runtime of that name
// cannot have unique containers.
func TestMoveByRuntime(t *testing.T) {
	spec := func(runtime string) []byte {
		b, _ := json.Marshal(protocol.Spec{Kind: protocol.KindCreate, Target: ctid, Name: "db", Args: &protocol.CreateArgs{Template: "busybox", Class: "unique", Runtime: runtime}})
		return b
	}
	for name, c := range map[string]struct {
		features []string
		runtime  string
		ok       bool
	}{
		"lxc":           {[]string{"lxc", "lxc.unique"}, "lxc", true},
		"any":           {[]string{"podman", "podman.unique"}, "", true},
		"podman":        {[]string{"lxc", "lxc.unique"}, "podman", false},
		"an old podman": {[]string{"lxc", "lxc.unique", "podman"}, "podman", false},
		"nothing":       {nil, "", false},
	} {
		if why := lacks(c.features, spec(c.runtime)); (why == "") != c.ok {
			t.Errorf("%s: %q", name, why)
		}
	}
}
