package term

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// waiting runs a command that waits, and returns all that was written.
func waiting(change func(*UI), do func(*UI)) string {
	var out bytes.Buffer
	a := &UI{Out: &out, Err: &out, OutTTY: true, ErrTTY: true, Getenv: func(string) string { return "" }, Now: time.Now}
	change(a)
	root := &cobra.Command{Use: "hostler", RunE: func(*cobra.Command, []string) error { do(a); return nil }}
	a.Run(context.Background(), root, nil)
	return out.String()
}

// TestTicker shows from the second on what is waited for, makes room for what is said, and
// leaves nothing.
func TestTicker(t *testing.T) {
	pause := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
	work := func(a *UI) {
		tick := a.Tick("edge-01/web", "queued")
		pause(900 * time.Millisecond)
		tick.Tell("running")
		pause(1200 * time.Millisecond)
		a.Say("said")
		fmt.Fprint(tick, "fetched 1 of 2\nfetched 2 of 2\nfetch")
		pause(time.Second)
		within := a.Tick("within", "")
		pause(time.Second)
		within.End()
		fmt.Fprintln(a.Out, "data")
		tick.End()
	}
	const wipe = "\r\x1b[K"
	nothing := func(*UI) {}
	for _, tt := range []struct {
		name   string
		change func(*UI)
		want   string
	}{
		{"terminal", nothing, "edge-01/web: running, 1 s" + wipe + "edge-01/web: running, 2 s" + wipe + "said\nedge-01/web: fetched 2 of 2, 3 s" + wipe + "within, 1 s" + wipe + "data\n"},
		{"quiet", func(a *UI) { a.Quiet = true }, "data\n"},
		{"pipe", func(a *UI) { a.ErrTTY = false }, "said\ndata\n"},
		{"dumb", func(a *UI) { a.Getenv = func(string) string { return "dumb" } }, "said\ndata\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := waiting(tt.change, work); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		if got := waiting(nothing, func(a *UI) { defer a.Tick("x", "").End(); pause(900 * time.Millisecond) }); got != "" {
			t.Errorf("what takes no second shows %q", got)
		}
	})
}

// TestTickersEndInAnyOrder: the newest that goes on has the line, and one that shows itself
// alone has none beside another.
func TestTickersEndInAnyOrder(t *testing.T) {
	pause := func() { time.Sleep(time.Second); synctest.Wait() }
	synctest.Test(t, func(t *testing.T) {
		got := waiting(func(*UI) {}, func(a *UI) {
			lone := a.TickAlone("lone")
			pause()
			first, second := a.Tick("first", ""), a.Tick("second", "")
			beside := a.TickAlone("beside")
			pause()
			first.End()
			lone.End()
			pause()
			beside.End()
			second.End()
		})
		const wipe = "\r\x1b[K"
		if want := "lone, 1 s" + wipe + "second, 1 s" + wipe + "second, 2 s" + wipe; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestPhase: of what is done in several parts the line tells how long all of it takes, and how
// its newest part is; a bar has the line as long as there is one.
func TestPhase(t *testing.T) {
	pause := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
	work := func(a *UI) {
		phase := a.Phase("web: send it")
		lone := a.TickAlone("lone")
		part := a.Tick("edge-01", "queued")
		pause(900 * time.Millisecond)
		part.Tell("running")
		pause(200 * time.Millisecond)
		part.End()
		part = a.Phase("within")
		part.End()
		part = a.Tick("edge-02", "")
		fmt.Fprint(part, "fetched 1 of 2\n")
		pause(time.Second)
		part.End()
		lone.End()
		pause(time.Second)
		bar := a.Progress("sending", 4<<20)
		pause(500 * time.Millisecond)
		bar.At(1 << 20)
		pause(time.Second)
		bar.End()
		pause(time.Second)
		phase.End()
		last := a.Tick("last", "")
		pause(time.Second)
		last.End()
	}
	const wipe = "\r\x1b[K"
	for _, tt := range []struct {
		name   string
		change func(*UI)
		want   string
	}{
		{"terminal", func(*UI) {}, "web: send it: running, 1 s" + wipe + "web: send it: fetched 1 of 2, 2 s" + wipe + "web: send it, 3 s" + wipe +
			"sending [#####---------------]  25 %, 1.0MiB of 4.0MiB" + wipe + "web: send it, 5 s" + wipe + "last, 1 s" + wipe},
		{"pipe", func(a *UI) { a.ErrTTY = false }, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := waiting(tt.change, work); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

// TestTickerSparesBegunLines: what a command has printed without the end of its line stays,
// and so does a question; behind the answer, or a line that is whole, there is room.
func TestTickerSparesBegunLines(t *testing.T) {
	pause := func() { time.Sleep(time.Second); synctest.Wait() }
	synctest.Test(t, func(t *testing.T) {
		answer := func(a *UI) { a.In, a.InTTY = strings.NewReader("y\n"), true }
		got := waiting(answer, func(a *UI) {
			tick := a.Tick("x", "")
			fmt.Fprint(a.Out, "login: ")
			pause()
			fmt.Fprint(a.Out, "me\n")
			pause()
			if err := a.Confirm(false, "Sure?"); err != nil {
				t.Error(err)
			}
			pause()
			fmt.Fprint(a.Err, "half")
			pause()
			tick.End()
		})
		const wipe = "\r\x1b[K"
		if want := "login: me\nx, 2 s" + wipe + "Sure? [y/N] x, 3 s" + wipe + "half"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestBar tells how much of something is done, in part of a hundred.
func TestBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := waiting(func(*UI) {}, func(a *UI) {
			p := a.Progress("sending", 4<<20)
			time.Sleep(time.Second)
			p.At(1 << 20)
			time.Sleep(time.Second)
			p.Add(3 << 20)
			p.End()
		})
		if want := "sending [#####---------------]  25 %, 1.0MiB of 4.0MiB\r\x1b[Ksending [####################] 100 %, 4.0MiB of 4.0MiB\r\x1b[K"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if strings.Contains(got, "\x1b[3") {
			t.Error("it is coloured")
		}
	})
}
