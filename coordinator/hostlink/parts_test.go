package hostlink

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestLacks: a heartbeat that did not arrive is asked for twice as late each time,
// up to once a minute.
func TestLacks(t *testing.T) {
	var b heartbeats
	b.stored(1, protocol.Digest{})
	var asked []int
	for lease := 1; lease <= 40; lease++ {
		if b.lacks(2) {
			asked = append(asked, lease)
		}
	}
	if want := []int{2, 4, 8, 12, 24, 36}; !slices.Equal(asked, want) {
		t.Errorf("asked at the leases %v, want %v", asked, want)
	}
	if b.lacks(1) || b.lacks(2) {
		t.Error("a host is asked at once after it was heard in full")
	}
}

// TestWhyIn: hosts are asked one question behind the other.
func TestWhyIn(t *testing.T) {
	var a agenda
	for i, want := range []time.Duration{0, askEvery, 2 * askEvery} {
		if pause, ok := a.whyIn(1000, time.Second); !ok || pause != want*time.Millisecond {
			t.Errorf("question %d goes in %s, %v", i, pause, ok)
		}
	}
	if pause, ok := a.whyIn(1000, 500*time.Millisecond); ok {
		t.Errorf("a question goes in %s, which is too late", pause)
	}
}

// TestPresence says what is known of a host through its day.
func TestPresence(t *testing.T) {
	var p presence
	at := func(ms int64, want core.Connectivity) {
		t.Helper()
		if got, _ := p.connectivity(ms); got != want {
			t.Errorf("at %d ms the host is %s, want %s", ms, got, want)
		}
	}
	at(1, core.Unknown)
	p.hear(protocol.Seq{}, 1000, 0)
	at(2000, core.Online)
	if _, _, ok := p.reachable(2000); !ok || !p.alive() {
		t.Error("a host that was just heard gets no orders")
	}
	at(1000+suspectAfter.Milliseconds()+1, core.Suspect)
	at(1000+offlineAfter.Milliseconds()+1, core.Offline)
	p.will()
	at(2000, core.Suspect)
	if p.alive() {
		t.Error("leases of a host whose connection broke prove nothing new")
	}
	p.hear(protocol.Seq{}, 3000, 0)
	at(3000, core.Online)
	if p.lapse(3000) || !p.lapse(3001+offlineAfter.Milliseconds()) || p.lapse(3002+offlineAfter.Milliseconds()) {
		t.Error("a silent host is not told of once")
	}
	p.goodbye()
	at(3000, core.Offline)
}
