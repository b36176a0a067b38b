package placement_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/placement"
)

func TestWaitsFor(t *testing.T) {
	runs := map[string]bool{"db": false, "cache": false, "queue": false, "dns": true}
	for after, want := range map[string]string{
		"":               "",
		"dns":            "",
		"gone":           "",
		"db dns":         "it waits for db, after which it starts",
		"db db":          "it waits for db, after which it starts",
		"db gone cache":  "it waits for db and cache, after which it starts",
		"queue cache db": "it waits for queue, cache and db, after which it starts",
	} {
		if got := placement.WaitsFor(strings.Fields(after), runs); got != want {
			t.Errorf("after %q: %q, want %q", after, got, want)
		}
	}
}

func TestCircle(t *testing.T) {
	after := map[string][]string{"web": {"dns", "db"}, "db": {"disk"}, "disk": {"vault"}, "log": {"log"}, "left": {"right"}, "right": {"left"}, "seen": {"left"}}
	for name, want := range map[string]string{"web": "", "vault": "", "log": "log log", "left": "left right left", "seen": ""} {
		if got := strings.Join(placement.Circle(name, after), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	after["vault"] = []string{"web"}
	if got := strings.Join(placement.Circle("disk", after), " "); got != "disk vault web db disk" {
		t.Error(got)
	}
}

// TestCircleByChance: what is set one after the other, and refused where there is a circle,
// can be started one after the other.
func TestCircleByChance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		after := make(map[string][]string)
		for range rapid.IntRange(0, 12).Draw(t, "wishes") {
			name, old := rapid.SampledFrom(names).Draw(t, "name"), []string(nil)
			old, after[name] = after[name], rapid.SliceOfN(rapid.SampledFrom(names), 0, 3).Draw(t, "after")
			if placement.Circle(name, after) != nil {
				after[name] = old
			}
		}
		runs := make(map[string]bool)
		for _, n := range names {
			runs[n] = false
		}
		for range names {
			for _, n := range names {
				runs[n] = runs[n] || placement.WaitsFor(after[n], runs) == ""
			}
		}
		for n, is := range runs {
			if !is {
				t.Errorf("%s never starts: %v", n, after)
			}
		}
	})
}
