package lease

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
)

// table is a guard that remembers what it was told.
type table struct {
	mu     sync.Mutex
	now    map[protocol.CTID]int64
	former map[protocol.CTID]int64
	err    error
}

func (g *table) Set(_ context.Context, all []Held) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err
	}
	g.now = make(map[protocol.CTID]int64)
	for _, h := range all {
		g.now[h.CTID] = h.UntilMS
	}
	return nil
}

func (g *table) Former(context.Context) (map[protocol.CTID]int64, error) { return g.former, nil }

var (
	one, two = protocol.CTID{15: 1}, protocol.CTID{15: 2}
	old      = protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 1}, Counter: 1}
	newer    = protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 1}, Counter: 2}
)

func grantOf(id protocol.CTID, e protocol.Epoch) []protocol.LeaseHeld {
	return []protocol.LeaseHeld{{CTID: id, Epoch: e}}
}

func newHolder(g *table, now *int64) *Lease {
	cfg := Config{BootMS: func() int64 { return *now }, Log: slog.New(slog.DiscardHandler)}
	if g != nil {
		cfg.Guard = g
	}
	return New(cfg)
}

// TestDeadlines: the guard has the end of the newest grant that names what runs with its
// epoch, and no other.
func TestDeadlines(t *testing.T) {
	now, g := int64(1000), &table{}
	l := newHolder(g, &now)
	ctx := t.Context()
	l.holder.granted(ctx, grantOf(one, old), protocol.Seq{K: 1}, 900, 90_000)
	if until, err := l.Hold(ctx, one, old, "group", false); err != nil || until != 90_900 {
		t.Fatal(err)
	}
	want := func(when string, until int64) {
		t.Helper()
		if g.now[one] != until {
			t.Errorf("%s: the guard has %d, want %d", when, g.now[one], until)
		}
	}
	want("held", 90_900)
	l.holder.granted(ctx, grantOf(one, old), protocol.Seq{K: 2}, 30_000, 90_000)
	want("renewed", 120_000)
	l.holder.granted(ctx, grantOf(one, newer), protocol.Seq{K: 3}, 60_000, 90_000)
	want("granted under another epoch", 120_000)
	l.holder.granted(ctx, nil, protocol.Seq{K: 4}, 90_000, 90_000)
	want("not named any more", 120_000)
	if told := l.holder.told(); len(told) != 1 || !told[0].Running || told[0].Epoch != old || l.holder.took() != (protocol.Seq{K: 4}) {
		t.Errorf("%+v after %+v", told, l.holder.took())
	}
	l.Release(one)
	if len(l.holder.told()) != 0 {
		t.Errorf("released, and told: %+v", l.holder.told())
	}
}

// TestEvery: leases are a third apart of what a grant is good for, also while nothing is
// held: a host that could hold something is not to look lost.
func TestEvery(t *testing.T) {
	now := int64(1000)
	l := newHolder(&table{}, &now)
	if got := l.holder.every(); got != 30*time.Second {
		t.Errorf("before a grant they are %s apart", got)
	}
	for i, c := range []struct {
		ttl  int64
		held []protocol.LeaseHeld
		want time.Duration
	}{
		{12_000, nil, 4 * time.Second},
		{12_000, grantOf(one, old), 4 * time.Second},
		{90_000, nil, 30 * time.Second},
		{900_000, nil, 30 * time.Second},
		{1000, nil, time.Second},
	} {
		l.holder.granted(t.Context(), c.held, protocol.Seq{K: uint64(i + 1)}, now, c.ttl)
		if got := l.holder.every(); got != c.want {
			t.Errorf("with grants of %d ms for %d containers they are %s apart, want %s", c.ttl, len(c.held), got, c.want)
		}
	}
}

// TestRelease: the guard is told at once of what has ended, for another container may get
// its name. A guard that does not answer then is told with the next lease.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, g := int64(1000), &table{}
		l := New(Config{BootMS: func() int64 { return now }, Log: slog.New(slog.DiscardHandler), Guard: g, Numbers: &wire.Numbers{}})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		l.holder.granted(ctx, append(grantOf(one, old), grantOf(two, old)...), protocol.Seq{K: 1}, 900, 90_000)
		for _, id := range []protocol.CTID{one, two} {
			if _, err := l.Hold(ctx, id, old, "group", false); err != nil {
				t.Fatal(err)
			}
		}
		has := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			if len(g.now) != want {
				t.Errorf("%s: the guard has %v, want %d", when, g.now, want)
			}
		}
		hangs := func(err error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.err = err
		}
		has("held", 2)
		l.Release(one)
		has("released", 1)
		hangs(errors.New("the guard hangs"))
		l.Release(two)
		has("released while the guard hangs", 1)
		hangs(nil)
		<-time.After(every)
		has("with the next lease", 0)
		end()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestGranted: a start wants the newest grant, as long as it is good.
func TestGranted(t *testing.T) {
	now, g := int64(1000), &table{}
	l := newHolder(g, &now)
	ctx := t.Context()
	want := func(id protocol.CTID, text string) {
		t.Helper()
		if _, why := l.Granted(id); (why == "") != (text == "") || !strings.Contains(why, text) {
			t.Errorf("%q, want %q", why, text)
		}
	}
	want(one, "granted nothing since the agent was started")
	l.holder.granted(ctx, grantOf(one, old), protocol.Seq{K: 1}, 1000, 90_000)
	want(one, "")
	want(two, "does not let it run on this host")
	now = 91_000
	want(one, "lease has ended")
	if _, why := newHolder(nil, &now).Granted(one); !strings.Contains(why, "would kill it") {
		t.Errorf("without a guard: %q", why)
	}
}

// TestHeldBefore: what a former agent has held keeps the deadline that the guard has for
// it; of what the guard does not know, the time is over.
func TestHeldBefore(t *testing.T) {
	now, g := int64(1000), &table{former: map[protocol.CTID]int64{one: 40_000}}
	l := newHolder(g, &now)
	for _, id := range []protocol.CTID{one, two} {
		if _, err := l.Hold(t.Context(), id, old, "group", false); err != nil {
			t.Fatal(err)
		}
	}
	if g.now[one] != 40_000 || g.now[two] > now {
		t.Errorf("%v", g.now)
	}
	if _, err := l.Hold(t.Context(), two, old, "group", true); err != nil {
		t.Fatal(err)
	}
	if _, killed := g.now[two]; killed {
		t.Error("what goes on without a lease has a deadline")
	}
	g.err = errors.New("the guard is gone")
	if _, err := l.Hold(t.Context(), two, newer, "group", false); err == nil {
		t.Error("nothing would kill it, and it is held")
	}
}

// TestAwait asks again until a grant names what waits.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := int64(1000)
		l := newHolder(&table{}, &now)
		got := make(chan protocol.Epoch, 1)
		go func() { // waited for below
			e, err := l.Await(t.Context(), one)
			if err != nil {
				t.Error(err)
			}
			got <- e
		}()
		asked := 0
		for at := range 7 {
			synctest.Wait()
			select {
			case <-l.soon:
				asked++
			default:
			}
			l.holder.granted(t.Context(), nil, protocol.Seq{K: uint64(at + 1)}, 1000, 90_000)
			<-time.After(time.Second)
		}
		if asked < 3 {
			t.Errorf("a lease was asked for %d times in 7 s", asked)
		}
		l.holder.granted(t.Context(), grantOf(one, newer), protocol.Seq{K: 9}, 1000, 90_000)
		if e := <-got; e != newer {
			t.Errorf("%v", e)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Await(ctx, two); err == nil || !strings.Contains(err.Error(), "does not let it run") {
			t.Errorf("%v", err)
		}
	})
}
