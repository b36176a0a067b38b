package coordinator_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol"
)

// read reads output from an offset on, until it ends or there is a hole.
func read(t *testing.T, f *coordtest.Fleet, id protocol.ActionID, offset int64, follow bool) (string, int64) {
	t.Helper()
	var b bytes.Buffer
	span, err := f.Coordinator().ReadOutput(t.Context(), id, protocol.Stdout, offset, follow, func(p []byte) error {
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
