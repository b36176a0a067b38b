package agent_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
)

// refuseRecords makes the audit log of a queue refuse records until a checkpoint of the
// coordinator is kept.
func refuseRecords(t *testing.T, path string) {
	t.Helper()
	db, err := sqldb.Open(context.Background(), sqldb.Config{Path: path, ApplicationID: 0x48737441, Migrations: os.DirFS("queue/schema")})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(context.Background(), func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(`UPDATE self SET checkpoint = x''`); err != nil {
			return err
		}
		_, err := tx.Exec(`CREATE TRIGGER down BEFORE INSERT ON audit WHEN (SELECT length(checkpoint) = 0 FROM self)
			BEGIN SELECT RAISE(ABORT, 'the log is down'); END`)
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRebootWithoutAuditLog: a host whose audit log takes no records starts, has its
// containers back, and accepts nothing new. When the log takes records again, the host
// finds that by itself: the log has what was done meanwhile, and the order is done.
func TestRebootWithoutAuditLog(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		w.line.breaks(true)
		w.down()
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		refuseRecords(t, w.path)
		q, err := queue.Open(context.Background(), queue.Config{Path: w.path})
		if err != nil {
			t.Fatal(err)
		}
		w.boot = "boot-2"
		w.run(q)
		w.pass(5 * time.Second)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("a container that ran is %v", got)
		}
		if s, err := w.agent.Status(t.Context()); err != nil || !strings.Contains(s.Degraded, "audit log") {
			t.Errorf("status %+v, %v", s, err)
		}
		if _, err := w.agent.Propose(t.Context(), protocol.ActionID{}, []byte(`{"kind":"host.ping"}`), "root"); !errors.Is(err, agent.ErrAudit) {
			t.Errorf("a request of the host's own people: %v", err)
		}
		w.line.breaks(false)
		w.coord.order(actionID(2), protocol.Spec{Kind: protocol.KindPing})
		w.pass(10 * time.Second)
		if _, err := w.queue.Action(t.Context(), actionID(2)); !errors.Is(err, queue.ErrUnknown) {
			t.Errorf("an order is accepted without its record: %v", err)
		}
		records := func() (verbs []string) {
			t.Helper()
			_, _, err := w.queue.Audit().Export(t.Context(), func(line []byte) error {
				_, verb, _ := strings.Cut(string(line), `"verb":"`)
				verb, _, _ = strings.Cut(verb, `"`)
				verbs = append(verbs, verb)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return verbs
		}
		before := records()
		w.queue.Audit().KeepCheckpoint([]byte("the log works again"))
		w.pass(time.Minute)
		w.expect(actionID(2), "succeed DONE ok")
		if s, err := w.agent.Status(t.Context()); err != nil || s.Degraded != "" {
			t.Errorf("afterwards the status is %+v, %v", s, err)
		}
		got := records()[len(before):]
		at := 0
		for _, want := range []string{"agent.start", "container.correct-start", "audit.resume", "action.succeed"} {
			i := slices.Index(got[at:], want)
			if i < 0 {
				t.Fatalf("the log has %v, want %s behind the first %d", got, want, at)
			}
			at += i + 1
		}
	})
}
