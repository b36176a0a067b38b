package files_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/files"
)

// staged are the stages in a directory.
func staged(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, ".hostler-pull-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func openStage(t *testing.T, dir, key string) *files.Stage {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := files.OpenStage(root, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, w io.Writer, b []byte) {
	t.Helper()
	if n, err := w.Write(b); n != len(b) || err != nil {
		t.Fatal(n, err)
	}
}

// TestStageGoesOn finds what was left, and its digest, whoever left it.
func TestStageGoesOn(t *testing.T) {
	dir := t.TempDir()
	var all []byte
	for _, part := range [][]byte{[]byte("first"), make([]byte, 100_000), []byte("third"), {}} {
		s := openStage(t, dir, "key")
		if s.Size() != int64(len(all)) || s.Sum() != sha256.Sum256(all) {
			t.Fatalf("%d bytes with digest %x are there, want %d", s.Size(), s.Sum(), len(all))
		}
		put(t, s, part)
		all = append(all, part...)
		if err := errors.Join(s.Complete(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	s := openStage(t, dir, "key")
	if b, err := io.ReadAll(s.Content()); err != nil || !bytes.Equal(b, all) {
		t.Errorf("%d bytes are read, %v", len(b), err)
	}
	if err := s.Remove(); err != nil || len(staged(t, dir)) != 0 {
		t.Errorf("%v is left, %v", staged(t, dir), err)
	}
}

// TestStageKilled loses no more than the zeros at its end, which nobody wrote.
func TestStageKilled(t *testing.T) {
	dir := t.TempDir()
	s := openStage(t, dir, "key")
	put(t, s, []byte("begun"))
	put(t, s, make([]byte, 1000))
	killed, err := os.ReadFile(staged(t, dir)[0])
	if err != nil || string(killed) != "begun" {
		t.Fatalf("killed here it holds %q, %v", killed, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s = openStage(t, dir, "key"); s.Sum() != sha256.Sum256([]byte("begun")) {
		t.Error("its digest is not that of what is there")
	}
	put(t, s, []byte(" and ended"))
	if b, err := io.ReadAll(s.Content()); err != nil || string(b) != "begun and ended" {
		t.Errorf("%q, %v", b, err)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
}

// TestStageSparse takes no room for zeros.
func TestStageSparse(t *testing.T) {
	dir := t.TempDir()
	s := openStage(t, dir, "key")
	zeros := make([]byte, 32<<10)
	put(t, s, []byte("x"))
	for range 1 << 10 {
		put(t, s, zeros)
	}
	if err := errors.Join(s.Complete(), s.Close()); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(staged(t, dir)[0], &st); err != nil || st.Size != 1+32<<20 || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes take %d of the disk, %v", st.Size, st.Blocks*512, err)
	}
}

// TestStageBusy lets one program at it, and removes what is empty.
func TestStageBusy(t *testing.T) {
	dir := t.TempDir()
	s := openStage(t, dir, "key")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := files.OpenStage(root, "key"); !errors.Is(err, files.ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	other := openStage(t, dir, "other")
	if other.Key() == s.Key() || len(staged(t, dir)) != 2 {
		t.Errorf("%v are there", staged(t, dir))
	}
	put(t, s, []byte("wrong"))
	if err := errors.Join(s.Restart(), s.Close(), other.Close()); err != nil || len(staged(t, dir)) != 0 {
		t.Errorf("%v is left, %v", staged(t, dir), err)
	}
}

// TestStageOfOthers follows no link and waits for no pipe.
func TestStageOfOthers(t *testing.T) {
	dir := t.TempDir()
	s := openStage(t, dir, "key")
	name := staged(t, dir)[0]
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "mine"), "mine")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for what, make := range map[string]func() error{
		"a link":      func() error { return os.Symlink("mine", name) },
		"a pipe":      func() error { return syscall.Mkfifo(name, 0o600) },
		"a directory": func() error { return os.Mkdir(name, 0o700) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if _, err := files.OpenStage(root, "key"); err == nil {
			t.Errorf("%s was taken for a stage", what)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, filepath.Join(dir, "mine")); got != "mine" {
		t.Errorf("what the link led to is %q", got)
	}
}

// TestStageSweep removes what is old, and nothing that is not, or that is in use, or
// that is somebody else's.
func TestStageSweep(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	old := now.Add(-8 * 24 * time.Hour)
	leave := func(key string, at time.Time) string {
		s := openStage(t, dir, key)
		put(t, s, []byte(key))
		name := filepath.Join(dir, ".hostler-pull-"+s.Key())
		if err := errors.Join(s.Close(), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	gone, young, used := leave("old", old), leave("young", now), leave("used", old)
	mine := filepath.Join(dir, ".hostler-mine")
	write(t, mine, "mine")
	if err := errors.Join(os.Chtimes(mine, old, old), os.Mkdir(filepath.Join(dir, ".hostler-pull-dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	s := openStage(t, dir, "used")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := files.SweepStages(root, now.Add(-7*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is old is still there: %v", err)
	}
	for _, name := range []string{young, used, mine} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRest passes on what is behind the same beginning, in writes of any size, and
// nothing behind another one.
func TestRest(t *testing.T) {
	const text = "the whole of the stream"
	for have := range len(text) + 2 {
		for _, step := range []int{1, 3, len(text)} {
			for _, same := range []bool{true, false} {
				begin := text[:min(have, len(text))]
				if have > len(text) {
					begin = text + strings.Repeat("!", have-len(text))
				}
				if !same {
					begin = strings.ToUpper(begin)
				}
				var got strings.Builder
				r := files.NewRest(&got, int64(have), sha256.Sum256([]byte(begin)))
				var err error
				for at := 0; at < len(text) && err == nil; at += step {
					_, err = r.Write([]byte(text[at:min(at+step, len(text))]))
				}
				var sum [32]byte
				if err == nil {
					sum, err = r.End()
				}
				switch {
				case (same || have == 0) && have <= len(text):
					if err != nil || got.String() != text[have:] || sum != sha256.Sum256([]byte(text)) {
						t.Errorf("behind %d bytes: %q, %v", have, got.String(), err)
					}
				case !errors.Is(err, files.ErrChanged) || got.Len() > 0 || r.Begun():
					t.Errorf("behind %d other bytes: %q, %v", have, got.String(), err)
				}
			}
		}
	}
}

// TestPackedAgain makes the same archive of what has not changed, though it was read
// in between.
func TestPackedAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b"), "beta")
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a/c"), "gamma")
	sums := make(map[string][32]byte)
	pack := func() []byte {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		var b bytes.Buffer
		p := files.NewPacker(&b)
		p.Packed = func(name string, size int64, sum [32]byte) { sums[name] = sum }
		if err := errors.Join(p.Dir(t.Context(), "top", root), p.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := pack()
	later := time.Now().Add(48 * time.Hour)
	for _, name := range []string{"b", "a/c", "a"} {
		path := filepath.Join(dir, name)
		i, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, later, i.ModTime()); err != nil { // as if it had been read
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first, pack()) {
		t.Error("it is another archive")
	}
	if len(sums) != 2 || sums["top/a/c"] != sha256.Sum256([]byte("gamma")) {
		t.Errorf("the digests are %x", sums)
	}
	write(t, filepath.Join(dir, "b"), "BETA")
	if bytes.Equal(first, pack()) {
		t.Error("it is the same although a file has changed")
	}
}
