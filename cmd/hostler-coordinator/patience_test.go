package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cue is a terminal in front of which somebody loses patience at a word.
type cue struct {
	bytes.Buffer
	word string
	stop context.CancelCauseFunc
}

var errSignal = errors.New("interrupt signal received")

func (c *cue) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.word) {
		c.stop(errSignal)
	}
	return c.Buffer.Write(p)
}

// TestInterruptedBackupAndRestore: who loses patience is heeded at once, is told what is
// left and what to do, and a second try works.
func TestInterruptedBackupAndRestore(t *testing.T) {
	p, token := started(t, 1)
	p.serve(token)
	dir := t.TempDir()
	file, target := filepath.Join(dir, "b"), state(filepath.Join(t.TempDir(), "new"))
	interrupted := func(word, say string, do func(context.Context, *cue) error) {
		t.Helper()
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		c := &cue{word: word, stop: stop}
		err := do(ctx, c)
		if !errors.Is(err, errSignal) || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), "Run it again") {
			t.Errorf("interrupted at %q: %v, want %q", word, err, say)
		}
	}
	for _, word := range []string{"Copying", "Reading it back"} {
		interrupted(word, "Nothing is left of it", func(ctx context.Context, c *cue) error {
			b := backup{state: p.state, out: c, talk: c}
			return b.run(ctx, file)
		})
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("interrupted at %q, a backup leaves %v, %v", word, left, err)
		}
	}
	p.do(0, "backup", file)
	interrupted("Checking", "Nothing was written", func(ctx context.Context, c *cue) error { return restore(ctx, target, file, "", c) })
	if _, err := os.Stat(string(target)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a state directory was made: %v", err)
	}
	interrupted("Fleet demo", "no coordinator starts there", func(ctx context.Context, c *cue) error { return restore(ctx, target, file, "", c) })
	if err := target.usable(); !errors.Is(err, errNotUsable) {
		t.Errorf("what is half restored can be used: %v", err)
	}
	p.do(0, "restore", file, "--state", string(target))
}
