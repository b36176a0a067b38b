package actions

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// arriving returns an order that nothing speaks against, of an action of the little
// language of lanes_test.go.
func arriving(t *testing.T, n int, s string) event {
	t.Helper()
	spec, name := parseSpec(t, s)
	return event{
		order: queue.Order{Action: id(byte(n)), BudgetMS: 1000}, spec: &spec, name: name,
		misnamed: func(iter.Seq[*protocol.Spec]) error { return nil },
		prepare:  func() (queue.Change, *queue.Step) { return queue.Change{}, nil },
	}
}

// empty is the state of a host without actions.
func empty() intake {
	return intake{
		lanes: lanes{limit: 4, hostRuns: 2, sessions: 1}, pending: func(func(*protocol.Spec) bool) {},
		maxOpen: 100, sessions: 1, host: "edge-07", begins: true,
	}
}

// verdicts writes decisions as: begins, waits, ends, known, or the code of a refusal.
func verdicts(all []decision) (words []string) {
	for _, d := range all {
		switch o := d.arrival.Order; {
		case d.wrong != nil:
			words = append(words, string(o.Refusal))
		case o.Done:
			words = append(words, "ends")
		case o.Begin != nil:
			words = append(words, "begins")
		case d.laned:
			words = append(words, "waits")
		default:
			words = append(words, "known")
		}
	}
	return words
}

// TestDecide: each order is decided about as if those before it were accepted.
func TestDecide(t *testing.T) {
	wrongName := func(iter.Seq[*protocol.Spec]) error { return fmt.Errorf("%w: it is called db", protocol.ErrWrongHost) }
	for what, c := range map[string]struct {
		state  func(*intake)
		orders []string
		event  func([]event)
		want   string
	}{
		"one after the other in a lane": {orders: []string{"c1", "c1", "c2", "h", "h", "h"}, want: "begins waits begins begins begins waits"},
		"the host alone":                {orders: []string{"x", "c1", "s1"}, want: "begins waits begins"},
		"behind what is there": {
			state:  func(s *intake) { s.lanes.add(parseLane(t, &s.lanes, 9, "c1*")) },
			orders: []string{"c1", "c2"}, want: "waits begins",
		},
		"full":                    {state: func(s *intake) { s.maxOpen = 2 }, orders: []string{"c1", "c2", "c3", "s1"}, want: "begins begins queue_full begins"},
		"full of stops":           {state: func(s *intake) { s.open = 1100 }, orders: []string{"s1", "c1"}, want: "queue_full queue_full"},
		"sessions":                {orders: []string{"t1", "t2"}, want: "begins too_many_sessions"},
		"the disk takes no start": {state: func(s *intake) { s.begins = false }, orders: []string{"c1", "p"}, want: "waits waits"},
		"known":                   {orders: []string{"c1", "c1"}, event: func(e []event) { e[0].known = true }, want: "known begins"},
		"known on a full host":    {state: func(s *intake) { s.open = 100 }, orders: []string{"c1"}, event: func(e []event) { e[0].known = true }, want: "known"},
		"too late":                {orders: []string{"c1", "c1"}, event: func(e []event) { e[0].order.BudgetMS = 0 }, want: "known begins"},
		"refused, next in line":   {orders: []string{"c1", "c1"}, event: func(e []event) { e[0].wrong = protocol.ErrNotApproved }, want: "not_approved begins"},
		"refused without a code":  {orders: []string{"c1"}, event: func(e []event) { e[0].wrong = errors.New("broken") }, want: "bad_spec"},
		"a wrong name":            {orders: []string{"c1", "c1"}, event: func(e []event) { e[0].misnamed = wrongName }, want: "wrong_host begins"},
		"without its input":       {orders: []string{"c1", "c1"}, event: func(e []event) { e[0].lacks = true }, want: "waits begins"},
		"at once":                 {orders: []string{"p"}, event: func(e []event) { e[0].atOnce = true }, want: "ends"},
		"two want the same": {
			orders: []string{"c1", "c2", "c3", "c4"}, event: func(e []event) { e[0].claims, e[2].claims = true, true }, want: "begins begins waits begins",
		},
		"one that cannot begin takes nothing": {
			orders: []string{"c1", "c2"}, event: func(e []event) { e[0].claims, e[0].prepare, e[1].claims = true, cannotBegin, true }, want: "waits begins",
		},
		"it cannot begin any more": {orders: []string{"c1", "c1"}, event: func(e []event) { e[0].prepare = cannotBegin }, want: "waits waits"},
	} {
		s := empty()
		if c.state != nil {
			c.state(&s)
		}
		var all []event
		for n, word := range c.orders {
			all = append(all, arriving(t, n, word))
		}
		if c.event != nil {
			c.event(all)
		}
		before := slices.Clone(s.lanes.entries)
		first := s.decide(all)
		if got := strings.Join(verdicts(first), " "); got != c.want {
			t.Errorf("%s: %v is decided as %q, want %q", what, c.orders, got, c.want)
		}
		if diff := cmp.Diff(before, s.lanes.entries, cmp.AllowUnexported(laneEntry{})); diff != "" {
			t.Errorf("%s: the lanes of the host have changed (-want +got)\n%s", what, diff)
		}
		if again := verdicts(s.decide(all)); !slices.Equal(again, verdicts(first)) {
			t.Errorf("%s: decided again it is %q", what, again)
		}
	}
}

func cannotBegin() (queue.Change, *queue.Step) {
	return queue.Change{}, &queue.Step{Event: protocol.EventFail}
}

// TestDecidePending: a name counts that an action gives which is accepted together with
// the one that uses it, and one that was refused gives none.
func TestDecidePending(t *testing.T) {
	s := empty()
	old := protocol.Spec{Kind: protocol.KindStop}
	s.pending = func(yield func(*protocol.Spec) bool) { yield(&old) }
	var seen []protocol.Kind
	all := []event{arriving(t, 0, "n1/web"), arriving(t, 1, "n2/db"), arriving(t, 2, "c1")}
	all[1].wrong = protocol.ErrNotApproved
	all[2].misnamed = func(pending iter.Seq[*protocol.Spec]) error {
		for spec := range pending {
			seen = append(seen, spec.Kind)
		}
		return nil
	}
	s.decide(all)
	if want := []protocol.Kind{protocol.KindStop, protocol.KindCreate}; !slices.Equal(seen, want) {
		t.Errorf("pending are %v, want %v", seen, want)
	}
}

// TestFull: what stops a container at once has room beyond all others, and no more
// than a host has containers.
func TestFull(t *testing.T) {
	for _, k := range protocol.Kinds() {
		info, _ := protocol.KindOf(k)
		want := 3
		if info.Lane == protocol.LanePreempt {
			want = 1003
		}
		s := intake{maxOpen: 3, open: want - 1}
		if err := s.full(&protocol.Spec{Kind: k}); err != nil {
			t.Errorf("%s is refused while %d are open: %v", k, s.open, err)
		}
		if s.open = want; !errors.Is(s.full(&protocol.Spec{Kind: k}), queue.CodeQueueFull) {
			t.Errorf("%s is accepted while %d are open", k, s.open)
		}
	}
}
