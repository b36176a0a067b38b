package coordinator

import (
	"context"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// hostsOf is what the rooms are given of the conversations with hosts.
type hostsOf struct{ c *Coordinator }

// Presence implements [explain.Hosts].
func (h hostsOf) Presence(host protocol.HostID) (core.Connectivity, int64) {
	return h.c.presence(host)
}

// Quarantined implements [explain.Hosts].
func (h hostsOf) Quarantined(host protocol.HostID) bool { return h.c.isQuarantined(host) }

// AskIn implements [explain.Hosts].
func (h hostsOf) AskIn(host protocol.HostID, patience time.Duration) (time.Duration, bool) {
	return h.c.link(host).agenda.whyIn(h.c.cfg.Boot(), patience)
}

// Ask implements [explain.Hosts].
func (h hostsOf) Ask(ctx context.Context, host protocol.HostID, action protocol.ActionID) error {
	c, l := h.c, h.c.link(host)
	var given []core.Item
	err := c.base.Update(ctx, failpoint.QuestionAsked, func(tx core.Tx) error {
		given = nil
		controls, err := tx.Streams.Get(host, protocol.StreamControl)
		// Nobody who only looks fills the window of what the host must hear.
		if err != nil || controls.Pos.N-max(controls.Freed.N, l.out.acked(protocol.StreamControl)) >= stream.Window/2 {
			return err
		}
		it, err := c.control(tx, host, protocol.ControlItem{Verb: protocol.VerbTell, IDs: []protocol.ActionID{action}})
		given = append(given, it)
		return err
	})
	if err != nil {
		return err
	}
	l.out.add(protocol.StreamControl, given...)
	l.pump()
	return nil
}
