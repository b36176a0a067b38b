package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

var admin = core.Actor{Name: "ann", Role: core.RoleAdmin}

// fleet gives the hosts labels and room, and has all of them there.
func fleet(t *testing.T) *stage {
	s := newStage(t)
	s.tell("a", func(h *core.Host) { h.Labels = []string{"site=lab", "disk=ssd"} })
	s.tell("b", func(h *core.Host) { h.Labels = []string{"site=lab"} })
	s.tell("c", func(h *core.Host) { h.Labels = []string{"site=shop"} })
	s.Greeted("c", &protocol.Hello{SelfFence: "guard", Features: []string{"lxc", "lxc.unique"}})
	s.renew("c", protocol.Seq{})
	return s
}

// tell changes what is stored of a host, which has 4 processors and 10 GB.
func (s *stage) tell(id protocol.HostID, change func(*core.Host)) {
	s.Helper()
	var all []protocol.Container
	if err := s.store.Update(s.Context(), func(tx core.Tx) error {
		h, err := tx.Hosts.Get(id)
		if err != nil {
			return err
		}
		h.Inventory.Host = protocol.HostInfo{CPUs: 4, MemoryBytes: 10_000_000_000, DiskBytes: 100e9}
		h.Inventory.Host.MemoryFree, h.Inventory.Host.DiskFree = 10_000_000_000, 100e9
		change(&h)
		all = h.Inventory.Containers
		return tx.Hosts.Put(h)
	}); err != nil {
		s.Fatal(err)
	}
	if s.hosts[id] != nil && s.hosts[id].told {
		s.Told(id, all)
	}
}

// sized is the creation of a unique container with limits.
func sized(name string, n byte, limits ...string) []byte {
	b, _ := json.Marshal(protocol.Spec{Kind: protocol.KindCreate, Target: protocol.CTID{6: 0x70, 8: 0x80, 9: n}, Name: protocol.ContainerName(name), Args: &protocol.CreateArgs{Template: "busybox", Class: "unique", Data: "none", Limits: limits}})
	return b
}

// made has a workload there, placed by its wishes.
func (s *stage) made(name string, n byte, wants placement.Wants, limits ...string) protocol.HostID {
	s.Helper()
	host, err := s.Choose(s.Context(), sized(name, n, limits...), wants)
	if err != nil {
		s.Fatalf("%s: %v", name, err)
	}
	s.wants = wants
	a := s.request(host, sized(name, n, limits...), "ann")
	if err := s.store.Update(s.Context(), func(tx core.Tx) error {
		a.State = protocol.StateDone
		return tx.Actions.Put(a)
	}); err != nil {
		s.Fatal(err)
	}
	s.Tick(s.Context())
	return host
}

// on says where each workload is.
func (s *stage) on() string {
	var all []string
	for _, w := range s.List() {
		all = append(all, fmt.Sprintf("%s %s %s", w.Name, w.Phase, w.Host))
	}
	return strings.Join(all, "; ")
}

// obey lets time pass in which each host says the truth: it runs what its newest grant
// names.
func (s *stage) obey(d time.Duration) { s.obeyOn(d, "a", "b", "c") }

// obeyOn is obey of those hosts alone: nothing is heard of the others.
func (s *stage) obeyOn(d time.Duration, hosts ...protocol.HostID) {
	took := make(map[protocol.HostID]protocol.Seq)
	runs := make(map[protocol.HostID][]protocol.LeaseHeld)
	for range int(d / (5 * time.Second)) {
		for _, h := range hosts {
			s.seq++
			seq := protocol.Seq{Inc: 1, Conn: 1, K: s.seq}
			runs[h], _ = s.Renew(h, &protocol.Lease{Held: runs[h], Took: took[h]}, seq)
			for i := range runs[h] {
				runs[h][i].Running = true
			}
			took[h] = seq
		}
		s.later(5 * time.Second)
	}
}

func TestChoose(t *testing.T) {
	s := fleet(t)
	lab := placement.Rule{Labels: map[string]string{"site": "lab"}, Must: true}
	for what, c := range map[string]struct {
		wants  placement.Wants
		limits []string
		want   string // a host, or what the error says
	}{
		"a label":          {placement.Wants{Rules: []placement.Rule{{Labels: map[string]string{"site": "shop"}, Must: true}}}, nil, "c"},
		"a better one":     {placement.Wants{Rules: []placement.Rule{lab, {Labels: map[string]string{"disk": "ssd"}, Score: 5}}}, nil, "a"},
		"not that":         {placement.Wants{Rules: []placement.Rule{lab, {Labels: map[string]string{"disk": "ssd"}, Score: -placement.Infinity}}}, nil, "b"},
		"room":             {placement.Wants{Rules: []placement.Rule{lab}}, []string{"memory=9GB", "cpu=360%"}, "a"},
		"too much memory":  {placement.Wants{}, []string{"memory=9001MB"}, "a: not enough memory; b: not enough memory; c: not enough memory"},
		"too much of cpus": {placement.Wants{}, []string{"cpu=361%"}, "not enough processors"},
		"the disk":         {placement.Wants{}, []string{"disk=91GB"}, "a: not enough disk; b: not enough disk; c: not enough disk"},
		"nowhere":          {placement.Wants{Rules: []placement.Rule{{Host: "d", Must: true}}}, nil, "a: it wants host d"},
		"a wrong wish":     {placement.Wants{Priority: 1e9}, nil, "out of range"},
	} {
		got, err := s.Choose(t.Context(), sized("new", 9, c.limits...), c.wants)
		if err == nil && string(got) != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: host %s, %v; want %s", what, got, err, c.want)
		}
	}
	if _, err := s.Choose(t.Context(), []byte(`{"kind":"host.ping"}`), placement.Wants{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a ping is placed: %v", err)
	}
}

// TestWhatIsFreeCounts: a host offers what it tells that is free, less a tenth, and what the
// workloads on it take.
func TestWhatIsFreeCounts(t *testing.T) {
	s := fleet(t)
	s.tell("a", func(h *core.Host) { h.Inventory.Host.DiskFree = 20e9 })
	s.tell("b", func(h *core.Host) { h.Inventory.Host.MemoryFree = 4e9 })
	s.tell("c", func(h *core.Host) { h.Inventory.Host.CPUs = 1 })
	for limit, want := range map[string]string{
		"disk=19GB":     "a: not enough disk;",
		"memory=3700MB": "b: not enough memory;",
		"cpu=91%":       "c: not enough processors",
	} {
		for _, host := range []string{"a", "b", "c"} {
			only := placement.Wants{Rules: []placement.Rule{{Host: host, Must: true}}}
			_, err := s.Choose(t.Context(), sized("new", 9, limit), only)
			if lacks := strings.HasPrefix(want, host); lacks != (err != nil) || lacks && !strings.Contains(err.Error()+";", want) {
				t.Errorf("%s on host %s: %v", limit, host, err)
			}
		}
	}
	s.made("db", 1, placement.Wants{Rules: []placement.Rule{{Host: "b", Must: true}}}, "memory=3GB")
	s.obey(10 * time.Second)
	if steps, err := s.Plan(t.Context(), WhatIf{}); err != nil || len(steps) != 0 {
		t.Errorf("what is there has no room: %+v, %v", steps, err)
	}
}

// TestSilentIsGivenNothing: a host that is connected, and has sent no lease for as long as
// one is good, is given no workload: it would be lost in the moment in which it holds it.
func TestSilentIsGivenNothing(t *testing.T) {
	s := born(t, "none")
	for range 14 { // b is connected, and its leases do not come
		s.renew("a", protocol.Seq{})
		s.later(10 * time.Second)
	}
	s.off["a"], s.closed["a"] = true, true
	s.later(3 * time.Second)
	if w := s.only(); w.Phase != unique.Free || len(s.asked) > 0 || len(s.Suspects()) > 0 || !strings.Contains(w.Why, "b: it is away") {
		t.Fatalf("%+v, asked %v, suspected %+v", w, s.asked, s.Suspects())
	}
	s.renew("b", protocol.Seq{})
	s.later(time.Minute)
	if w := s.only(); w.Phase != unique.Held || w.Host != "b" || len(s.Suspects()) > 0 {
		t.Errorf("%+v, suspected %+v", w, s.Suspects())
	}
}

// TestDrain: what can leave a drained host moves, under a higher epoch, and what has its
// data there stays; a host that is open again takes new ones.
func TestDrain(t *testing.T) {
	s := fleet(t)
	first := s.made("db", 1, placement.Wants{})
	s.made("web", 2, placement.Wants{Near: []placement.Near{{Workload: "db", Score: -placement.Infinity}}})
	s.obey(10 * time.Second)
	if got := s.on(); got != "db held a; web held b" {
		t.Fatal(got)
	}
	if steps, err := s.Plan(t.Context(), WhatIf{}); err != nil || len(steps) != 0 {
		t.Errorf("a plan for a fleet at rest: %+v, %v", steps, err)
	}
	if err := s.SetAvailability(t.Context(), admin, first, core.Draining, "new disks", 0); err != nil {
		t.Fatal(err)
	}
	steps, err := s.Plan(t.Context(), WhatIf{})
	if err != nil || len(steps) != 1 || steps[0].Workload != "db" || steps[0].To != "c" || steps[0].Why != "it is drained" {
		t.Errorf("plan %+v, %v", steps, err)
	}
	s.obey(30 * time.Second)
	if got := s.on(); got != "db held c; web held b" {
		t.Errorf("after the drain: %s", got)
	}
	if w := s.List()[0]; w.Epoch.Counter < 2 || len(w.History) < 3 {
		t.Errorf("%+v", w)
	}
	if host, err := s.Choose(t.Context(), sized("new", 9), placement.Wants{Rules: []placement.Rule{{Host: "a", Must: true}}}); err == nil {
		t.Errorf("a drained host takes %s", host)
	}
	if err := s.SetAvailability(t.Context(), admin, first, core.Open, "", 0); err != nil {
		t.Fatal(err)
	}
	s.obey(30 * time.Second)
	if got := s.on(); got != "db held c; web held b" {
		t.Errorf("after the end of the drain: %s", got)
	}
	if _, err := s.Choose(t.Context(), sized("new", 9), placement.Wants{Rules: []placement.Rule{{Host: "a", Must: true}}}); err != nil {
		t.Error(err)
	}
}

// TestDrainOfTen: all that a drained host holds leaves it, each under a higher epoch, and goes
// where there is room.
func TestDrainOfTen(t *testing.T) {
	s := fleet(t)
	first := make(map[string]protocol.Epoch)
	for i := range byte(10) {
		s.made(fmt.Sprintf("w%d", i), i+1, placement.Wants{Rules: []placement.Rule{{Host: "a", Score: 5}}}, "memory=800MB")
	}
	s.obey(10 * time.Second)
	for _, w := range s.List() {
		if first[string(w.Name)] = w.Epoch; w.Host != "a" {
			t.Fatal(s.on())
		}
	}
	if err := s.SetAvailability(t.Context(), admin, "a", core.Draining, "", 0); err != nil {
		t.Fatal(err)
	}
	if steps, err := s.Plan(t.Context(), WhatIf{}); err != nil || len(steps) != 10 {
		t.Errorf("the plan has %d steps, want 10: %+v, %v", len(steps), steps, err)
	}
	s.obey(time.Minute)
	on := make(map[protocol.HostID]int)
	for _, w := range s.List() {
		if on[w.Host]++; w.Phase != unique.Held || w.Epoch.Compare(first[string(w.Name)]) <= 0 {
			t.Errorf("%+v", w)
		}
	}
	if on["a"] > 0 || on["b"] != 5 || on["c"] != 5 {
		t.Errorf("after the drain: %v", on)
	}
}

// TestFullFleet: where one loss does not fit, those of the lowest priority stay stopped, each
// with what keeps it, and run again when there is room.
func TestFullFleet(t *testing.T) {
	s := fleet(t)
	n := byte(0)
	for _, host := range []string{"a", "b", "c"} {
		for i := range 3 {
			n++
			s.made(fmt.Sprintf("%s%d", host, i), n, placement.Wants{Priority: i, Rules: []placement.Rule{{Host: host, Score: 5}}}, "memory=3GB")
		}
	}
	s.obey(10 * time.Second)
	if got := s.on(); got != "a0 held a; a1 held a; a2 held a; b0 held b; b1 held b; b2 held b; c0 held c; c1 held c; c2 held c" {
		t.Fatal(got)
	}
	what, err := s.Plan(t.Context(), WhatIf{Lose: []protocol.HostID{"a"}})
	if err != nil || len(what) == 0 {
		t.Fatalf("%+v, %v", what, err)
	}
	s.off["a"], s.closed["a"], s.away["a"] = true, true, true
	s.obeyOn(5*time.Minute, "b", "c")
	stopped := make(map[string]string)
	for _, w := range s.List() {
		if w.Phase != unique.Held {
			stopped[string(w.Name)] = w.Why
		}
	}
	if len(stopped) != 3 {
		t.Fatalf("%s", s.on())
	}
	for _, lowest := range []string{"a0", "b0", "c0"} {
		if why := stopped[lowest]; !strings.Contains(why, "a: it is being fenced; b: not enough memory; c: not enough memory") {
			t.Errorf("%s is stopped because %q: %s", lowest, why, s.on())
		}
	}
	if told := s.Concerns(); len(told) > 0 {
		t.Errorf("people are told at once: %+v", told)
	}
	s.base.Now = func() time.Time { return time.Now().Add(2 * waitsLong) }
	told := make(map[string]int)
	for host, alerts := range s.Concerns() {
		for _, a := range alerts {
			if told[string(host)]++; a.Severity != "critical" || !strings.Contains(a.Text, "runs on no host: no host can take it: a: it is being fenced; b: not enough memory") {
				t.Errorf("host %s: %+v", host, a)
			}
		}
	}
	if len(told) != 3 || told["a"]+told["b"]+told["c"] != 3 {
		t.Errorf("alerts: %v", told)
	}
	for _, step := range what { // it was known before
		if stays := step.To == ""; stays != (stopped[step.Workload] != "") {
			t.Errorf("the plan says %+v", step)
		}
	}
	s.off["a"], s.closed["a"], s.away["a"] = false, false, false
	s.obey(time.Minute)
	for _, w := range s.List() {
		if w.Phase != unique.Held {
			t.Errorf("when there is room: %+v", w)
		}
	}
	if told := s.Concerns(); len(told) > 0 {
		t.Errorf("when there is room: %+v", told)
	}
}

// TestWhyAtOnce: what waits because the last room was given to another workload in the same look
// says so from the beginning.
func TestWhyAtOnce(t *testing.T) {
	s := fleet(t)
	s.made("low", 1, placement.Wants{Rules: []placement.Rule{{Host: "a", Score: 5}}}, "memory=4GB")
	s.made("high", 2, placement.Wants{Priority: 9, Rules: []placement.Rule{{Host: "a", Score: 5}}}, "memory=4GB")
	s.made("other", 3, placement.Wants{Rules: []placement.Rule{{Host: "b", Score: 5}}}, "memory=4GB")
	if got := s.on(); got != "high held a; low held a; other held b" {
		t.Fatal(got)
	}
	s.off["a"], s.closed["a"], s.away["a"], s.away["c"] = true, true, true, true
	for range 30 {
		s.now += 1000
		s.renew("b", protocol.Seq{})
		s.Tick(t.Context())
		why := s.whyOf("low")
		if !strings.HasPrefix(why, "no host can take it") {
			continue
		}
		if !strings.Contains(why, "b: not enough memory") {
			t.Errorf("it waits because %q: %s", why, s.on())
		}
		return
	}
	t.Errorf("it does not wait: %s", s.on())
}

// TestDrainLeavesWhatFitsNowhere: what no other host can take goes on.
func TestDrainLeavesWhatFitsNowhere(t *testing.T) {
	s := fleet(t)
	s.made("db", 1, placement.Wants{Rules: []placement.Rule{{Labels: map[string]string{"site": "shop"}, Must: true}}})
	if err := s.SetAvailability(t.Context(), admin, "c", core.Draining, "", 0); err != nil {
		t.Fatal(err)
	}
	s.obey(time.Minute)
	steps, err := s.Plan(t.Context(), WhatIf{})
	if s.on() != "db held c" || err != nil || len(steps) != 1 || !steps[0].Stays || !strings.Contains(steps[0].Why, "a: it wants hosts site=shop") {
		t.Errorf("%s; plan %+v, %v", s.on(), steps, err)
	}
}

// TestMaintenance: nothing is decided about a host in maintenance, and it ends by its time.
func TestMaintenance(t *testing.T) {
	s := born(t, "none")
	if err := s.SetAvailability(t.Context(), admin, "a", core.Maintenance, "", time.Hour); err != nil {
		t.Fatal(err)
	}
	s.away["a"] = true
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Held || w.Host != "a" || !s.Room.Maintenance("a") || s.Room.Maintenance("b") {
		t.Fatalf("%+v", w)
	}
	s.begin(2) // it is durable
	s.Greeted("a", &protocol.Hello{SelfFence: "guard"})
	s.Greeted("b", &protocol.Hello{SelfFence: "guard"})
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Held || w.Host != "a" {
		t.Fatalf("after a start: %+v", w)
	}
	s.base.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Held || w.Host != "b" {
		t.Errorf("after the maintenance: %+v", w)
	}
	for what, err := range map[string]error{
		"a time for a drain": s.SetAvailability(t.Context(), admin, "a", core.Draining, "", time.Hour),
		"a long reason":      s.SetAvailability(t.Context(), admin, "a", core.Cordoned, strings.Repeat("x", 201), 0),
		"a year":             s.SetAvailability(t.Context(), admin, "a", core.Maintenance, "", 365*24*time.Hour),
	} {
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.SetAvailability(t.Context(), admin, "nowhere", core.Cordoned, "", 0); !errors.Is(err, core.ErrUnknownHost) {
		t.Error(err)
	}
}

// TestBrokenMoves: a workload that fails on its host goes to another one, and not back.
func TestBrokenMoves(t *testing.T) {
	s := fleet(t)
	s.made("db", 1, placement.Wants{})
	s.obey(10 * time.Second)
	s.tell("a", func(h *core.Host) {
		h.Inventory.AtMS = time.Now().Add(time.Minute).UnixMilli()
		h.Inventory.Containers = []protocol.Container{{CTID: s.only().CTID, Name: "db", Class: "unique", Failures: 5, Broken: "no such file"}}
	})
	s.obey(30 * time.Second)
	if w := s.only(); w.Host != "b" || w.Phase != unique.Held || w.Failed["a"].Why != "no such file" {
		t.Errorf("%+v", w)
	}
	e, err := s.Explain(t.Context(), "db")
	if err != nil || !slices.ContainsFunc(e.Verdicts, func(v placement.Verdict) bool { return v.Host == "a" && v.Reason == "it failed there too often" }) {
		t.Errorf("%+v, %v", e.Verdicts, err)
	}
}

// TestFailsAfterDateBack: a workload leaves a host on which it fails, also when the date has gone
// back since it came there.
func TestFailsAfterDateBack(t *testing.T) {
	s := fleet(t)
	s.made("db", 1, placement.Wants{})
	s.obey(10 * time.Second)
	s.base.Now = func() time.Time { return time.Now().AddDate(-1, 0, 0) }
	s.tell("a", func(h *core.Host) {
		h.Inventory.AtMS = s.base.NowMS()
		h.Inventory.Containers = []protocol.Container{{CTID: s.only().CTID, Name: "db", Class: "unique", Failures: 5}}
	})
	s.obey(30 * time.Second)
	if w := s.only(); w.Host != "b" || w.Failed["a"].Why != "the last 5 starts have failed" {
		t.Errorf("%+v", w)
	}
}

// TestFailuresAreForgiven: a host on which a workload has failed to start as often as is
// configured is left, and takes it again when some time has passed.
func TestFailuresAreForgiven(t *testing.T) {
	s := fleet(t)
	s.Room.cfg.Placing.Starts = 3
	s.made("db", 1, placement.Wants{})
	fails := func(n int) {
		s.tell("a", func(h *core.Host) {
			h.Inventory.AtMS = time.Now().Add(time.Minute).UnixMilli()
			h.Inventory.Containers = []protocol.Container{{CTID: s.only().CTID, Name: "db", Class: "unique", Failures: n}}
		})
		s.obey(30 * time.Second)
	}
	fails(2)
	if w := s.only(); w.Host != "a" {
		t.Fatalf("after two failed starts: %+v", w)
	}
	fails(3)
	if w := s.only(); w.Host != "b" || w.Failed["a"].Why != "the last 3 starts have failed" {
		t.Fatalf("after three failed starts: %+v", w)
	}
	takes := func() string {
		t.Helper()
		e, err := s.Explain(t.Context(), "db")
		if err != nil {
			t.Fatal(err)
		}
		return e.Verdicts[0].Reason
	}
	if got := takes(); got != "it failed there too often" {
		t.Errorf("soon after: %q", got)
	}
	for _, later := range []time.Duration{s.Room.cfg.Placing.Forgiven + time.Minute, -365 * 24 * time.Hour} { // the date may go back
		s.base.Now = func() time.Time { return time.Now().Add(later) }
		if got := takes(); got != "" {
			t.Errorf("when it is forgiven, %s later: %q", later, got)
		}
	}
}

// TestPriority: where there is no room for both, the workload of a lower priority gives
// way, is stopped, and waits.
func TestPriority(t *testing.T) {
	s := fleet(t)
	only := placement.Rule{Host: "a", Must: true}
	s.made("low", 1, placement.Wants{Rules: []placement.Rule{only}}, "memory=6GB")
	s.made("high", 2, placement.Wants{Rules: []placement.Rule{{Host: "b", Must: true}}, Priority: 5}, "memory=6GB")
	s.obey(10 * time.Second)
	if err := s.SetWants(t.Context(), admin, "high", placement.Wants{Rules: []placement.Rule{only}, Priority: 5}, ""); err != nil {
		t.Fatal(err)
	}
	steps, err := s.Plan(t.Context(), WhatIf{})
	if err != nil || len(steps) != 2 || steps[1].For != "high" {
		t.Errorf("plan %+v, %v", steps, err)
	}
	s.obey(90 * time.Second)
	if got := s.on(); got != "high held a; low free a" {
		t.Errorf("%s", got)
	}
	if err := s.SetWants(t.Context(), admin, "high", placement.Wants{Priority: 1e9}, ""); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
	if err := s.SetWants(t.Context(), admin, "nothing", placement.Wants{}, ""); !errors.Is(err, core.ErrNotFound) {
		t.Error(err)
	}
}

// TestWhatIf: a plan for other hosts than there are changes nothing.
func TestWhatIf(t *testing.T) {
	s := fleet(t)
	s.made("db", 1, placement.Wants{}, "memory=6GB")
	s.made("web", 2, placement.Wants{}, "memory=6GB")
	s.made("mail", 3, placement.Wants{}, "memory=6GB")
	steps, err := s.Plan(t.Context(), WhatIf{Lose: []protocol.HostID{"a"}})
	if err != nil || len(steps) != 1 || steps[0].From != "a" || steps[0].To != "" {
		t.Errorf("losing a: %+v, %v", steps, err)
	}
	steps, err = s.Plan(t.Context(), WhatIf{Lose: []protocol.HostID{"a"}, Add: []placement.Host{{Name: "d", Has: placement.Size{CPU: 4000, Memory: 8e9, Disk: 1e9}}}})
	if err != nil || len(steps) != 1 || steps[0].To != "d" || steps[0].Why != "host a is lost" {
		t.Errorf("losing a and adding d: %+v, %v", steps, err)
	}
	if got := s.on(); got != "db held a; mail held c; web held b" {
		t.Error(got)
	}
}

// TestWaitingHoldsUpNothing: a workload that has failed on the last host that it may have
// waits, and what a drained host holds leaves it all the same.
func TestWaitingHoldsUpNothing(t *testing.T) {
	s := fleet(t)
	s.made("big", 1, placement.Wants{Rules: []placement.Rule{{Labels: map[string]string{"site": "lab"}, Must: true}, {Host: "a", Score: 5}}})
	s.made("db", 2, placement.Wants{Rules: []placement.Rule{{Host: "b", Score: 5}}})
	s.obey(10 * time.Second)
	if got := s.on(); got != "big held a; db held b" {
		t.Fatal(got)
	}
	s.off["a"], s.closed["a"] = true, true
	s.away["a"] = true
	s.obeyOn(3*time.Minute, "b", "c")
	if got := s.on(); got != "big held b; db held b" {
		t.Fatalf("after the loss of host a: %s", got)
	}
	if err := s.store.Update(t.Context(), func(tx core.Tx) error {
		a, err := tx.Actions.Get(s.List()[0].Pending)
		a.State, a.Detail = protocol.StateFailed, "no template"
		return errors.Join(err, tx.Actions.Put(a))
	}); err != nil {
		t.Fatal(err)
	}
	s.obeyOn(time.Minute, "b", "c")
	if got := s.on(); got != "big free b; db held b" {
		t.Fatalf("after it has failed on host b: %s", got)
	}
	if err := s.SetAvailability(t.Context(), admin, "b", core.Draining, "", 0); err != nil {
		t.Fatal(err)
	}
	s.obeyOn(time.Minute, "b", "c")
	if got := s.on(); got != "big free b; db held c" {
		t.Errorf("after the drain: %s", got)
	}
}

// TestStoppedStays: what its user has stopped leaves no host, which would start it.
func TestStoppedStays(t *testing.T) {
	s := fleet(t)
	host := s.made("db", 1, placement.Wants{})
	s.tell(host, func(h *core.Host) {
		h.Inventory.Containers = []protocol.Container{{CTID: protocol.CTID{6: 0x70, 8: 0x80, 9: 1}, Name: "db", Intended: "stopped"}}
	})
	if err := s.SetAvailability(t.Context(), admin, host, core.Draining, "", 0); err != nil {
		t.Fatal(err)
	}
	asked := len(s.asked)
	s.later(2 * time.Minute)
	if got := s.on(); got != "db held "+string(host) || len(s.asked) != asked {
		t.Errorf("it left host %s: %s, %v", host, got, s.asked)
	}
	// Its host is lost, and is not suspected of running it.
	s.away[host] = true
	s.later(10 * time.Minute)
	if all := s.Suspects(); len(all) != 0 {
		t.Errorf("its host is to be fenced: %+v", all)
	}
}

// TestNameTaken: a host that has another container of the name is given no workload, and says
// so. A copy of the workload itself is no other container.
func TestNameTaken(t *testing.T) {
	s := fleet(t)
	other, own := protocol.CTID{6: 0x70, 8: 0x80, 9: 77}, protocol.CTID{6: 0x70, 8: 0x80, 9: 1}
	has := func(h protocol.HostID, id protocol.CTID, name, state string) {
		t.Helper()
		s.tell(h, func(h *core.Host) {
			h.Inventory.Containers = []protocol.Container{{CTID: id, Name: name, Runtime: "lxc", State: state}}
		})
	}
	has("b", other, "web", "stopped")
	has("c", protocol.CTID{}, "web", "running") // foreign
	const why = "it has another container of this name"
	if _, err := s.Choose(t.Context(), sized("web", 1), placement.Wants{Rules: []placement.Rule{{Host: "b", Must: true}}}); err == nil || !strings.Contains(err.Error(), "b: "+why) {
		t.Errorf("a new one where its name is taken: %v", err)
	}
	if h := s.made("web", 1, placement.Wants{}); h != "a" {
		t.Fatalf("it is on %s", h)
	}
	has("a", own, "web", running)
	s.obey(10 * time.Second)
	if err := s.SetAvailability(t.Context(), admin, "a", core.Draining, "", 0); err != nil {
		t.Fatal(err)
	}
	s.obey(time.Minute)
	steps, err := s.Plan(t.Context(), WhatIf{})
	if s.on() != "web held a" || err != nil || len(steps) != 1 || !strings.Contains(steps[0].Why, "b: "+why) || !strings.Contains(steps[0].Why, "c: "+why) {
		t.Errorf("%s; plan %+v, %v", s.on(), steps, err)
	}
	said, err := s.Explain(t.Context(), "web")
	if i := slices.IndexFunc(said.Verdicts, func(v placement.Verdict) bool { return v.Host == "c" }); err != nil || i < 0 || !strings.Contains(said.Verdicts[i].Reason, why) {
		t.Errorf("why: %+v, %v", said.Verdicts, err)
	}
	has("b", own, "web", "stopped") // what it held before
	s.obey(time.Minute)
	if got := s.on(); got != "web held b" {
		t.Errorf("with a copy of its own there: %s", got)
	}
	if err := s.SetAvailability(t.Context(), admin, "a", core.Open, "", 0); err != nil {
		t.Fatal(err)
	}
	s.tell("a", func(h *core.Host) { h.Inventory.Containers = nil })
	s.tell("b", func(h *core.Host) { h.Inventory.Containers = nil }) // it has not told yet
	if h := s.made("web", 2, placement.Wants{}); h != "a" {
		t.Errorf("a second one of the name is on %s", h)
	}
}
