package window_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

// TestSender: what is on its way is not sent again, what was lost is.
func TestSender(t *testing.T) {
	const patience = 10 * time.Second
	now := time.Unix(1, 0)
	s := window.NewSender(protocol.OutputKept)
	if s.Room() != protocol.OutputKept {
		t.Fatalf("%d bytes may be sent unasked", s.Room())
	}
	for _, step := range []struct {
		what   string
		pause  time.Duration
		conn   uint64
		sent   int64
		offset int64
		next   int64
	}{
		{"asked while it is on its way", 0, 1, 1000, 0, 1000},
		{"asked again", 9 * time.Second, 1, 0, 0, 1000},
		{"half has arrived", 0, 1, 1000, 1000, 2000},
		{"the other half is still on its way", 9 * time.Second, 1, 0, 1000, 2000},
		{"it should have arrived", 2 * time.Second, 1, 0, 1000, 1000},
		{"all has arrived", 0, 1, 1000, 2000, 2000},
		{"what was just sent is on its way", time.Minute, 1, 1000, 2000, 3000},
		{"an earlier connection took it along", 0, 2, 1000, 2000, 2000},
		{"the tail", 0, 2, 1000, 9000, 9000},
		{"the middle", 0, 2, 1000, 3000, 3000},
	} {
		now = now.Add(step.pause)
		if step.sent > 0 {
			s.Sent(step.conn, step.sent, now)
		}
		s.Allow(step.offset, protocol.ChunkWindow, patience, now)
		if s.Next() != step.next || s.Have() != step.offset || s.Room() != step.offset+protocol.ChunkWindow-step.next {
			t.Fatalf("%s: goes on at %d with room for %d, want %d", step.what, s.Next(), s.Room(), step.next)
		}
	}
	s.Sent(2, 1000, now)
	if s.Allow(3000, 0, patience, now.Add(time.Minute)); s.Next() != 4000 || s.Room() != 0 {
		t.Errorf("nothing is asked for: goes on at %d with room for %d", s.Next(), s.Room())
	}
	s.Allow(4000, 1000, patience, now)
	if s.Stop(); s.Room() != 0 {
		t.Errorf("it has no more, and room for %d", s.Room())
	}
	if s.Allow(4000, 1000, patience, now); s.Room() != 1000 {
		t.Errorf("asked again, it has room for %d", s.Room())
	}
}

// TestResender: what no credit covers is sent again, after a time that grows and
// begins anew with progress.
func TestResender(t *testing.T) {
	now := time.Unix(1, 0)
	var r window.Resender
	if r.Chunk() != 0 {
		t.Errorf("a chunk of %d without a credit", r.Chunk())
	}
	r.Allow(5000, 8<<10, now) // the host goes on where an earlier process came to
	if r.Next() != 5000 || r.Chunk() != 4<<10 {
		t.Fatalf("goes on at %d with chunks of %d", r.Next(), r.Chunk())
	}
	r.Sent(4<<10, now)
	r.Sent(4<<10, now)
	if r.Chunk() != 0 {
		t.Errorf("a chunk of %d beyond the credit", r.Chunk())
	}
	now = now.Add(time.Second)
	r.Allow(5000+4<<10, 8<<10, now) // a trip of one second
	for _, wait := range []time.Duration{4, 8, 16, 32, 60, 60} {
		left, waits := r.Overdue(now)
		if !waits || left != wait*time.Second {
			t.Fatalf("is sent again after %s (%t), want %d s", left, waits, wait)
		}
		now = now.Add(left)
		r.Again(now.Add(-time.Millisecond))
		if r.Next() != 5000+8<<10 {
			t.Fatal("sent again too early")
		}
		if r.Again(now); r.Next() != 5000+4<<10 {
			t.Fatalf("goes on at %d", r.Next())
		}
		if _, waits := r.Overdue(now); waits {
			t.Fatal("nothing is on its way")
		}
		r.Sent(4<<10, now)
	}
	r.Allow(5000+4<<10, 8<<10, now.Add(time.Second))
	if r.Next() != 5000+8<<10 {
		t.Error("asked again at once, it sends again at once")
	}
	now = now.Add(3 * time.Second)
	if r.Allow(5000+4<<10, 8<<10, now); r.Next() != 5000+4<<10 {
		t.Error("asked again after the time of two trips, it does not send again")
	}
	r.Sent(4<<10, now)
	r.Allow(5000+8<<10, 8<<10, now)
	r.Sent(4<<10, now)
	if left, _ := r.Overdue(now); left > 10*time.Second {
		t.Errorf("after progress it is sent again after %s", left)
	}
	if r.Allow(100, 8<<10, now); r.Next() != 100 {
		t.Errorf("the host has lost what it had: goes on at %d", r.Next())
	}
}

// TestChunks: half of the window, within the bounds of a chunk.
func TestChunks(t *testing.T) {
	for _, test := range [][2]int64{{100, 100}, {1500, protocol.LeastChunk}, {10_000, 5000}, {protocol.MaxInputWindow, protocol.ChunkSize}} {
		var r window.Resender
		if r.Allow(0, test[0], time.Unix(1, 0)); r.Chunk() != test[1] {
			t.Errorf("chunks of %d in a window of %d, want %d", r.Chunk(), test[0], test[1])
		}
	}
}

func TestReceiver(t *testing.T) {
	r := window.NewReceiver(1000)
	if v := r.Judge(1000, 1); v != window.Beyond {
		t.Errorf("without a credit: %d", v)
	}
	r.Ask(1000)
	for _, test := range []struct {
		offset, n int64
		want      window.Verdict
	}{
		{1000, 1000, window.Follows},
		{1000, 0, window.Follows}, // its sender has nothing
		{1000, 1001, window.Beyond},
		{1001, 1, window.Gap},
		{900, 100, window.Repeat},
		{900, 101, window.Overlap},
		{900, 1101, window.Beyond},
	} {
		if v := r.Judge(test.offset, test.n); v != test.want {
			t.Errorf("%d bytes at %d: %d, want %d", test.n, test.offset, v, test.want)
		}
	}
	r.Arrived(600)
	if r.Taken(100, 1000) || r.Patience() != 50*time.Millisecond {
		t.Errorf("a tenth was taken, and a credit is due now or after %s", r.Patience())
	}
	if !r.Taken(150, 1000) {
		t.Error("a quarter was taken, and no credit is due")
	}
	r.Ask(500) // the line has become slow
	if r.Limit() != 2000 {
		t.Errorf("all before %d may come", r.Limit())
	}
	for _, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		if r.Patience() != want*time.Second {
			t.Fatalf("asks again after %s, want %d s", r.Patience(), want)
		}
		r.Again()
	}
	if r.Arrived(1); r.Patience() != 2*time.Second {
		t.Errorf("after progress it asks again after %s", r.Patience())
	}
}

// TestHeld: what is gone is put together, and told to readers as gaps.
func TestHeld(t *testing.T) {
	c := window.NewCollector(window.Held{}, false)
	c.Begin()
	c.Ask(1000, 0)
	for _, r := range [][2]int64{{0, 1}, {1, 10}, {10, 20}, {20, 21}} {
		if r[0]%10 != 0 {
			then, _, ok := c.Judge(r[0], r[1]-r[0])
			if !ok {
				t.Fatal(r)
			}
			c.Put(then)
			continue
		}
		c.Jump(r[0], r[1])
	}
	h := c.Arrived()
	if diff := cmp.Diff(window.Held{Have: 21, Gone: []window.Range{{From: 0, To: 1}, {From: 10, To: 21}}}, h); diff != "" {
		t.Error(diff)
	}
}

func TestReadable(t *testing.T) {
	h := window.Held{Have: 70, TailFrom: 90, TailTo: 95, Gone: []window.Range{{From: 0, To: 1}, {From: 10, To: 21}, {From: 40, To: 60}}}
	for offset, want := range map[int64][2]int64{0: {0, 1}, 1: {10, 0}, 10: {10, 21}, 21: {40, 0}, 59: {59, 60}, 60: {70, 0}, 70: {70, 0}, 92: {95, 0}, 95: {95, 0}} {
		if until, gone := h.Readable(offset); until != want[0] || gone != want[1] {
			t.Errorf("from %d on: up to %d, gone up to %d, want %v", offset, until, gone, want)
		}
	}
}

// TestManyGaps: of more gaps than are remembered, what lies between the first is
// given up.
func TestManyGaps(t *testing.T) {
	c := window.NewCollector(window.Held{}, false)
	c.Begin()
	c.Ask(1000, 0)
	const most = 8
	for n := range int64(most + 1) {
		then, _, _ := c.Judge(10*n, 5)
		c.Put(then)
		c.Jump(10*n+5, 10*n+10)
	}
	if gone := c.Arrived().Gone; len(gone) != most || gone[0] != (window.Range{From: 5, To: 20}) {
		t.Errorf("%v", gone)
	}
}

// TestMiddleIsGivenUp: of a long stream the head and the newest bytes are kept.
func TestMiddleIsGivenUp(t *testing.T) {
	c := window.NewCollector(window.Held{Have: 100 << 20}, false)
	c.Begin()
	c.Ask(200<<20, 0)
	then, _, _ := c.Judge(100<<20, 1<<19)
	c.Put(then)
	if diff := cmp.Diff([]window.Range{{From: 32 << 20, To: 68 << 20}}, c.Arrived().Gone); diff != "" {
		t.Error(diff)
	}
}

func TestWants(t *testing.T) {
	const kept, all = protocol.OutputKept, 10 << 20
	total := func(bytes, dropAt, dropped int64) *protocol.Output {
		return &protocol.Output{FD: protocol.Stdout, Bytes: bytes, DropAt: dropAt, Dropped: dropped}
	}
	for _, test := range []struct {
		what           string
		held           window.Held
		total          *protocol.Output
		whole          bool
		ahead          int64
		offset, window int64
	}{
		{"nobody follows", window.Held{}, nil, false, 0, 0, 0},
		{"somebody follows", window.Held{Have: 1000}, nil, false, all * 3, 1000, protocol.ChunkWindow},
		{"somebody follows who has not read what is here", window.Held{Have: 1000}, nil, false, 500, 1000, 0},
		{"the head has not come", window.Held{Have: 1000}, total(all, 0, 0), false, 0, 1000, kept - 1000},
		{"the tail has not come", window.Held{Have: kept}, total(all, 0, 0), false, 0, all - kept, kept},
		{"a part of the tail has come", window.Held{Have: kept, TailFrom: all - kept, TailTo: all - 1000}, total(all, 0, 0), false, 0, all - 1000, 1000},
		{"head and tail are here", window.Held{Have: kept, TailFrom: all - kept, TailTo: all}, total(all, 0, 0), false, 0, all, 0},
		{"the middle is followed", window.Held{Have: kept, TailFrom: all - kept, TailTo: all}, total(all, 0, 0), false, kept + 5000, kept, 5000},
		{"a recording", window.Held{Have: kept}, total(5<<20, 0, 0), true, 0, kept, 5<<20 - kept},
		{"a short stream", window.Held{}, total(21, 0, 0), false, 0, 0, kept},
		{"no byte", window.Held{}, total(0, 0, 0), false, 0, 0, 0},
		{"all but the drop is here", window.Held{Have: 4}, total(1000, 4, 996), false, all, 1000, 0},
		{"behind the drop, followed", window.Held{Have: 4}, total(all, 4, 996), false, all, 1000, protocol.ChunkWindow},
		{"behind the drop, not followed", window.Held{Have: 4}, total(all, 4, 996), false, 0, all - kept, kept},
	} {
		c := window.NewCollector(test.held, test.whole)
		c.Begin()
		if test.total != nil {
			c.End(test.total)
		}
		if offset, n := c.Wants(test.ahead); offset != test.offset || n != test.window {
			t.Errorf("%s: %d bytes from %d on, want %d from %d on", test.what, n, offset, test.window, test.offset)
		}
	}
	c := window.NewCollector(window.Held{Have: 5}, false)
	if _, n := c.Wants(all); n != 0 {
		t.Errorf("%d bytes of a command that has not begun", n)
	}
	c.Begin()
	c.Lose()
	if _, n := c.Wants(all); n != 0 {
		t.Errorf("%d bytes that are lost", n)
	}
}

// TestCreditWaitsForTheDisk: the host may forget what it is not asked for any
// more, so it is asked for what arrived and is not durable.
func TestCreditWaitsForTheDisk(t *testing.T) {
	const ahead = 64 << 20
	c := window.NewCollector(window.Held{}, false)
	c.Begin()
	c.Ask(ahead, 0)
	put := func(offset, n int64) {
		t.Helper()
		then, _, ok := c.Judge(offset, n)
		if !ok {
			t.Fatalf("%d bytes at %d are refused", n, offset)
		}
		c.Put(then)
	}
	put(0, 1000)
	c.Commit(c.Arrived(), 0)
	put(500, 2500) // its first bytes are here already
	if offset, n := c.Wants(ahead); offset != 1000 || n != protocol.ChunkWindow {
		t.Errorf("the host is asked for %d bytes from %d on", n, offset)
	}
	if !c.Asked(ahead) {
		t.Error("a credit for each chunk")
	}
	if _, _, ok := c.Judge(3000, protocol.ChunkWindow); ok {
		t.Error("what nobody asked for is taken")
	}
	if _, _, ok := c.Judge(2000, 1000); ok {
		t.Error("a chunk is taken twice")
	}
	c.Undo(0)
	if h := c.Arrived(); h.Have != 1000 {
		t.Errorf("a disk is full, and %d bytes are here", h.Have)
	}
	put(1000, 2<<20)
	if c.Commit(c.Arrived(), 0); c.Asked(ahead) {
		t.Error("a quarter of the window is used up, and the host is not asked for more")
	}
}

// TestCollectorAsksAgain: more and more rarely, until something comes.
func TestCollectorAsksAgain(t *testing.T) {
	c := window.NewCollector(window.Held{}, false)
	var now time.Duration
	if c.Overdue(1<<20, true, time.Hour) {
		t.Error("asks before the command has begun")
	}
	c.Begin()
	c.Ask(1<<20, now)
	for _, wait := range []time.Duration{2, 4, 8, 16, 32, 64, 64} {
		if c.Overdue(1<<20, false, now+wait*time.Second-1) {
			t.Fatalf("asks again before %d s", wait)
		}
		if now += wait * time.Second; !c.Overdue(1<<20, false, now) {
			t.Fatalf("does not ask again after %d s", wait)
		}
		c.Ask(1<<20, now)
	}
	c.Reconnected()
	if c.Asked(1 << 20) {
		t.Error("a credit of an earlier connection counts")
	}
	if !c.Overdue(1<<20, false, now+2*time.Second) {
		t.Error("does not ask again after 2 s on a new connection")
	}
	// All that is wanted is here: who follows is told all the same, if the command
	// waits for them.
	c.Ask(1<<20, now)
	then, _, _ := c.Judge(0, 1<<20)
	c.Put(then)
	c.Commit(then, now)
	if _, _, ok := c.Ask(1<<20, now); !ok || c.Overdue(1<<20, true, now+10*time.Second-1) || !c.Overdue(1<<20, true, now+10*time.Second) {
		t.Error("the command does not hear of its follower every 10 s")
	}
	if c.Overdue(1<<20, false, now+time.Hour) {
		t.Error("a command hears of a follower for whom it does not wait")
	}
}

// TestNothing: of a command that has ended, the word of its host that there is
// nothing more is final, if it is about what was asked for.
func TestNothing(t *testing.T) {
	c := window.NewCollector(window.Held{}, false)
	c.Begin()
	if c.Nothing(0, 1000); c.Lost() {
		t.Error("lost while the command goes on")
	}
	c.End(&protocol.Output{FD: protocol.Stdout, Bytes: 21})
	if c.Nothing(5, 0); c.Lost() {
		t.Error("lost at an offset that nobody asked for")
	}
	if c.Nothing(0, 0); !c.Lost() {
		t.Error("not lost")
	}
}

// TestDropIsNoData: a host that dropped bytes has zeros there, which are not
// taken; what it dropped counts as held once all before it is.
func TestDropIsNoData(t *testing.T) {
	c := window.NewCollector(window.Held{}, false)
	c.Begin()
	c.End(&protocol.Output{FD: protocol.Stdout, Bytes: 1000, DropAt: 4, Dropped: 900})
	then, n, ok := c.Judge(0, 500)
	if !ok || n != 4 {
		t.Fatalf("%d bytes are taken (%t), want 4", n, ok)
	}
	c.Put(then)
	if diff := cmp.Diff(window.Held{Have: 904, Gone: []window.Range{{From: 4, To: 904}}}, c.Arrived()); diff != "" {
		t.Error(diff)
	}
	if c.Jump(0, 2000) {
		t.Error("a jump is believed although nobody asked")
	}
}
