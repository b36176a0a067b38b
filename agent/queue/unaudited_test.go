package queue_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// TestReserveOfTheLog: records of what happens while the audit log takes none come into it
// when it does again, in their order, and with one that says so. Until then the queue is
// not ready, however often the agent starts.
func TestReserveOfTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q, err := queue.Create(t.Context(), queue.Config{Path: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { q.Close() }()
	o := order(1)
	o.Begin = &queue.Change{}
	accept(t, q, o)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, path, `CREATE TRIGGER down BEFORE INSERT ON audit WHEN (SELECT length(checkpoint) = 0 FROM self) BEGIN SELECT RAISE(ABORT, 'the log is down'); END`)
	for range 2 {
		if q, err = queue.Open(t.Context(), queue.Config{Path: path}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Begin(t.Context(), now); err != nil {
			t.Fatalf("the agent does not start: %v", err)
		}
		if err := q.Ready(); !errors.Is(err, queue.ErrAudit) {
			t.Errorf("the queue is ready: %v", err)
		}
		if err := q.Probe(t.Context(), now); !errors.Is(err, queue.ErrAudit) {
			t.Errorf("the log is said to take records: %v", err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if q, err = queue.Open(t.Context(), queue.Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	started := []audit.Record{{Actor: "host", Verb: "container.correct-start", Object: "web"}}
	if err := q.Audit().RecordDone(t.Context(), started); err != nil {
		t.Errorf("what is done is not recorded: %v", err)
	}
	if act, err := finish(q, t.Context(), o.Action, queue.Step{Event: protocol.EventSucceed}, now); err != nil || act.State != protocol.StateDone {
		t.Errorf("what runs does not end: %v, %v", act.State, err)
	}
	verbs := func() (all []string) {
		t.Helper()
		_, _, err := q.Audit().Export(t.Context(), func(line []byte) error {
			var r struct {
				Verb string `json:"verb"`
			}
			err := json.Unmarshal(line, &r)
			all = append(all, r.Verb)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := verbs()
	q.Audit().KeepCheckpoint([]byte("the log works again"))
	if err := q.Probe(t.Context(), now); err != nil || q.Ready() != nil {
		t.Fatalf("the way back: %v, %v", err, q.Ready())
	}
	want := append(before, "agent.start", "agent.start", "container.correct-start", "action.succeed", "audit.resume")
	if got := verbs(); !slices.Equal(got, want) {
		t.Errorf("the log has %v, want %v", got, want)
	}
	accept(t, q, order(2))
	if _, err := q.Begin(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if got := verbs(); !slices.Equal(got, append(want, "action.accept", "agent.start")) {
		t.Errorf("then it has %v", got)
	}
}

// TestFullReserveOfTheLog: a reserve that is full stops nothing that happened, or must
// happen. The log tells then how many records it lacks.
func TestFullReserveOfTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q, err := queue.Create(t.Context(), queue.Config{Path: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	o := order(1)
	o.Begin = &queue.Change{}
	accept(t, q, o)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, path, `CREATE TRIGGER down BEFORE INSERT ON audit WHEN (SELECT length(checkpoint) = 0 FROM self) BEGIN SELECT RAISE(ABORT, 'the log is down'); END`)
	execute(t, path, `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 9999)
		INSERT INTO audit_reserve (record) SELECT CAST('{"at_ms":1,"actor":"host","verb":"container.correct-start"}' AS BLOB) FROM c`)
	if q, err = queue.Open(t.Context(), queue.Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer func() { q.Close() }()
	for range 3 { // the first has the last place
		if _, err := q.Begin(t.Context(), now); err != nil {
			t.Fatalf("the agent does not start: %v", err)
		}
	}
	rec := queue.Container{CTID: protocol.CTID{15: 1}, Name: "db", Runtime: "lxc", Class: "unique", Intended: queue.Running}
	if err := q.Apply(t.Context(), queue.Change{Put: []queue.Container{rec}}, now); err != nil {
		t.Errorf("the epoch of a lease is not kept: %v", err)
	}
	if err := q.Audit().RecordDone(t.Context(), []audit.Record{{Actor: "host", Verb: "container.correct-stop"}, {Actor: "host", Verb: "container.correct-stop"}}); err != nil {
		t.Errorf("a container whose lease has ended is not stopped: %v", err)
	}
	if _, err := finish(q, t.Context(), o.Action, queue.Step{Event: protocol.EventSucceed}, now); err != nil {
		t.Errorf("what runs does not end: %v", err)
	}
	if _, _, err := acceptOrder(t.Context(), q, protocol.Position{}, order(2), now); !errors.Is(err, queue.ErrAudit) {
		t.Errorf("an order is accepted: %v", err)
	}
	q.Audit().KeepCheckpoint([]byte("the log works again"))
	if err := q.Probe(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	var last []string
	if _, _, err := q.Audit().Export(t.Context(), func(line []byte) error {
		last = append(last, string(line))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	last = last[len(last)-3:]
	for i, want := range []string{`"verb":"agent.start"`, `"verb":"audit.lost","detail":{"records":6}`, `"verb":"audit.resume"`} {
		if !strings.Contains(last[i], want) {
			t.Errorf("the log ends with %s, want %s", last[i], want)
		}
	}
}

// TestNothingBeginsUnrecorded: while the audit log takes no record, nothing is
// accepted, begun or cancelled, and nothing is left of the try.
func TestNothingBeginsUnrecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q, err := queue.Create(t.Context(), queue.Config{Path: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	accepted := order(1)
	accept(t, q, accepted)
	reopen := func(statement string) {
		t.Helper()
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		execute(t, path, statement)
		var err error
		if q, err = queue.Open(t.Context(), queue.Config{Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	reopen(`CREATE TRIGGER down BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'the log is down'); END`)
	at := down(t, q, protocol.StreamOrder)
	for what, try := range map[string]func() error{
		"an order": func() error { _, _, err := acceptOrder(t.Context(), q, at, order(2), now); return err },
		"a start":  func() error { _, err := q.Start(t.Context(), accepted.Action, queue.Change{}, now); return err },
		"a cancel": func() error { _, err := q.Cancel(t.Context(), protocol.Position{}, accepted.Action, now); return err },
		"a record of what may be refused": func() error {
			return q.Audit().Record(t.Context(), audit.Record{Actor: "host", Verb: "session.attach"})
		},
	} {
		if err := try(); !errors.Is(err, queue.ErrAudit) || !errors.Is(err, queue.ErrDisk) {
			t.Errorf("%s is written without its record: %v", what, err)
		}
		if err := q.Ready(); !errors.Is(err, queue.ErrAudit) {
			t.Errorf("after %s the queue is ready: %v", what, err)
		}
	}
	if _, err := q.Action(t.Context(), order(2).Action); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("the order is known: %v", err)
	}
	if a, err := q.Action(t.Context(), accepted.Action); err != nil || a.State != protocol.StateNew {
		t.Errorf("the action that was accepted before is %v, %v", a.State, err)
	}
	if got := down(t, q, protocol.StreamOrder); got != at {
		t.Errorf("the order counts as taken: %+v, want %+v", got, at)
	}
	reopen(`DROP TRIGGER down`)
	defer q.Close()
	if _, fresh := accept(t, q, order(2)); !fresh {
		t.Error("the order that came again is not new")
	}
}
