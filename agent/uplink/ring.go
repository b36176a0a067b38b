package uplink

import (
	"bytes"
	"context"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

// codeRingMissing refuses an order that names a ring which did not come in time.
const codeRingMissing protocol.Code = "ring_missing"

// ringPatience is how long an order waits for the ring that it names.
const ringPatience = time.Minute

// waiting is an item that is kept at the head of its stream for a ring.
type waiting struct {
	m     wire.Message
	ring  uint64
	until time.Duration
}

// ringAhead takes a message that names a newer ring than this host holds. Items
// wait at the head of their stream; what is said again need not.
func (u *Uplink) ringAhead(m wire.Message, msg protocol.Message) {
	ring := msg.Header.Ring
	loop.Newest(u.feed.fetches, ring)
	s := msg.Header.Stream
	if s == "" || u.ahead[s] != nil {
		return
	}
	u.ahead[s] = &waiting{m: m, ring: ring, until: u.loop.Now() + ringPatience}
	u.ringLate.In(ringPatience)
}

// waitsForRing is the ring that the orders wait for; 0 is none.
func (u *Uplink) waitsForRing() uint64 {
	if h := u.ahead[protocol.StreamOrder]; h != nil {
		return h.ring
	}
	return 0
}

// trustMoved looks at what waits for a ring again.
func (u *Uplink) trustMoved() {
	u.seals.recordRing()
	u.dropEvidence()
	b := batch{Uplink: u}
	defer b.take()
	for s, h := range u.ahead {
		if u.cfg.Trust.Ring() >= h.ring {
			delete(u.ahead, s)
			b.receive(h.m)
		}
	}
}

// dropEvidence forgets what removed coordinators have signed: no check believes it any
// more, and a stolen key may have filled the room for evidence with it.
func (u *Uplink) dropEvidence() {
	var signed [][]byte
	for _, raw := range fresh.Evidence(u.self.Evidence) {
		env, err := protocol.Split(raw)
		if p, ok := u.cfg.Trust.Keyring().Principal(env.Key); err == nil && ok && !p.Revoked && p.Can(protocol.RoleCoordinator) {
			signed = append(signed, raw)
		}
	}
	u.self.Evidence = bytes.Join(signed, []byte("\n"))
}

// giveUpRing refuses the orders that have waited too long: opened as if the ring
// were held, which a signature by a known coordinator justifies, they are taken
// in and end at once.
func (u *Uplink) giveUpRing() {
	now := u.loop.Now()
	b := batch{Uplink: u}
	defer b.take()
	for s, h := range u.ahead {
		if h.until > now {
			u.ringLate.In(h.until - now)
			continue
		}
		delete(u.ahead, s)
		msg, err := u.cfg.Host.Open(h.m, h.ring, freshness{u})
		if err != nil {
			u.refuse(h.m.Topic, err)
			continue
		}
		if !b.joins(&msg) {
			b.take()
		}
		if b.believe(&msg, nil) {
			b.item(msg, codeRingMissing)
		}
	}
}

// feed feeds Trust with what the broker retains, and has it fetch what orders
// name. That writes to the disk and asks the network, so it is not the loop.
type feed struct {
	cfg     *Config
	docs    chan wire.Message // rings and revocations
	fetches chan uint64       // a ring to fetch
	moved   chan struct{}     // Trust may know more now
	news    chan struct{}
}

func (f *feed) run(ctx context.Context) error {
	ring := protocol.FleetTopic(f.cfg.Host.FleetName, protocol.ChannelRing).String()
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case number := <-f.fetches:
			fetch, cancel := context.WithTimeout(ctx, ringPatience)
			err = f.cfg.Trust.Fetch(fetch, number)
			cancel()
		case m := <-f.docs:
			if m.Topic == ring {
				err = f.cfg.Trust.Advance(ctx, m.Payload)
			} else {
				err = f.cfg.Trust.Revoke(ctx, m.Payload)
			}
		}
		if err != nil && ctx.Err() == nil {
			f.cfg.Log.Warn("the ring could not be brought up to date", "error", err)
		}
		loop.Newest(f.moved, struct{}{})
		loop.Newest(f.news, struct{}{})
	}
}
