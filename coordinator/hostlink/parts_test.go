package hostlink

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	vigil "github.com/hostler-io/hostler/coordinator/presence"
	"github.com/hostler-io/hostler/protocol"
)

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

// TestPresence: an order goes to a host that was heard, and not over a connection that
// is lost. What people are told of it is tested in coordinator/presence.
func TestPresence(t *testing.T) {
	var p presence
	hear := func(k uint64, ms int64) {
		p.hear(protocol.Seq{Inc: 1, Conn: 1, K: k}, ms, ms)
		p.happened(vigil.Event{Kind: vigil.Heard, Seq: protocol.Seq{Inc: 1, Conn: 1, K: k}}, ms)
	}
	if v := p.view(1, 1); v.Connectivity != core.Unknown || v.Heard {
		t.Errorf("a host that was never heard is shown as %+v", v)
	}
	hear(2, 1000)
	if _, _, ok := p.reachable(2000); !ok || !p.alive() || !p.here(2000) || p.here(1000+vigil.Grace.Milliseconds()+1) {
		t.Error("a host that was just heard gets no orders, or a silent one counts as here")
	}
	if state, why, ok := p.news(2000); state != vigil.Online || why != "" || !ok {
		t.Errorf("told is %s (%q), %t", state, why, ok)
	}
	if _, _, ok := p.news(3000); ok {
		t.Error("the same is told twice")
	}
	p.will()
	if _, _, ok := p.reachable(2000); ok || p.alive() {
		t.Error("orders go, or leases prove something, over a connection that is lost")
	}
	hear(3, 3000)
	p.lapse(3000)
	if !p.alive() {
		t.Error("a host that was just heard has lapsed")
	}
	p.lapse(3001 + vigil.Away.Milliseconds())
	if p.alive() {
		t.Error("a host that was silent for so long has still proven itself")
	}
	if v := p.view(3001+vigil.Away.Milliseconds(), 1_000_000); v.Connectivity != core.Offline || v.Reason != "silent for 90 s" || v.Silence != vigil.Away+time.Millisecond || v.SinceMS != 1_000_000 {
		t.Errorf("a silent host is shown as %+v", v)
	}
}

// TestAnswersToSamples: a host that invents ids makes nothing grow; its newest message is
// answered, and output is asked for as ever.
func TestAnswersToSamples(t *testing.T) {
	var r receipts
	r.reset()
	id := func(n byte) protocol.ActionID { return protocol.NewActionID(1, [10]byte{n}) }
	r.credit(protocol.Credit{Action: id(0), Attempt: 1, FD: protocol.Stdout, Window: 1})
	for i := range 200 {
		r.credit(protocol.Credit{Action: id(byte(i)), Attempt: i + 1, FD: protocol.Samples, Offset: 5})
	}
	all := r.compose(nil, 0).Credit
	if len(all) != 2 || r.asks() {
		t.Fatalf("%d credits, more wait: %v", len(all), r.asks())
	}
	for _, c := range all {
		if c.FD == protocol.Samples && c.Action != id(199) {
			t.Errorf("the answer is to %s", c.Action)
		}
	}
}
