package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/protocol"
)

var ann = coordinator.Actor{Name: "ann", Role: coordinator.RoleAdmin}

// bytesOf are n bytes that tell where they belong.
func bytesOf(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// pay asks for a command that reads a payload.
func (f *fleetOf) pay(t *testing.T, data []byte) protocol.ActionID {
	t.Helper()
	p, err := f.coord.PutPayload(t.Context(), ann, protocol.Digest{}, -1, 0, bytes.NewReader(data))
	if err != nil || p.SHA256 != protocol.Sum(data) {
		t.Fatal(p, err)
	}
	act, err := f.coord.Propose(t.Context(), ann, coordinator.Request{Host: host,
		Spec: fmt.Appendf(nil, `{"kind":"host.run","argv":["sum"],"stdin_sha256":"%s","stdin_bytes":%d}`, p.SHA256, len(data))})
	if err != nil {
		t.Fatal(err)
	}
	return act.ID
}

// read returns what an action has written.
func (f *fleetOf) read(t *testing.T, id protocol.ActionID) string {
	t.Helper()
	var out bytes.Buffer
	_, err := f.coord.ReadOutput(t.Context(), coordinator.Reading{Action: id, FD: protocol.Stdout}, func(p []byte) error { out.Write(p); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func (f *fleetOf) state(t *testing.T, id protocol.ActionID) coordinator.Action {
	t.Helper()
	act, err := f.coord.Action(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

func TestPayload(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		data := bytesOf(9<<20 + 7)
		id := f.pay(t, data)
		w.pass(3 * time.Second)
		if act := f.state(t, id); act.State != protocol.StateDone {
			t.Fatalf("%s: %s", act.State, act.Detail)
		}
		if got := f.read(t, id); got != protocol.Sum(data).String() {
			t.Errorf("the command has read %s", got)
		}
	})
}

// chaos is a line that loses, repeats and reorders chunks and acks, and nothing
// else, so that the time is theirs.
func chaos(seed uint64, percent int) func(string, func()) []func() {
	var mu sync.Mutex
	var late []func()
	r := rand.New(rand.NewPCG(seed, 1))
	return func(topic string, arrive func()) []func() {
		if !strings.Contains(topic, "/in/") && !strings.HasSuffix(topic, "/ack") {
			return []func(){arrive}
		}
		mu.Lock()
		defer mu.Unlock()
		switch roll := r.IntN(100); {
		case roll < percent:
			return nil
		case roll < percent+10:
			return []func(){arrive, arrive}
		case roll < percent+20:
			late = append(late, arrive)
			return nil
		}
		all := append([]func(){arrive}, late...)
		late = nil
		return all
	}
}

// TestPayloadSurvivesEverything has both processes start anew, again and again,
// while the line loses, repeats and reorders.
func TestPayloadSurvivesEverything(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
				f.mu.Lock()
				f.carry = chaos(seed, 10)
				f.mu.Unlock()
				data := bytesOf(20 << 20)
				id := f.pay(t, data)
				for n := range 8 {
					w.pass(time.Duration(n) * 300 * time.Millisecond)
					if n%2 == 0 {
						w.restart()
					} else {
						f.stop()
						f.start()
					}
				}
				w.pass(30 * time.Minute)
				if act := f.state(t, id); act.State != protocol.StateDone {
					t.Fatalf("%s: %s", act.State, act.Detail)
				}
				if got := f.read(t, id); got != protocol.Sum(data).String() {
					t.Errorf("the command has read %s", got)
				}
			})
		})
	}
}

// reader is a sink that takes its time.
type reader struct {
	mu    sync.Mutex
	got   []byte
	ended bool
	pause time.Duration
}

func (r *reader) Write(p []byte) (int, error) {
	<-time.After(r.pause)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, p...)
	return len(p), nil
}

func (r *reader) End() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	return nil
}

func (r *reader) len() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(len(r.got))
}

// TestTypedInput brings what somebody writes to an action that runs, each byte
// once and in order, through an agent that is started anew in between.
func TestTypedInput(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
				f.mu.Lock()
				f.carry = chaos(seed, 15)
				f.mu.Unlock()
				act, err := f.coord.Propose(t.Context(), ann, coordinator.Request{Host: host, Spec: []byte(`{"kind":"host.run","argv":["hang"],"timeout_ms":-1}`)})
				if err != nil {
					t.Fatal(err)
				}
				w.pass(time.Second)
				sink := &reader{pause: time.Millisecond}
				wait, closed := w.agent.OpenInput(act.ID, 1, 0, sink)
				data := bytesOf(300_000)
				written := make(chan error, 1)
				go func() { // waited for below
					in, err := f.coord.OpenInput(t.Context(), act.ID, 1)
					if err != nil {
						written <- err
						return
					}
					defer in.Close()
					for rest := data; len(rest) > 0; {
						n := min(len(rest), 1+int(rest[0])*20)
						if _, err := in.Write(t.Context(), rest[:n]); err != nil {
							written <- err
							return
						}
						rest = rest[n:]
						<-time.After(time.Duration(n%7) * time.Millisecond)
					}
					in.End()
					written <- nil
				}()
				w.pass(3 * time.Second)
				closed()
				w.restart()
				w.pass(5 * time.Second)
				wait, _ = w.agent.OpenInput(act.ID, 1, sink.len(), sink)
				w.pass(time.Hour)
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				if !sink.ended || !bytes.Equal(sink.got, data) {
					t.Fatalf("%d of %d bytes have arrived, ended %v", len(sink.got), len(data), sink.ended)
				}
				if err := wait(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestTypedInputWaits holds whoever writes back as long as nobody reads.
func TestTypedInputWaits(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		act, err := f.coord.Propose(t.Context(), ann, coordinator.Request{Host: host, Spec: []byte(`{"kind":"host.run","argv":["hang"],"timeout_ms":-1}`)})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		in, err := f.coord.OpenInput(t.Context(), act.ID, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n, err := in.Write(ctx, bytesOf(1<<20))
		if err == nil || n > 128<<10 {
			t.Errorf("%d bytes were taken that nobody reads, %v", n, err)
		}
	})
}

var _ agent.InputSink = (*reader)(nil)

// typing asks for a command that does not end, and opens both ends of its input.
func (f *fleetOf) typing(t *testing.T, w *world) (protocol.ActionID, *reader) {
	t.Helper()
	act, err := f.coord.Propose(t.Context(), ann, coordinator.Request{Host: host, Spec: []byte(`{"kind":"host.run","argv":["hang"],"timeout_ms":-1}`)})
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	sink := &reader{}
	_, _ = w.agent.OpenInput(act.ID, 1, 0, sink)
	w.pass(3 * time.Second)
	return act.ID, sink
}

func (f *fleetOf) typed(t *testing.T, id protocol.ActionID, text string) {
	t.Helper()
	in, err := f.coord.OpenInput(t.Context(), id, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.Write(t.Context(), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.got)
}

// TestInputIsSentAgain loses a chunk, and then all that the host says about it:
// what no credit covers is sent again all the same.
func TestInputIsSentAgain(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		id, sink := f.typing(t, w)
		var lost atomic.Bool
		f.mu.Lock()
		f.carry = func(topic string, arrive func()) []func() {
			first := strings.Contains(topic, "/in/") && lost.CompareAndSwap(false, true)
			if first || strings.HasSuffix(topic, "/ack") {
				return nil
			}
			return []func(){arrive}
		}
		f.mu.Unlock()
		f.typed(t, id, "hello")
		w.pass(10 * time.Second)
		if got := sink.text(); got != "hello" {
			t.Errorf("after 10 s %q has arrived", got)
		}
	})
}

// TestInputOfAnOlderCoordinator takes no chunk of a coordinator that was
// superseded, although it would follow upon what is there.
func TestInputOfAnOlderCoordinator(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		id, sink := f.typing(t, w)
		var mu sync.Mutex
		var kept func()
		f.mu.Lock()
		f.carry = func(topic string, arrive func()) []func() {
			if strings.Contains(topic, "/in/") {
				mu.Lock()
				defer mu.Unlock()
				kept = arrive
				return nil
			}
			return []func(){arrive}
		}
		f.mu.Unlock()
		f.typed(t, id, "old words")
		w.pass(time.Second)
		f.stop()
		f.start()
		w.pass(5 * time.Minute)
		f.mu.Lock()
		f.carry = nil
		f.mu.Unlock()
		mu.Lock()
		kept()
		mu.Unlock()
		w.pass(time.Minute)
		f.typed(t, id, "new")
		w.pass(2 * time.Minute)
		if got := sink.text(); got != "new" {
			t.Errorf("%q has arrived", got)
		}
	})
}

// TestCreditOfAnotherAction gives a host nothing of an action that is not its own.
func TestCreditOfAnotherAction(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		_, _ = w.agent.OpenInput(actionID(9), 1, 0, &reader{})
		w.pass(5 * time.Second)
		if n := f.coord.Stats().Refused[protocol.ErrAction]; n == 0 {
			t.Error("a credit for an action that there is not was taken")
		}
	})
}
