// Package trial is how a new release of the agent proves itself: it says hello to the
// coordinator as this host, with the memory of the old one before it, and waits for the
// answer. It takes no order, reports nothing and changes nothing.
package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

// Config is what a trial is made with. All of it is required.
type Config struct {
	Host *wire.Host
	Link uplink.Link
	// Queue is a copy of the agent's memory, of which it may not keep anything.
	Queue    *queue.Queue
	Now      queue.Now
	Inst     protocol.Nonce // 64 random bits
	Boot     string
	Features []string
	Log      *slog.Logger
}

// errAnswered ends the conversation.
var errAnswered = errors.New("the coordinator has answered")

// again is how long the answer to a hello is waited for before it is said once more.
const again = 2 * time.Second

// Speak says hello until the coordinator has answered, or returns why ctx ended.
func Speak(ctx context.Context, cfg Config) error {
	self, err := cfg.Queue.Begin(ctx, cfg.Now)
	if err != nil {
		return fmt.Errorf("begin with the agent's memory: %w", err)
	}
	at, err := cfg.Queue.Positions(ctx)
	if err != nil {
		return fmt.Errorf("read the agent's memory: %w", err)
	}
	t := &trial{
		cfg: &cfg, self: self, at: at, gate: fresh.CoordinatorGate{Seen: self.Term, Store: self.Coord},
		inbox: make(chan wire.Message, 64), up: make(chan uint64, 1),
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	linked := make(chan error, 1)
	go func() { linked <- cfg.Link.Run(ctx, t.open) }() // waited for below
	err = t.talk(ctx)
	stop(err)
	<-linked
	if errors.Is(err, errAnswered) {
		return nil
	}
	return err
}

// trial belongs to the goroutine of talk, but for open.
type trial struct {
	cfg   *Config
	self  queue.Identity
	at    queue.Positions
	gate  fresh.CoordinatorGate
	inbox chan wire.Message
	up    chan uint64 // a connection; the newest alone
	conn  uint64
	k     uint64
}

// open wants the answers and what the coordinator says to all: orders are for the
// agent that is proved.
func (t *trial) open(conn uint64) (uplink.Opening, error) {
	host := t.cfg.Host
	h := host.Header(protocol.TypePresence)
	h.Seq = protocol.Seq{Inc: t.self.Inc, Conn: conn, K: protocol.KWill}
	will, err := host.Seal(protocol.Presence{Header: h, Kind: protocol.PresenceWill})
	if err != nil {
		return uplink.Opening{}, fmt.Errorf("making the will: %w", err)
	}
	return uplink.Opening{
		WillTopic: host.Topic(protocol.ChannelPresence), Will: will, WillRetained: true,
		Filters: []string{protocol.FleetFilter(host.FleetName), protocol.HostFilter(host.FleetName, host.ID, protocol.ChannelReceipt)},
		Handle: func(topic string, payload []byte) {
			select {
			case t.inbox <- wire.Message{Topic: topic, Payload: payload}:
			default: // lost, as on any other part of the way: the hello is repeated
			}
		},
		Up: func(func(string, []byte, bool) error) {
			select {
			case <-t.up:
			default:
			}
			t.up <- conn
		},
	}, nil
}

// talk says hello and looks for the answer. It ends with an error, [errAnswered] if
// all is well.
func (t *trial) talk(ctx context.Context) error {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case t.conn = <-t.up:
			t.k = 0
			err = t.hello(ctx)
		case <-tick.C:
			err = t.hello(ctx)
		case m := <-t.inbox:
			if err := t.receive(m); errors.Is(err, errAnswered) {
				return err
			} else if err != nil {
				t.cfg.Log.Info("a message is not taken", "topic", m.Topic, "error", err)
			}
		}
		if err != nil {
			return err
		}
	}
}

// hello tells what the agent would tell that begins with this memory. What cannot be
// published is said again.
func (t *trial) hello(ctx context.Context) error {
	if t.conn == 0 {
		return nil
	}
	t.k++
	h := t.cfg.Host.Header(protocol.TypePresence)
	h.Seq = protocol.Seq{Inc: t.self.Inc, Conn: t.conn, K: t.k}
	hello := protocol.Hello{
		Proto: protocol.Proto, Inst: t.cfg.Inst, Boot: t.cfg.Boot, Store: t.self.Store, Sent: t.at.Sent,
		TermSeen: t.gate.Seen, AcceptSeq: t.self.AcceptSeq, Evidence: t.self.Evidence, Checkpoint: t.self.Checkpoint,
		SelfFence: "none", Features: t.cfg.Features,
	}
	for _, p := range t.at.Freed {
		if p.N > 0 {
			hello.Freed = append(hello.Freed, p)
		}
	}
	for _, p := range t.at.Have {
		if !p.Store.IsZero() {
			hello.Have = append(hello.Have, p)
		}
	}
	payload, err := t.cfg.Host.Seal(protocol.Presence{Header: h, Kind: protocol.PresenceHello, Hello: &hello})
	if err != nil {
		return fmt.Errorf("signing the hello: %w", err)
	}
	if err := t.cfg.Link.Publish(ctx, t.cfg.Host.Topic(protocol.ChannelPresence), payload, true); err != nil {
		t.cfg.Log.Info("the hello was not sent; it is said again", "error", err)
	}
	return nil
}

// receive looks for the answer to a hello of this connection.
func (t *trial) receive(m wire.Message) error {
	topic, err := protocol.ParseTopic(m.Topic)
	if err != nil || topic.Channel != protocol.ChannelReceipt {
		return err // what the coordinator says to all is for the agent
	}
	msg, err := t.cfg.Host.Open(m, t.cfg.Host.Trust.Ring(), judge{t})
	if errors.Is(err, protocol.ErrRing) {
		err = nil // signed, and of a ring that the agent has yet to fetch: the answer counts
	}
	var r protocol.Receipt
	if err == nil {
		err = msg.Decode(&r)
	}
	if err != nil {
		return err
	}
	if !r.Answers.SameConn(protocol.Seq{Inc: t.self.Inc, Conn: t.conn}) {
		return fmt.Errorf("%w: the receipt answers connection %d/%d", protocol.ErrStale, r.Answers.Inc, r.Answers.Conn)
	}
	return errAnswered
}

// judge takes what is new, from the coordinator in office or its successor.
type judge struct{ t *trial }

func (j judge) Fresh(t protocol.Topic, h *protocol.Header) error { return j.t.gate.Fresh(t.Channel, h) }
func (j judge) Term(h *protocol.Header) error                    { return j.t.gate.Term(h) }
