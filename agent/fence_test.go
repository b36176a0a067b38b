package agent_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

func fenceOf(device, verb string) protocol.Spec {
	return protocol.Spec{Kind: protocol.KindHostFence, Args: &protocol.FenceArgs{Fence: data.Fence{Device: device, Verb: verb, Plug: "4", Host: "edge-07"}}}
}

// pdus are fence devices that answer when they are let.
type pdus struct {
	mu    sync.Mutex
	asked []string
	hold  chan struct{} // nil: they answer at once
}

func (p *pdus) ask(ctx context.Context, a data.Fence) (string, bool) {
	p.mu.Lock()
	p.asked = append(p.asked, a.Device+" "+a.Verb)
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return "failed: " + context.Cause(ctx).Error(), false
		}
	}
	return "off: Status: OFF", a.Verb != "on"
}

func (p *pdus) set(hold chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = hold
}

func (p *pdus) questions() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// TestFenceDevice: an order has a device asked once, and soon or never. An off that comes
// late is not sent, and one whose agent has ended is not sent again.
func TestFenceDevice(t *testing.T) {
	p := &pdus{}
	in(t, func(cfg *agent.Config) { cfg.Fences = p.ask }, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), fenceOf("pdu-1", "status"))
		w.coord.order(actionID(2), fenceOf("pdu-2", "on"))
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(2), "start RUNNING", "fail FAILED error")
		if a, err := w.agent.Action(t.Context(), actionID(1)); err != nil || a.Detail != "off: Status: OFF" {
			t.Errorf("the answer is %q, %v", a.Detail, err)
		}

		w.coord.see(func() { w.coord.leftMS = 0 }) // it was on its way for too long
		w.coord.order(actionID(3), fenceOf("pdu-1", "off"))
		w.coord.see(func() { w.coord.leftMS = protocol.FenceTTL.Milliseconds() })
		w.pass(time.Second)
		w.expect(actionID(3), "expire CANCELLED expired")

		hold := make(chan struct{})
		p.set(hold)
		w.coord.order(actionID(4), fenceOf("pdu-1", "off"))
		w.coord.order(actionID(5), fenceOf("pdu-2", "off"))
		w.pass(time.Second)
		w.coord.order(actionID(6), fenceOf("pdu-1", "status"))
		w.pass(time.Second)
		w.expect(actionID(6), "start RUNNING", "fail FAILED error")
		if a, err := w.agent.Action(t.Context(), actionID(6)); err != nil || a.Detail != "failed: device pdu-1 is being asked something else" {
			t.Errorf("the answer is %q, %v", a.Detail, err)
		}
		p.set(nil)
		w.restart()
		w.pass(time.Second)
		w.expect(actionID(4), "start RUNNING", "fail FAILED error")
		close(hold)
		w.pass(time.Minute)
		if got, want := p.questions(), []string{"pdu-1 status", "pdu-2 on", "pdu-1 off", "pdu-2 off"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("asked were %v, want %v", got, want)
		}
	})
}

// TestNoFenceDevices: a host that can ask no device refuses for good.
func TestNoFenceDevices(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), fenceOf("pdu-1", "status"))
		w.pass(time.Second)
		w.expect(actionID(1), "refuse FAILED unsupported")
	})
}
