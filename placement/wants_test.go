package placement_test

import (
	"reflect"
	"testing"

	"github.com/hostler-io/hostler/placement"
)

func TestParseWishes(t *testing.T) {
	for text, want := range map[string]placement.Rule{
		"site=lab":       {Labels: map[string]string{"site": "lab"}, Score: placement.Liking},
		"site=lab:5":     {Labels: map[string]string{"site": "lab"}, Score: 5},
		"host=edge-01:7": {Host: "edge-01", Score: 7},
		"url=a:b=c:9":    {Labels: map[string]string{"url": "a:b=c"}, Score: 9},
		"site":           {}, "=lab": {}, "site=": {}, "site=lab:0": {}, "site=lab:-3": {}, "site=lab:x": {}, "site=lab:1000001": {}, "": {},
	} {
		got, err := placement.ParseRule(text)
		if (err == nil) != (want.Score != 0) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]placement.Near{"db": {Workload: "db", Score: placement.Infinity}, "db:5": {Workload: "db", Score: 5}, ":5": {}, "": {}, "db:": {}} {
		got, err := placement.ParseNear(text)
		if (err == nil) != (want.Score != 0) || err == nil && got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
}

func TestWantsAreBounded(t *testing.T) {
	rule, near := placement.Rule{Host: "a", Score: 1}, placement.Near{Workload: "a", Score: 1}
	many := make([]placement.Rule, placement.MaxWishes+1)
	for i := range many {
		many[i] = rule
	}
	for what, c := range map[string]struct {
		wants placement.Wants
		ok    bool
	}{
		"nothing":        {placement.Wants{}, true},
		"one of each":    {placement.Wants{Rules: []placement.Rule{rule}, Near: []placement.Near{near}, Priority: -5}, true},
		"too many rules": {placement.Wants{Rules: many}, false},
		"no host":        {placement.Wants{Rules: []placement.Rule{{Score: 1}}}, false},
		"a score":        {placement.Wants{Rules: []placement.Rule{{Host: "a", Score: placement.Infinity + 1}}}, false},
		"no workload":    {placement.Wants{Near: []placement.Near{{Score: 1}}}, false},
		"no score":       {placement.Wants{Near: []placement.Near{{Workload: "a"}}}, false},
		"too many":       {placement.Wants{After: make([]string, placement.MaxWishes+1)}, false},
		"a priority":     {placement.Wants{Priority: placement.Infinity + 1}, false},
	} {
		if err := c.wants.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzParseWishes(f *testing.F) {
	for _, seed := range []string{"site=lab:50", "host=a", "db:5", ":", "=", "a=b:999999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := placement.ParseRule(text); err == nil {
			if err := (&placement.Wants{Rules: []placement.Rule{r}}).Check(); err != nil {
				t.Errorf("%q is read and refused: %v", text, err)
			}
		}
		if n, err := placement.ParseNear(text); err == nil {
			if err := (&placement.Wants{Near: []placement.Near{n}}).Check(); err != nil {
				t.Errorf("%q is read and refused: %v", text, err)
			}
		}
	})
}
