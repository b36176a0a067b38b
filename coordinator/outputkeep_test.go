package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/protocol"
)

// wantGone checks that whoever asks for output is told that it was there, and
// returns what is said.
func wantGone(t *testing.T, f *coordtest.Fleet, id protocol.ActionID) (said string) {
	t.Helper()
	what := relay.Reading{Action: id, FD: protocol.Stdout, Follow: true}
	_, err := f.Coordinator().Relay().Output.Read(t.Context(), what, func([]byte) error { return nil })
	if !errors.Is(err, core.ErrGone) {
		t.Errorf("reading gives %v", err)
	}
	if _, err := f.Coordinator().Relay().Output.Extent(t.Context(), core.Actor{}, what); !errors.Is(err, core.ErrGone) {
		t.Errorf("asking how much there is gives %v", err)
	}
	return fmt.Sprint(err)
}

// TestOldOutputIsRemoved: what ended first goes first, what has not ended stays,
// and over restarts whoever asks is told.
func TestOldOutputIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		text := strings.Repeat("x", 40<<10)
		first := talked(t, f, h, text)
		second := talked(t, f, h, text)
		h.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			h.Write(o.Item.Action, 1, protocol.Stdout, []byte(text))
		})
		runs := propose(t, f, h)
		f.Tune(func(c *coordinator.Config) { c.OutputTotal, c.OutputAge = 90<<10, time.Hour })
		f.Restart()
		after(2 * time.Minute)
		said := wantGone(t, f, first)
		for _, id := range []protocol.ActionID{second, runs.ID} {
			if s, _ := read(t, f, id, 0, false); s != text {
				t.Errorf("%d bytes of %s are left", len(s), id)
			}
		}
		after(time.Hour)
		wantGone(t, f, second)
		if s, _ := read(t, f, runs.ID, 0, false); s != text {
			t.Errorf("%d bytes of what runs are left", len(s))
		}
		f.Restart()
		after(time.Minute)
		if again := wantGone(t, f, first); again != said {
			t.Errorf("it was removed again: first %s; then %s", said, again)
		}
		wantGone(t, f, second)
	})
}

// TestOutputIsLookedAtSeldom: all that is kept is looked at hourly, or when much of
// it is new. A look shows by its removing what is nobody's.
func TestOutputIsLookedAtSeldom(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		var dir string
		f.Tune(func(c *coordinator.Config) { c.OutputTotal, dir = 1<<20, c.OutputDir })
		f.Restart()
		after(time.Second)
		strays := 0
		stray := func() (looked func() bool) {
			strays++
			path := filepath.Join(dir, fmt.Sprintf("01990000-0000-7000-8000-%012d", strays))
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			return func() bool { _, err := os.Stat(path); return errors.Is(err, fs.ErrNotExist) }
		}
		looked := stray()
		talked(t, f, h, "little")
		if after(50 * time.Minute); looked() {
			t.Error("it was looked at for little")
		}
		if after(11 * time.Minute); !looked() {
			t.Error("it was not looked at for an hour")
		}
		looked = stray()
		talked(t, f, h, strings.Repeat("much ", 10<<10))
		if after(2 * time.Minute); !looked() {
			t.Error("it was not looked at although much is new")
		}
	})
}

// TestCommandWaitsForWhoHolds: a host is asked for no more than is ahead of who
// holds the command, however fast others read, and hears that they follow.
func TestCommandWaitsForWhoHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		const size = 80 << 20
		whole := strings.Repeat("0123456789abcdef", size/16)
		spec := []byte(`{"kind":"host.run","argv":["true"],"output":"stream"}`)
		h.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			h.Write(o.Item.Action, 1, protocol.Stdout, []byte(whole))
		})
		a, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		slow, fast := make(chan struct{}), new(counter)
		var readers sync.WaitGroup
		defer readers.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got bytes.Buffer
		var mu sync.Mutex
		readers.Go(func() {
			_, _ = f.Coordinator().Relay().Output.Read(ctx, relay.Reading{Action: a.ID, FD: protocol.Stdout, Follow: true, Hold: true}, func(p []byte) error {
				select {
				case <-slow:
				case <-ctx.Done():
				}
				mu.Lock()
				defer mu.Unlock()
				got.Write(p)
				return ctx.Err()
			})
		})
		readers.Go(func() {
			_, _ = f.Coordinator().Relay().Output.Read(ctx, relay.Reading{Action: a.ID, FD: protocol.Stdout, Follow: true}, fast.take)
		})
		after(time.Minute)
		const ahead = 16 << 20
		if n := fast.bytes(); n < ahead/2 || n > ahead {
			t.Errorf("%d bytes were fetched beside one who holds and has read nothing", n)
		}
		credits := func() (n int) {
			for _, m := range f.Published(h.ID, protocol.ChannelReceipt) {
				n += bytes.Count(m.Payload, []byte(`"fd":"stdout"`))
			}
			return n
		}
		before := credits()
		after(time.Minute)
		if n := credits() - before; n < 5 || n > 7 {
			t.Errorf("the host heard %d times in a minute that somebody follows", n)
		}
		close(slow)
		after(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if got.String() != whole {
			t.Errorf("%d bytes came of %d, or they are others", got.Len(), size)
		}
		// Who comes late is told what is not kept.
		if s, next := read(t, f, a.ID, 0, false); s != whole[:32<<20] || next != 48<<20 {
			t.Errorf("a late reader gets %d bytes and goes on at %d", len(s), next)
		}
		if s, _ := read(t, f, a.ID, 48<<20, false); s != whole[48<<20:] {
			t.Errorf("and then %d bytes", len(s))
		}
	})
}

type counter struct {
	mu sync.Mutex
	n  int64
}

func (c *counter) take(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += int64(len(p))
	return nil
}

func (c *counter) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// TestHoldingTakesARole: a viewer looks, and makes no command wait.
func TestHoldingTakesARole(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		id := talked(t, f, h, "hello")
		for role, may := range map[core.TokenRole]bool{core.RoleViewer: false, core.RoleOperator: true} {
			what := relay.Reading{Action: id, FD: protocol.Stdout, Follow: true, Hold: true}
			e, err := f.Coordinator().Relay().Output.Extent(t.Context(), core.Actor{Name: "ann", Role: role}, what)
			if may != (err == nil) || !may && !errors.Is(err, core.ErrDenied) || may && (e.To != 5 || e.Total != 5) {
				t.Errorf("%s: %+v, %v", role, e, err)
			}
		}
	})
}

// TestHostTellsWhatIsGone: a follower of a command that goes on does not stand
// still at what the host has dropped.
func TestHostTellsWhatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			h.Write(o.Item.Action, 1, protocol.Stdout, []byte("head"))
		})
		a := propose(t, f, h)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var span relay.Span
		var wg sync.WaitGroup
		wg.Go(func() {
			span, _ = f.Coordinator().Relay().Output.Read(ctx, relay.Reading{Action: a.ID, FD: protocol.Stdout, Follow: true}, func([]byte) error { return nil })
		})
		after(time.Second)
		h.Gone(a.ID, 1, protocol.Stdout, 4, 1000)
		after(time.Second)
		cancel()
		wg.Wait()
		if span.Next != 1000 {
			t.Errorf("go on at %d, want 1000", span.Next)
		}
		f.Restart()
		after(10 * time.Second)
		if s, next := read(t, f, a.ID, 0, false); s != "head" || next != 1000 {
			t.Errorf("after a restart: %q, go on at %d", s, next)
		}
	})
}
