package sqlstore

import (
	_ "embed"
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
)

//go:embed testdata/version1.sql
var version1 string

// createVersion1 makes a database as the first release left it.
func createVersion1(t *testing.T, cfg Config) {
	t.Helper()
	const name = "0001_initial.sql"
	first, err := schema.ReadFile("schema/" + name)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.Create(t.Context(), sqldb.Config{
		Path: cfg.Path, ApplicationID: applicationID, Migrations: fstest.MapFS{name: {Data: first}},
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

// TestOpenVersion1: what the first release wrote is there, each record can be
// written again, and what came later is there to be used.
func TestOpenVersion1(t *testing.T) {
	cfg := Config{Path: t.TempDir() + "/store.db"}
	createVersion1(t, cfg)
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if want := "782b3619195fae189a66b6b53e31d5ba"; s.ID().String() != want {
		t.Errorf("the store has the id %s, had %s", s.ID(), want)
	}
	var all []core.Action
	found := map[string]int{}
	err = s.View(t.Context(), func(tx core.Tx) error {
		counted, err := tx.Actions.Count()
		for state, n := range counted {
			found["counted"] += n
			if !state.Final() {
				found["counted unfinished"] += n
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(t.Context(), func(tx core.Tx) (err error) {
		all, err = everything(tx, found)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"hosts": 2, "enrolments": 2, "actions": 10, "unfinished": 4, "items": 3, "outputs": 3,
		"tokens": 2, "viewers": 1, "events": 29, "audit": 32,
		"counted": 10, "counted unfinished": 4,
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("want and found:\n%s", diff)
	}
	checkVersion1(t, s, all)
}

// everything reads all of a store, writes back what can be, and counts.
func everything(tx core.Tx, found map[string]int) ([]core.Action, error) {
	hosts, err := tx.Hosts.List("", 100)
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		found["hosts"]++
		if err := tx.Hosts.Put(h); err != nil {
			return nil, err
		}
		st, err := tx.Streams.Get(h.ID, protocol.StreamOrder)
		if err != nil {
			return nil, err
		}
		items, err := tx.Streams.Items(h.ID, protocol.StreamOrder, 1, st.Pos.N)
		if err != nil {
			return nil, err
		}
		found["items"] += len(items)
	}
	enrolments, err := tx.Enrolments.List("", 100)
	if err != nil {
		return nil, err
	}
	found["enrolments"] = len(enrolments)
	actions, err := tx.Actions.List(core.ActionFilter{})
	if err != nil {
		return nil, err
	}
	for _, a := range actions {
		found["actions"]++
		if !a.State.Final() {
			found["unfinished"]++
		}
		if _, err := protocol.DecodeSpec(a.Spec); err != nil {
			return nil, err
		}
		if err := tx.Actions.Put(a); err != nil {
			return nil, err
		}
		o, err := tx.Outputs.Get(a.ID, 1, protocol.Stdout)
		if err == nil && o.Have > 0 {
			found["outputs"]++
			err = tx.Outputs.Put(o)
		}
		if err != nil {
			return nil, err
		}
	}
	return actions, rest(tx, found)
}

// rest goes on with what is no host's and no action's.
func rest(tx core.Tx, found map[string]int) error {
	tokens, err := tx.Access.Tokens()
	if err != nil {
		return err
	}
	viewers, err := tx.Access.Viewers()
	if err != nil {
		return err
	}
	events, err := tx.Events.List(0, 100)
	if err != nil {
		return err
	}
	records, err := tx.Audit.Records(0, 100)
	if err != nil {
		return err
	}
	found["tokens"], found["viewers"], found["events"], found["audit"] = len(tokens), len(viewers), len(events), len(records)
	return nil
}

// checkVersion1 looks at single actions: the one that ended, and that it has
// become what one without batch, times and approvals is.
func checkVersion1(t *testing.T, s *Store, all []core.Action) {
	t.Helper()
	var ended core.Action
	for _, a := range all {
		if a.ID.String() == "01a2010f-eb47-73d1-9086-5e72a9fb8fb3" {
			ended = a
		}
	}
	want := core.Action{
		ID: ended.ID, Host: "edge-01", Kind: protocol.KindRun, Spec: []byte(`{"kind":"host.run","argv":["sh","-c","exit 3"]}`),
		State: protocol.StateFailed, Reason: "exit", Requester: "admin",
		CreatedMS: 1795314150218, UpdatedMS: 1795314150244, EndedMS: 1795314150244, ExpiresMS: 1795400550219,
		N: 3, AcceptSeq: 3, Attempt: 1, Exit: &protocol.Exit{Code: 3, RunMS: 9},
		Output: []protocol.Output{{FD: protocol.Stdout}, {FD: protocol.Stderr}},
	}
	want.Digest = protocol.Sum(want.Spec)
	if diff := cmp.Diff(want, ended, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("want and found:\n%s", diff)
	}
	ended.Batch, ended.SentMS = protocol.NewBatchID(1, [10]byte{1}), 5
	err := s.Update(t.Context(), func(tx core.Tx) error {
		if err := tx.Actions.Put(ended); err != nil {
			return err
		}
		got, err := tx.Actions.List(core.ActionFilter{Batch: ended.Batch})
		if err == nil && (len(got) != 1 || got[0].SentMS != 5) {
			t.Errorf("of the new batch there is %v", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOpenBeforeFormer: an action whose order had the number that stood for that of the
// store before a recovery is marked, and is neither sent nor expired.
func TestOpenBeforeFormer(t *testing.T) {
	cfg := Config{Path: t.TempDir() + "/store.db"}
	createVersion1(t, cfg)
	const id = "01a2010f-edf4-77d3-95da-0f91d19f7a93"
	migrations, err := schema.ReadFile("schema/0001_initial.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.Open(t.Context(), sqldb.Config{
		Path: cfg.Path, ApplicationID: applicationID, Migrations: fstest.MapFS{"0001_initial.sql": {Data: migrations}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
		if _, err := tx.Exec("UPDATE action SET n = 0 WHERE state = 'PENDING_SCHEDULE'"); err != nil {
			return err
		}
		_, err := tx.Exec("UPDATE action SET n = $2 WHERE id = $1", id, protocol.MaxInteger)
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.View(t.Context(), func(tx core.Tx) error {
		all, err := tx.Actions.List(core.ActionFilter{})
		if err != nil {
			return err
		}
		for _, a := range all {
			if a.Former != (a.ID.String() == id) || a.Former && a.N != 0 {
				t.Errorf("action %s has the number %d, of a former store: %t", a.ID, a.N, a.Former)
			}
		}
		unsent, err := tx.Queue.Unsent("edge-02", protocol.StreamOrder, 10)
		if err != nil {
			return err
		}
		expired, err := tx.Queue.Expired(protocol.MaxInteger, 10)
		if len(unsent) != 2 || len(expired) != 2 {
			t.Errorf("%d actions are unsent and %d expired, want 2 of each", len(unsent), len(expired))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
