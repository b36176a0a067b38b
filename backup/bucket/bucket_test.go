package bucket_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/backup/bucket"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/s3test"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, s *s3test.Server, prefix string) *bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(bucket.Config{URL: s.URL(prefix), Credentials: s.Credentials, PartBytes: 5 << 20})
	must(t, err)
	return b
}

// noUpload is for files that are sent as one.
func noUpload(string) error { return errors.New("it is sent in parts") }

// TestObjects: a file becomes an object once, is read back from any place, and goes.
func TestObjects(t *testing.T) {
	s := s3test.Start(t)
	b, other := open(t, s, "edge-07"), open(t, s, "edge-08/deep")
	large := make([]byte, 11<<20)
	for i := range large {
		large[i] = byte(rand.Uint32())
	}
	var uploads []string
	must(t,
		b.Put(t.Context(), "small", bytes.NewReader([]byte("hello")), 5, noUpload),
		b.Put(t.Context(), "large", bytes.NewReader(large), int64(len(large)), func(u string) error { uploads = append(uploads, u); return nil }),
		other.Put(t.Context(), "theirs", bytes.NewReader([]byte("x")), 1, noUpload))
	if len(uploads) != 1 {
		t.Errorf("the uploads were %q", uploads)
	}
	for _, name := range []string{"small", "large"} {
		if err := b.Put(t.Context(), name, bytes.NewReader([]byte("other")), 5, noUpload); !errors.Is(err, container.ErrExists) {
			t.Errorf("%s once more: %v", name, err)
		}
	}
	all, err := b.Names(t.Context())
	slices.Sort(all)
	if err != nil || !slices.Equal(all, []string{"large", "small"}) {
		t.Errorf("there are %q, %v", all, err)
	}
	must(t, other.Put(t.Context(), "empty", bytes.NewReader(nil), 0, noUpload))
	if o, err := other.Open(t.Context(), "empty"); err != nil || o.Size != 0 {
		t.Errorf("with nothing in it it is %+v, %v", o, err)
	}
	if err := other.Put(t.Context(), "empty", bytes.NewReader(nil), 0, noUpload); !errors.Is(err, container.ErrExists) {
		t.Errorf("with nothing in it, once more: %v", err)
	}
	o, err := b.Open(t.Context(), "large")
	must(t, err)
	defer o.Close()
	got, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size))
	if err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes come back, %v", len(got), err)
	}
	for _, at := range []int64{0, 7 << 20, 3 << 20, o.Size - 100, o.Size - 100_000} {
		p := make([]byte, 70)
		if n, err := o.ReadAt(p, at); n != 70 || err != nil || !bytes.Equal(p, large[at:at+70]) {
			t.Errorf("at %d there are %d bytes, %v", at, n, err)
		}
	}
	if n, err := o.ReadAt(make([]byte, 9), o.Size-4); n != 4 || err != io.EOF {
		t.Errorf("over the end there are %d bytes, %v", n, err)
	}
	must(t, b.Remove(t.Context(), "large"), b.Abort(t.Context(), "large", uploads[0]))
	if _, err := b.Open(t.Context(), "large"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("it is removed: %v", err)
	}
	if err := b.Remove(t.Context(), "large"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("it is removed twice: %v", err)
	}
}
