package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
)

// TestCredit: what is on its way is not sent again, what was lost is.
func TestCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := outStream{limit: protocol.OutputKept}
		const patience = 10 * time.Second
		allow := func(what string, offset, next int64) {
			t.Helper()
			if o.allow(offset, protocol.ChunkWindow, patience); o.next != next || o.limit != offset+protocol.ChunkWindow {
				t.Fatalf("%s: goes on at %d up to %d, want %d", what, o.next, o.limit, next)
			}
		}
		o.sent(1, 1000)
		allow("asked while it is on its way", 0, 1000)
		time.Sleep(9 * time.Second)
		allow("asked again", 0, 1000)
		o.sent(1, 1000)
		allow("half has arrived", 1000, 2000)
		time.Sleep(9 * time.Second)
		allow("the other half is still on its way", 1000, 2000)
		time.Sleep(2 * time.Second)
		allow("it should have arrived", 1000, 1000)
		o.sent(1, 1000)
		allow("all has arrived", 2000, 2000)
		time.Sleep(time.Minute)
		o.sent(1, 1000)
		allow("what was just sent is on its way", 2000, 3000)
		o.sent(2, 1000)
		allow("an earlier connection took it along", 2000, 2000)
		o.sent(2, 1000)
		allow("the tail", 9000, 9000)
		o.sent(2, 1000)
		allow("the middle", 3000, 3000)
		o.sent(2, 1000)
		time.Sleep(time.Minute)
		if o.allow(3000, 0, patience); o.next != 4000 || o.limit != 3000 {
			t.Errorf("nothing is asked for: goes on at %d up to %d", o.next, o.limit)
		}
	})
}

// TestArrivedIsBounded: a broker that repeats large chunks fills no more of the memory
// than twice what was asked for; that much finds room.
func TestArrivedIsBounded(t *testing.T) {
	cfg := Config{Traffic: wire.NewTraffic()}
	in := newInputs(&cfg, nil)
	const size = protocol.ChunkSize + 1000
	chunk := make([]byte, size)
	for range 1000 {
		in.handle("", chunk)
	}
	took := len(in.arrived)
	if n := took * size; n > maxArrived || n < protocol.MaxInputWindow {
		t.Errorf("%d bytes wait, want %d to %d", n, protocol.MaxInputWindow, maxArrived)
	}
	if dropped := cfg.Traffic.Counts().Dropped; dropped != uint64(1000-took) {
		t.Errorf("%d were dropped, %d wait", dropped, took)
	}
}
