package run

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

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
