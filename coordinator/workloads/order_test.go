package workloads

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/unique"
)

// tells has a host tell of one workload, so many milliseconds from now.
func (s *stage) tells(host protocol.HostID, n byte, state, health string, inMS int64) {
	s.Helper()
	s.tell(host, func(h *core.Host) {
		c := protocol.Container{CTID: protocol.CTID{6: 0x70, 8: 0x80, 9: n}, Name: "x", State: state}
		c.Health = health
		h.Inventory.AtMS, h.Inventory.Containers = s.base.NowMS()+inMS, []protocol.Container{c}
	})
}

// ordered has db on host a, where it runs, and web, which starts after it, on host b.
func ordered(t *testing.T) *stage {
	s := fleet(t)
	s.made("db", 1, placement.Wants{Rules: []placement.Rule{{Host: "a", Score: 5}}}, "memory=4GB")
	s.made("web", 2, placement.Wants{Rules: []placement.Rule{{Host: "b", Score: 5}}, Priority: 10, After: []string{"db"}}, "memory=4GB")
	s.tells("a", 1, running, "", 1)
	s.obey(10 * time.Second)
	if got := s.on(); got != "db held a; web held b" {
		t.Fatal(got)
	}
	return s
}

func (s *stage) whyOf(name string) string {
	s.Helper()
	w, err := s.find(name)
	if err != nil {
		s.Fatal(err)
	}
	return w.Why
}

const late = "it waits for db, after which it starts"

// TestOrderAfterALoss: when the hosts of two workloads are lost at once, the one that starts
// after the other one is placed only when the new host of that tells that it runs.
func TestOrderAfterALoss(t *testing.T) {
	s := ordered(t)
	s.away["a"], s.away["b"] = true, true
	s.obeyOn(unique.Default().Takeover()+time.Minute, "c")
	for what, tells := range map[string]func(){
		"nothing is told":                   func() {},
		"it is stopped":                     func() { s.tells("c", 1, "stopped", "", 1) },
		"its check fails":                   func() { s.tells("c", 1, running, contract.Unhealthy, 1) },
		"it ran there before the placement": func() { s.tells("c", 1, running, "", -60_000) },
	} {
		tells()
		s.obeyOn(10*time.Second, "c")
		if got := s.on(); got != "db held c; web free b" || s.whyOf("web") != late || fmt.Sprint(s.asked) != "[c]" {
			t.Fatalf("%s: %s: %s; asked %v", what, got, s.whyOf("web"), s.asked)
		}
	}
	steps, err := s.Plan(t.Context(), WhatIf{})
	if err != nil || len(steps) != 1 || steps[0].To != "" || steps[0].Why != late {
		t.Errorf("plan %+v, %v", steps, err)
	}
	e, err := s.Explain(t.Context(), "web")
	if err != nil || len(e.Verdicts) != 3 || e.Verdicts[2].Reason != late {
		t.Errorf("%+v, %v", e.Verdicts, err)
	}
	s.begin(2) // it is durable
	s.Greeted("c", &protocol.Hello{SelfFence: "guard", Features: []string{"lxc", "lxc.unique"}})
	s.tells("c", 1, running, contract.Starting, 1)
	s.obeyOn(unique.Default().Takeover()+10*time.Second, "c")
	if got := s.on(); got != "db held c; web held c" || fmt.Sprint(s.asked) != "[c c]" {
		t.Errorf("%s: %s; asked %v", got, s.whyOf("web"), s.asked)
	}
}

// TestOrderAfterALaterLoss: what a host told that is lost now counts for nothing.
func TestOrderAfterALaterLoss(t *testing.T) {
	s := ordered(t)
	s.away["b"] = true
	s.obeyOn(20*time.Second, "a", "c")
	s.away["a"] = true
	s.obeyOn(unique.Default().Takeover()-10*time.Second, "c")
	if got := s.on(); got != "db withheld a; web free b" || s.whyOf("web") != late {
		t.Errorf("%s: %s", got, s.whyOf("web"))
	}
}

// TestOrderBindsNothing: what runs goes on when the workload that it starts after stops, and
// it is not stopped for another host, on which it would have to wait.
func TestOrderBindsNothing(t *testing.T) {
	s := ordered(t)
	s.tells("a", 1, "stopped", "", 1)
	s.obey(time.Minute)
	if err := s.Move(t.Context(), admin, "web", "c", ""); !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), "host c cannot take it: "+late) {
		t.Errorf("a move: %v", err)
	}
	s.available("b", core.Draining)
	s.obey(time.Minute)
	if got := s.on(); got != "db held a; web held b" {
		t.Fatal(got)
	}
	steps, err := s.Plan(t.Context(), WhatIf{})
	if err != nil || len(steps) != 1 || !steps[0].Stays || steps[0].Why != late {
		t.Errorf("plan %+v, %v", steps, err)
	}
	s.tells("a", 1, running, "", 1)
	s.obey(time.Minute)
	if got := s.on(); got != "db held a; web held c" {
		t.Errorf("%s: %s", got, s.whyOf("web"))
	}
}

// TestOrderOfAMove: a move is dropped, and its room is given to others, if the workload would
// have to wait for another one on the new host.
func TestOrderOfAMove(t *testing.T) {
	s := ordered(t)
	if err := s.Move(t.Context(), admin, "web", "c", ""); err != nil {
		t.Fatal(err)
	}
	s.tells("a", 1, "stopped", "", 1)
	s.obey(time.Minute)
	w, err := s.find("web")
	if err != nil || w.Host != "b" || w.Phase != unique.Held || w.Moved.Why != late {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestWaitingTakesNoRoom: a workload that waits for another one takes no room from others,
// whatever its priority; and none waits for a workload that was removed.
func TestWaitingTakesNoRoom(t *testing.T) {
	s := ordered(t)
	s.made("job", 3, placement.Wants{Rules: []placement.Rule{{Host: "b", Score: 5}}}, "memory=4GB")
	s.tells("a", 1, "stopped", "", 1)
	for _, h := range []protocol.HostID{"a", "c"} {
		s.tell(h, func(h *core.Host) { h.Inventory.Host.MemoryFree = map[protocol.HostID]int64{"a": 1, "c": 5e9}[h.ID] })
	}
	s.away["b"] = true
	s.obeyOn(unique.Default().Takeover()+time.Minute, "a", "c")
	if got := s.on(); got != "db held a; job held c; web free b" || s.whyOf("web") != late {
		t.Fatalf("%s: %s", got, s.whyOf("web"))
	}
	if err := s.forget(t.Context(), s.all[protocol.CTID{6: 0x70, 8: 0x80, 9: 1}], "its container was removed"); err != nil {
		t.Fatal(err)
	}
	s.obeyOn(time.Minute, "a", "c")
	if got := s.on(); !strings.Contains(got, "web held") {
		t.Errorf("%s: %s", got, s.whyOf("web"))
	}
}

// TestOrderIsChecked: names that no workload has, and circles, are refused when a wish is set
// and when a workload is created; what would have to wait is not created on a host.
func TestOrderIsChecked(t *testing.T) {
	s := ordered(t)
	s.tells("a", 1, "stopped", "", 1)
	starts := []byte(strings.Replace(string(sized("new", 9)), `"template"`, `"start":true,"template"`, 1))
	pinned := []byte(strings.NewReplacer(`,"class":"unique"`, "", `,"data":"none"`, "").Replace(string(sized("new", 9))))
	choose := func(spec []byte, after ...string) error {
		_, err := s.Choose(t.Context(), spec, placement.Wants{After: after})
		return err
	}
	set := func(name string, after ...string) error {
		return s.SetWants(t.Context(), admin, name, placement.Wants{After: after}, "")
	}
	enter := func(after ...string) error {
		decoded, err := protocol.DecodeRequest(starts)
		if err != nil {
			t.Fatal(err)
		}
		return s.store.Update(t.Context(), func(tx core.Tx) error {
			return errors.Join(s.Enter(tx, &core.Action{Host: "c"}, &decoded, placement.Wants{After: after}), errors.New("it is not kept"))
		})
	}
	for name, c := range map[string]struct {
		err, kind error
		want      string
	}{
		"an unknown name":  {set("db", "nosuch"), core.ErrInvalid, `place.after: no unique container is named "nosuch"`},
		"no name":          {set("db", ""), core.ErrInvalid, `is named ""`},
		"a circle":         {set("db", "web"), core.ErrInvalid, "would ever start: db starts after web starts after db"},
		"itself":           {set("db", "db"), core.ErrInvalid, "db starts after db"},
		"a new one":        {choose(starts, "nosuch"), core.ErrInvalid, `"nosuch"`},
		"a new circle":     {choose(starts, "new"), core.ErrInvalid, "new starts after new"},
		"on a host":        {enter("nosuch"), core.ErrInvalid, `"nosuch"`},
		"it would wait":    {choose(starts, "db"), core.ErrConflict, "container new: " + late + "; create it then, or now without --start"},
		"one of a host":    {choose(pinned, "db"), core.ErrInvalid, "only a unique container starts after others"},
		"it runs":          {choose(starts, "web"), core.ErrConflict, "it waits for web"}, // which was not told yet
		"it is no start":   {choose(sized("new", 9), "db"), nil, ""},
		"nothing to order": {choose(starts), nil, ""},
	} {
		if !errors.Is(c.err, c.kind) || c.err != nil && !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	s.tells("b", 2, running, "", 1)
	if err := choose(starts, "web"); err != nil {
		t.Errorf("what need not wait: %v", err)
	}
	if err := errors.Join(set("web"), set("db", "web")); err != nil {
		t.Errorf("the other way round: %v", err)
	}
}
