package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const gib = 1 << 30

func host(name string, cpu, mem int64) Host {
	return Host{Name: name, Has: Size{CPU: cpu * 1000, Memory: mem * gib, Disk: 100 * gib}}
}

func load(name string, cpu, mem int64) Workload {
	return Workload{Name: name, Size: Size{CPU: cpu * 1000, Memory: mem * gib}}
}

func where(placed []Placed) string {
	var all []string
	for _, p := range placed {
		all = append(all, p.Workload+"="+p.To)
	}
	return strings.Join(all, " ")
}

// TestPacemakersExample is the documented example that Pacemaker leaves partly stopped:
// https://clusterlabs.org/projects/pacemaker/doc/ (Utilization and Placement Strategy).
func TestPacemakersExample(t *testing.T) {
	hosts := []Host{host("node1", 2, 2), host("node2", 4, 4)}
	loads := []Workload{load("rsc-small", 1, 1), load("rsc-medium", 2, 2), load("rsc-large", 3, 3)}
	for range 20 { // whatever the order
		rand.Shuffle(len(loads), func(i, j int) { loads[i], loads[j] = loads[j], loads[i] })
		if got, want := where(Place(hosts, loads, Spread)), "rsc-large=node2 rsc-medium=node1 rsc-small=node2"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	closed := func(h Host, why string, empties bool) Host { h.Closed, h.Empties = why, empties; return h }
	labelled := func(h Host, k, v string) Host { h.Labels = map[string]string{k: v}; return h }
	on := func(w Workload, host string, stays int) Workload { w.On, w.Stays = host, stays; return w }
	rules := func(w Workload, r ...Rule) Workload { w.Rules = r; return w }
	near := func(w Workload, n ...Near) Workload { w.Near = n; return w }
	prio := func(w Workload, p int) Workload { w.Priority = p; return w }
	ban := func(w Workload, hosts ...string) Workload { w.Banned = hosts; return w }
	called := func(w Workload, name string, taken ...string) Workload { w.Called, w.Taken = name, taken; return w }
	fix := func(w Workload, h string) Workload { w.On, w.Fixed = h, true; return w }
	moved := func(w Workload, from, to string) Workload { w.On, w.To, w.Fixed = from, to, true; return w }
	two := []Host{host("a", 4, 4), host("b", 4, 4)}
	for name, c := range map[string]struct {
		hosts    []Host
		loads    []Workload
		strategy Strategy
		want     string
	}{
		"spread":              {two, []Workload{load("x", 1, 1), load("y", 1, 1)}, Spread, "x=a y=b"},
		"binpack":             {two, []Workload{load("x", 1, 1), load("y", 1, 1)}, Binpack, "x=a y=a"},
		"stays":               {two, []Workload{on(load("x", 1, 1), "b", 1), on(load("y", 1, 1), "b", 1)}, Spread, "x=b y=b"},
		"drained":             {[]Host{closed(host("a", 4, 4), "it is drained", true), host("b", 4, 4)}, []Workload{on(load("x", 1, 1), "a", Infinity)}, Spread, "x=b"},
		"cordoned keeps":      {[]Host{closed(host("a", 4, 4), "it is cordoned", false), host("b", 4, 4)}, []Workload{on(load("x", 1, 1), "a", 1), load("y", 1, 1)}, Spread, "x=a y=b"},
		"wants a label":       {[]Host{host("a", 4, 4), labelled(host("b", 1, 1), "site", "lab")}, []Workload{rules(load("x", 1, 1), Rule{Labels: map[string]string{"site": "lab"}, Must: true})}, Spread, "x=b"},
		"likes a label":       {[]Host{host("a", 4, 4), labelled(host("b", 1, 1), "site", "lab")}, []Workload{rules(load("x", 1, 1), Rule{Labels: map[string]string{"site": "lab"}, Score: 5})}, Spread, "x=b"},
		"must not be there":   {two, []Workload{rules(load("x", 1, 1), Rule{Host: "a", Score: -Infinity})}, Spread, "x=b"},
		"apart":               {two, []Workload{load("x", 1, 1), near(load("y", 1, 1), Near{"x", -Infinity}), near(load("z", 1, 1), Near{"x", -Infinity}, Near{"y", -Infinity})}, Binpack, "x=a y=b z="},
		"beside":              {two, []Workload{load("x", 1, 1), near(load("y", 1, 1), Near{"x", Infinity})}, Spread, "x=a y=a"},
		"failed there":        {two, []Workload{ban(load("x", 1, 1), "a")}, Spread, "x=b"},
		"its name is taken":   {two, []Workload{called(load("x", 1, 1), "", "a")}, Spread, "x=b"},
		"it is there itself":  {two, []Workload{on(called(load("x", 1, 1), "", "a"), "a", 1)}, Spread, "x=a"},
		"two of one name":     {two, []Workload{called(load("x", 1, 1), "web"), called(load("y", 1, 1), "web"), called(load("z", 1, 1), "web")}, Binpack, "x=a y=b z="},
		"one of a name stays": {two, []Workload{on(called(load("x", 1, 1), "web"), "b", 1), called(load("y", 1, 1), "web")}, Spread, "x=b y=a"},
		"one of a name comes": {two, []Workload{moved(called(load("x", 1, 1), "web"), "a", "b"), called(load("y", 1, 1), "web")}, Spread, "y="},
		"too large":           {two, []Workload{load("x", 5, 1)}, Spread, "x="},
		"room is made":        {[]Host{host("a", 4, 4), host("b", 2, 2)}, []Workload{on(load("s", 1, 1), "a", 1), load("x", 4, 4)}, Spread, "s=b x=a"},
		"priority":            {[]Host{host("a", 2, 2)}, []Workload{on(load("low", 2, 2), "a", Infinity), prio(load("high", 2, 2), 1)}, Spread, "high=a low="},
		"equals do not yield": {[]Host{host("a", 2, 2)}, []Workload{on(load("old", 2, 2), "a", 0), load("new", 2, 2)}, Spread, "new= old=a"},
		"what is fixed stays": {[]Host{host("a", 2, 2)}, []Workload{fix(load("x", 2, 2), "a"), prio(load("y", 1, 1), 9)}, Spread, "y="},
		"no hosts":            {nil, []Workload{load("x", 1, 1)}, Spread, "x="},
	} {
		if got := where(Place(c.hosts, c.loads, c.strategy)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestSaysWhy holds every verdict to a reason.
func TestSaysWhy(t *testing.T) {
	hosts := []Host{host("small", 1, 1), {Name: "shut", Closed: "it is away"}, host("big", 8, 8)}
	w := load("x", 2, 2)
	w.Banned = []string{"big"}
	p := Place(hosts, []Workload{w}, Spread)[0]
	got := fmt.Sprint(p.To, p.Why, Explain(hosts, []Workload{w}, "x"))
	for _, want := range []string{"no host can take it", "{big 0 it failed there too often}", "{shut 0 it is away}", "{small 0 not enough processors}"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %q", got, want)
		}
	}
}

// TestWaitingStays: what would have to wait elsewhere keeps its host and its room there, and
// what is nowhere and waits takes none.
func TestWaitingStays(t *testing.T) {
	web, job := load("web", 6, 6), load("job", 6, 6)
	web.Waits, web.Priority, job.Priority = "it waits", 5, 1
	for on, want := range map[string]string{"": "job: a ; web:  it waits", "a": "job:  no host can take it; web: a "} {
		web.On = on
		var got []string
		for _, p := range Place([]Host{host("a", 8, 8)}, []Workload{job, web}, Spread) {
			got = append(got, p.Workload+": "+p.To+" "+p.Why)
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("on %q: %q, want %q", on, text, want)
		}
	}
}

// TestRoomOfAMove: the room of a workload that is moved is kept at the host to which it goes,
// against all but itself and those that are there.
func TestRoomOfAMove(t *testing.T) {
	hosts := []Host{host("a", 8, 8), host("b", 8, 8)}
	db := load("db", 6, 6)
	db.On, db.To, db.Fixed = "a", "b", true
	other := load("web", 4, 4)
	for name, c := range map[string]struct {
		change func(db, other *Workload)
		want   string // where the other one goes, and what b says to db
	}{
		"a new one":          {func(_, _ *Workload) {}, "; "},
		"one that fits, too": {func(_, o *Workload) { o.Size = Size{CPU: 2000, Memory: 2 * gib} }, "b; "},
		"one that is there":  {func(_, o *Workload) { o.On = "b" }, "b; not enough processors"},
		"of a higher rank":   {func(_, o *Workload) { o.Priority = 5 }, "; "},
		"one that is apart":  {func(_, o *Workload) { o.Size, o.Near = Size{}, []Near{{"db", -Infinity}} }, "; "},
		"when it runs nowhere": {func(db, o *Workload) {
			db.On, db.Fixed, db.Rules = "", false, []Rule{{Host: "b", Must: true}}
			o.Priority, o.Rules = 5, []Rule{{Host: "b", Must: true}}
		}, "; "},
		"to where it is": {func(db, o *Workload) { db.To = "a" }, "b; "},
	} {
		t.Run(name, func(t *testing.T) {
			db, other := db, other
			c.change(&db, &other)
			all := []Workload{db, other}
			got := ""
			for _, p := range Place(hosts, all, Spread) {
				if p.Workload == "web" {
					got = p.To + "; "
				}
				if p.Workload == "db" && p.To != "b" {
					t.Errorf("db goes to %q", p.To)
				}
			}
			if got += Explain(hosts, all, "db")[1].Reason; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestNeverBeyond draws fleets by chance: no host is given more than it has, nothing is
// where it must not be, what has room is placed, and the order of the input does not matter.
func TestNeverBeyond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hosts []Host
		for i := range rapid.IntRange(0, 6).Draw(t, "hosts") {
			h := host(fmt.Sprintf("h%d", i), rapid.Int64Range(0, 8).Draw(t, "cpu"), rapid.Int64Range(0, 8).Draw(t, "mem"))
			if rapid.IntRange(0, 4).Draw(t, "closed") == 0 {
				h.Closed, h.Empties = "closed", rapid.Bool().Draw(t, "empties")
			}
			hosts = append(hosts, h)
		}
		var loads []Workload
		for i := range rapid.IntRange(0, 12).Draw(t, "loads") {
			w := load(fmt.Sprintf("w%02d", i), rapid.Int64Range(0, 4).Draw(t, "c"), rapid.Int64Range(0, 4).Draw(t, "m"))
			w.Priority = rapid.IntRange(0, 2).Draw(t, "priority")
			if n := rapid.IntRange(-3, 5).Draw(t, "on"); n >= 0 && n < len(hosts) {
				w.On, w.Stays = hosts[n].Name, rapid.IntRange(0, 2).Draw(t, "stays")
			}
			if i > 0 && rapid.IntRange(0, 3).Draw(t, "near") == 0 {
				w.Near = []Near{{loads[rapid.IntRange(0, i-1).Draw(t, "other")].Name, -Infinity}}
			}
			loads = append(loads, w)
		}
		placed := Place(hosts, loads, Spread)
		if len(placed) != len(loads) {
			t.Fatalf("%d of %d workloads", len(placed), len(loads))
		}
		at := make(map[string]string)
		used := make(map[string]Size)
		for i, p := range placed {
			at[p.Workload] = p.To
			used[p.To] = used[p.To].Plus(loads[i].Size)
			if p.To == "" && p.Why == "" {
				t.Fatalf("%s is nowhere, and nothing says why", p.Workload)
			}
		}
		for _, h := range hosts {
			if what := used[h.Name].fits(h.Has); what != "" {
				t.Fatalf("host %s has not enough %s", h.Name, what)
			}
		}
		for _, w := range loads {
			i := slices.IndexFunc(hosts, func(h Host) bool { return h.Name == at[w.Name] })
			if i >= 0 && hosts[i].Closed != "" && (w.On != hosts[i].Name || hosts[i].Empties) {
				t.Fatalf("%s is on a closed host", w.Name)
			}
			for _, n := range w.Near {
				if at[w.Name] != "" && at[n.Workload] == at[w.Name] {
					t.Fatalf("%s is beside %s", w.Name, n.Workload)
				}
			}
		}
		back := slices.Clone(loads)
		slices.Reverse(back)
		slices.Reverse(hosts)
		if again := where(Place(hosts, back, Spread)); again != where(placed) {
			t.Fatalf("%s, and in another order %s", where(placed), again)
		}
	})
}

func fleet(hosts, each int) ([]Host, []Workload) {
	var hs []Host
	var ws []Workload
	for i := range hosts {
		hs = append(hs, host(fmt.Sprintf("h%05d", i), 64, 256))
		for j := range each {
			ws = append(ws, load(fmt.Sprintf("w%05d-%02d", i, j), 1, 4))
		}
	}
	return hs, ws
}

// BenchmarkPlace places 10,000 hosts × 20 workloads from nothing, and BenchmarkLoss what
// one of these hosts had when it is lost.
func BenchmarkPlace(b *testing.B) {
	hosts, loads := fleet(10_000, 20)
	for b.Loop() {
		if placed := Place(hosts, loads, Spread); placed[0].To == "" {
			b.Fatal("nothing was placed")
		}
	}
}

func BenchmarkLoss(b *testing.B) {
	hosts, loads := fleet(10_000, 20)
	for i, w := range loads[20:] {
		h := &hosts[1+i/20]
		h.Has, h.Load = h.Has.less(w.Size), h.Load+1
	}
	loads = loads[:20]
	for i := range loads {
		loads[i].On = hosts[0].Name
	}
	hosts[0].Closed, hosts[0].Empties = "it is lost", true
	for b.Loop() {
		if placed := Place(hosts, loads, Spread); placed[0].To == "" || placed[0].To == hosts[0].Name {
			b.Fatal("it was not placed")
		}
	}
}

// TestLabelIsThere: a host without a label does not have its empty value.
func TestLabelIsThere(t *testing.T) {
	r := Rule{Labels: map[string]string{"gpu": ""}}
	if r.fits(&Host{Name: "a"}) || !r.fits(&Host{Name: "b", Labels: map[string]string{"gpu": ""}}) {
		t.Error("a host without the label is taken, or one with it is not")
	}
}
