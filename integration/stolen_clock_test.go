//go:build integration && hostlertest

package integration

import (
	"testing"
	"time"
)

// TestStolenCoordinatorOfAnotherTime gives the stolen state to the coordinator's
// own program, whose clock a thief sets to 1970 and to 2106: neither makes the
// host take what needs approvals, or approvals that have ended.
func TestStolenCoordinatorOfAnotherTime(t *testing.T) {
	t.Parallel()
	var c *clocks
	v := newVault(t, movable(t, &c, 0))
	past, future := time.Until(time.Unix(3600, 0)), time.Until(time.Unix(1<<32, 0))

	// Two persons approve while the host is away, and their approvals end.
	v.restartAt(t, c, 0)
	v.file.agent.end(t, kill)
	_, argv := v.witness()
	late := v.submit(t, "edge-01", argv...)
	const valid = 20 * time.Second
	for _, person := range []string{"ann", "bob"} {
		v.cli(t, "action", "approve", late, "--yes", "--key", person, "--valid", valid.String()).exits(t, 0)
	}
	given := time.Now()
	v.coordinator.end(t, kill)
	elapse(t, time.Until(given.Add(valid+time.Second)))
	c.set(t, past, 0)
	from := v.events.mark()
	v.startCoordinator(t)
	v.file.startAlone(t)
	v.file.online(t, from)
	if got := v.ended(t, late)[late]; got != "FAILED not_approved" {
		t.Errorf("with approvals that have ended it is %s", got)
	}

	for name, date := range map[string]time.Duration{"1970": past, "2106": future} {
		t.Run(name, func(t *testing.T) {
			v.restartAt(t, c, date)
			v.byHand(t)
		})
	}
	v.untouched(t)
}

// restartAt starts the coordinator anew on another date.
func (v *vault) restartAt(t testing.TB, c *clocks, date time.Duration) {
	t.Helper()
	v.coordinator.end(t, kill)
	c.set(t, date, 0)
	from := v.events.mark()
	v.startCoordinator(t)
	for _, h := range []*host{v.file, v.signed, v.moved} {
		h.online(t, from)
	}
}
