package coordtest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
	"github.com/hostler-io/hostler/protocol/stream"
)

// take reads one message; a message without a topic means that the broker cut
// the connection, whereupon the host connects again.
func (h *Host) take(m Message) {
	h.mu.Lock()
	if m.Payload == nil {
		linked := h.linked
		h.linked = false
		h.mu.Unlock()
		if linked {
			h.Connect()
		}
		return
	}
	if m.Topic.Channel == protocol.ChannelRing {
		h.mu.Unlock()
		return // for a host's trust, which is one with the fleet's here
	}
	if !h.linked || h.deaf != nil && h.deaf(m.Topic.Channel) {
		h.mu.Unlock()
		return
	}
	msg, err := protocol.Open(m.Payload, protocol.Expect{
		Fleet: h.f.ID, FleetName: FleetName, Self: protocol.HostParty(h.ID), Keys: h.f.Trust, Ring: h.f.Trust.Ring(),
		Topic: m.Topic.String(), Fresh: freshness{h},
	})
	var order *Order
	if err == nil {
		h.disk.ring = max(h.disk.ring, msg.Header.Ring)
		if h.gate.Accept(m.Topic.Channel, &msg.Header) {
			if c := m.Topic.Channel; c == protocol.ChannelCoordinator || c == protocol.ChannelReceipt {
				h.disk.evidence = fresh.Strengthen(h.disk.evidence, m.Payload)
			}
			// Another coordinator, or the same after a restart: what it has
			// answered, if anything, may be an older hello played again.
			h.answered, h.said = false, protocol.Seq{}
			h.hello()
		}
		order, err = h.effect(m, msg)
	}
	if err != nil {
		h.refused = append(h.refused, fmt.Errorf("%s: %w", m.Topic, err))
	}
	auto := h.auto
	h.mu.Unlock()
	if order != nil && auto != nil {
		auto(h, *order)
	} else if order != nil {
		h.orders <- *order
	}
}

// freshness is what a host holds messages against.
type freshness struct{ h *Host }

func (f freshness) Fresh(t protocol.Topic, hd *protocol.Header) error {
	if hd.Heard != (protocol.Seq{}) {
		if _, ok := f.h.window.At(hd.Heard); !ok {
			return protocol.ErrHeard
		}
	}
	if hd.Seq == (protocol.Seq{}) {
		return nil
	}
	return f.h.gate.Fresh(t.Channel, hd)
}

func (f freshness) Term(hd *protocol.Header) error { return f.h.gate.Term(hd) }

func (h *Host) effect(m Message, msg protocol.Message) (*Order, error) {
	switch m.Topic.Channel {
	case protocol.ChannelReceipt:
		return nil, h.onReceipt(m, msg)
	case protocol.ChannelGrant:
		var g protocol.Grant
		return nil, msg.Decode(&g)
	case protocol.ChannelOrder, protocol.ChannelControl:
		return h.onItem(msg)
	}
	return nil, nil
}

func (h *Host) onReceipt(m Message, msg protocol.Message) error {
	var r protocol.Receipt
	if err := msg.Decode(&r); err != nil {
		return err
	}
	if !h.said.Takes(r.Answers) {
		return nil
	}
	h.disk.evidence = fresh.Strengthen(h.disk.evidence, m.Payload)
	if r.Checkpoint != nil {
		h.disk.checkpoint = r.Checkpoint
	}
	for _, p := range r.Have {
		if p.Store == h.disk.store && p.N > h.disk.freed[p.Stream].N {
			h.disk.freed[p.Stream] = p
		}
	}
	h.disk.outbox = slices.DeleteFunc(h.disk.outbox, func(it item) bool {
		return it.pos.N <= stream.Find(r.Have, it.pos.Stream).N
	})
	first := !h.answered
	h.answered, h.chal = true, r.Give
	if h.quiet {
		return nil
	}
	if first {
		h.send(protocol.ChannelPresence, protocol.Presence{Header: h.state(protocol.TypePresence), Kind: protocol.PresenceOnline}, nil)
		h.lease()
		for _, it := range h.disk.outbox {
			h.sendItem(it)
		}
		h.heartbeat()
	}
	h.kept = max(h.kept, r.Beat)
	if slices.Contains(r.Want, protocol.WantLease) {
		h.lease()
	}
	if slices.Contains(r.Want, protocol.WantFull) {
		h.heartbeat()
	}
	h.takesSamples = r.Samples
	for _, c := range r.Credit {
		if c.FD == protocol.Samples {
			h.measured[c.Action] = append(h.measured[c.Action], c)
			continue
		}
		id := outputID{c.Action, c.Attempt, c.FD}
		h.allowed[id] = c.Offset + c.Window
		h.chunks(id, c.Offset, h.allowed[id])
	}
	return nil
}

// onItem takes what is next in line and receipts in any case.
func (h *Host) onItem(msg protocol.Message) (order *Order, err error) {
	hd := msg.Header
	have := h.disk.have[hd.Stream]
	if have.Store != hd.Store {
		have = protocol.Position{Store: hd.Store, Stream: hd.Stream}
	}
	if stream.Receive(have, hd.Store, hd.N) == stream.Deliver {
		if hd.Stream == protocol.StreamOrder {
			order = &Order{Header: hd}
			err = msg.DecodeItem(&order.Item)
		} else {
			var c protocol.ControlItem
			if err = msg.DecodeItem(&c); err == nil {
				h.controls <- c
			}
		}
		if err != nil {
			return nil, err
		}
		have = stream.Next(have, hd.Item)
	}
	h.disk.have[hd.Stream] = have
	h.ack()
	return order, nil
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // nothing here cannot be encoded
	}
	return b
}
