package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/protocol"
)

// Config is what the relay of a host is made from. Bulk, RunDirs and Payloads are
// absent together with what they serve, all else is required.
type Config struct {
	// Wire is this host in its messages, Numbers know the coordinator's term, and
	// Traffic counts.
	Wire    *wire.Host
	Numbers *wire.Numbers
	Traffic *wire.Traffic
	// Bulk carries the bytes. Without it the host has no coordinator.
	Bulk Bulk
	// RunDirs have the output of commands. Nil if this host runs none.
	RunDirs commands.RunDirs
	// Payloads keeps what commands read. Nil if this host takes none.
	Payloads *blob.Store
	// Senders is how many commands at most send their output at a time.
	Senders int

	// Random draws the random part of an id. It may be called by any goroutine.
	Random func() ([10]byte, error)

	Loop    *loop.Loop
	Queue   *queue.Queue
	Actions *actions.Actions
	// Join decides whether a user may take part in a session: by the policy in force.
	// The loop calls it.
	Join func(act *queue.Action, spec *protocol.Spec, user string, here bool) error
	// Running is the command of an action and what its followers acknowledge; nil if
	// none runs. The loop calls it.
	Running func(protocol.ActionID) (commands.Run, *commands.Acknowledged)
	Log     *slog.Logger
}

// Bulk is the connection for output and input, which exists while there is any.
// It is safe for concurrent use.
type Bulk interface {
	// Connect waits for the connection until ctx ends and counts as traffic, so
	// that it is not closed for being idle.
	Connect(ctx context.Context) error
	// Pace waits for the connection until ctx ends and tells how it does: its
	// number, because what an earlier one carried and did not deliver is lost; how
	// many bytes pass it in a second, as far as is known; and how long a message
	// that is published now may be on its way.
	Pace(ctx context.Context) (conn uint64, second int, delay time.Duration, err error)
	// Publish waits for the connection, and for room on it, until ctx ends.
	Publish(ctx context.Context, topic string, payload []byte) error
}

// Lender is a Bulk that tells when it needs a payload no more.
type Lender interface {
	// Lend is Publish of a payload that is used again: back is called, from any
	// goroutine, when it may be changed. It may never be, if that is not certain.
	Lend(ctx context.Context, topic string, payload []byte, back func()) error
}

// Standing is how an action that has not ended stands.
type Standing struct {
	Attempt int
	// Closed tells that nothing of it may leave the host.
	Closed bool
	// Run is its command, if that runs, and Acks what its followers acknowledge.
	Run  commands.Run
	Acks *commands.Acknowledged
}

// find returns how an action stands, and false for one that has ended or is unknown.
// It belongs to the loop.
func (c *Config) find(id protocol.ActionID) (Standing, bool) {
	j := c.Actions.Job(id)
	if j == nil {
		return Standing{}, false
	}
	run, acks := c.Running(id)
	return Standing{Attempt: j.Action().Attempt, Closed: j.Action().Closed(j.Spec()), Run: run, Acks: acks}, true
}

// Relay carries the bytes of actions.
type Relay struct {
	cfg       Config
	outputs   *outputs
	inputs    *inputs
	payloads  *payloads
	uploads   *Uploads
	terminals *terminals
	samples   *sampling
}

// New returns a relay. Nothing is carried before Run.
func New(cfg Config) *Relay {
	r := &Relay{cfg: cfg}
	r.outputs = newOutputs(&r.cfg)
	r.terminals = newTerminals(&r.cfg)
	r.inputs = newInputs(&r.cfg, r.terminals)
	r.payloads = newPayloads(&r.cfg, r.inputs)
	r.uploads = newUploads(&r.cfg)
	r.samples = newSampling(&r.cfg)
	return r
}

// Run takes what comes down until ctx ends, and returns its cause.
func (r *Relay) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { r.inputs.hold(ctx) })
	r.inputs.serve(ctx)
	wg.Wait()
	return context.Cause(ctx)
}

// Wait waits for the goroutines that serve actions. They end with the context
// [loop.Loop.Serving].
func (r *Relay) Wait() {
	r.outputs.wg.Wait()
	r.inputs.wg.Wait()
	r.terminals.wg.Wait()
}

// Expect prepares for what is typed in a session that is about to begin, or was
// found. It belongs to the loop, and comes before the session is reported.
func (r *Relay) Expect(id protocol.ActionID, attempt int) {
	r.terminals.begin(id, attempt)
	loop.Newest(r.inputs.held, struct{}{})
}

// Began carries the bytes of a command that runs. It belongs to the loop.
func (r *Relay) Began(id protocol.ActionID, s Standing, interactive bool) {
	if r.cfg.Bulk != nil && !s.Closed {
		r.outputs.begin(id, s)
	}
	if interactive {
		r.terminals.follow(id, s.Run)
	}
}

// Ended lets go of an action that has ended. It belongs to the loop.
func (r *Relay) Ended(id protocol.ActionID, attempt int) {
	delete(r.outputs.early, id)
	r.terminals.end(id, attempt)
	r.payloads.over(id)
}

// Credit takes what the coordinator asks for, or its answer to samples. It belongs to the
// loop.
func (r *Relay) Credit(c protocol.Credit) {
	if c.FD == protocol.Samples {
		loop.Newest(r.samples.answers, c)
		return
	}
	r.outputs.credit(c)
}

// Sending reports whether output of an action is on its way up. It belongs to the
// loop.
func (r *Relay) Sending(id protocol.ActionID) bool { return r.outputs.senders[id] != nil }

// Credits are what the streams down ask for, each once.
func (r *Relay) Credits() []protocol.Credit { return r.inputs.credits() }

// Owed receives when there are credits to be told.
func (r *Relay) Owed() <-chan struct{} { return r.inputs.owed }

// Renew has every stream down ask again: the connection is new, and what an earlier
// one carried is lost.
func (r *Relay) Renew() { r.inputs.renew() }

// Handle takes a message that came down. It never waits.
func (r *Relay) Handle(topic string, payload []byte) { r.inputs.handle(topic, payload) }
