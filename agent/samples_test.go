package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/samples"
)

// sampled are so many lines.
func sampled(n int) []byte {
	var b []byte
	for i := range n {
		b = fmt.Appendf(b, "hostler_container,container=c%d cpu=%d.%d 1780000000000\n", i*7919, i, i*104729)
	}
	return b
}

// writing calls WriteSamples within a bubble, and returns what comes of it.
func writing(t *testing.T, w *world, lines []byte) <-chan error {
	done := make(chan error, 1)
	go func() { done <- agent.WriteSamples(t.Context(), w.agent, lines) }()
	synctest.Wait()
	return done
}

// samplesTaken has the coordinator of a test take samples, and give the text of those that
// answer lets through.
func (w *world) samplesTaken(answer func(n int) (taken bool, again int64, silent bool)) (text func() string) {
	w.coord.mu.Lock()
	defer w.coord.mu.Unlock()
	var got bytes.Buffer
	w.coord.samples = func(packed []byte) (int, int64) {
		taken, again, silent := answer(w.coord.measured)
		switch {
		case silent:
			return -1, 0
		case !taken:
			return 0, again
		}
		lines, _, err := samples.Unpack(packed, nil)
		if err != nil {
			w.t.Error(err)
		}
		got.Write(lines)
		return len(packed), 0
	}
	return func() string {
		w.coord.mu.Lock()
		defer w.coord.mu.Unlock()
		return got.String()
	}
}

func takesAll(int) (bool, int64, bool) { return true, 0, false }

// TestSamplesByTheCoordinator: they are sent once a coordinator has said that it takes them,
// each message with its own answer, in their order, and the connection carries other things.
func TestSamplesByTheCoordinator(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.pass(time.Minute)
		if err := <-writing(t, w, sampled(1)); err == nil || !strings.Contains(err.Error(), "metrics.influx.url") {
			t.Errorf("a coordinator that takes none: %v", err)
		}
		text := w.samplesTaken(takesAll)
		w.line.breaks(false)
		w.pass(time.Minute)
		lines := sampled(3000)
		done := writing(t, w, lines)
		w.coord.order(actionID(1), protocol.Spec{Kind: protocol.KindPing})
		w.pass(time.Minute)
		w.expect(actionID(1), "succeed DONE ok")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(lines), text()); diff != "" {
			t.Error(diff)
		}
		if n := w.agent.Metrics().Sent[protocol.TypeSamples]; n < 2 || n != uint64(w.coord.measured) {
			t.Errorf("%d messages were sent, %d have come", n, w.coord.measured)
		}
	})
}

// TestSamplesAreRefused: what the coordinator has no place for, will never take, or does not
// answer are errors of their own; the next call goes on behind what is taken.
func TestSamplesAreRefused(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		mode := "first"
		text := w.samplesTaken(func(n int) (bool, int64, bool) {
			return mode == "all" || mode == "first" && n == 1, map[string]int64{"first": 1}[mode], mode == "silent"
		})
		w.line.breaks(false)
		w.pass(time.Minute)
		lines := sampled(3000)
		if err := <-writing(t, w, lines); err == nil || !strings.Contains(err.Error(), "no place") {
			t.Errorf("no place: %v", err)
		}
		mode = "never"
		if err := <-writing(t, w, lines); !errors.Is(err, relay.ErrRefusedSamples) {
			t.Errorf("never: %v", err)
		}
		mode = "silent"
		begun := time.Now()
		if err := <-writing(t, w, lines); err == nil || !strings.Contains(err.Error(), "does not answer") || time.Since(begun) > 2*time.Minute {
			t.Errorf("silent: %v after %s", err, time.Since(begun))
		}
		mode = "all"
		if err := <-writing(t, w, lines); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(lines), text()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSamplesAndALostConnection: a write that waits for an answer fails at once when none can
// come.
func TestSamplesAndALostConnection(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.samplesTaken(func(int) (bool, int64, bool) { return false, 0, true })
		w.line.breaks(false)
		w.pass(time.Minute)
		done := writing(t, w, sampled(1))
		w.line.breaks(true)
		begun := time.Now()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "ended") || time.Since(begun) > 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		if err := <-writing(t, w, sampled(1)); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("without a connection: %v", err)
		}
		w.line.heal()
	})
}

// thin is a line on which so many bytes pass in a second. It notes what goes when.
type thin struct {
	relay.Bulk
	second int
	sizes  []int
	times  []time.Time
}

func (n *thin) Pace(context.Context) (uint64, int, time.Duration, error) {
	return 1, n.second, time.Second, nil
}

func (n *thin) Publish(ctx context.Context, topic string, payload []byte) error {
	if strings.Contains(topic, "/samples/") {
		n.sizes, n.times = append(n.sizes, len(payload)), append(n.times, time.Now())
	}
	return n.Bulk.Publish(ctx, topic, payload)
}

// TestSamplesOnAThinLine: no message of samples takes longer than a second or so, and
// three quarters of the line are left to others. A call ends before the samples that are
// taken meanwhile have no place, and the next goes on where it was.
func TestSamplesOnAThinLine(t *testing.T) {
	n := &thin{second: 1200}
	in(t, func(c *agent.Config) {
		if b, ok := c.Bulk.(bulk); ok {
			n.Bulk = b
			c.Bulk = n
		}
	}, func(t *testing.T, w *world) {
		text := w.samplesTaken(takesAll)
		w.line.breaks(false)
		w.pass(time.Minute)
		lines := sampled(3000)
		calls := 1
		for ; ; calls++ {
			begun := time.Now()
			err := <-writing(t, w, lines)
			if took := time.Since(begun); took > 40*time.Second {
				t.Fatalf("a call took %s", took)
			}
			if err == nil {
				break
			}
			if !strings.Contains(err.Error(), "has not carried") {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(lines), text()); diff != "" || calls < 2 || len(n.sizes) < 20 {
			t.Errorf("%d calls, %d messages: %s", calls, len(n.sizes), diff)
		}
		for i, size := range n.sizes {
			if size > 2*n.second {
				t.Errorf("a message of %d bytes", size)
			}
			if i > 0 && n.times[i].Sub(n.times[i-1]) < 3*time.Duration(n.sizes[i-1])*time.Second/1200 {
				t.Errorf("%s between two messages, the first of %d bytes", n.times[i].Sub(n.times[i-1]), n.sizes[i-1])
			}
		}
	})
}
