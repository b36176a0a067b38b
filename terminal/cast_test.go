package terminal_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/terminal"
)

// played is what the events of a recording print, one behind the other.
func played(t *testing.T, cast []byte) string {
	t.Helper()
	var out strings.Builder
	for i, line := range bytes.Split(bytes.TrimSuffix(cast, []byte("\n")), []byte("\n")) {
		if i == 0 {
			var h struct{ Version, Width, Height, Timestamp int }
			if err := json.Unmarshal(line, &h); err != nil || h.Version != 2 || h.Width != 80 || h.Height != 24 || h.Timestamp != 1e9 {
				t.Fatalf("header %s: %+v, %v", line, h, err)
			}
			continue
		}
		if len(line) > terminal.MaxCastLine/10 {
			t.Errorf("a line of %d bytes", len(line))
		}
		var e [3]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e[1] == "o" {
			out.WriteString(e[2].(string))
		}
	}
	return out.String()
}

func TestCast(t *testing.T) {
	var c terminal.Cast
	b := c.AppendHeader(nil, terminal.Size{Rows: 24, Cols: 80}, 1e9, `x"term`)
	b = c.AppendOutput(b, 1500*time.Millisecond, []byte("a\x1b[2J\"\\\r\n\x7f"))
	b = c.AppendResize(b, 2*time.Second, terminal.Size{Rows: 50, Cols: 132})
	want := `{"version":2,"width":80,"height":24,"timestamp":1000000000,"env":{"TERM":"x\"term"}}
[1.500000,"o","a\u001b[2J\"\\\u000d\u000a\u007f"]
[2.000000,"r","132x50"]
`
	if string(b) != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}

// FuzzCast: whatever is printed, in whatever pieces, is in the recording, but for
// bytes that are no characters.
func FuzzCast(f *testing.F) {
	f.Add([]byte("aä€𝄞\xff\xc3"), uint8(1))
	f.Add(bytes.Repeat([]byte("€"), 20000), uint8(255))
	f.Add([]byte("\xf0\x9d\x84\xf0\x9d\x84\x9e\xe2\x82"), uint8(2))
	f.Fuzz(func(t *testing.T, p []byte, piece uint8) {
		var c terminal.Cast
		b := c.AppendHeader(nil, terminal.Size{Rows: 24, Cols: 80}, 1e9, "")
		step := max(1, int(piece)*200)
		if piece < 8 {
			step = max(1, int(piece))
		}
		for rest := p; len(rest) > 0; {
			n := min(len(rest), step)
			b = c.AppendOutput(b, time.Second, rest[:n])
			rest = rest[n:]
		}
		b = c.AppendEnd(b, time.Second)
		if got, want := played(t, b), string([]rune(string(p))); got != want {
			t.Errorf("printed %q, recorded %q", want, got)
		}
	})
}
