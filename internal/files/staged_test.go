package files

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entry is one thing of an archive.
type entry struct {
	kind       byte
	name, text string // or where a link leads
}

func archived(t *testing.T, all ...entry) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range all {
		h := &tar.Header{Typeflag: e.kind, Name: e.name, Mode: 0o755}
		switch e.kind {
		case tar.TypeReg:
			h.Size = int64(len(e.text))
		case tar.TypeSymlink:
			h.Linkname = e.text
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if e.kind == tar.TypeReg {
			if _, err := w.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// unpacked unpacks into a new directory, and returns it and what is in it.
func unpacked(t *testing.T, b *bytes.Buffer) (dir string, found map[string]string, err error) {
	t.Helper()
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	tree := NewTree(root, ".temp")
	err = tree.Unpack(t.Context(), b)
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	found = make(map[string]string)
	if e := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(at)
		found[strings.TrimPrefix(at, dir+"/")] = string(b)
		return err
	}); e != nil {
		t.Fatal(e)
	}
	return dir, found, err
}

// TestUnpackMany unpacks more files than are staged at a time, small and large, in
// many directories.
func TestUnpackMany(t *testing.T) {
	var all []entry
	want := make(map[string]string)
	for d := range maxUnsynced + 10 {
		dir := fmt.Sprintf("d%d/", d)
		all = append(all, entry{kind: tar.TypeDir, name: dir})
		for i := range 3 {
			name, text := fmt.Sprintf("%sf%d", dir, i), fmt.Sprint(d, i)
			if d%100 == 50 && i == 1 {
				text = strings.Repeat(text, maxStagedOne)
			}
			all = append(all, entry{tar.TypeReg, name, text})
			want[name] = text
		}
	}
	_, got, err := unpacked(t, archived(t, all...))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	for name, text := range want {
		if got[name] != text {
			t.Fatalf("%s is %.40q, want %.40q", name, got[name], text)
		}
	}
}

// TestUnpackKeepsTheOrder: of several things of one name the last one counts.
func TestUnpackKeepsTheOrder(t *testing.T) {
	dir, got, err := unpacked(t, archived(t,
		entry{tar.TypeReg, "a", "first"}, entry{tar.TypeReg, "b", "b"}, entry{tar.TypeReg, "a", "second"},
		entry{tar.TypeReg, "l", "a file"}, entry{tar.TypeSymlink, "l", "b"},
		entry{tar.TypeSymlink, "m", "b"}, entry{tar.TypeReg, "m", "a file"}))
	if err != nil {
		t.Fatal(err)
	}
	if got["a"] != "second" || got["m"] != "a file" || got["b"] != "b" {
		t.Errorf("there are %q", got)
	}
	if to, err := os.Readlink(filepath.Join(dir, "l")); err != nil || to != "b" {
		t.Errorf("l leads to %q, %v", to, err)
	}
}

// TestUnpackUpToAMistake: what stands before it is there and whole, and nothing else
// is.
func TestUnpackUpToAMistake(t *testing.T) {
	_, got, err := unpacked(t, archived(t, entry{tar.TypeReg, "a", "a"}, entry{tar.TypeReg, "b", "b"}, entry{tar.TypeReg, "../c", "c"}, entry{tar.TypeReg, "d", "d"}))
	if err == nil || len(got) != 2 || got["a"] != "a" || got["b"] != "b" {
		t.Errorf("there are %q, %v", got, err)
	}
	torn := archived(t, entry{tar.TypeReg, "a", "a"}, entry{tar.TypeReg, "b", strings.Repeat("b", 10_000)})
	torn.Truncate(torn.Len() - 6_000)
	if _, got, err = unpacked(t, torn); err == nil || len(got) != 1 || got["a"] != "a" {
		t.Errorf("there are %q, %v", got, err)
	}
}
