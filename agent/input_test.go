package agent_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/protocol"
)

var ann = core.Actor{Name: "ann", Role: core.RoleAdmin}

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
	p, err := f.coord.Relay().Payloads.Put(t.Context(), ann, protocol.Digest{}, -1, 0, bytes.NewReader(data))
	if err != nil || p.SHA256 != protocol.Sum(data) {
		t.Fatal(p, err)
	}
	act, err := f.coord.Actions().Propose(t.Context(), ann, actions.Request{Host: host,
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
	_, err := f.coord.Relay().Output.Read(t.Context(), relay.Reading{Action: id, FD: protocol.Stdout}, func(p []byte) error { out.Write(p); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func (f *fleetOf) state(t *testing.T, id protocol.ActionID) core.Action {
	t.Helper()
	act, err := f.coord.Actions().Get(t.Context(), id)
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

// TestPayloadIsGone fails an action whose payload the coordinator has lost, and
// says so in few words.
func TestPayloadIsGone(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		var told atomic.Int64
		var gone atomic.Bool
		f.mu.Lock()
		f.carry = func(topic string, arrive func()) []func() {
			if strings.Contains(topic, "/in/") {
				told.Add(1)
				return nil
			}
			if !gone.Load() { // or the host asks for the payload before it is gone
				return nil
			}
			return []func(){arrive}
		}
		f.mu.Unlock()
		id := f.pay(t, bytesOf(1<<20))
		if err := os.RemoveAll(f.dir); err != nil {
			t.Fatal(err)
		}
		gone.Store(true)
		for range 60 {
			if w.pass(time.Second); told.Load() > 0 {
				break
			}
		}
		if n := told.Load(); n != 1 {
			t.Errorf("%d messages say that there is no payload", n)
		}
		f.mu.Lock()
		f.carry = nil
		f.mu.Unlock()
		w.pass(time.Minute)
		if act := f.state(t, id); act.State != protocol.StateFailed || !strings.Contains(act.Detail, "does not have it any more") {
			t.Errorf("%s: %s", act.State, act.Detail)
		}
	})
}

// TestInputIsSentAgain loses a chunk, and then all that the host says about it:
// what no credit covers is sent again all the same.
func TestInputIsSentAgain(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		var lost atomic.Bool
		f.mu.Lock()
		f.carry = func(topic string, arrive func()) []func() {
			first := strings.Contains(topic, "/in/") && lost.CompareAndSwap(false, true)
			if first || lost.Load() && strings.HasSuffix(topic, "/ack") {
				return nil
			}
			return []func(){arrive}
		}
		f.mu.Unlock()
		id := f.pay(t, []byte("hello"))
		w.pass(10 * time.Second)
		if act := f.state(t, id); !lost.Load() || act.State != protocol.StateDone {
			t.Errorf("after 10 s: %s: %s", act.State, act.Detail)
		}
	})
}

// TestInputOfAnOlderCoordinator takes no chunk of a coordinator that was
// superseded, although it would follow upon what is there.
func TestInputOfAnOlderCoordinator(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		var mu sync.Mutex
		var kept func()
		f.mu.Lock()
		f.carry = func(topic string, arrive func()) []func() {
			if strings.Contains(topic, "/in/") {
				mu.Lock()
				defer mu.Unlock()
				if kept == nil {
					kept = arrive
				}
				return nil
			}
			return []func(){arrive}
		}
		f.mu.Unlock()
		id := f.pay(t, []byte("hello"))
		w.pass(time.Second)
		f.stop()
		f.start()
		w.pass(5 * time.Minute)
		mu.Lock()
		kept()
		mu.Unlock()
		w.pass(time.Second)
		if act := f.state(t, id); act.State != protocol.StateNew {
			t.Errorf("the old chunk was taken: %s: %s", act.State, act.Detail)
		}
		f.mu.Lock()
		f.carry = nil
		f.mu.Unlock()
		w.pass(2 * time.Minute)
		if act := f.state(t, id); act.State != protocol.StateDone {
			t.Errorf("%s: %s", act.State, act.Detail)
		}
	})
}

// TestCreditOfAnotherAction gives a host nothing of an action that is not its own.
func TestCreditOfAnotherAction(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		w.agent.Ask(actionID(9), 1)
		w.pass(5 * time.Second)
		if n := f.coord.Stats().Refused[protocol.ErrAction]; n == 0 {
			t.Error("a credit for an action that there is not was taken")
		}
	})
}

// TestCreditOfActionWithoutPayload refuses to be asked for what does not exist.
func TestCreditOfActionWithoutPayload(t *testing.T) {
	withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
		act, err := f.coord.Actions().Propose(t.Context(), ann, actions.Request{Host: host, Spec: []byte(`{"kind":"host.run","argv":["hang"],"timeout_ms":-1}`)})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		w.agent.Ask(act.ID, 1)
		w.pass(5 * time.Second)
		if n := f.coord.Stats().Refused[protocol.ErrAction]; n == 0 {
			t.Error("a credit for an action that reads nothing was taken")
		}
	})
}

// TestPayloadBeside: an action whose input a person of the host sends at the same moment waits
// for that, and fetches it if the person gives up.
func TestPayloadBeside(t *testing.T) {
	for name, whole := range map[string]bool{"sent": true, "given up": false} {
		t.Run(name, func(t *testing.T) {
			withFleet(t, func(t *testing.T, w *world, f *fleetOf) {
				data := bytesOf(1 << 20)
				from, to := io.Pipe()
				put := make(chan error, 1)
				go func() {
					put <- agent.Uploads(w.agent).Put(t.Context(), "uid:9", protocol.Sum(data), int64(len(data)), from)
				}()
				if _, err := to.Write(data[:1000]); err != nil { // it has begun
					t.Fatal(err)
				}
				id := f.pay(t, data)
				w.pass(2 * time.Second)
				if act := f.state(t, id); act.State.Final() {
					t.Fatalf("%s: %s", act.State, act.Detail)
				}
				if whole {
					if _, err := to.Write(data[1000:]); err != nil {
						t.Fatal(err)
					}
				}
				to.Close()
				if err := <-put; (err == nil) != whole {
					t.Errorf("sending: %v", err)
				}
				w.pass(3 * time.Second)
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
