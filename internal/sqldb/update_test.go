package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/internal/sqldb"
)

// together runs the functions in one batch, in order, and returns their answers.
// It is to be called in a bubble.
func together(t *testing.T, db *sqldb.DB, fns ...func(*sqldb.Tx) error) []error {
	t.Helper()
	errs := make([]error, len(fns))
	release := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := db.Update(t.Context(), func(*sqldb.Tx) error { <-release; return nil }); err != nil {
			t.Logf("the function that held the batch open: %v", err)
		}
	})
	synctest.Wait()
	for i, fn := range fns {
		wg.Go(func() { errs[i] = db.Update(t.Context(), fn) })
		synctest.Wait() // it waits in the queue
	}
	close(release)
	wg.Wait()
	return errs
}

// batching is a configuration whose batches end only when nobody waits.
func batching(t testing.TB) sqldb.Config {
	cfg := config(t)
	cfg.BatchWindow = time.Hour
	return cfg
}

func TestUpdatesShareACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := create(t, batching(t))
		var fns []func(*sqldb.Tx) error
		for i := range 600 {
			fns = append(fns, put(fmt.Sprint(i)))
		}
		if err := errors.Join(together(t, db, fns...)...); err != nil {
			t.Fatal(err)
		}
		// 601 functions in batches of at most 256.
		if got, want := db.Stats(), (sqldb.Stats{Updates: 601, Commits: 3, MaxBatch: 256}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
		if got := len(items(t, db)); got != 600 {
			t.Errorf("%d rows, want 600", got)
		}
	})
}

func TestLoneUpdateDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := create(t, batching(t))
		before := time.Now()
		for i := range 3 {
			if err := db.Update(t.Context(), put(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(before); waited != 0 { // the bubble's clock moves only if somebody waits for it
			t.Errorf("three lone updates waited %v", waited)
		}
		if got, want := db.Stats(), (sqldb.Stats{Updates: 3, Commits: 3, MaxBatch: 1}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	})
}

func TestWindowEndsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := create(t, config(t)) // 2 ms
		slow := func(tx *sqldb.Tx) error { time.Sleep(time.Millisecond); return nil }
		if err := errors.Join(together(t, db, slow, slow, slow, slow)...); err != nil {
			t.Fatal(err)
		}
		// The holder and two of them use up the window, the other two are the next batch.
		if got, want := db.Stats(), (sqldb.Stats{Updates: 5, Commits: 2, MaxBatch: 3}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	})
}

func TestFailedUpdateIsUndoneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := create(t, batching(t))
		mine := errors.New("mine")
		errs := together(t, db,
			put("a"),
			func(tx *sqldb.Tx) error { return errors.Join(put("b")(tx), mine) },
			put("a"), // breaks the key and says so
			func(tx *sqldb.Tx) error { _ = put("a")(tx); return put("c")(tx) }, // lives with it
			func(tx *sqldb.Tx) error {
				_, err := tx.Exec("INSERT INTO item (id, n) VALUES ('d', -1)")
				return err
			},
			put("e"),
		)
		want := []error{nil, mine, sqldb.ErrUnique, nil, sqldb.ErrConstraint, nil}
		for i := range want {
			if !errors.Is(errs[i], want[i]) {
				t.Errorf("answer %d: %v, want %v", i, errs[i], want[i])
			}
		}
		if got := items(t, db); !slices.Equal(got, []string{"a", "c", "e"}) {
			t.Errorf("rows %q, want a, c, e", got)
		}
		if got, want := db.Stats(), (sqldb.Stats{Updates: 4, Failed: 3, Commits: 1, MaxBatch: 7}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	})
}

// TestUndoneIsTold: whoever remembers what functions of a batch wrote learns of each
// that was undone before the next one runs, and of the whole batch.
func TestUndoneIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := batching(t)
		cfg.Migrations = migrations(schema1, `CREATE TABLE late (item TEXT REFERENCES item (id) DEFERRABLE INITIALLY DEFERRED) STRICT;`)
		var said []string
		cfg.Undone = func() { said = append(said, "undone") }
		db := create(t, cfg)
		says := func(id string, err error) func(*sqldb.Tx) error {
			return func(tx *sqldb.Tx) error { said = append(said, id); return errors.Join(put(id)(tx), err) }
		}
		together(t, db, says("a", nil), says("b", errors.New("mine")), says("c", nil))
		if got := strings.Join(said, " "); got != "a b undone c" {
			t.Errorf("one of three was undone: %s", got)
		}
		said = nil
		together(t, db, says("d", nil), func(tx *sqldb.Tx) error { _, err := tx.Exec("INSERT INTO late (item) VALUES ('none')"); return err })
		if got := strings.Join(said, " "); got != "d undone" {
			t.Errorf("the commit failed: %s", got)
		}
	})
}

// TestFirstOfABatchIsUndoneAlone: the first is undone in a way of its own.
func TestFirstOfABatchIsUndoneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := create(t, batching(t))
		mine := errors.New("mine")
		release := make(chan struct{})
		var first error
		var wg sync.WaitGroup
		wg.Go(func() {
			first = db.Update(t.Context(), func(tx *sqldb.Tx) error {
				<-release
				return errors.Join(put("a")(tx), mine)
			})
		})
		synctest.Wait()
		var others [2]error
		for i, id := range []string{"b", "c"} {
			wg.Go(func() { others[i] = db.Update(t.Context(), put(id)) })
			synctest.Wait()
		}
		close(release)
		wg.Wait()
		if !errors.Is(first, mine) || errors.Join(others[:]...) != nil {
			t.Errorf("answers %v and %v", first, others)
		}
		if got := items(t, db); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("rows %q, want b, c", got)
		}
		if got, want := db.Stats(), (sqldb.Stats{Updates: 2, Failed: 1, Commits: 1, MaxBatch: 3}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	})
}

// A deferred constraint is the one way to make SQLite fail at COMMIT on demand.
func TestFailedCommitFailsAllAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := batching(t)
		cfg.Migrations = migrations(schema1, `CREATE TABLE late (item TEXT REFERENCES item (id) DEFERRABLE INITIALLY DEFERRED) STRICT;`)
		db := create(t, cfg)
		errs := together(t, db, put("a"),
			func(tx *sqldb.Tx) error { _, err := tx.Exec("INSERT INTO late (item) VALUES ('none')"); return err },
			func(tx *sqldb.Tx) error { return errors.New("its own") },
			put("b"))
		for i, err := range errs {
			if !errors.Is(err, sqldb.ErrConstraint) || !strings.Contains(err.Error(), "committing a batch") {
				t.Errorf("answer %d: %v, want that of the commit", i, err)
			}
		}
		if got := items(t, db); got != nil {
			t.Errorf("rows %q of a failed commit", got)
		}
		if got, want := db.Stats(), (sqldb.Stats{Failed: 5, Lost: 1}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
		if err := db.Update(t.Context(), put("c")); err != nil {
			t.Errorf("update after a failed commit: %v", err)
		}
	})
}

// An error after which SQLite has undone the transaction by itself must not let
// later statements through, not even if the function ignores it.
func TestLostTransactionFailsTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := create(t, batching(t))
		errs := together(t, db, put("a"), func(tx *sqldb.Tx) error {
			if err := fill(tx); !errors.Is(err, sqldb.ErrFull) {
				t.Errorf("filling the database: %v, want ErrFull", err)
			}
			if err := put("b")(tx); !errors.Is(err, sqldb.ErrFull) {
				t.Errorf("statement in a lost transaction: %v, want ErrFull", err)
			}
			return nil
		})
		for i, err := range errs {
			if !errors.Is(err, sqldb.ErrFull) {
				t.Errorf("answer %d: %v, want ErrFull", i, err)
			}
		}
		if err := db.Update(t.Context(), put("c")); err != nil {
			t.Errorf("update with space again: %v", err)
		}
		if got := items(t, db); !slices.Equal(got, []string{"c"}) {
			t.Errorf("rows %q, want c alone", got)
		}
	})
}

// fill makes SQLite believe that the disk ends soon, and writes beyond that.
func fill(tx *sqldb.Tx) error {
	var pages int
	if err := tx.QueryRow("PRAGMA max_page_count = 12").Scan(&pages); err != nil {
		return err
	}
	_, err := tx.Exec("INSERT INTO item (id, n) VALUES ($1, 1)", strings.Repeat("x", 100_000))
	return err
}

func TestContextBeforeAndAfterStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := create(t, batching(t))
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		release := make(chan struct{})
		var started, queued error
		var wg sync.WaitGroup
		wg.Go(func() {
			started = db.Update(ctx, func(tx *sqldb.Tx) error { <-release; return put("started")(tx) })
		})
		synctest.Wait()
		wg.Go(func() { queued = db.Update(ctx, put("queued")) })
		synctest.Wait()
		cancel(gone)
		synctest.Wait()
		if !errors.Is(queued, gone) {
			t.Errorf("update that had not started: %v, want the cause", queued)
		}
		close(release)
		wg.Wait()
		if started != nil {
			t.Errorf("update that had started: %v", started)
		}
		if err := db.Update(ctx, put("late")); !errors.Is(err, gone) {
			t.Errorf("update with an ended context: %v", err)
		}
		if got := items(t, db); !slices.Equal(got, []string{"started"}) {
			t.Errorf("rows %q, want started alone", got)
		}
	})
}

func TestPanicReachesTheCaller(t *testing.T) {
	db := create(t, config(t))
	mine := errors.New("mine")
	var got any
	func() {
		defer func() { got = recover() }()
		_ = db.Update(t.Context(), func(tx *sqldb.Tx) error { _ = put("a")(tx); panic(mine) })
	}()
	p, ok := got.(*sqldb.PanicError)
	if !ok || !errors.Is(p, mine) || !strings.Contains(p.Error(), "TestPanicReachesTheCaller") {
		t.Fatalf("recovered %v, want a PanicError with value and stack", got)
	}
	if err := db.Update(t.Context(), put("b")); err != nil {
		t.Fatal(err)
	}
	if got := items(t, db); !slices.Equal(got, []string{"b"}) {
		t.Errorf("rows %q, want b alone", got)
	}
}

func TestGoexitEndsTheWriterAndNobodyHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := create(t, batching(t))
		errs := together(t, db, put("a"), func(*sqldb.Tx) error { runtime.Goexit(); return nil }, put("b"))
		for i, err := range append(errs, db.Update(t.Context(), put("c"))) {
			if !errors.Is(err, sqldb.ErrClosed) {
				t.Errorf("answer %d: %v, want ErrClosed", i, err)
			}
		}
		if got := items(t, db); got != nil {
			t.Errorf("rows %q, want none", got)
		}
	})
}

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := batching(t)
		db := create(t, cfg)
		release := make(chan struct{})
		errs := make([]error, 10)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				errs[i] = db.Update(t.Context(), func(tx *sqldb.Tx) error { <-release; return put(fmt.Sprint(i))(tx) })
			})
		}
		synctest.Wait()
		wg.Go(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := db.Update(t.Context(), put("late")); !errors.Is(err, sqldb.ErrClosed) {
			t.Errorf("update while closing: %v, want ErrClosed", err)
		}
		close(release)
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Errorf("updates taken before Close: %v", err)
		}
		if err := db.View(t.Context(), func(*sqldb.Tx) error { return nil }); !errors.Is(err, sqldb.ErrClosed) {
			t.Errorf("view after Close: %v, want ErrClosed", err)
		}
		if got := len(items(t, reopen(t, cfg))); got != len(errs) {
			t.Errorf("%d rows after reopening, want %d", got, len(errs))
		}
	})
}

func TestTxEndsWithItsFunction(t *testing.T) {
	db := create(t, config(t))
	var kept *sqldb.Tx
	if err := db.Update(t.Context(), func(tx *sqldb.Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := put("a")(kept); !errors.Is(err, sqldb.ErrTxDone) {
		t.Errorf("use after Update: %v, want ErrTxDone", err)
	}
	if err := db.View(t.Context(), func(tx *sqldb.Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := kept.QueryRow("SELECT 1").Scan(new(int)); !errors.Is(err, sqldb.ErrTxDone) {
		t.Errorf("use after View: %v, want ErrTxDone", err)
	}
}
