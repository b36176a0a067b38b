package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

var (
	store  = protocol.StoreID{1}
	theirs = protocol.StoreID{2}
	now    = queue.Now{WallMS: 1_000, BootMS: 500, Boot: "boot-1"}
)

func action(n byte) protocol.ActionID { return protocol.NewActionID(int64(n), [10]byte{n}) }
func ctid(n byte) protocol.CTID       { return protocol.NewCTID(int64(n), [10]byte{n}) }

func spec(argv ...string) []byte {
	b, err := json.Marshal(protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command(argv...)})
	if err != nil {
		panic(err)
	}
	return b
}

func order(n byte) queue.Order {
	return queue.Order{Action: action(n), Spec: spec("true"), Requester: "ann", BudgetMS: 60_000}
}

func create(t *testing.T) *queue.Queue {
	t.Helper()
	q, err := queue.Create(t.Context(), queue.Config{Path: filepath.Join(t.TempDir(), "queue.db")}, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := q.SawTerm(t.Context(), protocol.Term{Ring: 1, Counter: 1}, theirs, nil); err != nil {
		t.Fatal(err)
	}
	return q
}

// down is the position of the next item of a stream down.
func down(t *testing.T, q *queue.Queue, s protocol.Stream) protocol.Position {
	t.Helper()
	p, err := q.Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stream.Next(stream.Find(p.Have, s), []byte("item"))
}

// reports returns everything in the outbox.
func reports(t *testing.T, q *queue.Queue) []protocol.Report {
	t.Helper()
	rows, err := q.Outbox(t.Context(), protocol.StreamReport, 1, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	var all []protocol.Report
	for _, row := range rows {
		var r protocol.Report
		if err := protocol.DecodeJSON(row.Item, &r, false); err != nil {
			t.Fatalf("report %d: %v", row.N, err)
		}
		all = append(all, r)
	}
	return all
}

// told is the short form of reports for comparison.
func told(t *testing.T, q *queue.Queue) []string {
	t.Helper()
	var all []string
	for _, r := range reports(t, q) {
		s := fmt.Sprintf("%s %s", r.Event, r.State)
		if r.Reason != "" {
			s += " " + string(r.Reason)
		}
		if r.Cancel {
			s += " cancelling"
		}
		all = append(all, s)
	}
	return all
}

func accept(t *testing.T, q *queue.Queue, o queue.Order) (queue.Action, bool) {
	t.Helper()
	act, fresh, err := acceptOrder(t.Context(), q, down(t, q, protocol.StreamOrder), o, now)
	if err != nil {
		t.Fatal(err)
	}
	return act, fresh
}

func expect(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(queue.Action{})); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
}

func TestCreateIsNotOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	if _, err := queue.Open(t.Context(), queue.Config{Path: path}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Open without a queue: %v, want fs.ErrNotExist", err)
	}
	q, err := queue.Create(t.Context(), queue.Config{Path: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := queue.Create(t.Context(), queue.Config{Path: path}, store); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("Create over a queue: %v, want fs.ErrExist", err)
	}
	// Starts are counted from a number that follows from the id: two queues have none
	// in common.
	first := uint64(store[0])<<32 | uint64(store[1])<<24 | uint64(store[2])<<16 | uint64(store[3])<<8 | uint64(store[4])
	for want := uint64(1); want <= 3; want++ {
		q, err := queue.Open(t.Context(), queue.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		id, err := q.Begin(t.Context(), queue.Now{Boot: fmt.Sprintf("boot-%d", want/2)})
		if err != nil {
			t.Fatal(err)
		}
		if id.Inc != first+want || id.Starts != want || id.Store != store || id.Rebooted != (want != 3) {
			t.Errorf("start %d: inc %d, store %s, rebooted %v", want, id.Inc, id.Store, id.Rebooted)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAcceptStartFinish(t *testing.T) {
	q := create(t)
	act, fresh := accept(t, q, order(1))
	if !fresh || act.State != protocol.StateNew || act.AcceptSeq != 1 {
		t.Fatalf("accepted %+v, fresh %v", act, fresh)
	}
	if _, err := q.Start(t.Context(), act.ID, queue.Change{}, now); err != nil {
		t.Fatal(err)
	}
	act, err := q.Start(t.Context(), act.ID, queue.Change{}, now) // the next attempt
	if err != nil || act.Attempt != 2 {
		t.Fatalf("attempt %d, %v", act.Attempt, err)
	}
	end := queue.Step{Event: protocol.EventExit, Detail: "bad \xff\x00 end", Exit: &protocol.Exit{Code: 3},
		Output: []protocol.Output{{FD: protocol.Stdout, Bytes: 7}}}
	if act, err = finish(q, t.Context(), act.ID, end, now); err != nil {
		t.Fatal(err)
	}
	kept, err := q.Action(t.Context(), act.ID)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, kept, act)
	expect(t, told(t, q), []string{"accept NEW", "start RUNNING", "retry RUNNING", "exit FAILED exit"})
	last := reports(t, q)[3]
	if last.Exit.Code != 3 || last.Output[0].Bytes != 7 || last.Attempt != 2 || last.Digest != protocol.Sum(spec("true")) {
		t.Errorf("final report %+v", last)
	}
	if _, err := finish(q, t.Context(), act.ID, queue.Step{Event: protocol.EventSucceed}, now); !errors.Is(err, protocol.ErrTransition) {
		t.Errorf("a second end: %v, want ErrTransition", err)
	}
}

func TestAcceptAndBeginInOneStep(t *testing.T) {
	q := create(t)
	o := order(1)
	o.Begin = &queue.Change{Put: []queue.Container{{CTID: ctid(1), Name: "web", Intended: queue.Running}}}
	act, _ := accept(t, q, o)
	if act.State != protocol.StateRunning || act.Attempt != 1 {
		t.Fatalf("%+v", act)
	}
	expect(t, told(t, q), []string{"start RUNNING"})
	all, err := q.Containers(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != "web" {
		t.Fatalf("containers %+v, %v", all, err)
	}
}

func TestRefusals(t *testing.T) {
	q := create(t)
	bad := order(1)
	bad.Refusal, bad.Detail, bad.Spec = protocol.ErrUnknownKind, "host.fly", nil
	late := order(2)
	late.BudgetMS = 0
	accept(t, q, bad)
	accept(t, q, late)
	if err := q.Reject(t.Context(), down(t, q, protocol.StreamOrder), protocol.ErrPayload, now); err != nil {
		t.Fatal(err)
	}
	expect(t, told(t, q), []string{"refuse FAILED unknown_kind", "expire CANCELLED expired"})
	p, err := q.Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if have := stream.Find(p.Have, protocol.StreamOrder); have.N != 3 || have.Store != theirs {
		t.Errorf("have %+v, want 3 items of their store", have)
	}
}

func TestKnownIDIsNeverAcceptedAgain(t *testing.T) {
	q := create(t)
	first, _ := accept(t, q, order(1))
	other := order(1)
	other.Spec = spec("reboot")
	act, fresh := accept(t, q, other)
	if fresh || act.Digest != first.Digest {
		t.Fatalf("fresh %v, digest %s; this host's record must win", fresh, act.Digest)
	}
	all := reports(t, q)
	if len(all) != 2 || all[1].Digest != first.Digest || all[1].State != protocol.StateNew {
		t.Errorf("reports %+v", all)
	}
	if _, _, err := acceptOrder(t.Context(), q, protocol.Position{}, other, now); !errors.Is(err, queue.ErrExists) {
		t.Errorf("local, other spec: %v, want ErrExists", err)
	}
	if act, fresh, err := acceptOrder(t.Context(), q, protocol.Position{}, order(1), now); err != nil || fresh || act.ID != first.ID {
		t.Errorf("local, same spec: fresh %v, %v", fresh, err)
	}
	if len(reports(t, q)) != 2 {
		t.Error("a repeated local request must not report")
	}
}

func TestItemsOutOfTurnChangeNothing(t *testing.T) {
	q := create(t)
	at := down(t, q, protocol.StreamOrder)
	at.N++
	if _, _, err := acceptOrder(t.Context(), q, at, order(1), now); err == nil {
		t.Fatal("item 2 was taken before item 1")
	}
	if _, err := q.Action(t.Context(), action(1)); !errors.Is(err, queue.ErrUnknown) {
		t.Fatalf("its effect was kept: %v", err)
	}
}

func TestCancel(t *testing.T) {
	q := create(t)
	ctx := t.Context()
	cancel := func(n byte) queue.Action {
		t.Helper()
		act, err := q.Cancel(ctx, down(t, q, protocol.StreamControl), action(n), now)
		if err != nil {
			t.Fatal(err)
		}
		return act
	}
	accept(t, q, order(1))
	if act := cancel(1); act.State != protocol.StateCancelled {
		t.Errorf("what waits ends at once: %s", act.State)
	}
	running := order(2)
	running.Begin = &queue.Change{}
	accept(t, q, running)
	if act := cancel(2); act.State != protocol.StateRunning || !act.Cancelling {
		t.Errorf("what runs is marked: %+v", act)
	}
	if _, err := finish(q, ctx, action(2), queue.Step{Event: protocol.EventSucceed}, now); err != nil {
		t.Fatal(err)
	}
	if act := cancel(2); act.State != protocol.StateDone || act.Cancelling {
		t.Errorf("an end that won stays: %+v", act)
	}
	if act := cancel(3); act.State != protocol.StateCancelled {
		t.Errorf("unknown: %+v", act)
	}
	act, fresh := accept(t, q, order(3))
	if fresh || act.State != protocol.StateCancelled {
		t.Errorf("the order came after its cancel and was accepted: %+v", act)
	}
	expect(t, told(t, q), []string{
		"accept NEW", "cancelled CANCELLED cancelled",
		"start RUNNING", "tell RUNNING cancelling", "succeed DONE ok", "tell DONE ok",
		"cancelled CANCELLED cancelled", "cancelled CANCELLED cancelled",
	})
	if _, err := q.Cancel(ctx, protocol.Position{}, action(9), now); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("local cancel of an unknown id: %v", err)
	}
}

func TestWhatCannotBeCancelledSaysSo(t *testing.T) {
	q := create(t)
	b, err := json.Marshal(protocol.Spec{Kind: protocol.KindStart, Target: ctid(1)})
	if err != nil {
		t.Fatal(err)
	}
	o := order(1)
	o.Spec, o.Begin = b, &queue.Change{}
	accept(t, q, o)
	act, err := q.Cancel(t.Context(), down(t, q, protocol.StreamControl), o.Action, now)
	if err != nil || act.State != protocol.StateRunning || act.Cancelling || act.Detail == "" {
		t.Fatalf("%+v, %v", act, err)
	}
}

func TestTell(t *testing.T) {
	q := create(t)
	accept(t, q, order(1))
	accept(t, q, order(2))
	since := uint64(1)
	ids := []protocol.ActionID{action(1), action(7)}
	waits := map[protocol.ActionID]protocol.Waits{
		action(1): {For: protocol.WaitsLane, Action: action(2)}, action(7): {For: protocol.WaitsRing, Count: 8}, action(2): {For: protocol.WaitsDisk},
	}
	if err := q.Tell(t.Context(), down(t, q, protocol.StreamControl), ids, nil, waits, now); err != nil {
		t.Fatal(err)
	}
	if err := q.Tell(t.Context(), down(t, q, protocol.StreamControl), nil, &since, nil, now); err != nil {
		t.Fatal(err)
	}
	all := reports(t, q)[2:]
	if len(all) != 3 || all[0].State != protocol.StateNew || all[1].State != protocol.StateNone || all[2].Action != action(2) {
		t.Fatalf("answers %+v", all)
	}
	for _, r := range all {
		if r.Event != protocol.EventTell || r.HaveOrder != 2 {
			t.Errorf("answer %+v", r)
		}
	}
	if w := all[0].Waits; w == nil || *w != waits[action(1)] {
		t.Errorf("the first waits for %+v", w)
	}
	if w := all[1].Waits; w == nil || *w != waits[action(7)] {
		t.Errorf("the unknown one waits for %+v", w)
	}
	if all[2].Waits != nil {
		t.Error("nobody knew why the last waits")
	}
	if _, err := q.Start(t.Context(), action(1), queue.Change{}, now); err != nil {
		t.Fatal(err)
	}
	if _, err := finish(q, t.Context(), action(1), queue.Step{Event: protocol.EventSucceed}, now); err != nil {
		t.Fatal(err)
	}
	if err := q.Tell(t.Context(), down(t, q, protocol.StreamControl), ids[:1], nil, waits, now); err != nil {
		t.Fatal(err)
	}
	all = reports(t, q)
	if r := all[len(all)-1]; r.Waits != nil || r.AcceptedMS == 0 || r.StartedMS == 0 || r.EndedMS == 0 {
		t.Errorf("of what has ended: %+v", r)
	}
}

// TestTellAfter: whoever knows nothing of what was accepted after a number is
// told all of it, in parts, and how far each part goes.
func TestTellAfter(t *testing.T) {
	q := create(t)
	number := func(n int) protocol.ActionID {
		return protocol.NewActionID(int64(n), [10]byte{byte(n), byte(n >> 8)})
	}
	const accepted = protocol.MaxTell + 3
	for n := 1; n <= accepted; n++ {
		o := order(1)
		o.Action = number(n)
		accept(t, q, o)
	}
	marker := []protocol.ActionID{number(accepted + 1)}
	for _, part := range []struct{ since, first, told uint64 }{{1, 2, protocol.MaxTell + 1}, {protocol.MaxTell + 1, protocol.MaxTell + 2, accepted}, {accepted, 0, accepted}} {
		before := len(reports(t, q))
		if err := q.Tell(t.Context(), down(t, q, protocol.StreamControl), marker, &part.since, nil, now); err != nil {
			t.Fatal(err)
		}
		answers := reports(t, q)[before:]
		last := answers[len(answers)-1]
		if last.Action != marker[0] || last.State != protocol.StateNone || last.AcceptSeq != part.told || len(answers)-1 != int(part.told-part.since) {
			t.Errorf("after %d: %d answers, the last %+v", part.since, len(answers), last)
		}
		if r := answers[0]; part.first > 0 && (r.AcceptSeq != part.first || string(r.Spec) != string(spec("true")) || r.Requester != "ann") {
			t.Errorf("after %d the first answer is %+v", part.since, r)
		}
	}
}

func TestLocalActionsCarryTheirSpec(t *testing.T) {
	q := create(t)
	act, fresh, err := acceptOrder(t.Context(), q, protocol.Position{}, order(1), now)
	if err != nil || !fresh || !act.Local {
		t.Fatalf("%+v, %v", act, err)
	}
	if _, err := q.Start(t.Context(), act.ID, queue.Change{}, now); err != nil {
		t.Fatal(err)
	}
	all := reports(t, q)
	if string(all[0].Spec) != string(act.Spec) || all[0].Requester != "ann" || all[1].Spec != nil {
		t.Errorf("reports %+v", all)
	}
}

func TestReceipts(t *testing.T) {
	q := create(t)
	for i := range byte(3) {
		accept(t, q, order(i+1))
	}
	p, err := q.Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent := stream.Find(p.Sent, protocol.StreamReport)
	if sent.N != 3 || sent.Store != store {
		t.Fatalf("sent %+v", sent)
	}
	wrong := sent
	wrong.H[0]++
	for _, c := range []struct {
		name string
		have protocol.Position
		want stream.Covers
	}{
		{"another history", wrong, stream.Differs},
		{"more than was sent", protocol.Position{Store: store, Stream: protocol.StreamReport, N: 9}, stream.Ahead},
		{"another store", protocol.Position{Store: theirs, Stream: protocol.StreamReport, N: 3, H: sent.H}, stream.Nothing},
		{"all", sent, stream.Frees},
		{"all again", sent, stream.Nothing},
	} {
		got, err := q.Freed(t.Context(), c.have, []byte("receipt of "+c.name))
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if left := reports(t, q); len(left) != 3 {
		t.Errorf("%d rows are left before the next step, want all", len(left))
	}
	if err := q.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := reports(t, q); len(left) != 0 {
		t.Errorf("%d rows are left", len(left))
	}
	id, err := q.Begin(t.Context(), queue.Now{Boot: "boot-1"})
	if err != nil || string(id.Evidence) != "receipt of all" {
		t.Errorf("evidence %q, %v", id.Evidence, err)
	}
}

func TestForget(t *testing.T) {
	q := create(t)
	const many = queue.KeepActions + 20
	ids := make([]protocol.ActionID, many)
	for i := range many {
		o := order(0)
		o.Action = protocol.NewActionID(int64(i), [10]byte{1})
		o.BudgetMS, ids[i] = 0, o.Action
		accept(t, q, o)
	}
	accept(t, q, order(200)) // waits
	forget := func(at queue.Now) []protocol.ActionID {
		t.Helper()
		gone, err := q.Forget(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		return gone
	}
	if gone := forget(now); len(gone) != 0 {
		t.Fatalf("%d actions were forgotten before their reports were receipted", len(gone))
	}
	if ended, err := q.Ended(t.Context()); err != nil || len(ended) != many || ended[0].Reported {
		t.Errorf("%d have ended, first %v; %v", len(ended), ended[:1], err)
	}
	p, err := q.Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Freed(t.Context(), stream.Find(p.Sent, protocol.StreamReport), nil); err == nil {
		t.Fatal("a receipt without evidence was taken")
	}
	if _, err := q.Freed(t.Context(), stream.Find(p.Sent, protocol.StreamReport), []byte("r")); err != nil {
		t.Fatal(err)
	}
	expect(t, forget(now), ids[:20])
	ended, err := q.Ended(t.Context())
	if err != nil || len(ended) != many-20 || ended[0].ID != ids[20] || !ended[0].Reported {
		t.Errorf("%d have ended, first %v; %v", len(ended), ended[:1], err)
	}
	later := now
	later.WallMS += queue.KeepMS + 1
	expect(t, forget(later), ids[20:])
	if _, fresh := accept(t, q, queue.Order{Action: ids[3], Spec: spec("true"), BudgetMS: 5}); fresh {
		t.Error("a forgotten action was accepted again")
	}
	open, err := q.Unfinished(t.Context())
	if err != nil || len(open) != 1 || open[0].ID != action(200) {
		t.Errorf("unfinished %v, %v", open, err)
	}
}

func TestNewStoreStartsItsStreamsFromZero(t *testing.T) {
	q := create(t)
	accept(t, q, order(1))
	if err := q.SawTerm(t.Context(), protocol.Term{Ring: 1, Counter: 2}, protocol.StoreID{}, nil); err != nil {
		t.Fatal(err)
	}
	if id, err := q.Begin(t.Context(), queue.Now{Boot: "boot-1"}); err != nil || !id.Coord.IsZero() || id.Term.Counter != 2 {
		t.Fatalf("a term that named no store: %+v, %v", id, err)
	}
	if have := down(t, q, protocol.StreamOrder); have.Store != theirs || have.N != 2 {
		t.Fatalf("its streams must go on until another store is named: %+v", have)
	}
	next := protocol.StoreID{3}
	if err := q.SawTerm(t.Context(), protocol.Term{Ring: 1, Counter: 2}, next, nil); err != nil {
		t.Fatal(err)
	}
	p, err := q.Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, stream.Find(p.Have, protocol.StreamOrder), protocol.Position{Store: next, Stream: protocol.StreamOrder})
	if sent := stream.Find(p.Sent, protocol.StreamReport); sent.N != 1 {
		t.Errorf("our own stream must go on: %+v", sent)
	}
}

func TestAlertsMergeWhenTooManyWait(t *testing.T) {
	q := create(t)
	flap := func(i int) {
		t.Helper()
		a := protocol.Alert{AlertInfo: protocol.AlertInfo{ID: "a", Severity: "warning", Text: "t", SinceMS: int64(i)}, Raised: i%2 == 0}
		if err := q.Apply(t.Context(), queue.Change{Alerts: []protocol.Alert{a}}, now); err != nil {
			t.Fatal(err)
		}
	}
	for i := range queue.MaxAlerts + 21 {
		flap(i)
	}
	p, err := q.Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent := stream.Find(p.Sent, protocol.StreamAlert)
	if sent.N != queue.MaxAlerts {
		t.Fatalf("%d rows, want %d", sent.N, queue.MaxAlerts)
	}
	if _, err := q.Freed(t.Context(), sent, []byte("r")); err != nil {
		t.Fatal(err)
	}
	if err := q.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := q.Outbox(t.Context(), protocol.StreamAlert, 1, 1<<40)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, want the merged one; %v", len(rows), err)
	}
	var last protocol.Alert
	if err := json.Unmarshal(rows[0].Item, &last); err != nil || last.SinceMS != queue.MaxAlerts+20 || !last.Raised {
		t.Errorf("merged %+v, %v", last, err)
	}
	raised, err := q.Alerts(t.Context())
	if err != nil || len(raised) != 1 {
		t.Errorf("raised %v, %v", raised, err)
	}
}

func TestContainers(t *testing.T) {
	q := create(t)
	c := queue.Container{CTID: ctid(1), Name: "web", Runtime: "lxc", Class: "pinned", Intended: queue.Running, Offline: "keep",
		Labels: []string{"a=b\nc", "d=e"}, Template: "busybox", Address: "10.70.0.2/24", MAC: "02:00:00:00:00:01", Made: true,
		Epoch: protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 2}, Counter: 3}, Failures: 2, Broken: "why"}
	if err := q.Apply(t.Context(), queue.Change{Put: []queue.Container{c}}, now); err != nil {
		t.Fatal(err)
	}
	all, err := q.Containers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, all, []queue.Container{c})
	twin := c
	twin.CTID = ctid(2)
	if err := q.Apply(t.Context(), queue.Change{Put: []queue.Container{twin}}, now); !errors.Is(err, queue.ErrExists) {
		t.Errorf("two containers of one name: %v, want ErrExists", err)
	}
	if err := q.Apply(t.Context(), queue.Change{Delete: []protocol.CTID{c.CTID}, Put: []queue.Container{twin}}, now); err != nil {
		t.Error(err)
	}
}

func TestExpired(t *testing.T) {
	a := queue.Action{BudgetMS: 100, Boot: "a", AcceptBootMS: 1_000}
	for _, c := range []struct {
		boot string
		at   int64
		want bool
	}{{"a", 1_099, false}, {"a", 1_100, true}, {"b", 99, false}, {"b", 100, true}} {
		if got := a.Expired(c.boot, c.at); got != c.want {
			t.Errorf("in boot %s at %d: %v", c.boot, c.at, got)
		}
	}
}

func TestQueueFull(t *testing.T) {
	q := create(t)
	accept(t, q, order(1))
	ids := make([]protocol.ActionID, protocol.MaxTell)
	for i := range ids {
		ids[i] = action(1)
	}
	for range queue.MaxOutbox / protocol.MaxTell {
		if err := q.Tell(t.Context(), down(t, q, protocol.StreamControl), ids, nil, nil, now); err != nil {
			t.Fatal(err)
		}
	}
	act, _ := accept(t, q, order(2))
	if act.State != protocol.StateFailed || act.Reason != protocol.Reason(queue.CodeQueueFull) {
		t.Errorf("an order beyond the bound: %s %s", act.State, act.Reason)
	}
	if _, _, err := acceptOrder(t.Context(), q, protocol.Position{}, order(3), now); !errors.Is(err, queue.ErrFull) {
		t.Errorf("a local action beyond the bound: %v, want ErrFull", err)
	}
	if _, err := q.Start(t.Context(), action(1), queue.Change{}, now); err != nil {
		t.Errorf("what was accepted goes on: %v", err)
	}
}

func TestOrdersThatComeTogetherShareACommit(t *testing.T) {
	q := create(t)
	p, err := q.Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := stream.Find(p.Have, protocol.StreamOrder)
	var all []queue.Arrival
	for i := range byte(5) {
		o := order(i + 1)
		if i == 1 {
			o.Begin, o.Done = &queue.Change{}, true
		}
		at = stream.Next(at, []byte{i})
		all = append(all, queue.Arrival{At: at, Order: o})
	}
	before := q.Stats().Commits
	taken, err := q.AcceptOrders(t.Context(), all, now)
	if err != nil {
		t.Fatal(err)
	}
	if n := q.Stats().Commits - before; n != 1 {
		t.Errorf("%d commits for 5 orders at once", n)
	}
	for i, got := range taken {
		want := protocol.StateNew
		if i == 1 {
			want = protocol.StateDone
		}
		if act := got.Action; !got.Fresh || act.AcceptSeq != uint64(i+1) || act.State != want {
			t.Errorf("order %d: fresh %t, %+v", i+1, got.Fresh, act)
		}
	}
	// One that does not follow undoes all.
	gap := stream.Next(stream.Next(stream.Next(at, nil), nil), nil)
	if _, err := q.AcceptOrders(t.Context(), []queue.Arrival{{At: stream.Next(at, nil), Order: order(8)}, {At: gap, Order: order(9)}}, now); err == nil {
		t.Fatal("a gap was taken")
	}
	if _, err := q.Action(t.Context(), order(8).Action); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("the order before the gap: %v, want unknown", err)
	}
}

func TestEndsThatComeTogetherShareACommit(t *testing.T) {
	q := create(t)
	var ends []queue.Ending
	for i := range byte(3) {
		o := order(i + 1)
		o.Begin = &queue.Change{}
		accept(t, q, o)
		ends = append(ends, queue.Ending{Action: o.Action, Step: queue.Step{Event: protocol.EventSucceed}})
	}
	before := q.Stats().Commits
	if _, err := q.Finish(t.Context(), append(ends, queue.Ending{Action: action(9)}), now); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("an unknown one among them: %v, want unknown", err)
	}
	acts, err := q.Finish(t.Context(), ends, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, act := range acts {
		if act.State != protocol.StateDone {
			t.Errorf("action %s is %s", act.ID, act.State)
		}
	}
	if n := q.Stats().Commits - before; n > 2 {
		t.Errorf("%d commits for 3 ends", n)
	}
}

// acceptOrder takes one order in.
func acceptOrder(ctx context.Context, q *queue.Queue, at protocol.Position, o queue.Order, now queue.Now) (act queue.Action, fresh bool, err error) {
	all, err := q.AcceptOrders(ctx, []queue.Arrival{{At: at, Order: o}}, now)
	if err != nil {
		return queue.Action{}, false, err
	}
	return all[0].Action, all[0].Fresh, nil
}

// finish ends one action.
func finish(q *queue.Queue, ctx context.Context, id protocol.ActionID, s queue.Step, now queue.Now) (queue.Action, error) {
	all, err := q.Finish(ctx, []queue.Ending{{Action: id, Step: s}}, now)
	if err != nil {
		return queue.Action{}, err
	}
	return all[0], nil
}
