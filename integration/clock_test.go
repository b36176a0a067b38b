//go:build integration && hostlertest

package integration

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/clock"
)

// decade is how wrong clocks are here.
const decade = 10 * 365 * 24 * time.Hour

// clocks are those of one machine of the world, which the test moves.
type clocks struct{ file string }

func (w *world) newClocks(t testing.TB, name string) *clocks {
	t.Helper()
	c := &clocks{file: w.path("clock-" + name)}
	c.set(t, 0, 0)
	return c
}

// set moves the date and the time since boot of all who look from now on.
func (c *clocks) set(t testing.TB, date, boot time.Duration) {
	t.Helper()
	write(t, c.file+".new", fmt.Sprintf("%s %s\n", date, boot))
	if err := os.Rename(c.file+".new", c.file); err != nil {
		t.Fatal(err)
	}
}

func (c *clocks) environ() string { return clock.Variable + "=" + c.file }

// movable gives the coordinator a clock of its own, from its first step on.
func movable(t testing.TB, c **clocks, date time.Duration) func(*world) {
	return func(w *world) {
		*c = w.newClocks(t, "coordinator")
		(*c).set(t, date, 0)
		w.served = append(w.served, (*c).environ())
	}
}

// addWrongHost lets a host in that has a clock of its own.
func (w *world) addWrongHost(t testing.TB, name string, date time.Duration) (*host, *clocks) {
	t.Helper()
	h := w.newHost(t, name, false)
	c := w.newClocks(t, name)
	c.set(t, date, 0)
	h.env = append(h.env, c.environ())
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", name, "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	return h, c
}

// TestAgentIn1970 is a host that never knew the date: it joins, obeys, is
// believed, and comes back after a restart with the right date.
func TestAgentIn1970(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	past := -time.Since(time.Unix(0, 0)) + time.Hour
	h, c := w.addWrongHost(t, "edge-01", past)
	w.works(t, "edge-01")
	own := strings.TrimSpace(h.local(t, "run", "--local", "--no-wait", "--", "true").exits(t, 0).stdout)
	w.done(t, own)
	if at := w.action(t, own).CreatedAt; at.Year() != 1970 {
		t.Errorf("by its own clock the host is in %d", at.Year())
	}
	from := w.events.mark()
	elapse(t, 40*time.Second) // longer than a lease's renewals are apart
	w.works(t, "edge-01")
	w.stayedOnline(t, from)
	c.set(t, 0, 0) // it learns the date
	w.works(t, "edge-01")
	h.restart(t, kill)
	w.works(t, "edge-01")
	c.set(t, past, 0)
	h.restart(t, kill)
	w.works(t, "edge-01")
}

// TestCoordinatorOfAnotherDecade is a coordinator that is wrong by ten years
// from its first step on, then by ten years the other way, then right.
func TestCoordinatorOfAnotherDecade(t *testing.T) {
	t.Parallel()
	for name, date := range map[string]time.Duration{"ahead": decade, "behind": -decade} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c *clocks
			w := newWorld(t, movable(t, &c, date))
			h := w.addHost(t, "edge-01", false)
			w.works(t, "edge-01")
			if at := show[api.Host](t, w, "host", "show", "edge-01").ApprovedAt; time.Until(at).Abs() < decade/2 {
				t.Errorf("by the coordinator's clock the host was approved on %s", at)
			}
			h.restart(t, kill)
			for _, next := range []time.Duration{-date, 0} {
				// A step under the process, then a restart on the other date.
				from := w.events.mark()
				c.set(t, next, 0)
				w.works(t, "edge-01")
				w.stayedOnline(t, from)
				w.coordinator.end(t, kill)
				from = w.events.mark()
				w.startCoordinator(t)
				h.online(t, from)
				w.works(t, "edge-01")
				code := w.invite(t)
				other := w.newHost(t, "edge-"+strings.TrimPrefix(fmt.Sprint(int(next.Hours())), "-"), false)
				p, words := other.join(t, code)
				w.must(t, "host", "approve", other.name, "--words", words)
				p.finish(t).exits(t, 0)
			}
		})
	}
}

// TestDateStepsUnderCommands sets the date of a host back and forth while
// commands run: their limits count seconds, whatever the date.
func TestDateStepsUnderCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, c := w.addWrongHost(t, "edge-01", 0)
	gate := w.fifo(t, "gate-steps")
	begun := time.Now()
	limited := strings.TrimSpace(w.must(t, "run", "edge-01", "--no-wait", "--timeout", "6s", "--", "sleep", "100"))
	free := w.submit(t, "edge-01", "sh", "-c", `read x <"$0"`, gate)
	w.state(t, limited, "RUNNING")
	w.state(t, free, "RUNNING")
	from := w.events.mark()
	for _, date := range []time.Duration{decade, -decade, time.Hour, 0} {
		c.set(t, date, 0)
		w.works(t, "edge-01")
	}
	if got := w.ended(t, limited)[limited]; got != "FAILED timed_out" && got != "FAILED timeout" {
		t.Errorf("with a limit of 6 s it is %s", got)
	}
	if took := time.Since(begun); took < 6*time.Second {
		t.Errorf("a limit of 6 s ended the command after %s", took)
	}
	release(t, gate)
	w.done(t, free)
	w.stayedOnline(t, from)
}

// TestSuspend puts a host to sleep for an hour: limits that ran out meanwhile
// end their commands at once, others run on, nothing runs twice, and the host is
// back when it wakes. Then the coordinator's machine sleeps.
func TestSuspend(t *testing.T) {
	t.Parallel()
	var own *clocks
	w := newWorld(t, movable(t, &own, 0))
	_, c := w.addWrongHost(t, "edge-01", 0)
	gate, witness := w.fifo(t, "gate-suspend"), w.path("witness")
	submit := func(limit, script string) string {
		return strings.TrimSpace(w.must(t, "run", "edge-01", "--no-wait", "--timeout", limit, "--", "sh", "-c", script, gate, witness))
	}
	short := submit("30m", `echo short >>"$1"; sleep 1000`)
	long := submit("2h", `echo long >>"$1"; read x <"$0"; echo end >>"$1"`)
	w.state(t, short, "RUNNING")
	w.state(t, long, "RUNNING")
	for p := range strings.SplitSeq("short long", " ") {
		awaitLine(t, witness, p)
	}
	c.set(t, time.Hour, time.Hour)
	if got := w.ended(t, short)[short]; !strings.HasPrefix(got, "FAILED tim") {
		t.Errorf("after an hour's sleep the command with 30 m is %s", got)
	}
	w.works(t, "edge-01")
	own.set(t, time.Hour, time.Hour)
	w.works(t, "edge-01")
	release(t, gate)
	w.done(t, long)
	w.works(t, "edge-01")
	if got := read(t, witness); strings.Count(got, "\n") != 3 {
		t.Errorf("what ran: %q", got)
	}
}

// TestCodesUnderAWrongDate sets the coordinator's date back while an invite
// lives: it ends when it would have ended, and never later.
func TestCodesUnderAWrongDate(t *testing.T) {
	t.Parallel()
	var c *clocks
	w := newWorld(t, movable(t, &c, 0))
	code := w.invite(t, "--ttl", "2s")
	c.set(t, -decade, 0)
	elapse(t, 3*time.Second)
	h := w.newHost(t, "edge-01", false)
	if r := h.spawn(t, "late", "join", code).finish(t); r.code == 0 || !strings.Contains(r.stderr, "expired") {
		t.Errorf("a code that is too old: exit code %d, %s", r.code, r.stderr)
	}
	w.coordinator.signal(t, syscall.SIGKILL)
	w.coordinator.code(t)
	w.startCoordinator(t)
	if r := h.spawn(t, "later", "join", code).finish(t); r.code == 0 || !strings.Contains(r.stderr, "expired") {
		t.Errorf("after a restart in the past: exit code %d, %s", r.code, r.stderr)
	}
	from := w.events.mark()
	h.join(t, w.invite(t))
	w.event(t, from, "a new code works", func(e api.Event) bool { return e.Type == "host.pending" })
}
