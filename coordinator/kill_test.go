package coordinator_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

var errKilled = errors.New("the process was killed here")

// reaper kills the coordinator at its n-th commit: what follows that commit in
// the process never happens.
type reaper struct {
	n    atomic.Int64 // commits until the kill; 0 and below is never
	dead atomic.Bool
}

func (r *reaper) strike() error {
	if r.dead.Load() || r.n.Add(-1) == 0 {
		r.dead.Store(true)
		return errKilled
	}
	return nil
}

// TestKilledAtEveryCommit kills the coordinator right before and right after
// each commit that an order with output takes, from the request to the last
// word about it, and starts it again. The order runs exactly once and ends with
// the truth; whoever asked for it asks again, as a client does whose connection
// broke.
func TestKilledAtEveryCommit(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			for n := int64(1); ; n++ {
				if !killedAt(t, when, n) {
					// At least: the order with its request, its reports, its
					// output.
					if n <= 3 {
						t.Errorf("an order took %d commits only: they were not all met", n-1)
					}
					return
				}
			}
		})
	}
}

// killedAt plays the life of an order with a kill at the n-th commit. It reports
// false if there is no such commit.
func killedAt(t *testing.T, when string, n int64) (killed bool) {
	synctest.Test(t, func(t *testing.T) {
		var r reaper
		faults := storetest.Faults{Refuse: r.strike}
		if when == "after" {
			faults = storetest.Faults{Lose: r.strike}
		}
		f := coordtest.NewOn(t, storetest.NewMem(faults))
		h := f.AddHost("edge-07")
		var began atomic.Int64
		h.Auto(func(h *coordtest.Host, o coordtest.Order) {
			began.Add(1)
			coordtest.Succeed("hello\n")(h, o)
		})
		h.Connect()
		after(10 * time.Second)

		request := actions.Request{ID: protocol.NewActionID(1, [10]byte{7}), Host: h.ID, Spec: coordtest.RunSpec("true")}
		r.n.Store(n)
		_, _ = f.Coordinator().Actions().Propose(t.Context(), f.Admin(), request)
		after(10 * time.Second)
		killed = r.dead.Load()
		r.n.Store(-1 << 40)
		r.dead.Store(false)
		f.Restart()
		after(10 * time.Second)
		if _, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), request); err != nil {
			t.Fatalf("killed %s commit %d: asked again: %v", when, n, err)
		}
		after(20 * time.Second)
		want(t, f, request.ID, protocol.StateDone, protocol.ReasonOK)
		if got := began.Load(); got != 1 {
			t.Errorf("killed %s commit %d: it ran %d times", when, n, got)
		}
		var out []byte
		span, err := f.Coordinator().Relay().Output.Read(t.Context(), relay.Reading{Action: request.ID, FD: protocol.Stdout, Follow: true}, func(b []byte) error {
			out = append(out, b...)
			return nil
		})
		if err != nil || string(out) != "hello\n" || span.Next != -1 {
			t.Errorf("killed %s commit %d: output %q, %+v, %v", when, n, out, span, err)
		}
	})
	return killed
}
