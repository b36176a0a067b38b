// Package guard kills what a host holds by lease when the lease ends, also when the
// agent is dead or stopped.
//
// The guard is a process of its own. It has the deadlines of all unique containers that
// run, or are about to be started, and of each the control group by which it finds every
// process of it. The agent tells it a new table with each grant, before it starts
// anything. Whatever becomes of the agent then, what is in the table is killed at its
// deadline, on a clock that counts suspended time. A second process follows the first:
// if the guard dies, it kills everything in the table at once, since it cannot be known any
// more how long that may run.
//
// It knows nothing of leases, fleets or containers, reads no configuration and writes no
// file, so that neither a disk nor the network can hold it up.
package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
)

// Hold is a container that may run until a time.
type Hold struct {
	ID string `json:"id"`
	// Group is the component of a control group's path by which its processes are known,
	// as lxc.payload.web.
	Group string `json:"group"`
	// UntilMS is the deadline, by the boot clock.
	UntilMS int64 `json:"until_ms"`
}

// Table is everything that is held. A table replaces the one before.
type Table struct {
	Holds []Hold `json:"holds"`
}

// answer follows each table: what is held now, less what was killed.
type answer struct {
	Holds  []Hold   `json:"holds"`
	Killed []string `json:"killed"` // ids, since the process began
	// Follows tells that a second process is there.
	Follows bool   `json:"follows"`
	Error   string `json:"error,omitempty"`
}

// Limits of what is read.
const (
	MaxHolds = 1000
	maxLine  = 256 << 10
)

// again is how long a kill that did not come to its end waits for the next try.
const again = 100 * time.Millisecond

// Guard holds a table. Its methods may be called from any goroutine.
type Guard struct {
	kill func(ctx context.Context, group string) error
	log  *slog.Logger
	wake chan struct{}

	mu     sync.Mutex
	holds  []Hold
	killed []string
	now    func() int64
	watch  func([]Hold) // is told of each table
	twin   bool
	agents int // connections
}

// New returns a guard that holds nothing. kill ends all processes of a control group, and
// returns nil only when none is left.
func New(kill func(ctx context.Context, group string) error, log *slog.Logger) *Guard {
	return &Guard{kill: kill, log: log, wake: make(chan struct{}, 1), now: clock.BootMS, watch: func([]Hold) {}}
}

// Set replaces the table.
func (g *Guard) Set(t Table) error {
	if len(t.Holds) > MaxHolds {
		return fmt.Errorf("%d containers, at most %d can be held", len(t.Holds), MaxHolds)
	}
	for _, h := range t.Holds {
		if h.ID == "" || h.Group == "" || len(h.ID) > 100 || len(h.Group) > 255 || h.UntilMS < 1 {
			return fmt.Errorf("%q in %q until %d cannot be held", h.ID, h.Group, h.UntilMS)
		}
	}
	g.mu.Lock()
	g.holds = slices.Clone(t.Holds)
	watch := g.watch
	g.mu.Unlock()
	watch(t.Holds)
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return nil
}

// state is what the agent is told.
func (g *Guard) state() answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return answer{Holds: slices.Clone(g.holds), Killed: slices.Clone(g.killed), Follows: g.twin}
}

// due takes what is over, and says how long it is until the next one.
func (g *Guard) due() (over []Hold, next time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next = time.Hour
	now := g.now()
	for _, h := range g.holds {
		if left := h.UntilMS - now; left <= 0 {
			over = append(over, h)
		} else {
			next = min(next, time.Duration(left)*time.Millisecond)
		}
	}
	return over, next
}

// Run kills at the deadlines until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	for {
		over, next := g.due()
		if len(over) > 0 {
			g.killAll(ctx, over)
			next = again
		}
		// The boot clock goes on in suspend, when timers of the runtime stand still.
		alarm, stop, err := clock.After(next)
		if err != nil {
			return fmt.Errorf("no timer: %w", err)
		}
		select {
		case <-ctx.Done():
			stop()
			return context.Cause(ctx)
		case <-g.wake:
		case <-alarm:
		}
		stop()
	}
}

// killAll kills containers side by side. What is dead leaves the table, unless it was
// given another time meanwhile.
func (g *Guard) killAll(ctx context.Context, all []Hold) {
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() {
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if err := g.kill(limited, h.Group); err != nil {
				g.log.Error("a container whose lease has ended is not dead yet; it is tried again", "container", h.ID, "error", err)
				return
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.holds = slices.DeleteFunc(g.holds, func(o Hold) bool { return o == h })
			if g.killed = append(g.killed, h.ID); len(g.killed) > MaxHolds {
				g.killed = g.killed[1:]
			}
			g.log.Warn("a container was killed: its lease has ended", "container", h.ID)
		})
	}
	wg.Wait()
}

// KillNow kills everything that is held, and returns when nothing is left of it.
func (g *Guard) KillNow(ctx context.Context) {
	for ctx.Err() == nil {
		g.mu.Lock()
		all := slices.Clone(g.holds)
		g.mu.Unlock()
		if len(all) == 0 {
			return
		}
		g.killAll(ctx, all)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// Serve takes tables of a listener until ctx ends: one line of JSON each, answered by
// one. A connection that ends leaves the table as it is.
func (g *Guard) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		wg.Go(func() {
			defer conn.Close()
			g.connected(1)
			defer g.connected(-1)
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			g.serve(conn)
		})
	}
}

func (g *Guard) connected(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.agents += n
}

func (g *Guard) serve(conn io.ReadWriter) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	out := json.NewEncoder(conn)
	for lines.Scan() {
		a, err := answer{}, g.take(lines.Bytes())
		if a = g.state(); err != nil {
			a.Error = err.Error()
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

// take takes one line: a table, or nothing, which only asks.
func (g *Guard) take(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	var t Table
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("this is no table: %w", err)
	}
	return g.Set(t)
}

// Follow is the second process: it takes tables of the first one, and kills everything at
// once when that is gone. The first one ends it by a table with nothing before it goes.
func Follow(ctx context.Context, g *Guard, from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		if err := g.take(lines.Bytes()); err != nil {
			g.log.Error("a table cannot be read", "error", err)
		}
	}
	g.log.Warn("the guard is gone: everything that is held by lease is killed")
	g.KillNow(ctx)
	return errors.Join(lines.Err(), context.Cause(ctx))
}

// ErrIdle ends a guard of which nothing is wanted.
var ErrIdle = errors.New("nothing is held, and no agent is there")

// Idle returns [ErrIdle] when nothing was held and no agent was connected for a time.
func (g *Guard) Idle(ctx context.Context, after time.Duration) error {
	t := time.NewTicker(after)
	defer t.Stop()
	for idle := false; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
		g.mu.Lock()
		now := len(g.holds) == 0 && g.agents == 0
		g.mu.Unlock()
		if now && idle {
			return ErrIdle
		}
		idle = now
	}
}
