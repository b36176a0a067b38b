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
// A container of podman outlives its monitor, the process that would tell of its end. The guard
// follows the monitors of what is held, and kills a container whose monitor is dead.
//
// If the table names a watchdog of the machine, the guard arms it before anything is held,
// feeds it, and disarms it when nothing is held any more. It feeds it no longer if a
// container is not dead soon after its deadline. So the machine resets if guard and second
// process die at once, if the guard hangs or is stopped, and if a kill does not come to its
// end.
//
// If the table says so, guard and second process restart the machine at once when a kill does
// not come to its end.
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
	// Watchdog is the device that resets the machine if the guard does not feed it while
	// something is held; empty for none.
	Watchdog string `json:"watchdog,omitempty"`
	// Reboot lets the guard restart the machine if a kill fails.
	Reboot bool `json:"reboot,omitempty"`
}

// answer follows each table: what is held now, less what was killed.
type answer struct {
	Holds  []Hold   `json:"holds"`
	Killed []string `json:"killed"` // ids, since the process began
	// Follows tells that a second process is there.
	Follows  bool     `json:"follows"`
	Watchdog Watchdog `json:"watchdog"`
	Reboot   Reboot   `json:"reboot"`
	Error    string   `json:"error,omitempty"`
}

// Limits of what is read.
const (
	MaxHolds = 1000
	maxLine  = 256 << 10
)

// again is how long a kill that did not come to its end waits for the next try.
const again = 100 * time.Millisecond

// killLimit is how long one try to kill takes at most.
const killLimit = 5 * time.Second

// Guard holds a table. Its methods may be called from any goroutine.
type Guard struct {
	kill func(ctx context.Context, group string) error
	log  *slog.Logger
	wake chan struct{}
	// tables tells of another table, for who attends to monitors.
	tables chan struct{}
	dog    dog
	boot   restart

	mu     sync.Mutex
	holds  []Hold
	device string // of the watchdog, while something is to be held
	killed []string
	now    func() int64
	watch  func(Table) // is called with each new table
	twin   bool
	agents int // connections
}

// New returns a guard that holds nothing. kill ends all processes of a control group, and
// returns nil only when none is left.
func New(kill func(ctx context.Context, group string) error, log *slog.Logger) *Guard {
	return &Guard{
		kill: kill, log: log, wake: make(chan struct{}, 1), tables: make(chan struct{}, 1), dog: dog{open: openWatchdog, log: log}, boot: restart{open: openTrigger, log: log},
		now: clock.BootMS, watch: func(Table) {},
	}
}

// Set replaces the table. It returns the watchdog as it is then, before anything of the
// table is killed.
func (g *Guard) Set(t Table) (Watchdog, error) {
	if err := t.check(); err != nil {
		return Watchdog{}, err
	}
	if len(t.Holds) == 0 {
		t.Watchdog, t.Reboot = "", false
	}
	g.boot.want(t.Reboot)
	g.mu.Lock()
	g.holds, g.device = slices.Clone(t.Holds), t.Watchdog
	watch := g.watch
	g.mu.Unlock()
	watch(t)
	w := g.leash(t)
	for _, c := range []chan struct{}{g.wake, g.tables} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return w, nil
}

func (t Table) check() error {
	if len(t.Holds) > MaxHolds {
		return fmt.Errorf("%d containers, at most %d can be held", len(t.Holds), MaxHolds)
	}
	for _, h := range t.Holds {
		if h.ID == "" || h.Group == "" || len(h.ID) > 100 || len(h.Group) > 255 || h.UntilMS < 1 {
			return fmt.Errorf("%q in %q until %d cannot be held", h.ID, h.Group, h.UntilMS)
		}
	}
	if len(t.Watchdog) > 255 {
		return errors.New("the path of the watchdog has more than 255 characters")
	}
	return nil
}

// state is what the agent is told.
func (g *Guard) state() answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return answer{Holds: slices.Clone(g.holds), Killed: slices.Clone(g.killed), Follows: g.twin, Reboot: g.boot.state()}
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
			g.killAll(ctx, over, "its lease has ended")
			g.boot.now(g.overdue(rebootAfter))
			next = again
			g.leash(Table{})
		}
		if g.dog.feed(g.overdue(killPatience)) {
			next = min(next, feedEvery)
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

// killAll kills containers side by side, and says why. What is dead leaves the table, unless it was
// given another time meanwhile.
func (g *Guard) killAll(ctx context.Context, all []Hold, why string) {
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() {
			limited, cancel := context.WithTimeout(ctx, killLimit)
			defer cancel()
			if err := g.kill(limited, h.Group); err != nil {
				g.log.Error("a container that must not run is not dead yet; it is tried again", "container", h.ID, "why", why, "error", err)
				return
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.holds = slices.DeleteFunc(g.holds, func(o Hold) bool { return o == h })
			if g.killed = append(g.killed, h.ID); len(g.killed) > MaxHolds {
				g.killed = g.killed[1:]
			}
			g.log.Warn("a container was killed", "container", h.ID, "why", why)
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
		g.killAll(ctx, all, "the guard is gone")
		g.boot.now(g.overdue(rebootAfter))
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
		w, err := g.take(lines.Bytes())
		a := g.state()
		if a.Watchdog = w; err != nil {
			a.Error = err.Error()
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

// take takes one line: a table, or nothing, which only asks.
func (g *Guard) take(line []byte) (Watchdog, error) {
	if len(line) == 0 {
		return g.dog.state(), nil
	}
	var t Table
	if err := json.Unmarshal(line, &t); err != nil {
		return Watchdog{}, fmt.Errorf("this is no table: %w", err)
	}
	return g.Set(t)
}

// Follow is the second process: it takes tables of the first one, and kills everything at
// once when that is gone. The first one ends it by a table with nothing before it goes.
// Follow arms no watchdog: it disarms that of the first one when all is dead.
func Follow(ctx context.Context, g *Guard, from io.Reader) error {
	g.dog.mu.Lock()
	open := g.dog.open
	g.dog.open = nil
	g.dog.mu.Unlock()
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		if _, err := g.take(lines.Bytes()); err != nil {
			g.log.Error("a table cannot be read", "error", err)
		}
	}
	g.log.Warn("the guard is gone: everything that is held by lease is killed")
	g.KillNow(ctx)
	if ctx.Err() != nil {
		return errors.Join(lines.Err(), context.Cause(ctx))
	}
	return errors.Join(lines.Err(), g.callOff(open))
}

// ErrIdle ends a guard of which nothing is wanted.
var ErrIdle = errors.New("nothing is held, and no agent is there")

// Idle returns [ErrIdle] when nothing was held and no agent was connected for a time. A
// watchdog that cannot be disarmed keeps the guard, which feeds it.
func (g *Guard) Idle(ctx context.Context, after time.Duration) error {
	t := time.NewTicker(after)
	defer t.Stop()
	for idle := false; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
		open := g.leash(Table{}).Path != ""
		g.mu.Lock()
		now := len(g.holds) == 0 && g.agents == 0 && !open
		g.mu.Unlock()
		if now && idle {
			return ErrIdle
		}
		idle = now
	}
}
