//go:build hostlertest

package sqldb_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/internal/sqldb"
)

// TestEveryWriteFailsOnce lets the n-th write, sync or truncation of a life of
// a database fail, for each n, as on a full and on a broken disk. Whatever was
// answered with nil is there, after the fault and after a restart, and nothing
// that was answered with an error, but for the one doubt of ErrIO: the last
// commit of a process. The next update works.
func TestEveryWriteFailsOnce(t *testing.T) {
	for _, full := range []bool{true, false} {
		total := 1
		for n := 0; n < total; n++ {
			total = oneFault(t, n, full)
			if t.Failed() {
				t.Fatalf("write %d of %d, full %v", n, total, full)
			}
		}
		t.Logf("full %v: %d writes", full, total)
		if total < 100 {
			t.Errorf("the life of the database had %d writes only", total)
		}
	}
}

// oneFault returns how many writes there were.
func oneFault(t *testing.T, n int, full bool) int {
	cfg := childConfig(filepath.Join(memory(t), "db"))
	db, err := sqldb.Create(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	sqldb.SetFault(func(string) (bool, bool) { seen++; return seen == n+1, full })
	defer sqldb.SetFault(nil)
	var want []string
	failed, doubt := 0, ""
	for life := range 2 {
		for i := range 12 {
			id := fmt.Sprintf("%d-%02d-%01200d", life, i, 0)
			switch err := db.Update(t.Context(), put(id)); {
			case err == nil:
				want, doubt = append(want, id), ""
			case errors.Is(err, sqldb.ErrFull) || errors.Is(err, sqldb.ErrIO):
				if failed++; failed > 1 {
					t.Errorf("one fault failed %d updates: %v", failed, err)
				}
				if errors.Is(err, sqldb.ErrIO) {
					doubt = id
				}
			default:
				t.Errorf("update %q: %v", id[:4], err)
			}
		}
		if got := items(t, db); !slices.Equal(got, want) {
			t.Errorf("life %d: %d rows, %d were answered", life, len(got), len(want))
		}
		// What fails in closing is in the log, and not lost.
		_ = db.Close()
		if db, err = sqldb.Open(t.Context(), cfg); err != nil {
			// The fault may hit the opening: the next one works.
			if db, err = sqldb.Open(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
		if got := items(t, db); doubt != "" && slices.Contains(got, doubt) {
			want = append(want, doubt)
		}
		if got := items(t, db); !slices.Equal(got, want) {
			t.Errorf("after life %d: %d rows, %d were answered", life, len(got), len(want))
		}
	}
	closeDB(t, db)
	return seen
}
