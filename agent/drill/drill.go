// Package drill makes faults on this host on order. It decides when a drill begins and
// ends, and refuses a second drill meanwhile.
//
// Nothing of a drill is durable. The order has ended when the fault begins, so neither an
// agent that starts again nor an order that is delivered twice makes it once more.
package drill

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// Faults make what a drill is about. A fault ends when the boot clock reads until, in
// milliseconds, whatever becomes of the agent. Each function returns when its fault has
// begun, or why it has not, and may be called from any goroutine.
type Faults map[protocol.Fault]func(ctx context.Context, until int64) error

// Config is what the room needs. All of it is required, but Faults, without which drills
// are refused as unsupported.
type Config struct {
	Faults Faults
	Loop   *loop.Loop
	Log    *slog.Logger
}

// Drill is the handler of [protocol.KindHostDrill]. It belongs to the loop.
type Drill struct {
	cfg   Config
	begin *loop.Timer
	next  protocol.DrillArgs
	until int64 // boot clock; there is none after it
}

// New returns the handler.
func New(cfg Config) *Drill {
	d := &Drill{cfg: cfg}
	d.begin = cfg.Loop.Timer(d.start)
	return d
}

// Admit refuses what can never succeed here.
func (d *Drill) Admit(s *protocol.Spec) error {
	fault := protocol.ArgsOf[protocol.DrillArgs](s).Fault
	if d.cfg.Faults[fault] == nil {
		return fmt.Errorf("%w: this host cannot make a drill of %s; a host that is in no fleet makes none", actions.CodeUnsupported, fault)
	}
	return nil
}

// Prepare has nothing to say: a drill touches no container.
func (d *Drill) Prepare(*protocol.Spec) (queue.Change, *queue.Step) { return queue.Change{}, nil }

// Begin ends the action with the times of the drill, which begins when that was told.
func (d *Drill) Begin(j *actions.Job) {
	if err := d.Admit(j.Spec()); err != nil { // the host may have left its fleet meanwhile
		j.Finish(queue.Step{Event: protocol.EventFail, Detail: err.Error()})
		return
	}
	now := d.cfg.Loop.BootMS()
	if left := time.Duration(d.until-now) * time.Millisecond; left > 0 {
		j.Finish(queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("another drill is under way; it ends by itself in %s", left.Round(time.Second))})
		return
	}
	d.next = protocol.ArgsOf[protocol.DrillArgs](j.Spec())
	lasts := protocol.DrillNotice + d.next.For()
	d.until = now + lasts.Milliseconds()
	d.begin.At(d.cfg.Loop.Now() + protocol.DrillNotice)
	ends := time.UnixMilli(d.cfg.Loop.WallMS()).Add(lasts).UTC()
	j.Finish(queue.Step{Event: protocol.EventSucceed, Detail: fmt.Sprintf("%s begins in %s, and ends by itself at %s", d.next.Fault, protocol.DrillNotice, ends.Format(time.RFC3339))})
}

func (d *Drill) start() {
	next, until := d.next, d.until
	if d.cfg.Loop.BootMS() >= until { // the host was suspended meanwhile
		return
	}
	d.cfg.Log.Warn("a drill begins", "fault", string(next.Fault), "for", next.For().String())
	d.cfg.Loop.Beside(func(ctx context.Context) func() {
		err := d.cfg.Faults[next.Fault](ctx, until)
		if err == nil {
			return nil
		}
		return func() {
			d.until = 0
			d.cfg.Log.Error("the drill did not begin", "fault", string(next.Fault), "error", err)
		}
	})
}
