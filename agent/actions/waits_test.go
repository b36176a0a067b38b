package actions

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
)

func TestBehind(t *testing.T) {
	for _, c := range []struct {
		entries []string
		of      int
		want    protocol.Waits
		ok      bool
	}{
		{[]string{"c1*", "c1"}, 1, protocol.Waits{For: protocol.WaitsLane, Action: id(0)}, true},
		{[]string{"c1", "c1", "c1*"}, 1, protocol.Waits{For: protocol.WaitsLane, Action: id(2)}, true}, // what runs comes first
		{[]string{"n1/web*", "n2/web"}, 1, protocol.Waits{For: protocol.WaitsLane, Action: id(0)}, true},
		{[]string{"c1*", "x", "c2"}, 2, protocol.Waits{For: protocol.WaitsExclusive, Action: id(1)}, true},
		{[]string{"c1*", "x", "c2"}, 1, protocol.Waits{For: protocol.WaitsShared, Action: id(0)}, true},
		{[]string{"x*", "x"}, 1, protocol.Waits{For: protocol.WaitsExclusive, Action: id(0)}, true},
		{[]string{"h*", "h*", "h"}, 2, protocol.Waits{For: protocol.WaitsRuns, Count: 2}, true},
		{[]string{"t1*", "t2*", "t3"}, 2, protocol.Waits{For: protocol.WaitsSessions, Count: 2}, true},
		{[]string{"c1*", "c2*", "c3"}, 2, protocol.Waits{For: protocol.WaitsPlaces, Count: 2}, true},
		{[]string{"c1", "h"}, 1, protocol.Waits{}, false},
		{[]string{"c1*"}, 0, protocol.Waits{}, false},
		{[]string{"c1"}, 9, protocol.Waits{}, false},
	} {
		l := lanes{limit: 2, hostRuns: 2, sessions: 2}
		for n, s := range c.entries {
			e := parseLane(t, &l, n, s)
			l.add(e)
		}
		if got, ok := l.behind(id(byte(c.of))); ok != c.ok || ok && got != c.want {
			t.Errorf("%v: %d waits for %+v, %v; want %+v, %v", c.entries, c.of, got, ok, c.want, c.ok)
		}
	}
}

// TestWhatMayNotBeginIsBehindSomething: whoever cannot begin is told a reason,
// and the action that it names is there.
func TestWhatMayNotBeginIsBehindSomething(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := lanes{limit: rapid.IntRange(1, 3).Draw(rt, "limit"), hostRuns: rapid.IntRange(1, 3).Draw(rt, "runs"), sessions: 2}
		// The first actions are let begin as far as they may, as they would be.
		for n, s := range rapid.SliceOfN(rapid.SampledFrom([]string{"c1", "c2", "c3", "n4/web", "n5/web", "x", "h", "t1", "p"}), 0, 12).Draw(rt, "entries") {
			l.add(parseLane(t, &l, n, s))
			if rapid.Bool().Draw(rt, "begins") {
				for _, ready := range l.ready() {
					l.running(ready)
				}
			}
			if len(l.entries) > 0 && rapid.IntRange(0, 5).Draw(rt, "ends") == 0 {
				l.remove(l.entries[0].id)
			}
		}
		ready := l.ready()
		for _, e := range l.entries {
			if e.running || slices.Contains(ready, e.id) {
				continue
			}
			w, ok := l.behind(e.id)
			switch {
			case !ok && !(e.lane == protocol.LaneHost || e.lane == protocol.LaneContainer || e.lane == protocol.LaneSession):
				rt.Errorf("%+v may not begin, and nothing is in front of it: %+v", e, l.entries)
			case ok && !w.Action.IsZero() && !slices.ContainsFunc(l.entries, func(o laneEntry) bool { return o.id == w.Action && o.id != e.id }):
				rt.Errorf("%+v waits for %+v, which is not there", e, w)
			}
		}
	})
}
