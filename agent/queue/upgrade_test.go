package queue_test

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
)

//go:embed testdata/version1.sql
var version1 string

// TestOpenVersion1: what the first release wrote is there and goes on.
func TestOpenVersion1(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	createVersion1(t, path)
	q, err := queue.Open(t.Context(), queue.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	if want := "bd90dd85c990fc8b188b83cf13810969"; q.Store().String() != want {
		t.Errorf("the queue has the id %s, had %s", q.Store(), want)
	}
	all, err := q.Actions(t.Context(), 0, 100)
	if err != nil || len(all) != 7 {
		t.Fatalf("%d actions: %v", len(all), err)
	}
	for _, a := range all {
		if _, err := protocol.DecodeSpec(a.Spec); err != nil {
			t.Errorf("%s: %v", a.ID, err)
		}
	}
	open, err := q.Unfinished(t.Context())
	if err != nil || len(open) != 1 || open[0].ID.String() != "01a2010f-edc3-7e5b-95cc-3cd97df4761e" || open[0].State != protocol.StateRunning {
		t.Fatalf("unfinished are %v: %v", open, err)
	}
	cts, err := q.Containers(t.Context())
	if err != nil || len(cts) != 1 || cts[0].Name != "web" || len(cts[0].Former) != 0 {
		t.Errorf("containers are %v: %v", cts, err)
	}
	head, err := q.Audit().Head(t.Context())
	if err != nil || head.N != 17 {
		t.Errorf("the audit log ends at %v: %v", head, err)
	}
	end := queue.Step{Event: protocol.EventSucceed, Exit: &protocol.Exit{}}
	if act, err := finish(q, t.Context(), open[0].ID, end, now); err != nil || act.State != protocol.StateDone {
		t.Errorf("what ran ends as %v: %v", act.State, err)
	}
}

// TestTombstonesOfVersion1: nobody wrote down when they were made, so they count from
// the upgrade on, whatever the boot clock says by then.
func TestTombstonesOfVersion1(t *testing.T) {
	const dead = "01a2010f-edc3-7e5b-95cc-000000000001"
	id, err := protocol.ParseActionID(dead)
	if err != nil {
		t.Fatal(err)
	}
	a := &aging{t: t, path: filepath.Join(t.TempDir(), "queue.db"), now: queue.Now{Boot: "boot-9", BootMS: 1000 * day}}
	createVersion1(t, a.path)
	if a.q, err = queue.Open(t.Context(), queue.Config{Path: a.path}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.q.Close(); err != nil {
			t.Error(err)
		}
	})
	a.start()
	a.forget()
	a.entomb(action(1))
	a.pass(400)
	a.kept("400 days after the upgrade", id, true)
	a.pass(1)
	a.kept("401 days after the upgrade", id, false)
}

// createVersion1 makes a database as the first release left it.
func createVersion1(t *testing.T, path string) {
	t.Helper()
	const name = "0001_queue.sql"
	first, err := os.ReadFile("schema/" + name)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.Create(t.Context(), sqldb.Config{
		Path: path, ApplicationID: 0x48737441, Migrations: fstest.MapFS{name: {Data: first}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(version1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
