package sqldb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/internal/sqldb"
)

func count(tx *sqldb.Tx) (n int, err error) {
	err = tx.QueryRow("SELECT count(*) FROM item").Scan(&n)
	return n, err
}

func TestViewIsASnapshotThatCannotWrite(t *testing.T) {
	db := create(t, config(t))
	err := db.View(t.Context(), func(tx *sqldb.Tx) error {
		before, err := count(tx)
		if err != nil {
			return err
		}
		if err := db.Update(t.Context(), put("a")); err != nil { // no View keeps a writer waiting
			return err
		}
		if after, err := count(tx); err != nil || after != before {
			t.Errorf("the view saw %d rows, then %d (%v)", before, after, err)
		}
		if err := put("b")(tx); err == nil {
			t.Error("a view wrote")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := items(t, db); !slices.Equal(got, []string{"a"}) {
		t.Errorf("rows %q, want a", got)
	}
}

func TestViewsWaitForAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t)
		cfg.Readers = 1
		db := create(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		var gaveUp, closing error
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := db.View(t.Context(), func(tx *sqldb.Tx) error { <-release; _, err := count(tx); return err }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		wg.Go(func() { gaveUp = db.View(ctx, func(*sqldb.Tx) error { return nil }) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(gaveUp, context.Canceled) {
			t.Errorf("view that gave up waiting: %v", gaveUp)
		}
		wg.Go(func() { closing = db.View(t.Context(), func(*sqldb.Tx) error { return nil }) })
		synctest.Wait()
		wg.Go(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if !errors.Is(closing, sqldb.ErrClosed) {
			t.Errorf("view that waited during Close: %v, want ErrClosed", closing)
		}
		close(release)
		wg.Wait()
	})
}

func TestViewEndsWithItsContext(t *testing.T) {
	db := create(t, config(t))
	ctx, cancel := context.WithCancel(t.Context())
	err := db.View(ctx, func(tx *sqldb.Tx) error {
		// Without the context this counts for minutes.
		q := "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000000000) SELECT n FROM c"
		for row, err := range tx.Query(q) {
			if err != nil {
				return err
			}
			var n int
			if err := row.Scan(&n); err != nil {
				return err
			}
			if n == 10 {
				cancel()
			}
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("view whose context ended: %v", err)
	}
	if got := items(t, db); got != nil { // the connection is as good as new
		t.Errorf("rows %q", got)
	}
}

func TestPanicInViewGivesTheReaderBack(t *testing.T) {
	cfg := config(t)
	cfg.Readers = 1
	db := create(t, cfg)
	for range 3 {
		func() {
			defer func() {
				if v := recover(); v != "mine" {
					t.Errorf("recovered %v", v)
				}
			}()
			_ = db.View(t.Context(), func(tx *sqldb.Tx) error {
				for range tx.Query("SELECT 1") {
					panic("mine")
				}
				return nil
			})
		}()
	}
	items(t, db)
}

// A statement may be nested in the iteration of one with the same text: each use
// has a prepared statement of its own.
func TestNestedQueriesOfTheSameText(t *testing.T) {
	db := create(t, config(t))
	const q = "SELECT id FROM item WHERE id >= $1 ORDER BY id"
	var got []string
	err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		got = nil
		for _, id := range []string{"a", "b", "c"} {
			if err := put(id)(tx); err != nil {
				return err
			}
		}
		for row, err := range tx.Query(q, "a") {
			if err != nil {
				return err
			}
			var outer, inner string
			if err := row.Scan(&outer); err != nil {
				return err
			}
			if err := tx.QueryRow(q, outer).Scan(&inner); err != nil {
				return err
			}
			got = append(got, outer+inner)
		}
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"aa", "bb", "cc"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestManyStatementTexts(t *testing.T) {
	db := create(t, config(t))
	err := db.View(t.Context(), func(tx *sqldb.Tx) error {
		for i := range 1000 { // more than a connection keeps
			var n int
			if err := tx.QueryRow(fmt.Sprintf("SELECT %d", i)).Scan(&n); err != nil || n != i {
				return fmt.Errorf("got %d: %w", n, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestValuesSurvive(t *testing.T) {
	type id string
	type state uint8
	cfg := config(t)
	cfg.Migrations = migrations(`CREATE TABLE v (i INTEGER, r REAL, t TEXT, b BLOB, n BLOB) STRICT;`)
	db := create(t, cfg)
	blob := []byte{0, 1, 255}
	err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		n, err := tx.Exec("INSERT INTO v (i, r, t, b, n) VALUES ($1, $2, $3, $4, $5)", state(7), 1.5, id("käse\x00"), blob, nil)
		if n != 1 {
			t.Errorf("%d rows changed, want 1", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var (
		i state
		r float64
		s id
		b []byte
		n []byte
	)
	err = db.View(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow("SELECT i, r, t, b, n FROM v").Scan(&i, &r, &s, &b, &n)
	})
	if err != nil || i != 7 || r != 1.5 || s != "käse\x00" || !bytes.Equal(b, blob) || n != nil {
		t.Errorf("got %v %v %q %v %v, %v", i, r, s, b, n, err)
	}
	err = db.View(t.Context(), func(tx *sqldb.Tx) error { return tx.QueryRow("SELECT i FROM v WHERE i = 8").Scan(&i) })
	if !errors.Is(err, sqldb.ErrNoRows) {
		t.Errorf("no row: %v, want ErrNoRows", err)
	}
	err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec("INSERT INTO v (i) VALUES ('seven')")
		return err
	})
	if !errors.Is(err, sqldb.ErrConstraint) {
		t.Errorf("a text in an INTEGER column: %v, want ErrConstraint", err)
	}
}

// TestLimits: a limit may be an argument, and differ each time; SQLite is given it so that it
// does not parse the statement anew for that.
func TestLimits(t *testing.T) {
	for query, want := range map[string]string{
		"SELECT a FROM b WHERE c = $1 LIMIT $2":      "SELECT a FROM b WHERE c = $1 LIMIT $2 + 0",
		"SELECT a FROM b LIMIT $12 OFFSET $3":        "SELECT a FROM b LIMIT $12 + 0 OFFSET $3 + 0",
		"a IN (SELECT a FROM b LIMIT $1) AND c < $2": "a IN (SELECT a FROM b LIMIT $1 + 0) AND c < $2",
		"SELECT a FROM b LIMIT 1":                    "SELECT a FROM b LIMIT 1",
	} {
		if got := sqldb.ParsedOnce(query); got != want {
			t.Errorf("%q is given as %q, want %q", query, got, want)
		}
	}
	db := create(t, config(t))
	for _, id := range []string{"a", "b", "c", "d"} {
		if err := db.Update(t.Context(), put(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		limit, offset int
		want          []string
	}{{2, 0, []string{"a", "b"}}, {3, 1, []string{"b", "c", "d"}}, {0, 0, nil}, {-1, 3, []string{"d"}}} {
		var got []string
		err := db.View(t.Context(), func(tx *sqldb.Tx) (err error) {
			got, err = sqldb.All(tx, func(r sqldb.Row) (id string, err error) { return id, r.Scan(&id) },
				"SELECT id FROM item ORDER BY id LIMIT $1 OFFSET $2", c.limit, c.offset)
			return err
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("limit %d from %d on: %q, %v, want %q", c.limit, c.offset, got, err, c.want)
		}
	}
}
