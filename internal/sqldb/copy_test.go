package sqldb_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/internal/sqldb"
)

// TestCopy copies a database that another one writes to: what was committed
// before is in the copy, whole.
func TestCopy(t *testing.T) {
	cfg := config(t)
	db := create(t, cfg)
	for i := range 30 {
		fillRow(t, db, i)
	}
	before := items(t, db)
	to := filepath.Join(t.TempDir(), "a copy?%20.db")
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 30
		defer func() { done <- n }()
		for ; ; n++ {
			select {
			case <-stop:
				return
			default:
				fillRow(t, db, n)
			}
		}
	}()
	err := sqldb.Copy(t.Context(), cfg, to)
	close(stop)
	total := <-done
	if err != nil {
		t.Fatal(err)
	}
	other := cfg
	other.Path = to
	copied := items(t, reopen(t, other))
	if len(copied) < len(before) || len(copied) > total {
		t.Errorf("the copy has %d rows, %d before it, %d after it", len(copied), len(before), total)
	}
	if err := sqldb.Copy(t.Context(), cfg, to); err == nil {
		t.Error("a copy was written over another file")
	}
	if err := sqldb.Verify(t.Context(), cfg); err != nil {
		t.Errorf("one in use is not whole: %v", err)
	}
	closeDB(t, db)
	if err := sqldb.Copy(t.Context(), cfg, to+"2"); err != nil {
		t.Errorf("of a database that nobody uses: %v", err)
	}
	cfg.Path += "x"
	if err := sqldb.Copy(t.Context(), cfg, to+"3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
}

// TestDamageIsNotCopied: a page with a turned bit ends the copy, whether SQLite
// would notice or not. What is no row, an index, is made anew.
func TestDamageIsNotCopied(t *testing.T) {
	cfg := config(t)
	db := create(t, cfg)
	for i := range 10 {
		fillRow(t, db, i)
	}
	says := items(t, db)
	closeDB(t, db)
	whole, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	to, refused := filepath.Join(t.TempDir(), "copy.db"), 0
	for page := 1; page < len(whole)/4096; page++ {
		b := append([]byte(nil), whole...)
		b[page*4096+4096-200] ^= 1
		if err := os.WriteFile(cfg.Path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		other := cfg
		other.Path = to
		switch err := sqldb.Copy(t.Context(), cfg, to); {
		case err == nil:
			copied := reopen(t, other)
			if got := items(t, copied); !slices.Equal(got, says) {
				t.Errorf("page %d is damaged, and the copy has %d rows of %d", page+1, len(got), len(says))
			}
			closeDB(t, copied)
		case !errors.Is(err, sqldb.ErrCorrupt):
			t.Errorf("page %d is damaged: %v", page+1, err)
		default:
			refused++
			if err := sqldb.Verify(t.Context(), cfg); !errors.Is(err, sqldb.ErrCorrupt) {
				t.Errorf("page %d is damaged, and verified: %v", page+1, err)
			}
		}
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if refused < 5 {
		t.Errorf("%d copies were refused, pages of rows are more", refused)
	}
}
