package rundir

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestSettled: a process counts as the one that was asked for if it is older than the
// question. Its start is known to a tick.
func TestSettled(t *testing.T) { synctest.Test(t, testSettled) }

func testSettled(t *testing.T) {
	pid := os.Getpid()
	began, err := StartTicks(pid)
	if err != nil {
		t.Fatal(err)
	}
	since := time.Duration(began) * tick
	failed := errors.New("no answer")
	for name, c := range map[string]struct {
		now   time.Duration
		pid   int
		fails error
		want  error
		asked int
	}{
		"older":            {since + tick, pid, nil, nil, 1},
		"of the same tick": {since + tick - 1, pid, nil, ErrUnsettled, settleTries},
		"just started":     {0, pid, nil, nil, 2},
		"younger":          {since - time.Second, pid, nil, ErrUnsettled, settleTries},
		"gone":             {since + time.Hour, 1 << 29, nil, ErrUnsettled, settleTries},
		"none":             {since, 0, nil, nil, 1},
		"no answer":        {since + tick, pid, failed, failed, 1},
	} {
		asked, start := 0, time.Now()
		ticks, err := Settled(t.Context(), func() time.Duration {
			if c.now == 0 { // it began right before the first question
				return since + time.Since(start)
			}
			return c.now
		}, func() (int, error) {
			asked++
			return c.pid, c.fails
		})
		if !errors.Is(err, c.want) || asked != c.asked {
			t.Errorf("%s: %v by %d questions, want %v by %d", name, err, asked, c.want, c.asked)
		}
		if known := c.want == nil && c.pid == pid; known != (ticks == began) || !known && ticks != 0 {
			t.Errorf("%s: it began at %d, want %d or nothing", name, ticks, began)
		}
	}
}
