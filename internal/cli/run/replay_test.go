package run

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/terminal"
)

// someCast is a recording of three events.
func someCast() []byte {
	var c terminal.Cast
	b := c.AppendHeader(nil, terminal.Size{Rows: 24, Cols: 80}, 1e9, "xterm")
	b = c.AppendOutput(b, time.Second, []byte("one\r\n"))
	b = c.AppendResize(b, 2*time.Second, terminal.Size{Rows: 50, Cols: 132})
	return c.AppendOutput(b, 11*time.Second, []byte("two\x1b[2J"))
}

func TestPlay(t *testing.T) {
	for _, speed := range []float64{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			begun := time.Now()
			if err := play(t.Context(), bytes.NewReader(someCast()), &out, speed); err != nil {
				t.Fatal(err)
			}
			want := time.Duration(11 * float64(time.Second) / speed)
			if took := time.Since(begun); took.Round(time.Millisecond) != want || out.String() != "one\r\ntwo\x1b[2J" {
				t.Errorf("at speed %v it printed %q in %v, want %v", speed, &out, took, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var out bytes.Buffer
		if err := play(ctx, bytes.NewReader(someCast()), &out, 1); !errors.Is(err, term.ErrInterrupted) || out.String() != "one\r\n" {
			t.Errorf("interrupted it printed %q, %v", &out, err)
		}
	})
}

// FuzzPlay reads bytes as a recording: what is none is said to be none, and nothing
// is waited for that was not recorded.
func FuzzPlay(f *testing.F) {
	const header = `{"version":2,"width":80,"height":24}` + "\n"
	f.Add(someCast())
	for _, seed := range []string{
		"", "{}", `{"version":1}`, header, header + `[0,"o","x"]`, header + `[1,"o"]`, header + `["1","o","x"]`, header + `[1e999,"o","x"]`,
		header + `[-1,"o","x"]`, header + `[2,"o","x"]` + "\n" + `[1,"o","y"]`, header + `[1,"i","typed"]`, header + `[1e300,"o","x"]`,
		header + `[0,"o","` + strings.Repeat("x", 70_000) + `"]`, header + `[null,null,null]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := play(ctx, bytes.NewReader(raw), &out, maxSpeed)
		if out.Len() > 3*len(raw) { // a byte that is no character becomes U+FFFD
			t.Errorf("%d bytes print %d, %v", len(raw), out.Len(), err)
		}
	})
}
