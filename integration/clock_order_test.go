//go:build integration && hostlertest

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// queued asks for a command that runs alone on its host, and writes a word to a
// file when it does.
func (w *world) queued(t testing.TB, host, word, file string) string {
	t.Helper()
	return strings.TrimSpace(w.must(t, "run", host, "--exclusive", "--no-wait", "--", "sh", "-c", `echo "$0" >>"$1"`, word, file))
}

// held has a host busy with a command until a gate is opened.
func (w *world) held(t testing.TB, host, gate string) string {
	t.Helper()
	id := strings.TrimSpace(w.must(t, "run", host, "--exclusive", "--no-wait", "--timeout", "100h", "--", "sh", "-c", `read x <"$0"`, gate))
	w.state(t, id, "RUNNING")
	return id
}

// TestBudgetsAndOrderUnderSteps steps the clocks of host and coordinator while
// orders wait: each has the start budget that it had, by the time that passed on
// either side and by no date, and they run in the order in which they were
// accepted.
func TestBudgetsAndOrderUnderSteps(t *testing.T) {
	t.Parallel()
	var own *clocks
	w := newWorld(t, movable(t, &own, 0))
	h, c := w.addWrongHost(t, "edge-01", 0)
	gate, witness := w.fifo(t, "gate"), w.path("witness")
	write(t, witness, "")
	held := w.held(t, "edge-01", gate)

	// One that has waited for its host for 20 of its 24 hours.
	h.agent.end(t, kill)
	old := w.queued(t, "edge-01", "old", witness)
	own.set(t, 20*time.Hour, 20*time.Hour)
	h.start(t)
	w.state(t, old, "NEW")

	var want []string
	var ids []string
	for i, step := range []time.Duration{decade, -decade, time.Hour, -time.Hour, 0, -decade} {
		c.set(t, step, 0)
		own.set(t, 20*time.Hour-step, 20*time.Hour)
		word := fmt.Sprint("after-", i)
		id := w.queued(t, "edge-01", word, witness)
		w.state(t, id, "NEW")
		want, ids = append(want, word), append(ids, id)
		if i == 3 {
			h.restart(t, kill) // the start path goes by the same order
		}
	}
	// Three hours more, and the old one has one left. One more than that, and its
	// time is over, whatever the date is; the others have theirs.
	c.set(t, decade, 3*time.Hour)
	w.works(t, "edge-01")
	if act := w.action(t, old); act.State != "NEW" {
		t.Errorf("after 23 of 24 hours it is %s %s", act.State, act.Reason)
	}
	c.set(t, -decade, 5*time.Hour)
	if got := w.ended(t, old)[old]; got != "CANCELLED expired" {
		t.Errorf("after 25 of 24 hours it is %s", got)
	}
	release(t, gate)
	w.done(t, held)
	for _, id := range ids {
		w.done(t, id)
	}
	if got := strings.Join(strings.Fields(read(t, witness)), " "); got != strings.Join(want, " ") {
		t.Errorf("they ran as %q, want %q", got, want)
	}
}

// TestDateBackUnderWaitingOrders sets the coordinator's date back while orders wait
// for their host, before and after a restart: none of them is lost or runs before
// another, and none lives longer than its budget.
func TestDateBackUnderWaitingOrders(t *testing.T) {
	t.Parallel()
	var own *clocks
	w := newWorld(t, movable(t, &own, 0))
	h, _ := w.addWrongHost(t, "edge-01", 0)
	other, _ := w.addWrongHost(t, "edge-02", 0)
	witness := w.path("witness")
	write(t, witness, "")
	h.agent.end(t, kill)
	other.agent.end(t, kill)

	var want, ids []string
	ask := func(word string) {
		want, ids = append(want, word), append(ids, w.queued(t, "edge-01", word, witness))
	}
	ask("before")
	own.set(t, -decade, 0)
	ask("behind")
	w.coordinator.end(t, kill)
	w.startCoordinator(t)
	ask("restarted")
	late := w.queued(t, "edge-02", "overdue", witness)
	own.set(t, -decade+time.Hour, time.Hour)
	ask("later")
	for _, id := range append(ids, late) {
		if act := w.action(t, id); act.State != "PENDING_SCHEDULE" {
			t.Errorf("action %s is %s %s", id, act.State, act.Reason)
		}
	}
	h.start(t)
	for _, id := range ids {
		w.done(t, id)
	}
	if got := strings.Join(strings.Fields(read(t, witness)), " "); got != strings.Join(want, " ") {
		t.Errorf("they ran as %q, want %q", got, want)
	}
	// A day by the time since boot is a day, however far back the date is.
	from := w.events.mark()
	own.set(t, -2*decade, 26*time.Hour)
	w.event(t, from, "the order that waits has expired", func(e api.Event) bool {
		return e.Type == "action.state" && e.Object == late && e.Data["state"] == "CANCELLED" && e.Data["reason"] == "expired"
	})
	other.start(t)
	w.works(t, "edge-02")
	if got := read(t, witness); strings.Contains(got, "overdue") {
		t.Error("what has expired has run")
	}
}
