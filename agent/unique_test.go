package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/lease"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// noGuard kills nothing.
type noGuard struct{}

func (noGuard) Set(context.Context, []lease.Held) error { return nil }

func (noGuard) Former(context.Context) (map[protocol.CTID]int64, error) { return nil, nil }

// TestUniqueStartsByGrant: whatever would start a unique container, it is started under a grant
// that names it with an epoch that is no older than one before, and else not at all.
func TestUniqueStartsByGrant(t *testing.T) {
	var sick atomic.Bool
	tune := func(c *agent.Config) {
		c.Guard, c.SelfFence, c.Group = noGuard{}, "guard", func(init int) (string, error) { return fmt.Sprint(init), nil }
		c.Probe = func(context.Context, containers.Probed, contract.Check) error {
			if sick.Load() {
				return errors.New("it is sick")
			}
			return nil
		}
	}
	epoch := func(counter uint64) protocol.Epoch {
		return protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 1}, Counter: counter}
	}
	in(t, tune, func(t *testing.T, w *world) {
		var starts atomic.Int64 // the agent's goroutines count
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			if op == containertest.OpStart {
				starts.Add(1)
			}
			return true, nil
		})
		grant := func(held ...protocol.LeaseHeld) {
			w.coord.see(func() { w.coord.grants = held })
			w.pass(31 * time.Second) // the next lease
		}
		of := func(counter uint64) protocol.LeaseHeld {
			return protocol.LeaseHeld{CTID: ctid(1), Epoch: epoch(counter)}
		}
		runs := func(when string, counter uint64) {
			t.Helper()
			if w.state(1) != container.StateRunning || w.lxc.Epoch("ct-1") != epoch(counter).String() {
				t.Fatalf("%s it is %s under epoch %s, want it to run under %s", when, w.state(1), w.lxc.Epoch("ct-1"), epoch(counter))
			}
			starts.Store(0)
		}
		none := func(when string) {
			t.Helper()
			if starts.Load() > 0 {
				t.Fatalf("%s it is started without a grant", when)
			}
		}

		s := creation(1, true)
		args := s.Args.(*protocol.CreateArgs)
		args.Class, args.Data, args.Health = contract.Unique, "none", &contract.Check{TCP: 80, IntervalMS: 10_000, TimeoutMS: 2000, Retries: 1}
		w.coord.order(actionID(1), s)
		w.pass(time.Minute)
		none("by its creation")
		grant(protocol.LeaseHeld{CTID: ctid(2), Epoch: epoch(3)})
		none("by a grant of another one")
		grant(of(3))
		runs("when it is granted", 3)

		// It ends by itself in the moment in which the grant ends.
		w.coord.see(func() { w.coord.grants = nil })
		if err := w.agent.Trigger(t.Context()); err != nil { // a hello, and so a lease
			t.Fatal(err)
		}
		w.pass(time.Second)
		if got := w.state(1); got != container.StateStopped {
			if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(time.Hour)
		none("after a crash")
		w.coord.order(actionID(2), on(protocol.KindStart, 1))
		w.pass(10 * time.Minute)
		none("by an order that waited")
		w.restart()
		w.pass(10 * time.Minute)
		none("by a restart of the agent")
		grant(of(2))
		w.pass(10 * time.Minute)
		none("under an older epoch")
		grant(of(4))
		w.pass(time.Minute)
		runs("when it is granted again", 4)

		// A crash and a failed check start it again, as long as it is granted.
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if starts.Load() == 0 {
			t.Error("after a crash it is not started again")
		}
		runs("after a crash", 4)
		sick.Store(true)
		w.pass(2 * time.Minute)
		if starts.Load() == 0 {
			t.Error("for its health it is not started again")
		}
		grant()
		w.pass(time.Second)
		starts.Store(0)
		w.pass(time.Hour)
		none("for its health")
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("without a grant it is %s", got)
		}
	})
}
