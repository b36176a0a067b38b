package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/terminal"
)

// window is a console on which nothing happens.
type window struct{}

func (window) raw() (func(), error)                { return func() {}, nil }
func (window) size() (terminal.Size, error)        { return terminal.Size{Rows: 24, Cols: 80}, nil }
func (window) resized() (<-chan os.Signal, func()) { return nil, func() {} }

// TestAttachWaits attaches to a host that is away: it is told what is waited for, and
// no session is called lost that has never begun.
func TestAttachWaits(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, true, "")
	c.app.console = window{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- c.run(ctx, "attach", "edge-02") }()
	c.until(t, "waiting for edge-02 to begin the session: its host has not been seen since the coordinator started\n")
	s.setDown(true)
	c.until(t, "nobody answers, trying again")
	s.setDown(false)
	c.until(t, "connected again")
	cancel()
	if got := <-code; got != exitInterrupted || !strings.Contains(c.shown(), "it has not begun; to end it: hostler action cancel ") {
		t.Errorf("code %d", got)
	}
	if strings.Contains(c.shown(), "is lost") || strings.Count(c.shown(), "again") != 2 {
		t.Errorf("it says\n%s", c.shown())
	}
}

func TestDetachKeys(t *testing.T) {
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "ctrl-a,d": "\x01d", "ctrl-],x": "\x1dx", "": "", "~,.": "~.",
	} {
		var k keys
		if err := k.Set(text); err != nil || string(k.bytes) != want {
			t.Errorf("%q: %q, %v", text, k.bytes, err)
		}
	}
	for _, text := range []string{"ctrl-", "ctrl-ab", "abc", "ctrl-1", ",", "ctrl-p,"} {
		if new(keys).Set(text) == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestFinder holds that what is typed is passed on whole and in order until the
// keys are typed, however it is cut, and that nothing behind them is.
func TestFinder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SampledFrom([]byte("aab"))
		searched := rapid.SliceOfN(few, 1, 4).Draw(t, "keys")
		typed := rapid.SliceOfN(few, 0, 40).Draw(t, "typed")
		f := finder{keys: searched}
		var passed []byte
		found := false
		for rest := typed; len(rest) > 0 && !found; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			var p []byte
			p, found = f.next(rest[:n])
			passed = append(passed, p...)
			rest = rest[n:]
		}
		before, _, there := bytes.Cut(typed, searched)
		switch {
		case found != there:
			t.Fatalf("%q in %q: found %v", searched, typed, found)
		case found && !bytes.Equal(passed, before):
			t.Fatalf("%q in %q: passed %q", searched, typed, passed)
		case !found && (!bytes.HasPrefix(typed, passed) || !bytes.HasPrefix(searched, typed[len(passed):])):
			t.Fatalf("%q in %q: passed %q and holds the rest", searched, typed, passed)
		}
	})
}
