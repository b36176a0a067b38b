package uplink

import (
	"context"

	"github.com/hostler-io/hostler/protocol"
)

// outbound is a sealed message of one connection.
type outbound struct {
	conn     uint64
	typ      protocol.Type
	topic    string
	payload  []byte
	retained bool
}

// sender hands messages to the connection.
type sender struct {
	cfg   *Config
	queue chan outbound
	lost  func(conn uint64)
}

// run hands sealed messages to the connection, in order. It may wait there; the
// loop does not.
func (s *sender) run(ctx context.Context) error {
	var dead uint64 // the connection that failed
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-s.queue:
			if m.conn == dead {
				continue
			}
			if err := s.cfg.Link.Publish(ctx, m.topic, m.payload, m.retained); err != nil {
				dead = m.conn
				s.lost(m.conn)
				continue
			}
			s.cfg.Traffic.Sent(m.typ)
		}
	}
}

// post seals a message and hands it to the sender. What finds no room there is
// lost: everything that matters is repeated.
func (s *sender) post(conn uint64, t protocol.Type, c protocol.Channel, v any) {
	payload, err := s.cfg.Host.Seal(v)
	if err != nil {
		s.cfg.Log.Error("a message cannot be signed", "type", string(t), "error", err)
		return
	}
	select {
	case s.queue <- outbound{conn, t, s.cfg.Host.Topic(c), payload, c.Retained()}:
	default:
		s.cfg.Traffic.Dropped()
	}
}
