package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func want(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != text || info.Mode() != mode {
		t.Errorf("%s is %q with mode %v, want %q with %v", path, b, info.Mode(), text, mode)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record")
	for _, c := range []struct {
		text string
		mode fs.FileMode
	}{{"old", 0o600}, {"", 0o666}, {"new", 0o644}} {
		if err := WriteFile(path, []byte(c.text), c.mode, 100); err != nil {
			t.Fatal(err)
		}
		want(t, path, c.text, c.mode)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"record"}) {
		t.Errorf("left behind: %v", got)
	}
}

// TestWriteFileIsNew: whoever has the old file open keeps what it was.
func TestWriteFileIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if err := WriteFile(path, []byte("old"), 0o600, 100); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := WriteFile(path, []byte("new"), 0o600, 100); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if n, err := f.Read(b); err != nil || string(b[:n]) != "old" {
		t.Errorf("the old file has become %q: %v", b[:n], err)
	}
	want(t, path, "new", 0o600)
}

func TestCreateFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	if err := CreateFile(path, []byte("first"), 0o600, 100); err != nil {
		t.Fatal(err)
	}
	if err := CreateFile(path, []byte("second"), 0o644, 100); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file that is there: %v, want %v", err, fs.ErrExist)
	}
	want(t, path, "first", 0o600)
	if got := names(t, dir); !slices.Equal(got, []string{"key"}) {
		t.Errorf("left behind: %v", got)
	}
}

// TestFailure leaves nothing beside what could not be replaced.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("x"), 0o600, 100); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"record"}) {
		t.Errorf("left behind: %v", got)
	}
	if err := WriteFile(filepath.Join(dir, "none", "record"), nil, 0o600, 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no directory: %v, want %v", err, fs.ErrNotExist)
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if _, err := ReadFile(path, 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v, want %v", err, fs.ErrNotExist)
	}
	for text, fits := range map[string]bool{"": true, "four": true, "fives": false} {
		if err := WriteFile(path, []byte(text), 0o600, 100); err != nil {
			t.Fatal(err)
		}
		b, err := ReadFile(path, 4)
		if fits && (err != nil || string(b) != text) {
			t.Errorf("%q is read as %q: %v", text, b, err)
		}
		if !fits && (err == nil || b != nil) {
			t.Errorf("%q is read as %q with a limit of 4 bytes", text, b)
		}
	}
	// The size that a device or a pipe tells of itself bounds nothing.
	if b, err := ReadFile("/dev/zero", 4); err == nil {
		t.Errorf("%d bytes of an endless file are read", len(b))
	}
}

// TestOneLimit: what is written can be read, and what could not be is not
// written.
func TestOneLimit(t *testing.T) {
	const most = 4
	for name, put := range map[string]func(string, []byte, fs.FileMode, int64) error{"write": WriteFile, "create": CreateFile} {
		dir := t.TempDir()
		path := filepath.Join(dir, "record")
		if err := put(path, []byte("fives"), 0o600, most); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s of too much: %v, want %v", name, err, ErrTooLarge)
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("%s of too much leaves behind: %v", name, got)
		}
		if err := put(path, []byte("four"), 0o600, most); err != nil {
			t.Errorf("%s of as much as may be: %v", name, err)
		}
		if b, err := ReadFile(path, most); err != nil || string(b) != "four" {
			t.Errorf("after a %s: %q, %v", name, b, err)
		}
		if err := put(path, []byte("fives"), 0o600, most); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s of too much over a file: %v, want %v", name, err, ErrTooLarge)
		}
		want(t, path, "four", 0o600)
	}
	path := filepath.Join(t.TempDir(), "record")
	if err := WriteFile(path, []byte("fives"), 0o600, most+1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path, most); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a file beyond the limit: %v, want %v", err, ErrTooLarge)
	}
}

func TestLoadOr(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	load := func(path string) (string, error) {
		b, err := ReadFile(path, 100)
		return string(b), err
	}
	create := func(text string) func() (string, error) {
		return func() (string, error) { return text, CreateFile(path, []byte(text), 0o600, 100) }
	}
	overtaken := func() (string, error) {
		if err := CreateFile(path, []byte("theirs"), 0o600, 100); err != nil {
			t.Fatal(err)
		}
		return create("ours")()
	}
	if v, err := LoadOr(load, path, overtaken); err != nil || v != "theirs" {
		t.Errorf("beside another: %q, %v; want what the other made", v, err)
	}
	if v, err := LoadOr(load, path, create("again")); err != nil || v != "theirs" {
		t.Errorf("of what is there: %q, %v", v, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if v, err := LoadOr(load, path, create("anew")); err != nil || v != "anew" {
		t.Errorf("of what is missing: %q, %v", v, err)
	}
	broken := errors.New("broken")
	bad := func(string) (string, error) { return "", broken }
	if _, err := LoadOr(bad, path, create("over it")); !errors.Is(err, broken) {
		t.Errorf("of what cannot be read: %v, want %v", err, broken)
	}
	want(t, path, "anew", 0o600)
}
