package sqldb_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/internal/sqldb"
)

// schema1 is the schema of most tests.
const schema1 = `CREATE TABLE item (id TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) STRICT;
CREATE TABLE part (id TEXT PRIMARY KEY, item TEXT NOT NULL REFERENCES item (id)) STRICT;`

func migrations(texts ...string) fstest.MapFS {
	names := []string{"0001_first.sql", "0002_second.sql", "0003_third.sql"}
	fsys := fstest.MapFS{}
	for i, text := range texts {
		fsys[names[i]] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func config(t testing.TB) sqldb.Config {
	return sqldb.Config{
		Path:          filepath.Join(t.TempDir(), "a b?c%20.db"), // a name that needs escaping
		ApplicationID: 0x486f7374,
		Migrations:    migrations(schema1),
	}
}

func create(t testing.TB, cfg sqldb.Config) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Create(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// reopen opens what an earlier DB of the test has closed.
func reopen(t testing.TB, cfg sqldb.Config) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func closeDB(t testing.TB, db *sqldb.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(id string) func(*sqldb.Tx) error {
	return func(tx *sqldb.Tx) error {
		_, err := tx.Exec("INSERT INTO item (id, n) VALUES ($1, $2)", id, 1)
		return err
	}
}

// items returns the ids in order.
func items(t testing.TB, db *sqldb.DB) []string {
	t.Helper()
	var ids []string
	err := db.View(t.Context(), func(tx *sqldb.Tx) error {
		for row, err := range tx.Query("SELECT id FROM item ORDER BY id") {
			if err != nil {
				return err
			}
			var id string
			if err := row.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestCreateAndOpen(t *testing.T) {
	cfg := config(t)
	if _, err := sqldb.Open(t.Context(), cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Open without a database: %v, want fs.ErrNotExist", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(cfg.Path)); len(left) != 0 {
		t.Fatalf("Open without a database made %v", left)
	}
	db := create(t, cfg)
	if err := db.Update(t.Context(), put("a")); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-lock"} {
		info, err := os.Stat(cfg.Path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %q is %v, want 0600", suffix, info.Mode().Perm())
		}
	}
	if _, err := sqldb.Open(t.Context(), cfg); !errors.Is(err, sqldb.ErrLocked) {
		t.Errorf("Open of an open database: %v, want ErrLocked", err)
	}
	closeDB(t, db)
	if _, err := os.Stat(cfg.Path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Close left the log behind: %v", err)
	}
	if _, err := sqldb.Create(t.Context(), cfg); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create over a database: %v, want fs.ErrExist", err)
	}
	if got := items(t, reopen(t, cfg)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("after reopening: %q", got)
	}
}

func TestConnectionSettings(t *testing.T) {
	db := create(t, config(t))
	want := map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000", "temp_store": "2", "trusted_schema": "0"}
	got := map[string]string{}
	err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		for name := range want {
			var value string
			if err := tx.QueryRow("PRAGMA " + name).Scan(&value); err != nil {
				return err
			}
			got[name] = value
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings of the writer (-want +got):\n%s", diff)
	}
}

func TestCreateAfterCrash(t *testing.T) {
	cfg := config(t)
	// What a crash leaves before the rename.
	for _, suffix := range []string{"-new", "-new-wal", "-new-journal", "-lock"} {
		if err := os.WriteFile(cfg.Path+suffix, []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sqldb.Open(t.Context(), cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Open of an unfinished database: %v, want fs.ErrNotExist", err)
	}
	create(t, cfg)
	if _, err := os.Stat(cfg.Path + "-new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the draft is still there: %v", err)
	}
}

func TestLostDatabaseWithLog(t *testing.T) {
	cfg := config(t)
	if err := os.WriteFile(cfg.Path+"-wal", []byte("log"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqldb.Create(t.Context(), cfg); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create beside a log: %v, want fs.ErrExist", err)
	}
	_, err := sqldb.Open(t.Context(), cfg)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "put it back") {
		t.Errorf("Open beside a log: %v, want fs.ErrNotExist and what to do", err)
	}
}

func TestOpenRefusesDamage(t *testing.T) {
	cases := map[string]struct {
		damage func(file []byte) []byte
		want   error
		reason string
	}{
		"empty":          {func([]byte) []byte { return nil }, sqldb.ErrCorrupt, "only 0 bytes"},
		"torn header":    {func(b []byte) []byte { return b[:60] }, sqldb.ErrCorrupt, "only 60 bytes"},
		"other format":   {func(b []byte) []byte { copy(b, "PK"); return b }, sqldb.ErrCorrupt, "does not begin as"},
		"truncated":      {func(b []byte) []byte { return b[:len(b)/2] }, sqldb.ErrCorrupt, ""},
		"page overrun":   {func(b []byte) []byte { clear(b[len(b)-4096:]); return b }, sqldb.ErrCorrupt, ""},
		"schema smashed": {func(b []byte) []byte { clear(b[100:200]); return b }, sqldb.ErrCorrupt, ""},
		"other program":  {func(b []byte) []byte { b[71]++; return b }, sqldb.ErrForeign, "application id"},
		"later release":  {func(b []byte) []byte { b[63] = 9; sqldb.PutPageSum(b[:4096], 1); return b }, sqldb.ErrNewer, "version 9"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			closeDB(t, create(t, cfg))
			file, err := os.ReadFile(cfg.Path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := c.damage(slices.Clone(file))
			if err := os.WriteFile(cfg.Path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = sqldb.Open(t.Context(), cfg)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.reason) {
				t.Fatalf("Open: %v; want %v: %s", err, c.want, c.reason)
			}
			if !strings.Contains(err.Error(), cfg.Path) {
				t.Errorf("the error does not name the file: %v", err)
			}
			if c.want == sqldb.ErrCorrupt && !strings.Contains(err.Error(), "put a backup in their place") {
				t.Errorf("the error does not say what to do: %v", err)
			}
			if left, err := os.ReadFile(cfg.Path); err != nil || !slices.Equal(left, damaged) {
				t.Errorf("Open changed the file that it refused (%v)", err)
			}
			// The lock was given back, so that a repaired file can be opened.
			if err := os.WriteFile(cfg.Path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			reopen(t, cfg)
		})
	}
}

func TestMigrate(t *testing.T) {
	cfg := config(t)
	db := create(t, cfg)
	if err := db.Update(t.Context(), put("a")); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec("INSERT INTO part (id, item) VALUES ('p', 'a')")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)

	// A rebuild of a table that others refer to, as SQLite's manual has it.
	rebuild := `CREATE TABLE item2 (id TEXT PRIMARY KEY, n INTEGER NOT NULL, extra TEXT NOT NULL) STRICT;
		INSERT INTO item2 SELECT id, n, 'x' FROM item; DROP TABLE item; ALTER TABLE item2 RENAME TO item;`
	broken := map[string]string{
		"syntax error":       "CREATE TABLE t (a INTEGER) STRICT; CREATE TALBE u (a INTEGER) STRICT;",
		"tables without STR": "CREATE TABLE t (a INTEGER);",
		"missing rows":       "DELETE FROM item;",
	}
	for reason, text := range broken {
		cfg.Migrations = migrations(schema1, rebuild, text)
		if _, err := sqldb.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("migration %q: %v, want %q", text, err, reason)
		}
	}
	cfg.Migrations = migrations(schema1)
	closeDB(t, reopen(t, cfg)) // still version 1: the failed ones left nothing

	cfg.Migrations = migrations(schema1, rebuild)
	db = reopen(t, cfg)
	var extra string
	err := db.View(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow("SELECT extra FROM item JOIN part ON part.item = item.id").Scan(&extra)
	})
	if err != nil || extra != "x" {
		t.Errorf("after the rebuild: %q, %v", extra, err)
	}
	err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec("DELETE FROM item")
		return err
	})
	if !errors.Is(err, sqldb.ErrConstraint) {
		t.Errorf("foreign keys after a migration: %v, want ErrConstraint", err)
	}
	closeDB(t, db)
	cfg.Migrations = migrations(schema1)
	if _, err := sqldb.Open(t.Context(), cfg); !errors.Is(err, sqldb.ErrNewer) {
		t.Errorf("Open by an earlier release: %v, want ErrNewer", err)
	}
}

func TestMigrationNames(t *testing.T) {
	for _, names := range [][]string{{}, {"1_a.sql"}, {"0002_a.sql"}, {"0001_a.sql", "0003_b.sql"}, {"0001_a.sql", "0001_b.sql"}, {"0001_a.sql", "README"}} {
		cfg := config(t)
		fsys := fstest.MapFS{}
		for _, name := range names {
			fsys[name] = &fstest.MapFile{Data: []byte("SELECT 1;")}
		}
		cfg.Migrations = fsys
		if _, err := sqldb.Create(t.Context(), cfg); err == nil {
			t.Errorf("migrations %q were accepted", names)
		}
		if _, err := os.Stat(cfg.Path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a failed Create left a database: %v", err)
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	good := config(t)
	for name, spoil := range map[string]func(*sqldb.Config){
		"path":       func(c *sqldb.Config) { c.Path = "" },
		"id":         func(c *sqldb.Config) { c.ApplicationID = 0 },
		"migrations": func(c *sqldb.Config) { c.Migrations = nil },
		"batch":      func(c *sqldb.Config) { c.MaxBatch = -1 },
		"window":     func(c *sqldb.Config) { c.BatchWindow = -1 },
		"readers":    func(c *sqldb.Config) { c.Readers = -1 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := sqldb.Create(t.Context(), cfg); err == nil {
			t.Errorf("bad %s was accepted", name)
		}
	}
}
