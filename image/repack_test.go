package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/image/imagetest"
)

// unsigned is a layout in an archive, with names that begin with prefix.
func unsigned(t testing.TB, files map[string][]byte, prefix string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix + "blobs/", Mode: 0o755})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: prefix + name, Size: int64(len(files[name])), Mode: 0o644}))
		_, bad := w.Write(files[name])
		err = errors.Join(err, bad)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// nobody signs nothing.
func nobody([]byte, []byte) (string, error) { return "", errors.New("no key is known") }

// TestRepack: of an archive go on the mark of the layout, an index with the name that the
// image is taken by, and the parts, whatever else it holds: podman would take a
// manifest.json for the form of another tool, with names and layers that were not verified.
func TestRepack(t *testing.T) {
	i := small(t, "motto")
	for _, prefix := range []string{"", "./"} {
		files := layoutOf(t, i)
		for _, planted := range []string{"manifest.json", "repositories", "blobs/sha512/ab", "etc/passwd"} {
			files[planted] = []byte(`[{"Config":"evil","RepoTags":["docker.io/library/debian:12"],"Layers":[]}]`)
		}
		v, err := image.Verify(t.Context(), kept(t, unsigned(t, files, prefix)), "localhost/mine:1", 1<<30, nobody)
		if err != nil {
			t.Fatalf("with the prefix %q: %v", prefix, err)
		}
		var b bytes.Buffer
		if err := v.Repack(&b); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{"oci-layout": true, "index.json": true}
		for _, p := range append(i.Parts, imagetest.Blob{Digest: i.Digest}) {
			want["blobs/sha256/"+strings.TrimPrefix(p.Digest, "sha256:")] = true
		}
		got := make(map[string]bool)
		for r := tar.NewReader(&b); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got[h.Name] = true
		}
		if !maps.Equal(got, want) {
			t.Errorf("with the prefix %q: it has %v, want %v", prefix, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// TestSizes: a part of another size than the manifest says is refused before anything is
// written, and so are files of which an archive holds no more than the places of their data.
func TestSizes(t *testing.T) {
	good := small(t, "motto")
	for n := range good.Parts {
		parts := slices.Clone(good.Parts)
		parts[n].Size--
		files := layoutOf(t, imagetest.Assemble(t, parts))
		if _, err := image.Verify(t.Context(), kept(t, unsigned(t, files, "")), "localhost/mine:1", 1<<30, nobody); !errors.Is(err, image.ErrArchive) {
			t.Errorf("part %d is a byte longer than its manifest says: %v", n, err)
		}
	}
	b := unsigned(t, layoutOf(t, good), "")
	end := bytes.TrimRight(b, "\x00")
	b = slices.Concat(b[:(len(end)+511)/512*512], holes(t, "blobs/sha256/sparse", "1", 1<<20), make([]byte, 1024))
	if _, err := image.Verify(t.Context(), kept(t, b), "localhost/mine:1", 1<<30, nobody); !errors.Is(err, image.ErrArchive) || !strings.Contains(err.Error(), "holes") {
		t.Errorf("a file with holes: %v", err)
	}
}

// holes are the blocks of a file in an archive of which most is left out: one byte of data
// in the first place, and a length of which the rest is zeros.
func holes(t testing.TB, name, data string, size int64) []byte {
	t.Helper()
	var records strings.Builder
	for _, r := range [][2]string{{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}, {"GNU.sparse.name", name}, {"GNU.sparse.realsize", fmt.Sprint(size)}} {
		n := len(r[0]) + len(r[1]) + 3
		n += len(fmt.Sprint(n))
		fmt.Fprintf(&records, "%d %s=%s\n", n, r[0], r[1])
	}
	where := make([]byte, 512)
	copy(where, fmt.Sprintf("1\n0\n%d\n", len(data)))
	return slices.Concat(block(t, 'x', "PaxHeaders", records.String()), block(t, tar.TypeReg, "GNUSparseFile", string(where)+data))
}

// block is an entry of any type, with its content.
func block(t testing.TB, kind byte, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, Format: tar.FormatUSTAR})
	_, bad := io.WriteString(w, content)
	if err := errors.Join(err, bad, w.Flush()); err != nil {
		t.Fatal(err)
	}
	raw := b.Bytes()
	raw[156] = kind
	copy(raw[148:156], "        ")
	sum := 0
	for _, c := range raw[:512] {
		sum += int(c)
	}
	copy(raw[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return raw
}
