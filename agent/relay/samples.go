package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/samples"
)

// ErrRefusedSamples is of samples that the coordinator will never take.
var ErrRefusedSamples = errors.New("the coordinator refuses the samples")

const (
	// answerWithin is how long a message of samples may be without an answer, beyond the
	// time that it is on its way: the coordinator gives its database half of that.
	answerWithin = time.Minute
	// writeWithin is how long one call may begin new messages, because its caller takes
	// nothing else meanwhile. What the coordinator has by then is not sent again by the next.
	writeWithin = 30 * time.Second
	// samplesShare is what part of the line samples take at most, and samplesPace how much
	// of their text goes in a second on a line that has room for all.
	samplesShare = 4
	samplesPace  = 96 << 10
)

// sampling sends samples, one message at a time: nothing waits for them, so they take a
// part of the line alone, and no message of them takes longer than a second on it.
// All but what is said belongs to the caller of write.
type sampling struct {
	cfg     *Config
	taken   atomic.Bool          // the coordinator takes them; it belongs to the loop
	answers chan protocol.Credit // by the loop; one of no id says that the connection has ended
	free    time.Time            // the line is theirs again
	sum     protocol.Digest      // of the lines of the newest call
	done    int                  // how many bytes of these the coordinator has
}

func newSampling(cfg *Config) *sampling {
	return &sampling{cfg: cfg, answers: make(chan protocol.Credit, 1)}
}

// TakesSamples notes whether the coordinator takes samples, as its receipts say. A new
// connection knows nothing of it yet. It belongs to the loop.
func (r *Relay) TakesSamples(is bool) {
	r.samples.taken.Store(is)
	if !is {
		loop.Newest(r.samples.answers, protocol.Credit{})
	}
}

// WriteSamples sends lines of samples, and waits until the coordinator has brought them to
// its database or keeps them in its spool. It tries once; [ErrRefusedSamples] is of those
// that will never be taken. If it fails and is called with the same lines again, it goes on
// behind those that the coordinator has. One call at a time is allowed.
func (r *Relay) WriteSamples(ctx context.Context, lines []byte) error {
	s := r.samples
	if s.cfg.Bulk == nil {
		return errors.New("this host is in no fleet whose coordinator could take its samples")
	}
	if sum := protocol.Sum(lines); sum != s.sum {
		s.sum, s.done = sum, 0
	}
	sending, cancel := context.WithTimeoutCause(ctx, writeWithin, fmt.Errorf("the line to the coordinator has not carried all samples within %s", writeWithin))
	defer cancel()
	for s.done < len(lines) {
		m, err := s.send(sending, lines[s.done:])
		if err != nil {
			return err
		}
		if err := s.await(ctx, m); err != nil {
			return err
		}
		s.done += m.text
	}
	return nil
}

// measured is a message of samples that is on its way: how large it is, how much of the text
// it has, and how long its answer may take.
type measured struct {
	id       protocol.ActionID
	size     int64
	text     int
	patience time.Duration
}

// send sends what fits into one message, when the line is theirs.
func (s *sampling) send(ctx context.Context, lines []byte) (m measured, err error) {
	if !s.taken.Load() {
		return m, errors.New("the coordinator takes no samples: it cannot be reached, or metrics.influx.url is not set in its configuration")
	}
	select {
	case <-time.After(time.Until(s.free)):
	case <-ctx.Done():
		return m, context.Cause(ctx)
	}
	_, second, delay, err := s.cfg.Bulk.Pace(ctx)
	if err != nil {
		return m, err
	}
	packed, n, err := samples.Pack(lines, max(second, leastChunk))
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrRefusedSamples, err)
	}
	id, err := s.publish(ctx, packed)
	if err != nil {
		return m, err
	}
	passes := time.Duration(len(packed)+envelope) * time.Second / time.Duration(max(second, 1))
	s.free = time.Now().Add(max(samplesShare*passes, time.Duration(n)*time.Second/samplesPace))
	return measured{id, int64(len(packed)), n, answerWithin + delay}, nil
}

// publish sends one message under a new id.
func (s *sampling) publish(ctx context.Context, packed []byte) (id protocol.ActionID, err error) {
	random, err := s.cfg.Random()
	if err != nil {
		return id, err
	}
	id = protocol.NewActionID(s.cfg.Loop.WallMS(), random)
	h := s.cfg.Wire.Header(protocol.TypeSamples)
	h.Action, h.Attempt, h.FD, h.Size, h.SHA256 = id, 1, protocol.Samples, int64(len(packed)), protocol.Sum(packed)
	body, err := json.Marshal(h)
	if err != nil {
		return id, err
	}
	payload, err := protocol.Seal(s.cfg.Wire.Signer, body, packed)
	if err != nil {
		return id, err
	}
	topic := protocol.Topic{Fleet: s.cfg.Wire.FleetName, Channel: protocol.ChannelSamples, Host: s.cfg.Wire.ID, Action: id}
	if err := s.cfg.Bulk.Publish(ctx, topic.String(), payload); err != nil {
		s.cfg.Traffic.Dropped()
		return id, err
	}
	s.cfg.Traffic.Sent(protocol.TypeSamples)
	return id, nil
}

// await waits for the answer to a message. Answers to those before it are late.
func (s *sampling) await(ctx context.Context, m measured) error {
	late := time.NewTimer(m.patience)
	defer late.Stop()
	for {
		select {
		case c := <-s.answers:
			switch {
			case c.Action == m.id && c.Offset == m.size:
				return nil
			case c.Action == m.id && c.Window > 0:
				return errors.New("the coordinator has no place for samples now")
			case c.Action == m.id:
				return ErrRefusedSamples
			case c.Action.IsZero() && !s.taken.Load():
				return errors.New("the connection to the coordinator has ended before it answered")
			}
		case <-late.C:
			return errors.New("the coordinator does not answer whether it took the samples")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
