package loop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
)

func newLoop() *loop.Loop {
	return loop.New(loop.Config{Boot: "boot", BootMS: func() int64 { return 1 }, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
}

// TestTimers: the earliest deadline counts, each is done once, and one that was stopped
// is not.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := newLoop(), time.Now()
		var done []string
		note := func(what string) func() {
			return func() { done = append(done, fmt.Sprint(what, " ", time.Since(began).Round(time.Millisecond))) }
		}
		a, b, c := l.Timer(note("a")), l.Timer(note("b")), l.Timer(note("c"))
		a.In(3 * time.Second)
		a.In(5 * time.Second) // it is due earlier already
		b.In(time.Second)
		b.In(500 * time.Millisecond)
		c.In(time.Second)
		c.Stop()
		c.At(l.Now() + 4*time.Second)
		for len(done) < 3 {
			<-l.Wake()
			l.OnTime()
		}
		if got, want := fmt.Sprint(done), "[b 500ms a 3s c 4s]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestCallsEndWithTheLoop: a call that has no loop any more fails, and hangs nowhere.
func TestCallsEndWithTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop()
		defer l.Begin(t.Context(), t.Context())()
		go func() { l.Call(<-l.Calls()) }()
		if n, err := loop.Ask(t.Context(), l, func() (int, error) { return 7, nil }); n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		l.Beside(func(ctx context.Context) func() {
			<-ctx.Done() // which a shutdown sees to
			return func() {}
		})
		l.Shutdown(time.Second, func() {})
		l.End()
		if _, err := loop.Ask(t.Context(), l, func() (int, error) { return 7, nil }); !errors.Is(err, loop.ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
		if l.Tell(func() {}) {
			t.Error("it was told something after its end")
		}
	})
}

// TestDisk: a disk that fails degrades until it is mended; what is an answer does
// neither, and a damaged queue is the end.
func TestDisk(t *testing.T) {
	l := newLoop()
	tried := 0
	l.OnDisk(func() { tried++ })
	if !l.Disk(nil) || l.Disk(queue.ErrUnknown) || l.Degraded() != "" || l.Fatal() != nil {
		t.Fatal("an answer counts as a failure")
	}
	if l.Disk(fmt.Errorf("writing: %w", queue.ErrDisk)) || l.Degraded() == "" || l.Fatal() != nil {
		t.Error("a full disk does not degrade")
	}
	if !l.Mended() || l.Mended() || l.Degraded() != "" {
		t.Error("it is not mended, or twice")
	}
	if l.Disk(errors.New("malformed")) || l.Fatal() == nil {
		t.Error("a damaged queue goes on")
	}
}
