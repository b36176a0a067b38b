package queue_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

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
		"an order":             func() error { _, _, err := acceptOrder(t.Context(), q, at, order(2), now); return err },
		"a start":              func() error { _, err := q.Start(t.Context(), accepted.Action, queue.Change{}, now); return err },
		"a cancel":             func() error { _, err := q.Cancel(t.Context(), protocol.Position{}, accepted.Action, now); return err },
		"a start of the agent": func() error { _, err := q.Begin(t.Context(), now); return err },
	} {
		if err := try(); err == nil {
			t.Errorf("%s was written without its record", what)
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
