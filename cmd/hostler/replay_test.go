package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol"
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
		if err := play(ctx, bytes.NewReader(someCast()), &out, 1); !errors.Is(err, errInterrupted) || out.String() != "one\r\n" {
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

// TestReplay prints what a terminal has printed if that is what the host's account
// of the recording says, and tells what is wrong with it otherwise.
func TestReplay(t *testing.T) {
	const cast = "{\"version\":2,\"width\":80,\"height\":24}\n[0.1,\"o\",\"hello \"]\n[0.2,\"i\",\"typed\"]\n[0.3,\"o\",\"there\"]\n"
	whole := protocol.Output{FD: protocol.Recording, Bytes: int64(len(cast)), SHA256: protocol.Sum([]byte(cast))}
	other, short, unread := whole, whole, whole
	other.SHA256 = protocol.Sum([]byte("something else"))
	short.Ended = "the disk was full"
	unread.SHA256, unread.Ended = protocol.Digest{}, "it cannot be read on its host"
	s := newSite(t)
	for name, tt := range map[string]struct {
		cast    string
		account protocol.Output
		code    int
		say     []string
	}{
		"whole":                        {cast, whole, 0, []string{"hello there"}},
		"another one than was told of": {cast, other, exitFailed, []string{"its digest is another one than the audit logs have"}},
		"ended early":                  {cast, short, 0, []string{"hello there", "has ended before the session: the disk was full"}},
		"unreadable there":             {cast, unread, exitFailed, []string{"its host tells no digest of it: it cannot be read on its host"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, TTY: &protocol.TTY{Rows: 24, Cols: 80, Record: true}})
			act, err := s.fleet.Coordinator().Propose(t.Context(), s.fleet.Admin(), coordinator.Request{Host: "edge-01", Spec: spec})
			if err != nil {
				t.Fatal(err)
			}
			o := <-s.orders
			s.host.Report(o.Started(s.host))
			s.write(s.host, o, protocol.Recording, []byte(tt.cast))
			s.host.Report(o.Done(protocol.Output{FD: protocol.Stdout}, tt.account))
			s.untilEnded(act.ID)
			c := newTerminal(t, s, false, "")
			if got := c.run(t.Context(), "action", "replay", act.ID.String(), "--speed", "1000"); got != tt.code {
				t.Errorf("code %d, want %d, shown %q", got, tt.code, c.shown())
			}
			for _, say := range tt.say {
				if !strings.Contains(c.shown(), say) {
					t.Errorf("shown %q, want something about %q", c.shown(), say)
				}
			}
		})
	}
}
