package actions

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// house is everything around the room of actions: it writes down what is asked of it.
// It belongs to the loop, but for happened in steps.
type house struct {
	*Actions
	q        *queue.Queue
	happened []string
	saga     func(j *Job) Saga
}

func (h *house) note(format string, args ...any) {
	h.happened = append(h.happened, fmt.Sprintf(format, args...))
}

func (h *house) ContainerName(protocol.CTID) protocol.ContainerName      { return "" }
func (h *house) Misnamed(*protocol.Spec, iter.Seq[*protocol.Spec]) error { return nil }
func (h *house) Reported(uint64)                                         {}
func (h *house) Moved()                                                  {}
func (h *house) Spare()                                                  {}

func (h *house) Applied(c queue.Change) {
	for _, rec := range c.Put {
		h.note("stored %s", rec.Name)
	}
	for range c.Delete {
		h.note("deleted")
	}
}

func (h *house) Ended(act *queue.Action, _ *protocol.Spec) {
	h.note("ended %s %s", act.State, act.Detail)
}

func (h *house) Allowed(protocol.ActionID, *protocol.Spec, *queue.Order, []protocol.OrderApproval) error {
	return nil
}
func (h *house) AllowedHere(*protocol.Spec, *queue.Order) error { return nil }

func (h *house) Lacks(*protocol.Spec) bool                    { return false }
func (h *house) Sent(string, *protocol.Spec) error            { return nil }
func (h *house) Keep(protocol.ActionID, *protocol.Spec, bool) {}
func (h *house) Admit(*protocol.Spec) error                   { return nil }
func (h *house) Begin(j *Job)                                 { j.Run(h.saga(j)) }
func (h *house) Prepare(*protocol.Spec) (queue.Change, *queue.Step) {
	return queue.Change{}, nil
}

// do is a step that stores a container of a name, or fails.
func (h *house) do(name string, commit bool, err error) Step {
	return Step{Commit: commit, Do: func(context.Context) (queue.Change, error) {
		h.note("%s", name)
		if err != nil {
			return queue.Change{}, err
		}
		return queue.Change{Put: []queue.Container{{CTID: ct(1), Name: protocol.ContainerName(name), Runtime: "lxc", Class: "pinned", Intended: queue.Stopped, Offline: "keep"}}}, nil
	}}
}

// live runs an action of a kind with three attempts until it has ended.
func live(t *testing.T, during func(h *house), saga func(h *house, j *Job) Saga) []string {
	t.Helper()
	h := &house{}
	synctest.Test(t, func(t *testing.T) {
		var err error
		h.q, err = queue.Create(t.Context(), queue.Config{Path: filepath.Join(t.TempDir(), "queue")}, protocol.StoreID{1})
		if err != nil {
			t.Fatal(err)
		}
		defer h.q.Close()
		l := loop.New(loop.Config{Boot: "boot", BootMS: func() int64 { return time.Now().UnixMilli() }, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		defer l.Begin(t.Context(), t.Context())()
		h.saga = func(j *Job) Saga { return saga(h, j) }
		h.Actions = New(Config{Boot: "boot", Loop: l, Store: h.q, Rooms: h, Policy: h, Inputs: h, Lanes: 2, HostRuns: 2, Sessions: 2, MaxOpen: 9,
			Handlers: map[protocol.Kind]Handler{protocol.KindStart: h}, Log: slog.New(slog.DiscardHandler)})
		act, err := h.Propose(id(1), []byte(`{"kind":"container.start","target":"`+ct(1).String()+`"}`), "root")
		if err != nil {
			t.Fatal(err)
		}
		if during != nil {
			during(h)
		}
		for h.Job(act.ID) != nil {
			l.Call(<-l.Calls())
		}
		l.Shutdown(time.Second, func() {})
	})
	return h.happened
}

var errBroken = errors.New("it is broken")

// TestSaga: what a step changes is durable before the next begins, and with the end
// that of the last. Before the commit point a failure undoes, behind it nothing does;
// an interruption leaves all to the next attempt, as long as there is one.
func TestSaga(t *testing.T) {
	undo := func(h *house) func(context.Context, error) (queue.Change, error) {
		return func(_ context.Context, why error) (queue.Change, error) {
			h.note("undo")
			return queue.Change{Delete: []protocol.CTID{ct(1)}}, why
		}
	}
	broken, cut := "ended FAILED it is broken", Interrupted(errBroken)
	for name, c := range map[string]struct {
		steps func(h *house, attempt int) []Step
		want  []string
	}{
		"one step": {func(h *house, _ int) []Step { return []Step{h.do("a", true, nil)} },
			[]string{"a", "stored a", "ended DONE "}},
		"three steps": {func(h *house, _ int) []Step {
			return []Step{h.do("a", false, nil), h.do("b", true, nil), h.do("c", false, nil)}
		},
			[]string{"a", "stored a", "b", "stored b", "c", "stored c", "ended DONE "}},
		"fails before the commit point": {func(h *house, _ int) []Step {
			return []Step{h.do("a", false, nil), h.do("b", true, errBroken), h.do("c", false, nil)}
		},
			[]string{"a", "stored a", "b", "undo", "deleted", broken}},
		"fails behind it": {func(h *house, _ int) []Step { return []Step{h.do("a", true, nil), h.do("b", false, errBroken)} },
			[]string{"a", "stored a", "b", broken}},
		"is interrupted once": {func(h *house, attempt int) []Step {
			if attempt == 1 {
				return []Step{h.do("a", false, nil), h.do("b", true, cut)}
			}
			return []Step{h.do("a", false, nil), h.do("b", true, nil)}
		}, []string{"a", "stored a", "b", "a", "stored a", "b", "stored b", "ended DONE "}},
		"is interrupted each time": {func(h *house, _ int) []Step { return []Step{h.do("a", true, cut)} },
			[]string{"a", "a", "a", "undo", "deleted", broken}},
		"is interrupted each time behind the commit point": {func(h *house, _ int) []Step { return []Step{h.do("a", true, nil), h.do("b", false, cut)} },
			[]string{"a", "stored a", "b", "a", "stored a", "b", "a", "stored a", "b", broken}},
		"has no commit point": {func(h *house, _ int) []Step { return []Step{h.do("a", false, errBroken)} },
			[]string{"a", broken}},
	} {
		t.Run(name, func(t *testing.T) {
			got := live(t, nil, func(h *house, j *Job) Saga { return Saga{Steps: c.steps(h, j.Action().Attempt), Undo: undo(h)} })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPreemptedSaga: what a stop has ended stores nothing any more, and makes no step.
func TestPreemptedSaga(t *testing.T) {
	got := live(t, func(h *house) { h.jobs[id(1)].preempted = true }, func(h *house, _ *Job) Saga {
		return Saga{Steps: []Step{h.do("a", true, nil), h.do("b", false, nil)}}
	})
	if slices.Contains(got, "b") || !strings.HasPrefix(got[len(got)-1], "ended FAILED a stop that may not wait") {
		t.Errorf("%q", got)
	}
}

// TestEndedAddsToTheEnd: what is looked up when a saga has let go is part of its end.
func TestEndedAddsToTheEnd(t *testing.T) {
	got := live(t, nil, func(h *house, _ *Job) Saga {
		s := One(h.do("a", false, nil).Do)
		s.Ended = func(context.Context) func(*queue.Step) {
			h.note("looked")
			return func(end *queue.Step) { end.Detail = "seen" }
		}
		return s
	})
	if diff := cmp.Diff([]string{"a", "looked", "stored a", "ended DONE seen"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestSettledSaga: when the last attempt was interrupted with its process, what was done
// before the commit point is undone, and the rest behind it is done.
func TestSettledSaga(t *testing.T) {
	for name, c := range map[string]struct {
		committed bool
		want      []string
	}{
		"before the commit point": {false, []string{"undo", "deleted", "ended FAILED it was interrupted too often"}},
		"behind it":               {true, []string{"a", "stored a", "ended DONE "}},
	} {
		t.Run(name, func(t *testing.T) {
			got := live(t, func(h *house) {
				j := h.jobs[id(1)]
				<-j.idle // whatever it made, its process is gone
				h.happened = nil
				for !j.last() {
					act, err := h.q.Start(h.loop.Steps(), j.act.ID, queue.Change{}, h.loop.When())
					if err != nil {
						t.Fatal(err)
					}
					j.act = act
				}
				j.recovered = true
				settler{h}.Settle(j)
			}, func(h *house, j *Job) Saga {
				return Saga{Steps: []Step{h.do("a", true, nil)}, Committed: c.committed && j.last(), Undo: func(_ context.Context, why error) (queue.Change, error) {
					h.note("undo")
					return queue.Change{Delete: []protocol.CTID{ct(1)}}, why
				}}
			})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// settler is a house whose sagas have a commit point.
type settler struct{ *house }

func (s settler) Settle(j *Job) { s.Begin(j) }
