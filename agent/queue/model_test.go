package queue_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// ends are the events by which an attempt may end, and some by which it must not.
var ends = []protocol.Event{
	protocol.EventSucceed, protocol.EventExit, protocol.EventSignal, protocol.EventTimeout, protocol.EventFail, protocol.EventInterrupt,
	protocol.EventNoStart, protocol.EventTargetGone, protocol.EventPreempt, protocol.EventCancelled, protocol.EventExpire,
	protocol.EventAccept, protocol.EventStart, protocol.EventRetry, protocol.EventHostUnknown, protocol.EventApprove,
}

// TestStepsByChance takes steps in any order, those included that must not be taken
// and items that come again, over restarts: whatever is asked for, an action keeps
// its digest and its place, takes only edges of the agent, and has at most one end.
func TestStepsByChance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("/dev/shm", "queue-") // thousands of commits, none of which has to last
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		cfg := queue.Config{Path: filepath.Join(dir, "queue.db")}
		q, err := queue.Create(t.Context(), cfg, store)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { q.Close() }()
		if err := q.SawTerm(t.Context(), protocol.Term{Ring: 1, Counter: 1}, theirs, nil); err != nil {
			rt.Fatal(err)
		}
		was := make(map[protocol.ActionID]queue.Action)
		id := func(rt *rapid.T) protocol.ActionID { return action(byte(rapid.IntRange(1, 5).Draw(rt, "action"))) }
		var taken []protocol.Position // positions of orders that were taken
		draw := func(rt *rapid.T) queue.Order {
			o := queue.Order{Action: id(rt), Spec: spec(rapid.SampledFrom([]string{"true", "reboot"}).Draw(rt, "spec")), Requester: "ann", BudgetMS: 60_000}
			if rapid.Bool().Draw(rt, "begins") {
				o.Begin = &queue.Change{}
			}
			return o
		}
		rt.Repeat(map[string]func(*rapid.T){
			"order": func(rt *rapid.T) {
				at := down(t, q, protocol.StreamOrder)
				o := draw(rt)
				_, fresh, err := acceptOrder(t.Context(), q, at, o, now)
				if _, known := was[o.Action]; err != nil || fresh == known {
					rt.Fatalf("known: %t, taken as new: %t, %v", known, fresh, err)
				}
				taken = append(taken, at)
			},
			"order again": func(rt *rapid.T) {
				if len(taken) == 0 {
					return
				}
				before := len(reports(t, q))
				_, fresh, err := acceptOrder(t.Context(), q, rapid.SampledFrom(taken).Draw(rt, "position"), draw(rt), now)
				if err == nil || fresh || len(reports(t, q)) != before {
					rt.Fatalf("an item that came again was taken: %t, %v", fresh, err)
				}
			},
			"start": func(rt *rapid.T) {
				id := id(rt)
				_, err := q.Start(t.Context(), id, queue.Change{}, now)
				if a, known := was[id]; (err == nil) != (known && !a.State.Final()) {
					rt.Fatalf("begun from %s: %v", a.State, err)
				}
			},
			"finish": func(rt *rapid.T) {
				id, e := id(rt), rapid.SampledFrom(ends).Draw(rt, "event")
				a, known := was[id]
				_, _, edge := a.State.Next(e, protocol.OwnerAgent, "")
				if _, err := finish(q, t.Context(), id, queue.Step{Event: e}, now); (err == nil) != (known && edge == nil) {
					rt.Fatalf("%s of what is %s: %v", e, a.State, err)
				}
			},
			"cancel": func(rt *rapid.T) {
				act, err := q.Cancel(t.Context(), down(t, q, protocol.StreamControl), id(rt), now)
				if a, known := was[act.ID]; err != nil || known && a.State == protocol.StateRunning && act.State != protocol.StateRunning {
					rt.Fatalf("a cancel of what is %s made it %s: %v", a.State, act.State, err)
				}
			},
			"restart": func(rt *rapid.T) {
				if err := q.Close(); err != nil {
					rt.Fatal(err)
				}
				if q, err = queue.Open(t.Context(), cfg); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) { look(t, rt, q, was) },
		})
	})
}

// look compares what a queue holds with what it held before.
func look(t *testing.T, rt *rapid.T, q *queue.Queue, was map[protocol.ActionID]queue.Action) {
	places := make(map[uint64]protocol.ActionID)
	for n := range byte(5) {
		id := action(n + 1)
		a, err := q.Action(t.Context(), id)
		if errors.Is(err, queue.ErrUnknown) {
			if _, known := was[id]; known {
				rt.Fatalf("%s is forgotten", id)
			}
			continue
		}
		if err != nil {
			rt.Fatal(err)
		}
		if b, known := was[id]; known {
			ended := b.State.Final() && (a.State != b.State || a.Reason != b.Reason || a.Attempt != b.Attempt)
			back := b.State == protocol.StateRunning && a.State == protocol.StateNew
			if a.Digest != b.Digest || a.AcceptSeq != b.AcceptSeq || a.Attempt < b.Attempt || ended || back {
				rt.Fatalf("it was %+v and is %+v", b, a)
			}
		}
		if other, double := places[a.AcceptSeq]; double && a.AcceptSeq != 0 {
			rt.Fatalf("%s and %s have the same place", id, other)
		}
		places[a.AcceptSeq], was[id] = id, a
	}
	told := make(map[protocol.ActionID]protocol.State)
	for _, r := range reports(t, q) {
		if before := told[r.Action]; before.Final() && r.State != before {
			rt.Fatalf("%s was told to be %s, and then %s", r.Action, before, r.State)
		}
		told[r.Action] = r.State
	}
	for id, a := range was {
		if told[id] != a.State {
			rt.Fatalf("%s is %s, and is told to be %q", id, a.State, told[id])
		}
	}
}
