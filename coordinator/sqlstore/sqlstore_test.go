package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
)

func create(t testing.TB) (*Store, Config) {
	t.Helper()
	cfg := Config{Path: filepath.Join(t.TempDir(), "store.db")}
	s, err := Create(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, cfg
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) core.Store { s, _ := create(t); return s })
}

func TestReopen(t *testing.T) {
	s, cfg := create(t)
	id := s.ID()
	if _, err := Create(t.Context(), cfg); err == nil {
		t.Fatal("created twice")
	}
	err := s.Update(t.Context(), func(tx core.Tx) error { return tx.Values.Put("starts", []byte{1}) })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	other := protocol.StoreID{1}
	err = s.Update(t.Context(), func(tx core.Tx) error {
		_, err := tx.Values.Get("starts")
		return errors.Join(err, tx.Values.SetStore(other))
	})
	if err != nil || s.ID() != id {
		t.Errorf("after reopening: %v, id %v, was %v", err, s.ID(), id)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), cfg); err != nil || s.ID() != other {
		t.Fatalf("after it was given another id: %v, id %v", err, s.ID())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Path += "x"
	if _, err := Open(t.Context(), cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing: %v, want fs.ErrNotExist", err)
	}
}

func TestUnavailable(t *testing.T) {
	s, _ := create(t)
	fill := func(t core.Tx) error {
		// SQLite is made to believe that the disk ends soon.
		if err := t.Values.(values).db.QueryRow("PRAGMA max_page_count = 60").Scan(new(int)); err != nil {
			return err
		}
		return t.Values.Put("large", make([]byte, 1<<20))
	}
	small := func(tx core.Tx) error { return tx.Values.Put("small", nil) }
	if err := s.Update(t.Context(), fill); !errors.Is(err, core.ErrUnavailable) || !errors.Is(err, sqldb.ErrFull) {
		t.Errorf("full disk: %v, want ErrUnavailable and why", err)
	}
	if err := s.Update(t.Context(), small); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), small); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("closed: %v, want ErrUnavailable", err)
	}
	if err := s.View(t.Context(), small); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("view when closed: %v, want ErrUnavailable", err)
	}
}

// Every query is a search in the named index, reads no row that it does not yield
// (but for conditions that the index does not hold), and sorts nothing.
func TestQueryPlans(t *testing.T) {
	plans := []struct{ query, want string }{
		{getHost, "SEARCH host USING INDEX sqlite_autoindex_host_1 (id=?)"},
		{listHosts, "SEARCH host USING INDEX sqlite_autoindex_host_1 (id>?)"},
		{getInvite, "SEARCH invite USING INDEX sqlite_autoindex_invite_1 (id=?)"},
		{getEnrolment, "SEARCH enrolment USING INDEX sqlite_autoindex_enrolment_1 (id=?)"},
		{getEnrolmentByKey, "SEARCH enrolment USING INDEX enrolment_by_key (key_id=?)"},
		{listEnrolments, "SCAN enrolment USING INDEX enrolment_by_age"},
		{listEnrolmentsIn, "SEARCH enrolment USING INDEX enrolment_by_state (state=?)"},
		{getAction, "SEARCH action USING INDEX sqlite_autoindex_action_1 (id=?)"},
		{updateAction, "SEARCH action USING INDEX sqlite_autoindex_action_1 (id=?)"},
		{findActions, "SCAN action USING COVERING INDEX sqlite_autoindex_action_1"},
		{listActions, "SEARCH action USING INDEX sqlite_autoindex_action_1 (id<?)"},
		{listActionsOfHost, "SEARCH action USING INDEX action_by_host (host=? AND id<?)"},
		{listActionsOfHostState, "SEARCH action USING INDEX action_by_host_state (host=? AND state=? AND id<?)"},
		{listActionsInState, "SEARCH action USING INDEX action_by_state (state=? AND id<?)"},
		{listActionsOfBatch, "SEARCH action USING INDEX action_by_batch (batch=? AND id<?)"},
		{listActionsOfTarget, "SEARCH action USING INDEX action_by_target (target=? AND id<?)"},
		{unsentActions, "SEARCH action USING INDEX action_unsent (host=?)"},
		{unsentControls, "SEARCH action USING INDEX action_unsent (host=?)"},
		{expiredActions, "SEARCH action USING INDEX action_by_expiry (n=? AND expires_ms<?)"},
		{endedActions, "SEARCH action USING INDEX action_by_end (ended_ms>?)"},
		{removeAction, "SEARCH action USING INDEX sqlite_autoindex_action_1 (id=?)"},
		{removeOutputs, "SEARCH output USING PRIMARY KEY (action=?)"},
		{namesOfHosts, "SEARCH host USING COVERING INDEX host_by_state (state=?)"},
		{tallied, "SEARCH tally USING PRIMARY KEY (what=?)"},
		{decidedEnrolments, "SEARCH enrolment USING INDEX enrolment_by_decision (decided_ms>?)"},
		{removeEnrolment, "SEARCH enrolment USING INDEX sqlite_autoindex_enrolment_1 (id=?)"},
		{endedInvites, "SEARCH invite USING INDEX invite_by_end (expires_ms>?)"},
		{removeInvite, "SEARCH invite USING INDEX sqlite_autoindex_invite_1 (id=?)"},
		{getStream, "SEARCH stream USING PRIMARY KEY (host=? AND stream=?)"},
		{listItems, "SEARCH item USING INDEX sqlite_autoindex_item_1 (host=? AND stream=? AND n>? AND n<?)"},
		{freeItems, "SEARCH item USING INDEX sqlite_autoindex_item_1 (host=? AND stream=? AND n<?)"},
		{getOutput, "SEARCH output USING PRIMARY KEY (action=? AND attempt=? AND fd=?)"},
		{getToken, "SEARCH token USING INDEX sqlite_autoindex_token_1 (id=?)"},
		{getTokenByHash, "SEARCH token USING INDEX sqlite_autoindex_token_2 (hash=?)"},
		{listTokens, "SCAN token USING INDEX sqlite_autoindex_token_1"},
		{getViewer, "SEARCH viewer USING INDEX sqlite_autoindex_viewer_1 (name=?)"},
		{listViewers, "SCAN viewer USING INDEX sqlite_autoindex_viewer_1"},
		{setAside, "SEARCH counter USING PRIMARY KEY (name=?)"},
		{countFrom, "SEARCH counter USING PRIMARY KEY (name=?)"},
		{listEvents, "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)"},
		{trimEvents, "SEARCH event USING INTEGER PRIMARY KEY (rowid<?)"},
		{listAudit, "SEARCH audit USING INTEGER PRIMARY KEY (rowid>?)"},
		{listAuditBefore, "SEARCH audit USING INTEGER PRIMARY KEY (rowid<?)"},
		{pruneAudit, "SEARCH audit USING INTEGER PRIMARY KEY (rowid<?)"},
		{listSeals, "SEARCH seal USING INTEGER PRIMARY KEY (rowid>?)"},
		{sealUpTo, "SEARCH seal USING INTEGER PRIMARY KEY (rowid<?)"},
		{pruneSeals, "SEARCH seal USING INTEGER PRIMARY KEY (rowid<?)"},
		{getValue, "SEARCH value USING INDEX sqlite_autoindex_value_1 (name=?)"},
	}
	s, _ := create(t)
	defer s.Close()
	for _, p := range plans {
		var got []string
		err := s.db.View(t.Context(), func(tx *sqldb.Tx) (err error) {
			args := make([]any, strings.Count(p.query, "$"))
			got, err = list(tx, func(detail *string) []any { return []any{new(int), new(int), new(int), detail} }, "EXPLAIN QUERY PLAN "+p.query, args...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, "; ") != p.want {
			t.Errorf("%s\n got %q\nwant %q", p.query, got, p.want)
		}
	}
}

// The clock of the bubble stands still while anything runs, so the window of a batch
// does not end on a slow machine.
func TestManyCallersShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := create(t)
		defer s.Close()
		release := make(chan struct{})
		var wg sync.WaitGroup
		update := func(c int) {
			wg.Go(func() {
				err := s.Update(t.Context(), func(tx core.Tx) error {
					<-release
					_, err := tx.Events.Append(core.Event{Object: fmt.Sprint(c)})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		for c := range 64 {
			update(c)
		}
		synctest.Wait() // the first holds its batch open, the others wait behind it
		close(release)
		wg.Wait()
		if st := s.Stats(); st.Updates != 64 || st.Commits != 1 || st.MaxBatch != 64 {
			t.Errorf("stats %+v, want 64 updates in one commit", st)
		}
	})
}

// BenchmarkHeartbeat keeps an inventory of 10 containers, of 64 hosts at a time.
func BenchmarkHeartbeat(b *testing.B) {
	h := core.Host{State: core.HostApproved, PublicKey: make([]byte, 500), Labels: []string{"site=a"}}
	for i := range 10 {
		h.Inventory.Containers = append(h.Inventory.Containers, protocol.Container{Name: fmt.Sprint("web-", i), Runtime: "lxc",
			State: "running", Intended: "running", Class: "pinned", Offline: "keep", Addresses: []string{"10.0.3.7/24"}})
	}
	benchUpdates(b, func(tx core.Tx, n uint64) error {
		h := h
		h.ID = protocol.HostID(fmt.Sprint("edge-", n%1000))
		h.Key = protocol.KeyID([]byte(fmt.Sprintf("%020d", n%1000)))
		h.Inventory.AtMS = int64(n)
		return tx.Hosts.Put(h)
	})
}

// BenchmarkTransition moves an action and says so in events and audit.
func BenchmarkTransition(b *testing.B) {
	benchUpdates(b, func(tx core.Tx, n uint64) error {
		id := protocol.NewActionID(int64(n%1000), [10]byte{})
		a, err := tx.Actions.Get(id)
		if errors.Is(err, core.ErrNotFound) {
			a = core.Action{ID: id, Host: "edge-1", Spec: make([]byte, 400), State: protocol.StateRunning}
			err = tx.Actions.Insert(a)
		}
		if err != nil {
			return err
		}
		a.UpdatedMS = int64(n)
		_, eerr := tx.Events.Append(core.Event{Type: "action.state", Object: id.String(), Data: make([]byte, 200)})
		aerr := tx.Audit.Append(make([]byte, 250))
		return errors.Join(tx.Actions.Put(a), eerr, aerr)
	})
}

func benchUpdates(b *testing.B, fn func(core.Tx, uint64) error) {
	s, _ := create(b)
	defer s.Close()
	var wg sync.WaitGroup
	b.ResetTimer()
	for c := range 64 {
		wg.Go(func() {
			for n := c; n < b.N; n += 64 {
				if err := s.Update(b.Context(), func(tx core.Tx) error { return fn(tx, uint64(n)) }); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(s.Stats().Commits)/float64(b.N), "fsyncs/op")
}
