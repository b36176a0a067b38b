package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestMode(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if mode, err := Mode(file); err != nil || IsDir(mode) || mode&0o777 != 0o640 {
		t.Errorf("of a file: %o, %v", mode, err)
	}
	if mode, err := Mode(filepath.Join(dir, "link")); err != nil || !IsDir(mode) {
		t.Errorf("of a link to a directory: %o, %v", mode, err)
	}
	if _, err := Mode(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
}

func TestRename(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for _, f := range []string{from, to} {
		if err := os.WriteFile(f, []byte(f), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(to); err != nil || string(b) != from {
		t.Errorf("%q, %v", b, err)
	}
	if err := Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
}

// TestNames reads a directory that takes more than one answer of the kernel.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 500 {
		name := fmt.Sprintf("one of the files %03d", i)
		want = append(want, name)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Names(dir)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d of %d names, %v", len(got), len(want), err)
	}
	if _, err := Names(filepath.Join(dir, "absent")); !gone(err) {
		t.Errorf("of nothing: %v", err)
	}
}
