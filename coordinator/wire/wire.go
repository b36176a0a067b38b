// Package wire is how the coordinator speaks: it makes the headers of messages,
// signs and publishes them, and counts what went out and what came in.
package wire

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Wire speaks for one process of a coordinator. All methods are safe for
// concurrent use.
type Wire struct {
	Stats
	base   *core.Base
	signer protocol.Signer
	term   protocol.Term
	k      atomic.Uint64 // number of the newest state message
}

// New returns a wire that has said nothing yet. The term is that of the process.
func New(base *core.Base, signer protocol.Signer, term protocol.Term) *Wire {
	return &Wire{Stats: Stats{log: base.Log, boot: base.Boot}, base: base, signer: signer, term: term}
}

// Term returns the term of the process.
func (w *Wire) Term() protocol.Term { return w.term }

// Header starts a message.
func (w *Wire) Header(t protocol.Type, to protocol.Party) protocol.Header {
	return protocol.Header{
		Type: t, Fleet: w.base.Fleet, From: protocol.Coordinator, To: to,
		Ring: w.base.Keys.Ring(), Term: w.term, Revoked: w.base.Keys.Revoked(),
	}
}

// HostTopic names a topic of a host.
func (w *Wire) HostTopic(host protocol.HostID, ch protocol.Channel) protocol.Topic {
	return protocol.HostTopic(w.base.FleetName, host, ch)
}

// NextSeq numbers a state message: by the term, which counts the starts of the
// coordinator under each ring, and within it.
func (w *Wire) NextSeq() protocol.Seq {
	return protocol.Seq{Inc: w.term.Ring, Conn: w.term.Counter, K: w.k.Add(1)}
}

// Publish signs and publishes a message, and counts it. That the broker could
// not take it is logged, and mended by repetition; an error is one of the
// signature.
func (w *Wire) Publish(t protocol.Topic, body any) error { return w.PublishWith(t, body, nil) }

// PublishWith is Publish for a message with bytes behind it.
func (w *Wire) PublishWith(t protocol.Topic, body any, attachment []byte) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	raw, err := protocol.Seal(w.signer, b, attachment)
	if err != nil {
		return err
	}
	if err := w.base.Broker.Publish(t.String(), raw, t.Channel.Retained()); err != nil {
		w.base.Log.Log(w.base.Ctx, slog.LevelDebug, "cannot publish", "topic", t.String(), "err", err)
		return nil
	}
	w.published.Add(1)
	return nil
}
