package placement

import (
	"strings"
	"testing"
)

// TestDiscovers: of the rules that fit a host, exclusive comes before never, and never
// before always; beside exclusive rules a host that none of them fits does not count.
func TestDiscovers(t *testing.T) {
	lab := &Host{Name: "a", Labels: map[string]string{"site": "lab", "rack": "7"}}
	for _, c := range []struct {
		rules string
		want  Mode
	}{
		{"", Always},
		{"always:site=lab", Always},
		{"never:rack=7", Never},
		{"never:rack=8", Always},
		{"never:rack=7 always:site=lab", Never},
		{"never:rack=7 exclusive:site=lab", Exclusive},
		{"exclusive:site=plant", Never},
		{"exclusive:site=plant always:host=a", Never},
		{"exclusive:site=plant exclusive:host=a", Exclusive},
	} {
		var w Wants
		for text := range strings.FieldsSeq(c.rules) {
			d, err := ParseDiscovery(text)
			if err != nil || d.String() != text {
				t.Fatalf("%s: %s, %v", text, d, err)
			}
			w.Discovery = append(w.Discovery, d)
		}
		if err := w.Check(); err != nil {
			t.Error(err)
		}
		if got := w.Discovers(lab); got != c.want {
			t.Errorf("%q: %s, want %s", c.rules, got, c.want)
		}
	}
	for _, text := range []string{"", "never", "never:", "never:rack", "never:=7", "never:rack=", "often:rack=7"} {
		if d, err := ParseDiscovery(text); err == nil {
			t.Errorf("%q is %s", text, d)
		}
	}
	for _, d := range []Discovery{{Mode: Never}, {Host: "a"}, {Host: "a", Mode: "often"}} {
		if err := (&Wants{Discovery: []Discovery{d}}).Check(); err == nil {
			t.Errorf("%+v is not refused", d)
		}
	}
}

// TestExclusivePlacement: a workload with exclusive discovery is placed on those hosts alone,
// on any of them, and one that waits on none.
func TestExclusivePlacement(t *testing.T) {
	hosts := []Host{{Name: "a", Has: Size{CPU: 9}}, {Name: "b", Has: Size{CPU: 9}, Labels: map[string]string{"site": "lab"}}, {Name: "c", Has: Size{CPU: 1}}}
	w := Wants{Discovery: []Discovery{{Host: "c", Mode: Exclusive}, {Labels: map[string]string{"site": "lab"}, Mode: Exclusive}}}
	one := Workload{Name: "w", Size: Size{CPU: 2}, Only: w.Only()}
	if got := Place(hosts, []Workload{one}, Spread); got[0].To != "b" {
		t.Errorf("%+v", got)
	}
	for _, v := range Explain(hosts, []Workload{one}, "w") {
		if v.Host == "a" && v.Reason != "its discovery is exclusive to host c" {
			t.Errorf("%+v", v)
		}
	}
	one.Waits = "a copy runs elsewhere"
	if got := Place(hosts, []Workload{one}, Spread); got[0].To != "" {
		t.Errorf("%+v", got)
	}
}
