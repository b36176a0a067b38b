package lxc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc"
)

// consoleOf makes a container of files alone, with a runtime that reads them.
func consoleOf(t *testing.T) (r *lxc.Runtime, dir string, write func(name, text string)) {
	t.Helper()
	path := t.TempDir()
	dir = filepath.Join(path, "web")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := lxc.New(lxc.Config{Helper: "/nowhere", LXCPath: path, LockDir: "/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	write = func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("config", "")
	return r, dir, write
}

func TestLogTail(t *testing.T) {
	r, _, write := consoleOf(t)
	write("console.log.1", "one\ntwo\n")
	write("console.log", "three\nfour")
	write("lxc.log", "why\nnot\n")
	for _, c := range []struct {
		q    container.LogQuery
		want string
	}{
		{container.LogQuery{Tail: 100}, "one\ntwo\nthree\nfour"},
		{container.LogQuery{Tail: 4}, "one\ntwo\nthree\nfour"},
		{container.LogQuery{Tail: 3}, "two\nthree\nfour"},
		{container.LogQuery{Tail: 1}, "four"},
		{container.LogQuery{Tail: 0}, ""},
		{container.LogQuery{Tail: 1, Runtime: true}, "not\n"},
	} {
		var got bytes.Buffer
		if err := r.Log(t.Context(), "web", c.q, &got, io.Discard); err != nil || got.String() != c.want {
			t.Errorf("%+v: %q, %v, want %q", c.q, got.String(), err, c.want)
		}
	}
	if err := r.Log(t.Context(), "web", container.LogQuery{Since: time.Unix(1, 0)}, io.Discard, io.Discard); !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("since: %v", err)
	}
	for _, name := range []string{"db", "../web", ""} {
		if err := r.Log(t.Context(), name, container.LogQuery{Tail: 1}, io.Discard, io.Discard); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestLogFollowsRotation: who follows the console misses nothing when its file is
// renamed, and reads nothing twice.
func TestLogFollowsRotation(t *testing.T) {
	r, dir, write := consoleOf(t)
	write("console.log", "one\n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lines, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- r.Log(ctx, "web", container.LogQuery{Tail: 10, Follow: true}, w, io.Discard) }()
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(lines, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	expect("one\n")
	write("console.log", "two\n")
	expect("two\n")
	write("console.log", "three\n")
	if err := os.Rename(filepath.Join(dir, "console.log"), filepath.Join(dir, "console.log.1")); err != nil {
		t.Fatal(err)
	}
	write("console.log", "four\n")
	expect("three\nfour\n")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
