package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
)

// bowl stands for the watchdog of a machine. It notes what is done to it. The real one is
// in TestWatchdogResetsTheMachine of package integration.
type bowl struct {
	frail   bool          // a close stops it
	timeout time.Duration // it has this one and takes no other; 0: it takes any
	refuses error         // to have a time set
	holds   error         // to be stopped
	busy    int           // that often another one has it open

	mu     sync.Mutex
	opened bool
	did    []string
}

func (b *bowl) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.did = append(b.did, what)
}

func (b *bowl) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.did)
}

// until waits for as many things to be done.
func (b *bowl) until(t *testing.T, n int) {
	t.Helper()
	tick, bound := time.NewTicker(time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for len(b.seen()) < n {
		select {
		case <-tick.C:
		case <-bound:
			t.Errorf("only this is done: %v", b.seen())
			return
		}
	}
}

func (b *bowl) open(path string) (device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened {
		return nil, errors.New("it is opened twice")
	}
	if b.busy > 0 {
		b.busy--
		return nil, fmt.Errorf("open %s: %w", path, syscall.EBUSY)
	}
	b.opened, b.did = true, append(b.did, "open")
	return b, nil
}

func (b *bowl) Support() (string, bool, error) { return "a bowl", !b.frail, nil }

func (b *bowl) SetTimeout(d time.Duration) (time.Duration, error) {
	if b.timeout != 0 {
		d = b.timeout
	}
	return d, b.refuses
}

func (b *bowl) Feed() error {
	b.note("feed")
	return nil
}

func (b *bowl) Disarm() error {
	if b.holds != nil {
		return b.holds
	}
	b.closed("disarm")
	return nil
}

func (b *bowl) Leave() error {
	b.closed("leave")
	return nil
}

func (b *bowl) closed(how string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened, b.did = false, append(b.did, how)
}

// watched returns a guard with a watchdog that does not run, and a table that wants it.
func watched(t *testing.T, b *bowl, kill func(context.Context, string) error) (*Guard, Table) {
	t.Helper()
	g := New(kill, slog.New(slog.NewTextHandler(t.Output(), nil)))
	g.dog.open = b.open
	return g, Table{Holds: []Hold{hold("a", time.Hour)}, Watchdog: "/dev/bowl"}
}

// TestArmedBeforeAnythingIsHeld: when a table was taken its watchdog is armed, and it is
// disarmed when nothing is held any more.
func TestArmedBeforeAnythingIsHeld(t *testing.T) {
	b := new(bowl)
	g, table := watched(t, b, newKiller(0).kill)
	if w, err := g.Set(table); err != nil || w != (Watchdog{Path: "/dev/bowl", Armed: true, Identity: "a bowl"}) {
		t.Fatalf("%+v, %v", w, err)
	}
	if _, err := g.Set(table); err != nil {
		t.Fatal(err)
	}
	if w, err := g.Set(Table{Watchdog: "/dev/bowl"}); err != nil || w != (Watchdog{}) {
		t.Errorf("with nothing to hold: %+v, %v", w, err)
	}
	if _, err := g.Set(table); err != nil {
		t.Fatal(err)
	}
	table.Watchdog = ""
	if w, err := g.Set(table); err != nil || w != (Watchdog{}) {
		t.Errorf("without a wish: %+v, %v", w, err)
	}
	if want := []string{"open", "feed", "disarm", "open", "feed", "disarm"}; !slices.Equal(b.seen(), want) {
		t.Errorf("%v, want %v", b.seen(), want)
	}
}

// TestFedAsLongAsKillsWork: the watchdog is fed before a deadline, and for a moment after
// it. Then it starves until the container is dead.
func TestFedAsLongAsKillsWork(t *testing.T) {
	const begin = 1_000_000
	var now atomic.Int64
	now.Store(begin)
	b, kills := new(bowl), 0
	g, table := watched(t, b, func(context.Context, string) error {
		b.note("kill")
		switch kills++; kills {
		case 2:
			now.Add(killPatience.Milliseconds())
		case 3:
			now.Add(1)
		case 6:
			return nil
		}
		return errors.New("it does not die")
	})
	g.now = now.Load
	table.Holds[0].UntilMS = begin + 1
	if _, err := g.Set(table); err != nil {
		t.Fatal(err)
	}
	now.Add(1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // waited for below
		defer close(done)
		_ = g.Run(ctx)
	}()
	want := []string{"open", "feed", "kill", "feed", "kill", "feed", "kill", "kill", "kill", "kill", "disarm"}
	b.until(t, len(want))
	cancel()
	<-done
	if !slices.Equal(b.seen(), want) {
		t.Errorf("%v, want %v", b.seen(), want)
	}
}

// TestFedInTime: a guard to which nothing happens feeds often enough.
func TestFedInTime(t *testing.T) {
	b := new(bowl)
	g, table := watched(t, b, newKiller(0).kill)
	if _, err := g.Set(table); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // waited for below
		defer close(done)
		_ = g.Run(ctx)
	}()
	began := clock.Boot()
	b.until(t, 5)
	if took := clock.Boot() - began; took > resetAfter/2 {
		t.Errorf("three feeds took %s", took)
	}
	cancel()
	<-done
	if w := g.leash(Table{}); !w.Armed {
		t.Errorf("after the end of Run: %+v", w)
	}
}

// TestUnfitWatchdogs: a device that would not reset the machine in time is closed again, and
// it is said why.
func TestUnfitWatchdogs(t *testing.T) {
	for name, c := range map[string]struct {
		b    *bowl
		want string
		did  []string
	}{
		"dies with us":  {&bowl{frail: true}, "stops it when the process that feeds it dies", []string{"open", "disarm"}},
		"no time":       {&bowl{refuses: syscall.EINVAL}, "does not take 10s: invalid argument", []string{"open", "disarm"}},
		"another time":  {&bowl{timeout: time.Minute}, "waits 1m0s instead of 10s", []string{"open", "disarm"}},
		"in use":        {&bowl{busy: busyTries}, "RuntimeWatchdogSec", nil},
		"in use so far": {&bowl{busy: busyTries - 1}, "", []string{"open", "feed"}},
		"no way out":    {&bowl{frail: true, holds: syscall.EBUSY}, "cannot be stopped", []string{"open"}},
	} {
		t.Run(name, func(t *testing.T) {
			g, table := watched(t, c.b, newKiller(0).kill)
			w, err := g.Set(table)
			if err != nil || w.Armed != (c.want == "") || !strings.Contains(w.Error, c.want) || !slices.Equal(c.b.seen(), c.did) {
				t.Errorf("%+v, %v; done: %v", w, err, c.b.seen())
			}
			if s := g.state(); len(s.Holds) != 1 {
				t.Errorf("%v is held", s.Holds)
			}
		})
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), "/dev/null", t.TempDir()} {
		if _, err := openWatchdog(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestNoWayOut: a watchdog that cannot be stopped is fed by a guard that holds nothing, and
// which does not end.
func TestNoWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bowl{holds: syscall.EBUSY}
		g, table := watched(t, b, newKiller(0).kill)
		if w, err := g.Set(table); err != nil || !w.Armed {
			t.Fatalf("%+v, %v", w, err)
		}
		if w, err := g.Set(Table{}); err != nil || w.Path == "" || !strings.Contains(w.Error, "cannot be stopped") {
			t.Errorf("%+v, %v", w, err)
		}
		if !g.dog.feed(g.overdue(killPatience)) {
			t.Error("it is not fed")
		}
		if w, err := g.Set(table); err != nil || !w.Armed || w.Error != "" {
			t.Errorf("with another table: %+v, %v", w, err)
		}
		if _, err := g.Set(Table{}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- g.Idle(t.Context(), time.Minute) }() // waited for below
		time.Sleep(time.Hour)
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		default:
		}
		g.dog.mu.Lock()
		b.holds = nil
		g.dog.mu.Unlock()
		if err := <-ended; !errors.Is(err, ErrIdle) {
			t.Errorf("it has ended: %v", err)
		}
		if want := []string{"open", "feed", "feed", "disarm"}; !slices.Equal(b.seen(), want) {
			t.Errorf("%v, want %v", b.seen(), want)
		}
	})
}

// TestFollowerCallsTheResetOff: the second process touches the watchdog when all is dead, and
// not before.
func TestFollowerCallsTheResetOff(t *testing.T) {
	held := fmt.Sprintf(`{"holds":[{"id":"a","group":"ga","until_ms":%d}],"watchdog":"/dev/bowl"}`+"\n", clock.BootMS()+time.Hour.Milliseconds())
	for name, c := range map[string]struct {
		b      *bowl
		tables string
		did    []string
		err    string
	}{
		"all is dead":           {&bowl{}, held, []string{"kill", "kill", "open", "disarm"}, ""},
		"another guard has it":  {&bowl{busy: 1}, held, []string{"kill", "kill"}, ""},
		"it cannot be stopped":  {&bowl{holds: syscall.EBUSY}, held, []string{"kill", "kill", "open", "leave"}, "unless another guard begins"},
		"nothing was held":      {&bowl{}, held + `{"holds":[],"watchdog":"/dev/bowl"}` + "\n", nil, ""},
		"no watchdog is wanted": {&bowl{}, strings.Replace(held, "/dev/bowl", "", 1), []string{"kill", "kill"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kills := 0
			g, _ := watched(t, c.b, func(context.Context, string) error {
				c.b.note("kill")
				if kills++; kills == 1 {
					return errors.New("it does not die")
				}
				return nil
			})
			err := Follow(t.Context(), g, strings.NewReader(c.tables))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Error(err)
			}
			if !slices.Equal(c.b.seen(), c.did) {
				t.Errorf("%v, want %v", c.b.seen(), c.did)
			}
		})
	}
	t.Run("it does not die", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := new(bowl)
		g, _ := watched(t, b, func(context.Context, string) error { cancel(); return io.EOF })
		if err := Follow(ctx, g, strings.NewReader(held)); !errors.Is(err, context.Canceled) || b.seen() != nil {
			t.Errorf("%v; done: %v", err, b.seen())
		}
	})
}

// TestSelfTestSeesTheWatchdog: what was armed while something was held is shown, and from
// then on nothing is held without it. What was not is not asked for any more.
func TestSelfTestSeesTheWatchdog(t *testing.T) {
	for name, c := range map[string]struct {
		b    *bowl
		path string
		want Watchdog
	}{
		"fit":   {&bowl{}, "/dev/bowl", Watchdog{Path: "/dev/bowl", Armed: true, Identity: "a bowl"}},
		"unfit": {&bowl{frail: true}, "/dev/bowl", Watchdog{Error: "the watchdog /dev/bowl is of no use: its driver (a bowl) stops it when the process that feeds it dies"}},
		"none":  {&bowl{}, "", Watchdog{}},
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := watched(t, c.b, Kill)
			g.twin = true
			client := serving(t, g, Resort{Watchdog: c.path})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			got, err := SelfTest(ctx, client)
			if err != nil || got != (Shown{Watchdog: c.want}) {
				t.Fatalf("%+v, %v", got, err)
			}
			g.dog.mu.Lock()
			if open := c.b.opened; open {
				t.Error("it is still open")
			}
			c.b.busy = 10 * busyTries
			g.dog.mu.Unlock()
			err = client.Set(ctx, []Hold{hold("a", time.Hour)})
			if c.want.Armed && (err == nil || !strings.Contains(err.Error(), "RuntimeWatchdogSec")) || !c.want.Armed && err != nil {
				t.Errorf("a table while another program has it: %v", err)
			}
			if w, err := client.Watchdog(ctx); err != nil || w.Armed {
				t.Errorf("%+v, %v", w, err)
			}
		})
	}
	if text := (Watchdog{}).Why(); !strings.Contains(text, "earlier version") {
		t.Errorf("a guard that knows no watchdog: %s", text)
	}
}

// serving has a guard run and take tables until the test ends.
func serving(t *testing.T, g *Guard, asks Resort) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = g.Serve(ctx, l) })
	all.Go(func() { _ = g.Run(ctx) })
	client := NewClient(path, asks, nil)
	t.Cleanup(func() { _ = client.Close(); cancel(); all.Wait() })
	return client
}
