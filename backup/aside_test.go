package backup

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// failing takes so many bytes, and then no more.
type failing struct{ left int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestAside: all that was written comes out in order, whatever the sizes, and an error ends
// it at the next block or at the end.
func TestAside(t *testing.T) {
	var got, want bytes.Buffer
	a := newAside(&got)
	for n := range 1500 {
		p := bytes.Repeat([]byte{byte(n)}, n)
		want.Write(p)
		if _, err := a.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes came out, %v; want the %d that went in", got.Len(), err, want.Len())
	}

	for _, left := range []int{0, asideBytes, 3*asideBytes + 1} {
		a := newAside(&failing{left})
		_, err := io.CopyN(a, endless{}, 64*asideBytes)
		if !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v; a write goes on", left, err)
		}
		if err := a.Close(); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: closed with %v", left, err)
		}
	}
	a = newAside(&failing{10})
	if _, err := a.Write(make([]byte, 11)); err != nil {
		t.Error(err)
	}
	if err := a.Close(); !errors.Is(err, errFull) {
		t.Errorf("what was gathered last is lost without a word: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestWritten: a file is what was written to it, whole and nothing else.
func TestWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var w written
	for rest := text; len(rest) > 0; rest = rest[min(len(rest), 1000):] {
		if n, err := w.Write(rest[:min(len(rest), 1000)]); err != nil || n == 0 {
			t.Fatal(err)
		}
	}
	flipped := bytes.Clone(text)
	flipped[len(flipped)-1] ^= 1
	for what, is := range map[string][]byte{"": text, "flipped": flipped, "cut short": text[1:], "longer": append(bytes.Clone(text), 0), "empty": nil} {
		if err := os.WriteFile(path, is, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		i, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.check(t.Context())(nil, local{f, i}); what == "" && err != nil || what != "" && !errors.Is(err, ErrArchive) {
			t.Errorf("a file that is %s: %v", what, err)
		}
	}
}
