// Package fencing has a fence device asked that this host reaches and the coordinator does
// not, on its order. It decides when a device may be asked: an order lives for seconds, is
// carried out once, and waits for no other.
package fencing

import (
	"context"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// Ask asks a device. answer is what came of it, and ok tells that the device has done or
// said what it was asked for. It returns soon after ctx has ended, and may be called from
// any goroutine.
type Ask func(ctx context.Context, a data.Fence) (answer string, ok bool)

// Fencing is the handler of [protocol.KindHostFence]. It belongs to the loop.
type Fencing struct {
	ask  Ask
	loop *loop.Loop
	busy map[string]bool // devices
}

// New returns the handler. Without a way to ask, everything is refused as unsupported.
func New(l *loop.Loop, ask Ask) *Fencing {
	return &Fencing{ask: ask, loop: l, busy: make(map[string]bool)}
}

// Admit refuses what can never succeed here.
func (f *Fencing) Admit(*protocol.Spec) error {
	if f.ask == nil {
		return actions.CodeUnsupported
	}
	return nil
}

// Prepare has nothing to say: no container is touched.
func (f *Fencing) Prepare(*protocol.Spec) (queue.Change, *queue.Step) { return queue.Change{}, nil }

// Begin asks the device. Two programs that ask one device at a time disturb each other, so
// the second is refused: its order must not live until the first has ended.
func (f *Fencing) Begin(j *actions.Job) {
	a := protocol.ArgsOf[protocol.FenceArgs](j.Spec()).Fence
	if f.busy[a.Device] {
		j.Finish(queue.Step{Event: protocol.EventFail, Detail: "failed: device " + a.Device + " is being asked something else"})
		return
	}
	f.busy[a.Device] = true
	f.loop.Beside(func(ctx context.Context) func() {
		answer, ok := f.ask(ctx, a)
		return func() {
			delete(f.busy, a.Device)
			step := queue.Step{Event: protocol.EventSucceed, Detail: answer}
			if !ok {
				step.Event = protocol.EventFail
			}
			j.Finish(step)
		}
	})
}
