package agent_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
)

// linger is for how long a stubborn operation goes on after it was ended.
const linger = 2 * time.Second

// stubborn is a runtime whose operations were too far gone to be ended: they hang
// until they are, and linger then, and are done in the end all the same.
type stubborn struct {
	*containertest.Fake
	op    atomic.Pointer[containertest.Op] // which of them; nil is none
	since time.Time
}

func (s *stubborn) holdOn(ctx context.Context, op containertest.Op) context.Context {
	if of := s.op.Load(); of == nil || *of != op {
		return ctx
	}
	<-ctx.Done()
	<-time.After(linger)
	return context.WithoutCancel(ctx)
}

func (s *stubborn) Start(ctx context.Context, name string) (container.Info, error) {
	return s.Fake.Start(s.holdOn(ctx, containertest.OpStart), name)
}

func (s *stubborn) Create(ctx context.Context, spec container.CreateSpec) error {
	return s.Fake.Create(s.holdOn(ctx, containertest.OpCreate), spec)
}

// inStubborn runs a test on a host whose operations on containers can be made
// stubborn.
func inStubborn(t *testing.T, test func(t *testing.T, w *world, s *stubborn)) {
	t.Helper()
	s := &stubborn{}
	in(t, func(c *agent.Config) {
		s.Fake = c.Runtimes[0].(*containertest.Fake)
		c.Runtimes = []container.Runtime{s}
	}, func(t *testing.T, w *world) { test(t, w, s) })
}

// Operations implements container.Busy: the one that hangs is done by process 4711.
func (s *stubborn) Operations() []container.Operation {
	if of := s.op.Load(); of != nil {
		return []container.Operation{{Verb: string(*of), Name: "ct-1", PID: 4711, Since: s.since, Until: s.since.Add(time.Minute)}}
	}
	return nil
}

// TestSlowOperationIsTold: of an operation on a container that takes long it is said
// what it is, who does it and until when, and no more when it has ended.
func TestSlowOperationIsTold(t *testing.T) {
	inStubborn(t, func(t *testing.T, w *world, s *stubborn) {
		op := containertest.OpStart
		w.coord.order(actionID(1), creation(1, false))
		w.pass(time.Minute)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		s.since = time.Now()
		s.op.Store(&op)
		w.coord.order(actionID(2), on(protocol.KindStart, 1))
		w.pass(4 * time.Second)
		if got := w.detail(actionID(2)); got != "" {
			t.Errorf("it is said too early: %q", got)
		}
		w.pass(10 * time.Minute)
		w.expect(actionID(2), "start RUNNING", "tell RUNNING") // once
		date := func(d time.Duration) string { return s.since.Add(d).UTC().Format(time.RFC3339) }
		want := "under way: lxc start of ct-1, process 4711, since " + date(0) + "; it is killed unless it has ended at " + date(time.Minute)
		if got := w.detail(actionID(2)); got != want {
			t.Errorf("it is said: %q, want %q", got, want)
		}
		w.coord.now(actionID(3), on(protocol.KindStopNow, 1))
		w.pass(linger + time.Second)
		w.expect(actionID(2), "start RUNNING", "tell RUNNING", "succeed DONE ok") // it was too far gone
		if got := w.detail(actionID(2)); strings.Contains(got, "under way") {
			t.Errorf("it has ended, and it is said: %q", got)
		}
	})
}

// TestStopNowComesLast: it stops the container when what it has ended has let go of
// it, be that an action or the agent's own correction, and not before: the last
// thing that happens to the container is its stop.
func TestStopNowComesLast(t *testing.T) {
	for _, correction := range []bool{false, true} {
		inStubborn(t, func(t *testing.T, w *world, s *stubborn) {
			op := containertest.OpStart
			w.coord.order(actionID(1), creation(1, correction))
			w.pass(time.Second)
			s.op.Store(&op)
			if !correction {
				w.coord.order(actionID(2), on(protocol.KindStart, 1))
			} else if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
				t.Fatal(err)
			}
			w.pass(20 * time.Second)
			w.coord.now(actionID(3), on(protocol.KindStopNow, 1))
			w.pass(linger / 2)
			w.expect(actionID(3), "start RUNNING")
			w.pass(linger)
			w.expect(actionID(3), "start RUNNING", "succeed DONE ok")
			if got := w.state(1); got != container.StateStopped {
				t.Errorf("it was stopped and is %v", got)
			}
		})
	}
}

// TestStopNowOfAMadeContainer: a creation that could not be ended in time records
// nothing any more of what its container was to be: it was stopped.
func TestStopNowOfAMadeContainer(t *testing.T) {
	inStubborn(t, func(t *testing.T, w *world, s *stubborn) {
		op, n := containertest.OpCreate, byte(16)
		s.op.Store(&op)
		for i := range n {
			w.coord.order(actionID(i+1), creation(i+1, true))
		}
		w.pass(time.Second)
		for i := range n {
			w.coord.now(actionID(n+i+1), on(protocol.KindStopNow, i+1))
		}
		w.pass(time.Minute)
		for i := range n {
			w.expect(actionID(i+1), "start RUNNING", "preempt FAILED preempted")
			w.expect(actionID(n+i+1), "start RUNNING", "succeed DONE ok")
		}
		w.pass(10 * time.Minute)
		all, err := w.agent.Containers(t.Context())
		if err != nil || len(all) != int(n) {
			t.Fatalf("%+v, %v", all, err)
		}
		for i, c := range all {
			if c.Intended != queue.Stopped {
				t.Errorf("%s was stopped and is to be %s", c.Name, c.Intended)
			}
			if got := w.state(byte(i) + 1); got != container.StateStopped {
				t.Errorf("container %d was stopped and is %v", i+1, got)
			}
		}
	})
}
