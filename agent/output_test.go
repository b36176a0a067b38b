package agent_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
)

// give credits stdout of action 1 at an offset.
func (w *world) give(offset int64) {
	w.coord.see(func() {
		w.coord.credit = []protocol.Credit{{Action: actionID(1), Attempt: 1, FD: protocol.Stdout, Offset: offset, Window: protocol.ChunkWindow}}
		conn, chal := w.coord.gate.Conn()
		w.coord.receipt(conn, chal)
	})
}

// narrow is a bulk connection over a line of 1000 bytes a second.
type narrow struct{ *line }

func (narrow) Connect(context.Context) error { return nil }

func (narrow) Pace(context.Context) (uint64, int, time.Duration, error) {
	return 1, 1000, 20 * time.Second, nil
}

func (n narrow) Publish(ctx context.Context, topic string, payload []byte) error {
	select {
	case <-time.After(time.Duration(len(payload)) * time.Millisecond):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return n.line.Publish(ctx, topic, payload, false)
}

// TestOutputOverASlowLine: chunks are as small as the line is slow, and however
// often they are asked for, none is sent while it may be on its way.
func TestOutputOverASlowLine(t *testing.T) {
	in(t, func(c *agent.Config) { c.Bulk = narrow{c.Link.(*line)} }, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("bytes", "131072"))
		for range 200 {
			w.pass(time.Second)
			var have int
			w.coord.see(func() { have = len(w.coord.out[protocol.Stdout]) })
			w.give(int64(have))
		}
		w.coord.see(func() {
			have := len(w.coord.out[protocol.Stdout])
			if least := w.coord.chunks << 10; have < least*9/10 || have < 80<<10 {
				t.Errorf("%d bytes arrived in %d chunks of 1 KiB", have, w.coord.chunks)
			}
		})
	})
}

// jammed is a bulk connection whose line takes nothing.
type jammed struct{ narrow }

func (jammed) Publish(ctx context.Context, _ string, _ []byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestCommandHearsOfFollowersOverAJammedLine: a command waits for those who follow
// it, however long a chunk of its output waits for its line.
func TestCommandHearsOfFollowersOverAJammedLine(t *testing.T) {
	in(t, func(c *agent.Config) { c.Bulk = jammed{narrow{c.Link.(*line)}} }, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("print", "many words", "1h"))
		w.pass(time.Second)
		for _, offset := range []int64{0, 5} {
			w.give(offset)
			w.pass(10 * time.Second)
			w.cmds.mu.Lock()
			safe := w.cmds.runs[actionID(1)][1].safe.Load()
			w.cmds.mu.Unlock()
			if safe != offset {
				t.Errorf("somebody has %d bytes, and the command was told of %d", offset, safe)
			}
		}
	})
}

// TestStreamsAreFollowedAlone: whoever follows one stream of a command does not make
// it wait in the other, whether at the coordinator or on the host.
func TestStreamsAreFollowedAlone(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("print", "many words", "1h"))
		w.pass(time.Second)
		r := w.cmds.get(actionID(1), 1)
		for range 10 {
			w.give(5)
			w.pass(10 * time.Second)
		}
		if out, err := r.safe.Load(), r.safeErr.Load(); out != 5 || err != 0 {
			t.Errorf("stdout is followed up to 5 from afar, and it was told of %d; of stderr of %d", out, err-1)
		}
		w.coord.see(func() { w.coord.credit = nil })
		w.pass(time.Minute)
		o, err := w.agent.Output(t.Context(), actionID(1), agent.LocalRoot, protocol.Stdout, int64(len("many")), true, true)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		if _, err := o.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if out, err := r.safe.Load(), r.safeErr.Load(); out != 4 || err != 0 {
			t.Errorf("stdout is followed up to 4 here, and it was told of %d; of stderr of %d", out, err-1)
		}
	})
}

// TestStoppedSupervisorHoldsUpNoReader: whoever reads on the host does not wait for a
// supervisor that does not answer; when it does again, it hears where they are.
func TestStoppedSupervisorHoldsUpNoReader(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("print", "many words", "1h"))
		w.pass(time.Second)
		r := w.cmds.get(actionID(1), 1)
		r.still.Store(true)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		o, err := w.agent.Output(ctx, actionID(1), agent.LocalRoot, protocol.Stdout, 0, true, true)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { // ends with ctx at the latest
			_, err := io.ReadFull(iotest.OneByteReader(o), make([]byte, len("many")))
			done <- errors.Join(err, o.Close())
		}()
		synctest.Wait()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("a reader waits for a supervisor that is stopped")
		}
		r.still.Store(false)
		w.pass(time.Minute)
		w.give(int64(len("many")))
		w.pass(time.Second)
		if safe := r.safe.Load(); safe != int64(len("many")) {
			t.Errorf("the supervisor goes on, and was told of %d bytes", safe)
		}
	})
}

// TestOutputAskedForEarly: what is asked for before a command has begun is sent
// when it has, and nobody has to ask again.
func TestOutputAskedForEarly(t *testing.T) {
	in(t, func(c *agent.Config) { c.HostRuns = 1 }, func(t *testing.T, w *world) {
		w.coord.order(actionID(2), command("sleep", "10s"))
		w.coord.order(actionID(1), command("bytes", "131072"))
		w.pass(time.Second)
		w.give(0)
		w.coord.see(func() { w.coord.credit = nil })
		w.pass(time.Minute)
		w.coord.see(func() {
			if n := len(w.coord.out[protocol.Stdout]); n != 131072 {
				t.Errorf("%d bytes arrived, want 131072", n)
			}
		})
	})
}

// TestForgottenOutputIsTold: whoever asks for output that is not there any more
// does not wait for ever.
func TestForgottenOutputIsTold(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.give(4711)
		w.pass(time.Second)
		w.coord.see(func() {
			if !slices.Equal(w.coord.nothing, []int64{4711}) {
				t.Errorf("nothing is there at %v, want 4711", w.coord.nothing)
			}
		})
	})
}
