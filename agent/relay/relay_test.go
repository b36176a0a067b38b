package relay

import (
	"testing"

	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
)

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
