package queue_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// exported returns the lines of the log and the digest that they lead to.
func exported(t *testing.T, q *queue.Queue) (lines []string, base, head protocol.Position) {
	t.Helper()
	base, head, err := q.Audit().Export(t.Context(), func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines, base, head
}

// TestEachStepIsRecorded: in the transaction that makes it, and only then.
func TestEachStepIsRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q, err := queue.Create(t.Context(), queue.Config{Path: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Begin(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	before := q.Stats().Commits
	o := order(1)
	if _, _, err := acceptOrder(t.Context(), q, protocol.Position{}, o, now); err != nil {
		t.Fatal(err)
	}
	if _, _, err := acceptOrder(t.Context(), q, protocol.Position{}, o, now); err != nil { // it is known
		t.Fatal(err)
	}
	if _, err := q.Start(t.Context(), o.Action, queue.Change{Put: []queue.Container{{CTID: ctid(1), Name: "web"}}}, now); err != nil {
		t.Fatal(err)
	}
	if _, err := finish(q, t.Context(), o.Action, queue.Step{Event: protocol.EventAccept}, now); err == nil {
		t.Fatal("a step that is none was made")
	}
	if _, err := finish(q, t.Context(), o.Action, queue.Step{Event: protocol.EventSucceed}, now); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Cancel(t.Context(), protocol.Position{}, o.Action, now); err != nil {
		t.Fatal(err)
	}
	if n := q.Stats().Commits - before; n > 6 {
		t.Errorf("%d commits for six steps", n)
	}
	lines, _, head := exported(t, q)
	var verbs []string
	for _, line := range lines {
		r, err := audit.ParseLine([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		verbs = append(verbs, r.Verb)
		if r.Verb == "action.accept" && (r.Actor != "local" || fmt.Sprint(r.Detail["argv"]) != "[true]") {
			t.Errorf("a request on the host is recorded as %+v", r)
		}
	}
	want := []string{"agent.start", "action.accept", "container.keep", "action.start", "action.succeed", "action.cancel"}
	if !slices.Equal(verbs, want) {
		t.Errorf("recorded %q, want %q", verbs, want)
	}
	// The chain leads to the same, in whatever steps it is followed.
	if got, err := q.Audit().Head(t.Context()); err != nil || got != head || got.N != 6 {
		t.Errorf("head %+v, %v, want %+v", got, err, head)
	}
	for n := range head.N {
		at, ok, err := q.Audit().At(t.Context(), n+1)
		if err != nil || !ok || at.N != n+1 {
			t.Errorf("record %d: %+v, %v, %v", n+1, at, ok, err)
		}
	}
	if at, ok, err := q.Audit().At(t.Context(), 7); ok || err != nil {
		t.Errorf("a record that is not there: %+v, %v", at, err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if q, err = queue.Open(t.Context(), queue.Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if got, err := q.Audit().Head(t.Context()); err != nil || got != head {
		t.Errorf("after a restart %+v, %v, want %+v", got, err, head)
	}
}

// TestCheckpointWaitsForAStep: it costs no commit of its own, unless nothing else
// is written.
func TestCheckpointWaitsForAStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q, err := queue.Create(t.Context(), queue.Config{Path: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	before := q.Stats().Commits
	q.Audit().KeepCheckpoint([]byte("one"))
	if id, err := q.Begin(t.Context(), now); err != nil || string(id.Checkpoint) != "one" {
		t.Errorf("%q, %v", id.Checkpoint, err)
	}
	if err := q.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := q.Stats().Commits - before; n != 1 {
		t.Errorf("%d commits for one step", n)
	}
	q.Audit().KeepCheckpoint([]byte("two"))
	if err := q.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, err := q.Begin(t.Context(), now); err != nil || string(id.Checkpoint) != "two" {
		t.Errorf("%q, %v", id.Checkpoint, err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOldRecordsAreForgotten and the chain goes on, before and after a restart.
func TestOldRecordsAreForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q, err := queue.Create(t.Context(), queue.Config{Path: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]protocol.CTID, 500)
	for i := range (queue.MaxAudit + 7000) / len(id) {
		if err := q.Apply(t.Context(), queue.Change{Delete: id}, now); err != nil {
			t.Fatal(err)
		}
		if i%40 == 0 {
			if _, err := q.Audit().Head(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, _, head := exported(t, q)
	for range 3 {
		if _, err := q.Forget(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if q, err = queue.Open(t.Context(), queue.Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	lines, base, after := exported(t, q)
	if len(lines) < queue.MaxAudit || len(lines) >= len(all) || base.N == 0 || after.N != head.N || after.H != head.H {
		t.Errorf("%d of %d records, behind %d, to %+v, want %+v", len(lines), len(all), base.N, after, head)
	}
	if got, err := q.Audit().Head(t.Context()); err != nil || got.H != head.H {
		t.Errorf("head %+v, %v", got, err)
	}
	if !strings.HasPrefix(lines[0], `{"n":`) || lines[0] != all[base.N] {
		t.Errorf("the first is %s", lines[0])
	}
	if _, ok, err := q.Audit().At(t.Context(), base.N-1); ok || err != nil {
		t.Errorf("a forgotten record is found, %v", err)
	}
}
