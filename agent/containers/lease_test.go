package containers

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// releases remembers what was released.
type releases struct {
	grants
	all []protocol.CTID
}

func (r *releases) Release(id protocol.CTID) { r.all = append(r.all, id) }

// TestReleaseOfDestroyed: what is destroyed is not held any more, though no look at it can
// tell that it is stopped.
func TestReleaseOfDestroyed(t *testing.T) {
	r, log := &releases{}, slog.New(slog.DiscardHandler)
	l := loop.New(loop.Config{Boot: "boot", BootMS: func() int64 { return 1 }, Now: time.Now, Log: log})
	c := New(Config{Loop: l, Leases: r, Seen: func() {}, Log: log})
	unique, pinned := protocol.CTID{15: 1}, protocol.CTID{15: 2}
	c.Load([]queue.Container{
		{CTID: unique, Name: "db", Class: contract.Unique, Made: true}, {CTID: pinned, Name: "web", Class: classPinned, Made: true},
	}, nil, queue.Identity{}, nil)
	for _, id := range []protocol.CTID{unique, pinned} {
		c.observed(id, container.Info{}) // the runtime has none any more
		c.Applied(queue.Change{Delete: []protocol.CTID{id}})
	}
	if len(r.all) != 1 || r.all[0] != unique {
		t.Errorf("destroyed, %v is released, want %s alone", r.all, unique)
	}
}

// TestNothingToHoldOfTheDead: of a unique container whose first process has ended, and that
// its runtime clears up, no process is looked for that could be held.
func TestNothingToHoldOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		l := loop.New(loop.Config{Boot: "boot", BootMS: func() int64 { return 1 }, Now: time.Now, Log: log})
		ctx, cancel := context.WithCancel(t.Context())
		defer l.Begin(ctx, ctx)()
		looked := make(chan int, 2)
		c := New(Config{Loop: l, Leases: &releases{}, Seen: func() {}, Log: log, Group: func(init int) (string, error) {
			looked <- init
			return "group", nil
		}})
		for pid, dead := range map[int]bool{7: true, 8: false} {
			holding{c}.follow(&managed{
				rec:  queue.Container{CTID: protocol.CTID{15: byte(pid)}, Class: contract.Unique},
				info: container.Info{State: container.StateStopping, InitPID: pid}, life: &life{pid: pid, dead: dead},
			})
		}
		l.Call(<-l.Calls())
		synctest.Wait()
		if got := <-looked; got != 8 || len(looked) != 0 {
			t.Errorf("looked for process %d, and for %d more, want 8 alone", got, len(looked))
		}
		cancel()
	})
}
