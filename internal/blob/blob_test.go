package blob_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

func open(t testing.TB, dir string) *blob.Store {
	t.Helper()
	s, err := blob.Open(dir, failpoint.InputPlaced, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFill fills a file in pieces of any size, closing it and opening the store
// anew in between: it is there when all of it is, and not before.
func TestFill(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			r.Fatal(err)
		}
		data := rapid.SliceOfN(rapid.Byte(), 1, 3000).Draw(r, "data")
		d := protocol.Sum(data)
		s := open(t, dir)
		for {
			f, err := s.Fill(d, int64(len(data)))
			if err != nil {
				r.Fatal(err)
			}
			rest := data[f.Offset():]
			if n := rapid.IntRange(0, len(rest)).Draw(r, "n"); n > 0 {
				if _, err := f.Write(rest[:n]); err != nil {
					r.Fatal(err)
				}
			}
			if _, _, err := s.Size(d); !errors.Is(err, fs.ErrNotExist) {
				r.Fatalf("it is there before it is whole: %v", err)
			}
			if f.Offset() < int64(len(data)) {
				if _, err := f.Finish(); err == nil {
					r.Fatal("it was finished before it was whole")
				}
				if s.Partial(d) != int64(len(data)-len(rest))+min(int64(len(rest)), f.Offset()-int64(len(data)-len(rest))) {
					r.Fatalf("%d bytes are left", s.Partial(d))
				}
				if rapid.Bool().Draw(r, "anew") {
					s = open(t, dir)
				}
				continue
			}
			got, err := f.Finish()
			if err != nil || got != d {
				r.Fatal(got, err)
			}
			break
		}
		b, err := os.ReadFile(s.Path(d))
		if err != nil || !bytes.Equal(b, data) {
			r.Fatal("another file", err)
		}
	})
}

// TestDigest keeps nothing that is not what was promised, and goes on with the
// right bytes afterwards.
func TestDigest(t *testing.T) {
	s := open(t, t.TempDir())
	d := protocol.Sum([]byte("right"))
	for _, test := range []struct {
		text string
		want error
	}{{"wrong", blob.ErrDigest}, {"right", nil}} {
		f, err := s.Fill(d, 5)
		if err != nil || f.Offset() != 0 {
			t.Fatal(f.Offset(), err)
		}
		if _, err := f.Write([]byte(test.text)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Finish(); !errors.Is(err, test.want) {
			t.Errorf("%q: %v, want %v", test.text, err, test.want)
		}
		_, _, err = s.Size(d)
		if there := err == nil; there != (test.want == nil) {
			t.Errorf("%q: %v", test.text, err)
		}
	}
}

// TestDamaged finds what a crash of the machine can leave: a file of the right
// size with zeros in it.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	data := []byte("0123456789")
	d := protocol.Sum(data)
	if err := os.WriteFile(s.Path(d)+".part", []byte("01234\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := s.Fill(d, 10)
	if err != nil || f.Offset() != 8 {
		t.Fatal(f.Offset(), err)
	}
	if _, err := f.Write([]byte("89")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Finish(); !errors.Is(err, blob.ErrDigest) {
		t.Errorf("%v, want %v", err, blob.ErrDigest)
	}
	if n := s.Partial(d); n != 0 {
		t.Errorf("%d bytes of it are left", n)
	}
}

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	d := protocol.Sum([]byte("x"))
	f, err := s.Fill(d, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fill(d, 3); !errors.Is(err, blob.ErrBusy) {
		t.Errorf("a second one fills it: %v", err)
	}
	if _, err := f.Write([]byte("1234")); !errors.Is(err, blob.ErrSize) {
		t.Errorf("too many bytes: %v", err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := s.Fill(d, 1<<60); !errors.Is(err, blob.ErrSpace) {
		t.Errorf("an exbibyte: %v", err)
	}
	if f, err = s.Fill(d, 3); err != nil {
		t.Errorf("it is busy after an error: %v", err)
	}
	f.Close()
	full, err := blob.Open(dir, failpoint.InputPlaced, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	full.SetDisk(100, 25) // the reserve is a quarter at most
	if _, err := full.Fill(d, 1); !errors.Is(err, blob.ErrSpace) {
		t.Errorf("into the reserve: %v", err)
	}
	n, err := full.FillNew(10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Write([]byte("1")); !errors.Is(err, blob.ErrSpace) {
		t.Errorf("into the reserve without a promise: %v", err)
	}
	n.Close()
	if left, _ := filepath.Glob(filepath.Join(dir, "new.*")); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	f, err := s.FillNew(10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("0")); !errors.Is(err, blob.ErrSize) {
		t.Errorf("%v, want %v", err, blob.ErrSize)
	}
	d, err := f.Finish()
	if err != nil || d != protocol.Sum([]byte("0123456789")) {
		t.Fatal(d, err)
	}
	if n, _, err := s.Size(d); err != nil || n != 10 {
		t.Error(n, err)
	}
	// What a process that was killed leaves without a name is of no use to anybody.
	if err := os.WriteFile(filepath.Join(dir, "new.123"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if left, _ := filepath.Glob(filepath.Join(dir, "new.*")); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
}

func TestSweep(t *testing.T) {
	s := open(t, t.TempDir())
	var all []protocol.Digest
	for _, text := range []string{"old", "wanted", "young", "half"} {
		d := protocol.Sum([]byte(text))
		all = append(all, d)
		f, err := s.Fill(d, int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write([]byte(text)[:len(text)-1]); err != nil {
			t.Fatal(err)
		}
		if text == "half" {
			continue // somebody is at it
		}
		if _, err := f.Write([]byte(text)[len(text)-1:]); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	if err := s.Use(all[2], now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	n, err := s.Sweep(now.Add(time.Minute), func(d protocol.Digest) bool { return d == all[1] })
	if err != nil || n != 1 {
		t.Errorf("%d were removed, %v", n, err)
	}
	if _, _, err := s.Size(all[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if s.Partial(all[3]) != 3 {
		t.Error("what somebody fills was removed")
	}
}

// TestReserveIsKept fills the disk under a file whose size had room when it began,
// as several do that are filled at a time: none takes of the reserve, and what is
// there stays.
func TestReserveIsKept(t *testing.T) {
	s, err := blob.Open(t.TempDir(), failpoint.InputPlaced, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	s.SetDisk(100, 31)
	d := protocol.Sum([]byte("123456"))
	f, err := s.Fill(d, 6)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("123")); err != nil {
		t.Fatal(err)
	}
	s.SetDisk(100, 27) // all but two bytes are reserved
	if n, err := f.Write([]byte("456")); n != 0 || !errors.Is(err, blob.ErrSpace) {
		t.Errorf("%d bytes went into the reserve: %v", n, err)
	}
	f.Close()
	if n := s.Partial(d); n != 3 {
		t.Errorf("%d bytes are left of 3", n)
	}
	s.SetDisk(100, 28)
	if f, err = s.Fill(d, 6); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("456")); err != nil {
		t.Error(err)
	}
	if got, err := f.Finish(); err != nil || got != d {
		t.Errorf("%s, %v", got, err)
	}
}

// TestOthersWait: who wants to fill what is being filled waits for the end of that,
// and takes it over when nothing comes any more. Nobody writes beside the other.
func TestOthersWait(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		data := []byte("0123456789")
		d := protocol.Sum(data)
		first, err := s.Fill(d, 10)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for range 5 { // it is slow, and moves
			time.Sleep(9 * time.Second)
			if _, err := first.Write(data[first.Offset():][:1]); err != nil {
				t.Fatal(err)
			}
		}
		waited := make(chan error)
		go func() { waited <- s.Await(t.Context(), d) }()
		if err := <-waited; err != nil || time.Since(begun) < 55*time.Second || time.Since(begun) > 57*time.Second {
			t.Fatalf("%v after %v, of which 45 s had bytes", err, time.Since(begun))
		}
		second, err := s.Fill(d, 10)
		if err != nil || second.Offset() != 5 {
			t.Fatal(second, err)
		}
		if _, err := first.Write(data[5:6]); !errors.Is(err, blob.ErrBusy) {
			t.Errorf("it goes on beside the other: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		go func() { waited <- s.Await(t.Context(), d) }()
		synctest.Wait()
		if _, err := second.Write(data[5:]); err != nil {
			t.Error(err)
		}
		if got, err := second.Finish(); got != d || err != nil {
			t.Errorf("%s, %v", got, err)
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}
