package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// TestContainerEnds: how a container ended is remembered ten times, over restarts of the
// agent, and an end that was asked for is told from one that was not.
func TestContainerEnds(t *testing.T) {
	ends := make(map[int]chan queue.End) // by first process
	in(t, func(c *agent.Config) {
		c.Witness = func(pid int) (func(context.Context, func()) (queue.End, error), error) {
			if ends[pid] == nil {
				ends[pid] = make(chan queue.End, 1)
			}
			end := ends[pid]
			return func(ctx context.Context, gone func()) (queue.End, error) {
				select {
				case e := <-end:
					gone()
					return e, nil
				case <-ctx.Done():
					return queue.End{}, context.Cause(ctx)
				}
			}, nil
		}
	}, func(t *testing.T, w *world) {
		die := func(e queue.End) {
			t.Helper()
			info, err := w.lxc.Inspect(t.Context(), "ct-1")
			if err != nil || info.InitPID == 0 {
				t.Fatal(info, err)
			}
			if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
				t.Fatal(err)
			}
			ends[info.InitPID] <- e
			w.pass(10 * time.Minute)
		}
		known := func() []queue.End {
			t.Helper()
			d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1")
			if err != nil {
				t.Fatal(err)
			}
			return d.Ends
		}
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		die(queue.End{Known: true, Code: 3})
		die(queue.End{Known: true, Signal: 9, OOM: true})
		w.restart()
		w.pass(time.Minute)
		all := known()
		if len(all) != 2 || all[0].Code != 3 || all[0].Asked || all[1].Signal != 9 || !all[1].OOM || all[0].AtMS == 0 || all[0].Cause != queue.CauseCrash || all[1].Cause != queue.CauseOOM || all[1].AtMS <= all[0].AtMS {
			t.Errorf("%+v", all)
		}
		info, err := w.lxc.Inspect(t.Context(), "ct-1")
		if err != nil {
			t.Fatal(err)
		}
		ends[info.InitPID] <- queue.End{Known: true, Signal: 15}
		w.coord.order(actionID(2), on(protocol.KindStop, 1))
		w.pass(time.Minute)
		if all := known(); len(all) != 3 || !all[2].Asked || all[2].Signal != 15 || all[2].Cause != queue.CauseOrder {
			t.Errorf("%+v", all)
		}
		w.coord.order(actionID(3), on(protocol.KindStart, 1))
		w.pass(time.Minute)
		for n := range 12 {
			die(queue.End{Known: true, Code: 100 + n})
		}
		if all := known(); len(all) != queue.MaxEnds || all[9].Code != 111 {
			t.Errorf("%+v", all)
		}
		die(queue.End{Known: true})
		w.down()
		w.boot = "boot-2"
		w.up()
		w.pass(time.Minute)
		if all := known(); all[8].Cause != queue.CauseExit || all[9].Cause != queue.CauseHost {
			t.Errorf("%+v", all)
		}
		if _, _, err := agent.Remembered(t.Context(), w.agent, "ct-2"); err == nil {
			t.Error("one is known that is not there")
		}
	})
}

// TestContainerGone: a container whose first process has ended is not told to run, though
// its runtime says so still, and is started again when the runtime has cleared up behind it.
func TestContainerGone(t *testing.T) {
	ends := make(map[int]chan struct{}) // by first process
	in(t, func(c *agent.Config) {
		c.Witness = func(pid int) (func(context.Context, func()) (queue.End, error), error) {
			end := make(chan struct{})
			ends[pid] = end
			return func(ctx context.Context, gone func()) (queue.End, error) {
				select {
				case <-end:
					gone()
				case <-ctx.Done():
					return queue.End{}, context.Cause(ctx)
				}
				<-time.After(time.Second) // its parent is slow
				return queue.End{Known: true}, nil
			}, nil
		}
	}, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		info, err := w.lxc.Inspect(t.Context(), "ct-1")
		if err != nil || ends[info.InitPID] == nil {
			t.Fatal(info, err)
		}
		close(ends[info.InitPID])
		for _, after := range []time.Duration{0, time.Second, time.Minute} { // looks among them
			w.pass(after)
			if got := container.State(w.told(1).State); got != container.StateStopping {
				t.Errorf("%v after its first process has ended, it is told to be %s", after, got)
			}
		}
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if got := container.State(w.told(1).State); got != container.StateRunning {
			t.Errorf("it is %s, and was not started again", got)
		}
	})
}
