package backup

import (
	"bytes"
	"errors"
	"io"
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
