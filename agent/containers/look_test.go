package containers

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/container"
)

// watched is a runtime that tells when it is listed, and of changes as a test makes them.
type watched struct {
	container.Runtime
	changes atomic.Int64 // that were made
	seen    atomic.Int64 // that the last look has seen
	looks   chan time.Time
	event   func()
	tell    func(container.Event)
	by      *Containers
}

func (w *watched) Kind() container.Kind { return container.KindLXC }

func (w *watched) List(context.Context) ([]container.Info, error) {
	w.seen.Store(w.changes.Load())
	w.looks <- time.Now()
	return nil, nil
}

func (w *watched) Watch(ctx context.Context, _ func(), handle func(container.Event)) error {
	w.tell = handle
	w.event = func() {
		w.changes.Add(1)
		handle(container.Event{Name: "web", State: container.StateStopped})
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// watching calls test beside an agent's look at a runtime.
func watching(t *testing.T, test func(*watched)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w, log := &watched{looks: make(chan time.Time, 2000)}, slog.New(slog.DiscardHandler)
		l := loop.New(loop.Config{Boot: "boot", BootMS: func() int64 { return time.Now().UnixMilli() }, Now: time.Now, Log: log})
		defer l.Begin(ctx, ctx)()
		c := New(Config{Loop: l, Runtimes: []container.Runtime{w}, Seen: func() {}, Log: log})
		w.by = c
		ended := make(chan struct{})
		go func() { c.Run(ctx); close(ended) }()
		go func() {
			for {
				select {
				case call := <-l.Calls():
					l.Call(call)
				case <-ended:
					return
				}
			}
		}()
		synctest.Wait()
		test(w)
		cancel()
		<-ended
	})
}

// TestLookAtOnce: an event is looked at when it comes, even right after another, as a
// container that stops tells first that it is stopping.
func TestLookAtOnce(t *testing.T) {
	watching(t, func(w *watched) {
		for _, after := range []time.Duration{0, 10 * time.Millisecond, 0, time.Minute, time.Millisecond} {
			<-time.After(after)
			w.event()
			begun := time.Now()
			if late := (<-w.looks).Sub(begun); late != 0 {
				t.Errorf("the agent looked %v after an event that came %v after another", late, after)
			}
		}
	})
}

// TestLookInStorm: many events are seen in few looks, and the last of them is seen.
func TestLookInStorm(t *testing.T) {
	for _, lasts := range []time.Duration{time.Second, 10 * time.Second} {
		watching(t, func(w *watched) {
			for range lasts / time.Millisecond {
				<-time.After(time.Millisecond)
				w.event()
			}
			<-time.After(lookPause)
			synctest.Wait()
			most := lookBurst + int(lasts/lookPause) + 1
			if n := len(w.looks); n > most {
				t.Errorf("a storm of %v caused %d looks; at most %d are meant to be", lasts, n, most)
			}
			if w.seen.Load() != w.changes.Load() {
				t.Errorf("the last look saw %d of %d changes", w.seen.Load(), w.changes.Load())
			}
		})
	}
}

// TestOwnStartNeedsNoLook: what a runtime tells of a start of ours is told by the end of that,
// too, and nothing else is passed over.
func TestOwnStartNeedsNoLook(t *testing.T) {
	watching(t, func(w *watched) {
		w.by.starting.Store("web", nil)
		for _, e := range []struct {
			container.Event
			looks int
		}{
			{container.Event{Name: "web", State: container.StateStarting}, 0},
			{container.Event{Name: "web", State: container.StateRunning}, 0},
			{container.Event{Name: "db", State: container.StateRunning}, 1},
			{container.Event{Name: "web", State: container.StateStopping}, 1},
			{container.Event{}, 1},
		} {
			w.tell(e.Event)
			<-time.After(lookPause)
			synctest.Wait()
			if n := len(w.looks); n != e.looks {
				t.Errorf("%+v caused %d looks, want %d", e.Event, n, e.looks)
			}
			for len(w.looks) > 0 {
				<-w.looks
			}
		}
		w.by.starting.Delete("web")
		w.tell(container.Event{Name: "web", State: container.StateRunning})
		<-w.looks
	})
}
