package backup_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/protocol"
)

var web = backup.Manifest{Container: "web", CTID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Runtime: container.KindLXC, Made: 7}

// next makes a backup of a chain.
func next(t testing.TB, s backup.Store, name, root string, most int) (backup.Backup, string) {
	t.Helper()
	b, why, err := s.CreateNext(t.Context(), name, root, ids, web, most)
	must(t, err)
	return b, why
}

// tick waits until the clock of a file system has moved on.
func tick(t testing.TB, root string) {
	t.Helper()
	probe := filepath.Join(filepath.Dir(root), "probe")
	changed := func() int64 {
		must(t, os.WriteFile(probe, nil, 0o600))
		must(t, os.Chmod(probe, 0o600))
		var st unix.Stat_t
		must(t, unix.Stat(probe, &st))
		return st.Ctim.Nano()
	}
	for before := changed(); changed() == before; {
	}
}

// contents tells all of a tree that an archive of it holds.
func contents(t testing.TB, root string, ids container.IDRange) string {
	t.Helper()
	var raw bytes.Buffer
	_, err := rootfs.Archive(t.Context(), root, ids, &raw)
	must(t, err)
	var all strings.Builder
	for r := tar.NewReader(&raw); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all.String()
		}
		must(t, err)
		sum := sha256.New()
		_, err = io.Copy(sum, r)
		must(t, err)
		at := h.ModTime.Unix() // a restore rounds to microseconds
		if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeFifo {
			at = 0 // that of the restore
		}
		delete(h.PAXRecords, "mtime")
		fmt.Fprintf(&all, "%q %c %o %d:%d %d %d %q %x %q\n", h.Name, h.Typeflag, h.Mode, h.Uid, h.Gid, h.Size, at, h.Linkname, sum.Sum(nil)[:4], h.PAXRecords)
	}
}

// restored tells all of what is restored of a backup.
func restored(t testing.TB, s backup.Store, name string) string {
	t.Helper()
	other := container.IDRange{First: 1_391_000_000, Count: 1 << 16}
	_, img, err := s.Image(t.Context(), name)
	must(t, err)
	to := t.TempDir()
	must(t, rootfs.Unpack(to, img.Layers, other))
	return contents(t, to, other)
}

// mutate changes a tree at random.
func mutate(t testing.TB, r *rand.Rand, root string) {
	t.Helper()
	names := []string{"a", "b", "c", ".wh.a", "d", "e f", "ü"}
	path := func() string {
		var p []string
		for range 1 + r.IntN(3) {
			p = append(p, names[r.IntN(len(names))])
		}
		return filepath.Join(append([]string{root}, p...)...)
	}
	remove := func(p string) {
		if i, err := os.Stat(filepath.Dir(p)); err == nil && i.IsDir() { // opening a FIFO would wait
			_ = os.RemoveAll(p)
		}
	}
	own := func(p string) { _ = os.Lchown(p, int(ids.First)+r.IntN(5), int(ids.First)+r.IntN(5)) }
	for range 1 + r.IntN(12) {
		p, q := path(), path()
		// What does not work out, as where a link leads nowhere, changes nothing.
		switch r.IntN(14) {
		case 0, 1, 2, 3:
			_ = os.MkdirAll(filepath.Dir(p), 0o755)
			if i, err := os.Lstat(p); err == nil && !i.Mode().IsRegular() {
				continue
			}
			_ = os.WriteFile(p, []byte(fmt.Sprintf("%08d", r.IntN(1e8))), 0o600) // of one length
			own(p)
		case 4:
			_ = os.MkdirAll(p, 0o700)
			own(p)
		case 5:
			remove(p)
		case 6, 7:
			_ = os.Rename(p, q)
		case 8:
			_ = os.Link(p, q)
		case 9:
			remove(p)
			_ = os.Symlink([]string{"a", "../b", "/c/d", "nowhere"}[r.IntN(4)], p)
		case 10:
			if i, err := os.Lstat(p); err == nil && i.Mode()&os.ModeSymlink == 0 {
				_ = os.Chmod(p, os.FileMode(r.IntN(0o1000))|0o700)
			}
		case 11:
			own(p)
		case 12:
			_ = unix.Lsetxattr(p, "user.note", []byte{byte('a' + r.IntN(3))}, 0)
		case 13:
			remove(p)
			_ = unix.Mknod(p, []uint32{unix.S_IFIFO, unix.S_IFSOCK}[r.IntN(2)]|0o600, 0)
		}
	}
}

// TestChainOfRandomChanges: each backup of a chain gives the tree as it was when the backup
// was made, whatever has changed between two.
func TestChainOfRandomChanges(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 15))
		s := store(t, identity(t))
		if seed%3 != 0 {
			s = s.Still(-time.Hour) // files count as unchanged at once
		}
		dir := filepath.Join(t.TempDir(), "root")
		must(t, os.Mkdir(dir, 0o755))
		for range 5 {
			mutate(t, r, dir)
		}
		var was []string
		for i := range 8 {
			b, why := next(t, s, fmt.Sprintf("b%d", i), dir, 6)
			if want := i % 6; b.Chain != want+1 || (b.Parent == nil) != (want == 0) || b.Parent != nil && why != "" {
				t.Fatalf("seed %d: backup %d is the %dth of its chain, a full one: %v, %q", seed, i, b.Chain, b.Parent == nil, why)
			}
			was = append(was, contents(t, dir, ids))
			tick(t, dir)
			mutate(t, r, dir)
		}
		for i, want := range was {
			if got := restored(t, s, fmt.Sprintf("b%d", i)); got != want {
				t.Fatalf("seed %d: backup %d gives\n%s, want\n%s", seed, i, got, want)
			}
		}
	}
}

// TestIncrement: an increment is small, is listed with what it lies on, and is refused, as is
// what lies on it, when a part of its chain was changed, cut short, replaced, or is gone.
func TestIncrement(t *testing.T) {
	s := store(t, identity(t)).Still(-time.Hour)
	dir := filepath.Join(t.TempDir(), "root")
	must(t, os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "large"), bytes.Repeat([]byte("0123456789abcdef"), 1<<16), 0o600))
	if b, why := next(t, s, "b0", dir, 7); b.Parent != nil || !strings.Contains(why, "no list of the files") {
		t.Errorf("the first one is %+v, for %q", b, why)
	}
	for i := 1; i < 4; i++ {
		tick(t, dir)
		must(t, os.WriteFile(filepath.Join(dir, "small"), []byte{byte(i)}, 0o600))
		if b, why := next(t, s, fmt.Sprintf("b%d", i), dir, 7); b.Parent == nil || b.Parent.Name != fmt.Sprintf("b%d", i-1) || b.Entries > 2 || why != "" || b.Verified.IsZero() {
			t.Errorf("the increment is %+v, for %q", b, why)
		}
	}
	all, err := s.List(t.Context())
	must(t, err)
	if last := all[len(all)-1]; len(all) != 4 || last.Chain != 4 || last.ChainBytes != all[0].Size+all[1].Size+all[2].Size+all[3].Size || last.Problem != "" || last.Verified.IsZero() {
		t.Errorf("there are %+v", all)
	}
	if newest, err := s.Newest(t.Context()); err != nil || newest[web.CTID].Name != "b3" {
		t.Errorf("the newest good ones are %+v, %v", newest, err)
	}
	if err := s.Remove(t.Context(), "b1"); !errors.Is(err, container.ErrBusy) || !strings.Contains(err.Error(), "b2") {
		t.Errorf("a backup that b2 needs is removed: %v", err)
	}
	path := func(name string) string { return filepath.Join(s.Dir, name+".hostler-backup") }
	raw, err := os.ReadFile(path("b1"))
	must(t, err)
	other, err := os.ReadFile(path("b2"))
	must(t, err)
	index, err := os.ReadFile(backup.Index(s, web.CTID))
	must(t, err)
	flipped := bytes.Clone(raw)
	flipped[len(flipped)/4] ^= 1
	for what, b := range map[string][]byte{"flipped": flipped, "cut short": raw[:len(raw)-1], "replaced": other, "gone": nil} {
		must(t, os.Remove(path("b1")), os.WriteFile(backup.Index(s, web.CTID), index, 0o600))
		if b != nil {
			must(t, os.WriteFile(path("b1"), b, 0o600))
		}
		if _, err := s.Verify(t.Context(), "b3"); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "b1") {
			t.Errorf("%s: the backup over it is verified: %v", what, err)
		}
		if _, _, err := s.Image(t.Context(), "b3"); !errors.Is(err, backup.ErrArchive) {
			t.Errorf("%s: the backup over it is restored: %v", what, err)
		}
		if newest, err := s.Newest(t.Context()); err != nil || newest[web.CTID].Name != "b0" {
			t.Errorf("%s: the newest good ones are %+v, %v", what, newest, err)
		}
		if b, why := next(t, s, "over-"+strings.ReplaceAll(what, " ", "-"), dir, 7); b.Parent != nil || why == "" {
			t.Errorf("%s: an increment is made over it: %+v", what, b)
		}
		must(t, s.Remove(t.Context(), "over-"+strings.ReplaceAll(what, " ", "-")))
		if b == nil {
			must(t, os.WriteFile(path("b1"), nil, 0o600))
		}
	}
	must(t, os.WriteFile(path("b1"), raw, 0o600))
	_, err = s.Verify(t.Context(), "b3")
	must(t, err)
	for _, name := range []string{"b3", "b2", "b1", "b0"} {
		must(t, s.Remove(t.Context(), name))
	}
}

// TestIndex: without the list of files, with a changed one, with other ids or other keys the
// next backup is a full one; killed before the list is kept, it lies on the one of the list.
func TestIndex(t *testing.T) {
	s := store(t, identity(t))
	dir := root(t)
	next(t, s, "b0", dir, 7)
	at := backup.Index(s, web.CTID)
	first, err := os.ReadFile(at)
	must(t, err)
	next(t, s, "b1", dir, 7)
	must(t, os.WriteFile(at, first, 0o600)) // as after a crash before the list of b1
	if b, why := next(t, s, "b2", dir, 7); b.Parent == nil || b.Parent.Name != "b0" {
		t.Errorf("it is %+v, for %q", b, why)
	}
	last, err := os.ReadFile(at)
	must(t, err)
	if b, why := next(t, s, "full", dir, 0); b.Parent != nil || why != "" {
		t.Errorf("a full one is %+v, for %q", b, why)
	}
	last[len(last)/2] ^= 1
	must(t, os.WriteFile(at, last, 0o600))
	if b, why := next(t, s, "changed", dir, 7); b.Parent != nil || !strings.Contains(why, "changed") {
		t.Errorf("over a changed list it is %+v, for %q", b, why)
	}
	if b, _, err := s.CreateNext(t.Context(), "ids", dir, container.IDRange{First: 1, Count: 1 << 16}, web, 7); err != nil || b.Parent != nil {
		t.Errorf("with other ids it is %+v, %v", b, err)
	}
	must(t, os.Remove(at))
	if b, why := next(t, s, "without", dir, 7); b.Parent != nil || why == "" {
		t.Errorf("without a list it is %+v, for %q", b, why)
	}
	must(t, s.Remove(t.Context(), "without"))
	if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the list of a backup that is removed is there: %v", err)
	}
}

// TestRetainChains: what a schedule removes goes behind its increments, and stays as long as
// one of them does.
func TestRetainChains(t *testing.T) {
	s := store(t, identity(t))
	dir := root(t)
	day := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	m := web
	m.Scheduled = true
	var last backup.Backup
	for i := range 7 {
		var err error
		m.Made = day.AddDate(0, 0, i).UnixMilli()
		last, _, err = s.CreateNext(t.Context(), fmt.Sprintf("b%d", i), dir, ids, m, 3) // b0 b1 b2, b3 b4 b5, b6
		must(t, err)
	}
	left := func(daily int) (names []string) {
		must(t, s.Retain(t.Context(), last, daily, 0, day.AddDate(0, 0, 6)))
		all, err := s.List(t.Context())
		must(t, err)
		for _, b := range all {
			if names = append(names, b.Name); b.Problem != "" {
				t.Errorf("%s: %s", b.Name, b.Problem)
			}
		}
		return names
	}
	if got := left(5); !slices.Equal(got, []string{"b0", "b1", "b2", "b3", "b4", "b5", "b6"}) {
		t.Errorf("five days need %v", got)
	}
	if got := left(3); !slices.Equal(got, []string{"b3", "b4", "b5", "b6"}) {
		t.Errorf("three days need %v", got)
	}
	if got := left(1); !slices.Equal(got, []string{"b6"}) {
		t.Errorf("one day needs %v", got)
	}
}

// TestEncryptedChain: increments are encrypted to the same keys, made without a secret one,
// and restored with it.
func TestEncryptedChain(t *testing.T) {
	s := store(t, identity(t))
	s.By = shifted{3}
	dir := root(t)
	next(t, s, "b0", dir, 7)
	must(t, os.WriteFile(filepath.Join(dir, "more"), []byte("for few"), 0o600))
	b, why := next(t, s, "b1", dir, 7)
	if b.Parent == nil || b.Encrypted == nil {
		t.Fatalf("it is %+v, for %q", b, why)
	}
	s.Secret = shifted{3}
	if got, want := restored(t, s, "b1"), contents(t, dir, ids); got != want {
		t.Errorf("it gives\n%s, want\n%s", got, want)
	}
	s.By = nil
	if b, why := next(t, s, "plain", dir, 7); b.Parent != nil || !strings.Contains(why, "other keys") {
		t.Errorf("one that is not encrypted is %+v, for %q", b, why)
	}
}

// TestHostileParents: a manifest of an impossible form is refused, even one with a valid signature.
func TestHostileParents(t *testing.T) {
	id := identity(t)
	s := store(t, id)
	sum := strings.Repeat("0", 64)
	for _, p := range []backup.Parent{{"../x", sum, 1}, {"x", "0", 1}, {"x", sum, 0}, {"x", sum, -1}, {"x", sum, backup.MaxChain}, {"x", strings.Repeat("z", 64), 1}} {
		m := web
		m.Parent = &p
		_, err := s.Create(t.Context(), "bad", root(t), ids, m)
		must(t, err)
		if _, err := s.Verify(t.Context(), "bad"); !errors.Is(err, backup.ErrArchive) {
			t.Errorf("%+v: %v", p, err)
		}
		must(t, s.Remove(t.Context(), "bad"))
	}
	m := web
	m.Parent, m.Epoch = &backup.Parent{"self", sum, 1}, protocol.Epoch{}
	_, err := s.Create(t.Context(), "self", root(t), ids, m)
	must(t, err)
	if _, err := s.Verify(t.Context(), "self"); !errors.Is(err, backup.ErrArchive) {
		t.Errorf("one that lies on itself: %v", err)
	}
}

// FuzzIndex reads whatever comes; what is read is encoded to what is read again.
func FuzzIndex(f *testing.F) {
	s := store(f, identity(f))
	next(f, s, "b0", root(f), 7)
	raw, err := os.ReadFile(backup.Index(s, web.CTID))
	must(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, b := range [][]byte{raw, sealed(raw)} {
			again, err := backup.DecodeIndex(b)
			if err != nil {
				continue
			}
			if _, err := backup.DecodeIndex(again); err != nil {
				t.Errorf("what was read is not read again: %v", err)
			}
		}
	})
}

// sealed gives bytes the digest that an index ends with.
func sealed(raw []byte) []byte {
	b := append([]byte("hostler-index/1\n"), raw...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}
