package sqldb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/sqldb"
)

// written is a database, as its files are while nobody uses it, and what it says.
type written struct {
	db, wal []byte
	says    []string
}

// crashed is a database whose process ended without closing it: the log holds
// several transactions, after a part was moved into the database.
func crashed(t *testing.T) written {
	t.Helper()
	cfg := childConfig(filepath.Join(t.TempDir(), "db"))
	db := create(t, cfg)
	for i := range 20 {
		fillRow(t, db, i)
	}
	closeDB(t, db) // moves the log into the database
	db = reopen(t, cfg)
	for i := 20; i < 26; i++ {
		fillRow(t, db, i)
	}
	w := written{says: items(t, db)}
	var err error
	if w.db, err = os.ReadFile(cfg.Path); err != nil {
		t.Fatal(err)
	}
	if w.wal, err = os.ReadFile(cfg.Path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if len(w.says) != 26 || len(w.db) < 4*4096 || len(w.wal) < 6*4096 {
		t.Fatalf("%d rows, a database of %d and a log of %d bytes", len(w.says), len(w.db), len(w.wal))
	}
	return w
}

// fillRow writes a row that fills much of a page, or more than two.
func fillRow(t *testing.T, db *sqldb.DB, i int) {
	t.Helper()
	id := fmt.Sprintf("%03d %s", i, strings.Repeat("x", 600+i%5*2500))
	if err := db.Update(t.Context(), put(id)); err != nil {
		t.Fatal(err)
	}
}

// memory is a directory that costs no disk: these tests open a database
// thousands of times, and no power fails meanwhile.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sqldb-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// open writes the files into a directory and reads what they say.
func (w written) open(dir string) ([]string, error) {
	cfg := childConfig(filepath.Join(dir, "db"))
	if err := os.WriteFile(cfg.Path, w.db, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(cfg.Path+"-wal", w.wal, 0o600); err != nil {
		return nil, err
	}
	db, err := sqldb.Open(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	var says []string
	err = db.View(context.Background(), func(tx *sqldb.Tx) error {
		for row, err := range tx.Query("SELECT id FROM item ORDER BY id") {
			if err != nil {
				return err
			}
			var id string
			if err := row.Scan(&id); err != nil {
				return err
			}
			says = append(says, id)
		}
		return nil
	})
	return says, errors.Join(err, db.Close())
}

// TestOneBit turns single bits all over the files: the database is refused with
// the reason, or says what it said before. Never does it say anything else.
func TestOneBit(t *testing.T) {
	w := crashed(t)
	dir := memory(t)
	if says, err := w.open(dir); err != nil || !slices.Equal(says, w.says) {
		t.Fatalf("without damage: %d rows, %v", len(says), err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var refused, same int
	turn := func(file string, b []byte, at int) {
		bit := byte(1) << random.IntN(8)
		b[at] ^= bit
		defer func() { b[at] ^= bit }()
		says, err := w.open(dir)
		switch {
		case err == nil && slices.Equal(says, w.says):
			same++
		case err == nil:
			t.Errorf("byte %d of the %s ^ %#x: it says %d rows, want %d", at, file, bit, len(says), len(w.says))
		case !errors.Is(err, sqldb.ErrCorrupt) && !errors.Is(err, sqldb.ErrForeign):
			t.Errorf("byte %d of the %s ^ %#x: %v", at, file, bit, err)
		default:
			refused++
		}
	}
	for at := 0; at < len(w.db); at += 1 + min(at/108, 4)*random.IntN(100) {
		turn("database", w.db, at)
	}
	for at := 0; at < len(w.wal); at++ {
		if header := (at-32)%(24+4096) < 24; at < 32+24 || header && random.IntN(4) == 0 || random.IntN(1500) == 0 {
			turn("log", w.wal, at)
		}
	}
	t.Logf("%d refused, %d without a difference", refused, same)
	if refused < 150 || same > refused {
		t.Errorf("%d were refused, %d made no difference", refused, same)
	}
}

// TestTornLog ends the log anywhere, or leaves the end of a page that was being
// written: what a crash does is no damage, and takes the last transaction at most.
func TestTornLog(t *testing.T) {
	whole := crashed(t)
	dir := memory(t)
	for cut := 1; cut < 4096; cut += 370 {
		for name, wal := range map[string][]byte{
			"cut":     whole.wal[:len(whole.wal)-cut],
			"zeroed":  append(bytes.Clone(whole.wal[:len(whole.wal)-cut]), make([]byte, cut)...),
			"garbage": append(bytes.Clone(whole.wal[:len(whole.wal)-cut]), bytes.Repeat([]byte{0xa5}, cut)...),
		} {
			torn := whole
			torn.wal = wal
			says, err := torn.open(dir)
			if err != nil || !slices.Equal(says, whole.says) && !slices.Equal(says, whole.says[:25]) {
				t.Errorf("%s by %d: %d rows, %v", name, cut, len(says), err)
			}
		}
	}
	for _, n := range []int{0, 10, 32, 40} {
		torn := whole
		torn.wal = whole.wal[:n]
		if says, err := torn.open(dir); err != nil || len(says) != 20 {
			t.Errorf("a log of %d bytes: %d rows, %v", n, len(says), err)
		}
	}
}

// TestDamagedLogIsNotTorn changes much of a transaction in the middle of the log.
func TestDamagedLogIsNotTorn(t *testing.T) {
	w := crashed(t)
	w.wal = bytes.Clone(w.wal)
	copy(w.wal[32+24+100:], bytes.Repeat([]byte{0xa5}, 50))
	if _, err := w.open(memory(t)); !errors.Is(err, sqldb.ErrCorrupt) || !strings.Contains(err.Error(), "was whole once") {
		t.Errorf("%v", err)
	}
}

// TestReasonNamesThePage changes a page in the middle.
func TestReasonNamesThePage(t *testing.T) {
	w := crashed(t)
	w.wal = nil
	w.db = bytes.Clone(w.db)
	w.db[2*4096+700] ^= 4
	if _, err := w.open(memory(t)); !errors.Is(err, sqldb.ErrCorrupt) || !strings.Contains(err.Error(), "page 3 (at byte 8192)") {
		t.Errorf("%v", err)
	}
}

// TestPageInTheWrongPlace swaps two pages, which are both whole.
func TestPageInTheWrongPlace(t *testing.T) {
	w := crashed(t)
	w.wal = nil
	w.db = bytes.Clone(w.db)
	one, other := bytes.Clone(w.db[2*4096:3*4096]), bytes.Clone(w.db[3*4096:4*4096])
	copy(w.db[2*4096:], other)
	copy(w.db[3*4096:], one)
	if _, err := w.open(memory(t)); !errors.Is(err, sqldb.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}
