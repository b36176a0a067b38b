package actions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
)

func id(n byte) protocol.ActionID { return protocol.NewActionID(int64(n), [10]byte{n}) }
func ct(n byte) protocol.CTID     { return protocol.NewCTID(int64(n), [10]byte{n}) }

// The little language of the table: c1 is an action on container 1, n1/web the
// creation of container 1 as web, r1/db its renaming, d1/web its destruction while
// it is called web, s1 a stop of it that may not wait, e1 a command in it, u an upgrade
// of the agent, x another exclusive one, h a
// command of the host, p a ping. A star marks what runs already.
func parseSpec(t *testing.T, s string) (spec protocol.Spec, name protocol.ContainerName) {
	t.Helper()
	switch s[0] {
	case 'c':
		spec = protocol.Spec{Kind: protocol.KindStop, Target: ct(s[1])}
	case 'n':
		spec = protocol.Spec{Kind: protocol.KindCreate, Target: ct(s[1]), Name: protocol.ContainerName(s[3:])}
	case 'r':
		spec = protocol.Spec{Kind: protocol.KindRename, Target: ct(s[1]), Args: &protocol.RenameArgs{NewName: protocol.ContainerName(s[3:])}}
	case 'd':
		spec = protocol.Spec{Kind: protocol.KindDestroy, Target: ct(s[1])}
		name = protocol.ContainerName(s[3:])
	case 's':
		spec = protocol.Spec{Kind: protocol.KindStopNow, Target: ct(s[1])}
	case 'x':
		spec = protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Exclusive: true}}
	case 'h':
		spec = protocol.Spec{Kind: protocol.KindRun}
	case 't':
		spec = protocol.Spec{Kind: protocol.KindContainerAttach, Target: ct(s[1])}
	case 'e':
		spec = protocol.Spec{Kind: protocol.KindExec, Target: ct(s[1])}
	case 'u':
		spec = protocol.Spec{Kind: protocol.KindHostUpgrade}
	case 'p':
		spec = protocol.Spec{Kind: protocol.KindPing}
	default:
		t.Fatalf("lane %q", s)
	}
	return spec, name
}

func parseLane(t *testing.T, l *lanes, n int, s string) laneEntry {
	t.Helper()
	s, running := strings.CutSuffix(s, "*")
	spec, name := parseSpec(t, s)
	e := l.naming(l.strict(laneOf(id(byte(n)), &spec)), &spec, name)
	e.running = running
	return e
}

func TestLanes(t *testing.T) {
	for _, c := range []struct {
		limit, hostRuns int
		entries         []string
		ready           []int
	}{
		{4, 2, []string{"c1", "c2", "c1", "c3"}, []int{0, 1, 3}},
		{4, 2, []string{"c1*", "c1", "c2"}, []int{2}},
		{1, 2, []string{"c1", "c2"}, []int{0}},
		{1, 2, []string{"c1*", "c2", "c3"}, nil},
		{1, 2, []string{"h", "h", "c1", "p"}, []int{0, 3}}, // a strict queue takes commands of the host in, too
		{1, 2, []string{"c1*", "h"}, nil},
		{2, 2, []string{"c1*", "c1", "c2", "c3"}, []int{2}}, // c3 has no place left
		{4, 2, []string{"c1*", "x", "c2"}, nil},             // a writer waits: readers behind it too
		{4, 2, []string{"x", "c2", "x"}, []int{0}},
		{4, 2, []string{"e1*", "e2*", "u", "e3"}, []int{2}}, // commands in containers may run for ever
		{4, 2, []string{"e1*", "e1", "u"}, []int{2}},
		{4, 2, []string{"u*", "e1"}, nil},
		{4, 2, []string{"e1*", "c2*", "u"}, nil},
		{4, 2, []string{"e1*", "c1", "u"}, nil},
		{4, 2, []string{"e1*", "x"}, nil},
		{4, 2, []string{"c1", "x"}, []int{0}},
		{4, 2, []string{"x*", "c1", "h", "p"}, []int{2, 3}},
		{4, 2, []string{"t1*", "c1", "x", "t1"}, []int{1, 3}}, // a session is in nobody's way, nor anybody in its
		{4, 2, []string{"t1*", "t2*", "t3*", "t1"}, nil},      // there are as many as may be
		{4, 2, []string{"h", "h", "h", "c1"}, []int{0, 1, 3}},
		{4, 2, []string{"h*", "h*", "h", "c1"}, []int{3}},
		{4, 2, []string{"n1/web", "n2/web", "n3/db", "c1"}, []int{0, 2}},
		{4, 2, []string{"p", "p*", "p"}, []int{0, 2}},
		{4, 2, []string{"d1/web*", "n2/web", "n3/db"}, []int{2}}, // the name is free when its owner is gone
		{4, 2, []string{"d1/web", "n2/web"}, []int{0}},
		{4, 2, []string{"n1/web*", "d1/web", "n2/web"}, nil},
		{4, 2, []string{"c1*", "r1/db", "d1/web", "n2/db", "n3/web"}, nil}, // by then it may be called db
		{4, 2, []string{"r1/db*", "r2/db", "n3/db", "n4/web"}, []int{3}},
		{4, 2, []string{"c1*", "c1", "s1", "c1", "c2"}, []int{2, 4}},
		{1, 2, []string{"c2*", "s1"}, []int{1}},
		{4, 2, []string{"x*", "s1", "c1"}, []int{1}},
		{4, 2, []string{"s1*", "c1", "s1", "x", "c2"}, []int{2}},
	} {
		l := lanes{limit: c.limit, hostRuns: c.hostRuns, sessions: 3}
		for n, s := range c.entries {
			l.add(parseLane(t, &l, n, s))
		}
		var want []protocol.ActionID
		for _, n := range c.ready {
			want = append(want, id(byte(n)))
		}
		if diff := cmp.Diff(want, l.ready()); diff != "" {
			t.Errorf("%v (limit %d): (-want +got)\n%s", c.entries, c.limit, diff)
		}
	}
}

func TestLanesFree(t *testing.T) {
	l := lanes{limit: 4}
	key := func(n byte) string { return ct(n).String() }
	if !l.free(key('1')) {
		t.Error("nobody is there")
	}
	l.add(parseLane(t, &l, 0, "c1"))
	if l.free(key('1')) || !l.free(key('2')) {
		t.Error("who waits for a container keeps others away from it, and from it alone")
	}
	l.add(parseLane(t, &l, 1, "x"))
	if l.free(key('2')) {
		t.Error("who waits for the host keeps all away")
	}
}

// TestLanesProperties runs random actions in random orders and watches what
// runs together.
func TestLanesProperties(t *testing.T) {
	kinds := []string{"c1", "c2", "c3", "n1/a", "n4/a", "r1/b", "r2/a", "d1/a", "d2/b", "s1", "s2", "x", "h", "t1", "p"}
	rapid.Check(t, func(rt *rapid.T) {
		l := lanes{limit: rapid.IntRange(1, 3).Draw(rt, "limit"), hostRuns: rapid.IntRange(1, 2).Draw(rt, "host runs"), sessions: 2}
		var started []protocol.ActionID
		count := rapid.IntRange(1, 20).Draw(rt, "actions")
		for n := 0; n < count || len(l.entries) > 0; {
			if n < count && rapid.Bool().Draw(rt, "add") {
				e := parseLane(t, &l, n, rapid.SampledFrom(kinds).Draw(rt, "kind"))
				fits := l.fits(e)
				l.add(e)
				if fits != slices.Contains(l.ready(), e.id) {
					rt.Fatalf("fits said %v", fits)
				}
				n++
			}
			for _, id := range l.ready() {
				l.running(id)
				started = append(started, id)
			}
			checkLanes(rt, &l)
			var run []protocol.ActionID
			for _, e := range l.entries {
				if e.running {
					run = append(run, e.id)
				}
			}
			if len(run) == 0 && len(l.entries) > 0 {
				rt.Fatalf("everybody waits: %v", l.entries)
			}
			if len(run) > 0 {
				l.remove(rapid.SampledFrom(run).Draw(rt, "end"))
			}
		}
		if len(started) != count {
			rt.Fatalf("%d of %d began", len(started), count)
		}
	})
}

// checkLanes is the naive model: it looks at what runs, and at who was passed by.
func checkLanes(rt *rapid.T, l *lanes) {
	shared, alone, host, sessions := 0, 0, 0, 0
	keys := make(map[string]bool)
	var overtaken []string // keys of those that wait
	writer := false        // one waits
	for _, e := range l.entries {
		if e.lane == protocol.LanePreempt {
			if !e.running {
				rt.Fatal("a stop that may not wait waits")
			}
			continue // it runs beside everything
		}
		if !e.running {
			overtaken = append(overtaken, e.keys...)
			writer = writer || e.lane == protocol.LaneExclusive
			continue
		}
		switch e.lane {
		case protocol.LaneContainer:
			shared++
		case protocol.LaneExclusive:
			alone++
		case protocol.LaneHost:
			host++
		case protocol.LaneSession:
			sessions++
		}
		for _, k := range e.keys {
			if keys[k] || slices.Contains(overtaken, k) {
				rt.Fatalf("%s is held twice, or was taken out of turn", k)
			}
			keys[k] = true
		}
		if writer && e.lane == protocol.LaneContainer {
			rt.Fatal("a container's action overtook an exclusive one")
		}
	}
	if alone > 1 || alone == 1 && shared > 0 || shared > l.limit || host > l.hostRuns || sessions > l.sessions {
		rt.Fatal(fmt.Sprintf("%d share, %d alone, %d of the host", shared, alone, host))
	}
}
