package coordinator_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// read reads output from an offset on, until it ends or there is a hole.
func read(t *testing.T, f *coordtest.Fleet, id protocol.ActionID, offset int64, follow bool) (string, int64) {
	t.Helper()
	var b bytes.Buffer
	span, err := f.Coordinator().Relay().Output.Read(t.Context(), relay.Reading{Action: id, FD: protocol.Stdout, Offset: offset, Follow: follow, Hold: follow}, func(p []byte) error {
		b.Write(p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), span.Next
}

// talked runs a command with that output to its end.
func talked(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, stdout string) protocol.ActionID {
	t.Helper()
	h.Auto(coordtest.Succeed(stdout))
	a := propose(t, f, h)
	want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
	after(10 * time.Second)
	return a.ID
}

func TestShortOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		id := talked(t, f, h, "hello\n")
		if s, next := read(t, f, id, 0, false); s != "hello\n" || next != -1 {
			t.Errorf("read %q, go on at %d", s, next)
		}
		if s, next := read(t, f, id, 99, true); s != "" || next != -1 {
			t.Errorf("behind the end: %q, go on at %d", s, next)
		}
	})
}

func TestHeadAndTailAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		whole := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
		id := talked(t, f, h, whole)
		s, next := read(t, f, id, 0, false)
		if s != whole[:protocol.OutputKept] || next != int64(len(whole)-protocol.OutputKept) {
			t.Fatalf("the head is %d bytes, go on at %d", len(s), next)
		}
		if s, end := read(t, f, id, next, false); s != whole[next:] || end != -1 {
			t.Errorf("the tail is %d bytes, go on at %d", len(s), end)
		}
		// What is there stays there over a restart, and the middle comes for
		// whoever follows.
		f.Restart()
		after(10 * time.Second)
		if s, _ := read(t, f, id, next, false); s != whole[next:] {
			t.Errorf("after a restart the tail is %d bytes", len(s))
		}
		if s, next := read(t, f, id, 0, true); s != whole || next != -1 {
			t.Errorf("followed, it is %d bytes, go on at %d", len(s), next)
		}
		believed(t, h)
	})
}

func TestDroppedOutputIsAHole(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			h.Write(o.Item.Action, 1, protocol.Stdout, []byte("head"))
			h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 1000, Dropped: 996, DropAt: 4}))
		})
		a := propose(t, f, h)
		synctest.Wait()
		if s, next := read(t, f, a.ID, 0, true); s != "head" || next != 1000 {
			t.Errorf("read %q, go on at %d, want head and 1000", s, next)
		}
		if _, next := read(t, f, a.ID, 1000, true); next != -1 {
			t.Errorf("at the end, go on at %d", next)
		}
	})
}

// TestFollowingOverAHole: whoever asks for all of it after the tail was fetched
// gets what lies between the hole and the tail, too, and never the hole itself.
func TestFollowingOverAHole(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		const head, hole = 300 << 10, 100 << 10
		whole := strings.Repeat("h", head) + strings.Repeat("?", hole) + strings.Repeat("t", 300<<10)
		h.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			h.Write(o.Item.Action, 1, protocol.Stdout, []byte(whole))
			h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: int64(len(whole)), Dropped: hole, DropAt: head}))
		})
		a := propose(t, f, h)
		after(time.Minute)
		for range 2 { // from the host, and from what is held
			if s, next := read(t, f, a.ID, 0, true); s != whole[:head] || next != head+hole {
				t.Fatalf("before the hole %d bytes, go on at %d, want %d and %d", len(s), next, head, head+hole)
			}
			if s, next := read(t, f, a.ID, head+hole, true); s != whole[head+hole:] || next != -1 {
				t.Fatalf("behind the hole %d bytes, go on at %d, want %d and the end", len(s), next, len(whole)-head-hole)
			}
		}
	})
}

func TestLostChunksAreAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		whole := strings.Repeat("x", 3<<20) // three windows
		// The host hears of no credit for a while.
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelReceipt })
		h.Auto(coordtest.Succeed(whole))
		a := propose(t, f, h)
		time.AfterFunc(time.Minute, func() { h.Deaf(nil) })
		if s, next := read(t, f, a.ID, 0, true); s != whole || next != -1 {
			t.Errorf("read %d bytes of %d, go on at %d", len(s), len(whole), next)
		}
	})
}

// TestSlowOutputIsNotAskedForAllTheTime: on a line that a chunk takes minutes to
// pass, the other direction is not filled with asking for it.
func TestSlowOutputIsNotAskedForAllTheTime(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		asked := func() (n int) {
			for _, m := range f.Published(h.ID, protocol.ChannelReceipt) {
				if bytes.Contains(m.Payload, []byte(`"credit":[`)) {
					n++
				}
			}
			return n
		}
		h.Auto(coordtest.Succeed(strings.Repeat("x", 1<<20)))
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelReceipt })
		a := propose(t, f, h)
		after(time.Minute)
		before := asked()
		after(10 * time.Minute)
		if n := asked() - before; n < 5 || n > 12 {
			t.Errorf("asked for %d times in ten minutes, want once in 64 s", n)
		}
		h.Deaf(nil)
		after(2 * time.Minute)
		if s, _ := read(t, f, a.ID, 0, false); len(s) < protocol.OutputKept {
			t.Errorf("then %d bytes of output came", len(s))
		}
	})
}

func TestOutputIsFetchedAfterRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		whole := strings.Repeat("0123456789abcdef", 64<<10)
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelReceipt }) // no credit for the tail
		h.Auto(coordtest.Succeed(whole))
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		f.Restart()
		h.Deaf(nil)
		after(10 * time.Second)
		tail := int64(len(whole) - protocol.OutputKept)
		if s, next := read(t, f, a.ID, tail, false); s != whole[tail:] || next != -1 {
			t.Errorf("the tail is %d bytes, go on at %d", len(s), next)
		}
	})
}

// TestOutputOfAllThatIsKeptIsFetchedAfterRestart: a host keeps the output of a
// hundred actions, and all of it can be missing here.
func TestOutputOfAllThatIsKeptIsFetchedAfterRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		const text = "never arrived"
		var arrives atomic.Bool
		h.Auto(coordtest.Succeed(text))
		f.Delay(func(topic string, _ []byte) bool { return !arrives.Load() && strings.Contains(topic, "/out/") })
		var ids []protocol.ActionID
		for range 100 {
			a := propose(t, f, h)
			want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
			ids = append(ids, a.ID)
		}
		h.Goodbye()
		synctest.Wait()
		f.Restart()
		arrives.Store(true)
		h.Connect()
		after(10 * time.Second)
		for i, id := range ids {
			if s, next := read(t, f, id, 0, false); s != text || next != -1 {
				t.Fatalf("of action %d there is %q, go on at %d", i, s, next)
			}
		}
	})
}

// After weeks without a connection there is more output to ask for than one
// message can name.
func TestOutputOfALongAbsence(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Goodbye()
		synctest.Wait()
		const text = "what was written meanwhile"
		spec := coordtest.RunSpec("true")
		var ids []protocol.ActionID
		for i := range 400 {
			id := protocol.NewActionID(int64(i), [10]byte{1})
			ids = append(ids, id)
			h.Write(id, 1, protocol.Stdout, []byte(text))
			h.Report(protocol.Report{
				Action: id, Spec: spec, Digest: protocol.Sum(spec), Event: protocol.EventSucceed, State: protocol.StateDone, Reason: protocol.ReasonOK,
				Attempt: 1, Exit: &protocol.Exit{}, Output: []protocol.Output{{FD: protocol.Stdout, Bytes: int64(len(text))}},
			})
		}
		// The second connection is slower than the first.
		f.Delay(func(topic string, _ []byte) bool { return strings.Contains(topic, "/out/") })
		h.Connect()
		after(time.Minute)
		f.Delay(nil)
		after(2 * time.Minute)
		missing := 0
		for _, id := range ids {
			if s, _ := read(t, f, id, 0, false); s != text {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("the output of %d of %d actions is missing", missing, len(ids))
		}
		believed(t, h)
	})
}

// A host cannot make files by inventing attempts, nor hold any open by owing
// what it promised.
func TestHostCannotCollectFiles(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		synctest.Wait()
		before := openFiles(t)
		for attempt := range 50 {
			h.Write(a.ID, attempt+1, protocol.Stdout, []byte("x"))
			h.Write(a.ID, attempt+1, protocol.Stderr, []byte("x"))
		}
		h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 1 << 40}, protocol.Output{FD: protocol.Stderr, Bytes: 1 << 40}))
		after(10 * time.Second)
		if n := openFiles(t); n > before {
			t.Errorf("%d files are open, %d were before", n, before)
		}
		if n := f.OutputFiles(a.ID); n > 4 {
			t.Errorf("%d files were made, for the attempt that runs and the next there are 4", n)
		}
	})
}

// Whoever follows gets all that there is and is told what is missing: the host
// keeps the output of a hundred actions.
func TestForgottenOutputIsAHole(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		whole := strings.Repeat("0123456789abcdef", 64<<10)
		id := talked(t, f, h, whole)
		h.Forget(id)
		tail := int64(len(whole) - protocol.OutputKept)
		if s, next := read(t, f, id, 0, true); s != whole[:protocol.OutputKept] || next != tail {
			t.Fatalf("%d bytes, go on at %d, want the head and %d", len(s), next, tail)
		}
		if s, next := read(t, f, id, tail, true); s != whole[tail:] || next != -1 {
			t.Errorf("%d bytes, go on at %d, want the tail and the end", len(s), next)
		}
		believed(t, h)
	})
}

// Nothing at all arrived before the host forgot it, and somebody has waited
// since then.
func TestOutputIsForgottenUnderAFollower(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelReceipt })
		h.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 21})) // and no byte is sent
		})
		a := propose(t, f, h)
		time.AfterFunc(time.Hour, func() {
			h.Forget(a.ID)
			h.Deaf(nil)
		})
		begun := time.Now()
		if s, next := read(t, f, a.ID, 0, true); s != "" || next != 21 {
			t.Errorf("read %q, go on at %d, want nothing and 21", s, next)
		}
		if took := time.Since(begun); took < time.Hour || took > time.Hour+2*time.Minute {
			t.Errorf("told after %v", took)
		}
		if _, next := read(t, f, a.ID, 21, true); next != -1 {
			t.Errorf("at the end, go on at %d", next)
		}
	})
}

// Nothing comes of a host that was revoked.
func TestOutputOfARevokedHostIsAHole(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		whole := strings.Repeat("0123456789abcdef", 64<<10)
		id := talked(t, f, h, whole)
		h.Silence()
		time.AfterFunc(time.Hour, func() {
			if err := f.Coordinator().Members().Revoke(t.Context(), f.Admin(), h.ID, "stolen"); err != nil {
				t.Error(err)
			}
		})
		tail := int64(len(whole) - protocol.OutputKept)
		for range 2 { // one that waits, and one that comes later
			if s, next := read(t, f, id, 0, true); s != whole[:protocol.OutputKept] || next != tail {
				t.Errorf("%d bytes, go on at %d, want the head and %d", len(s), next, tail)
			}
		}
	})
}

// What an interrupted command wrote is followed to its end.
func TestInterruptedOutputIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		whole := strings.Repeat("x", 300<<10)
		h.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			h.Write(o.Item.Action, 1, protocol.Stdout, []byte(whole))
			r := o.Done(protocol.Output{FD: protocol.Stdout, Bytes: int64(len(whole))})
			r.Event, r.State, r.Reason, r.Exit = protocol.EventInterrupt, protocol.StateFailed, protocol.ReasonInterrupted, nil
			h.Report(r)
		})
		a := propose(t, f, h)
		if s, next := read(t, f, a.ID, 0, true); s != whole || next != -1 {
			t.Errorf("read %d bytes of %d, go on at %d", len(s), len(whole), next)
		}
		want(t, f, a.ID, protocol.StateFailed, protocol.ReasonInterrupted)
		believed(t, h)
	})
}

// TestFewCredits: a log that flows needs one credit for each quarter of a
// window, and not one for each chunk.
func TestFewCredits(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		go func() {
			for range 200 {
				<-time.After(time.Second)
				h.Write(a.ID, 1, protocol.Stdout, make([]byte, 1<<10))
			}
			h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 200 << 10}))
		}()
		if s, next := read(t, f, a.ID, 0, true); len(s) != 200<<10 || next != -1 {
			t.Errorf("read %d bytes, go on at %d", len(s), next)
		}
		if n := credits(f, h); n < 1 || n > 5 {
			t.Errorf("%d credits for 200 chunks", n)
		}
	})
}

// credits is how many receipts have asked a host for output.
func credits(f *coordtest.Fleet, h *coordtest.Host) (n int) {
	for _, m := range f.Published(h.ID, protocol.ChannelReceipt) {
		if bytes.Contains(m.Payload, []byte(`"credit":[`)) {
			n++
		}
	}
	return n
}

// TestOutputIsAskedForWhenItsCommandBegins: not before, when the host may have
// nothing to remember it by, but then at once.
func TestOutputIsAskedForWhenItsCommandBegins(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		var reading sync.WaitGroup
		reading.Go(func() { read(t, f, a.ID, 0, true) })
		after(time.Minute)
		if n := credits(f, h); n != 0 {
			t.Errorf("%d credits before the command began", n)
		}
		h.Report(o.Started(h))
		after(time.Millisecond)
		if n := credits(f, h); n != 1 {
			t.Errorf("%d credits when the command has begun, want 1", n)
		}
		h.Report(o.Done(protocol.Output{FD: protocol.Stdout}))
		reading.Wait()
	})
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// hanging is a store that makes no change while it has a gate that is not open.
type hanging struct {
	core.Store
	gate atomic.Pointer[chan struct{}]
}

func (s *hanging) Update(ctx context.Context, fn func(core.Tx) error) error {
	if gate := s.gate.Load(); gate != nil {
		<-*gate
	}
	return s.Store.Update(ctx, fn)
}

// TestOutputWaitsForNoReport: a chunk is read while the report before it is being
// written down.
func TestOutputWaitsForNoReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{Store: storetest.NewMem(storetest.Faults{})}
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		h.Connect()
		synctest.Wait()
		a := propose(t, f, h)
		o := <-h.Orders()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan string, 1)
		var reading sync.WaitGroup
		reading.Go(func() {
			_, _ = f.Coordinator().Relay().Output.Read(ctx, relay.Reading{Action: a.ID, FD: protocol.Stdout, Follow: true}, func(p []byte) error {
				got <- string(p)
				return nil
			})
		})
		synctest.Wait()
		gate := make(chan struct{})
		store.gate.Store(&gate)
		h.Report(o.Started(h))
		time.Sleep(time.Millisecond) // its transaction is under way
		h.Write(a.ID, 1, protocol.Stdout, []byte("hello"))
		time.Sleep(time.Second)
		select {
		case s := <-got:
			if s != "hello" {
				t.Errorf("read %q", s)
			}
		default:
			t.Error("nothing was read")
		}
		close(gate)
		cancel()
		reading.Wait()
		synctest.Wait()
	})
}

// TestFirstByteComesBeforeItsStart: hosts report the start of what may be brief a moment
// later, and who follows sees what it writes at once all the same.
func TestFirstByteComesBeforeItsStart(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		var got atomic.Pointer[string]
		wg.Go(func() {
			_, _ = f.Coordinator().Relay().Output.Read(ctx, relay.Reading{Action: a.ID, FD: protocol.Stdout, Follow: true}, func(p []byte) error {
				s := string(p)
				got.Store(&s)
				return nil
			})
		})
		synctest.Wait()
		o := order(t, h)
		h.Write(a.ID, 1, protocol.Stdout, []byte("first"))
		synctest.Wait()
		if s := got.Load(); s == nil || *s != "first" {
			t.Error("the first byte waits for the report of the start")
		}
		h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 5}))
		synctest.Wait()
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
	})
}
