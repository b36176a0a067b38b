package uplink

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
)

// connection is the loop's side of the present connection.
type connection struct {
	conn     uint64 // 0 is none
	answered bool   // the hello was; nothing but it goes up before
	online   bool   // said since the newest hello
	// said is the first hello since the conversation began anew. An answer to an
	// earlier one may be an answer to that hello played again, by a coordinator
	// that knows nothing newer of this host. And were it taken for the answer to
	// a hello that is still on its way, items could overtake that: when it
	// arrives it would claim less than the coordinator has.
	said    protocol.Seq
	tries   int   // hellos so far
	since   int64 // boot clock of the answer
	lastAck time.Duration
	toAck   bool
}

// Pauses between hellos: 2 s, doubling to 60 s, until one is answered.
const (
	firstHello = 2 * time.Second
	lastHello  = time.Minute
)

// open prepares a connection: its will names this connection alone, so a new one is
// signed. It runs on the link's goroutine.
func (u *Uplink) open(conn uint64) (Opening, error) {
	host := u.cfg.Host
	h := host.Header(protocol.TypePresence)
	h.Seq = protocol.Seq{Inc: u.self.Inc, Conn: conn, K: protocol.KWill}
	will, err := host.Seal(protocol.Presence{Header: h, Kind: protocol.PresenceWill})
	if err != nil {
		return Opening{}, fmt.Errorf("making the will: %w", err)
	}
	filters := []string{protocol.FleetFilter(host.FleetName)}
	for _, c := range []protocol.Channel{protocol.ChannelOrder, protocol.ChannelControl, protocol.ChannelGrant, protocol.ChannelReceipt} {
		filters = append(filters, protocol.HostFilter(host.FleetName, host.ID, c))
	}
	return Opening{
		WillTopic: host.Topic(protocol.ChannelPresence), Will: will, WillRetained: true,
		Filters: filters,
		Handle:  u.handle,
		Up: func(func(string, []byte, bool) error) {
			loop.Newest(u.linked, conn)
			loop.Newest(u.news, struct{}{})
		},
	}, nil
}

// handle sorts messages by their receivers. It runs on the link's goroutine and
// never waits: what finds no room is lost, as on any other part of the way.
func (u *Uplink) handle(topic string, payload []byte) {
	m, to := wire.Message{Topic: topic, Payload: payload}, u.inbox
	if t, err := protocol.ParseTopic(topic); err == nil {
		switch t.Channel {
		case protocol.ChannelGrant:
			if !u.cfg.Lease.Take(m) {
				u.cfg.Traffic.Dropped()
			}
			return
		case protocol.ChannelRing, protocol.ChannelRevoked:
			to = u.feed.docs
		}
	}
	select {
	case to <- m:
		loop.Newest(u.news, struct{}{})
	default:
		u.cfg.Traffic.Dropped()
	}
}

// Lost tells the loop of a connection that has failed, if it was not told yet. It
// may be called by any goroutine.
func (u *Uplink) Lost(conn uint64) {
	select {
	case u.lost <- conn:
		loop.Newest(u.news, struct{}{})
	default:
	}
}

// connected begins a conversation.
func (u *Uplink) connected(conn uint64) {
	u.begin(connection{conn: conn})
	u.cfg.Numbers.Connected(conn)
	u.streams.connected()
	u.hello()
}

// disconnected ends the conversation. The next one begins with a hello in any case.
func (u *Uplink) disconnected(conn uint64) {
	if u.link.conn == conn {
		u.begin(connection{})
		u.cfg.Numbers.Disconnected(conn)
	}
}

func (u *Uplink) begin(c connection) {
	u.link = c
	u.cfg.Relay.TakesSamples(false)
	u.helloAgain.Stop()
	u.ackSoon.Stop()
	u.loop.Moved()
}

// hello says which process speaks, again and again until it is answered.
func (u *Uplink) hello() {
	seq, ok := u.cfg.Numbers.Hello(u.loop.BootMS())
	if !ok {
		return
	}
	u.helloAgain.In(min(lastHello, firstHello<<min(u.link.tries, 5)))
	u.link.tries++
	u.link.online = false
	if u.link.said == (protocol.Seq{}) {
		u.link.said = seq
	}
	u.streams.reread()
	h := u.cfg.Host.Header(protocol.TypePresence)
	h.Seq = seq
	hello := protocol.Hello{
		Proto: protocol.Proto, Inst: u.cfg.Numbers.Inst(), Boot: u.cfg.Boot, Store: u.self.Store,
		TermSeen: u.gate.Seen, AcceptSeq: u.cfg.Actions.AcceptSeq(), Evidence: u.self.Evidence, Checkpoint: u.self.Checkpoint,
		SelfFence: u.cfg.SelfFence, Features: u.cfg.Features,
	}
	u.streams.hello(&hello)
	u.out.post(u.link.conn, protocol.TypePresence, protocol.ChannelPresence, protocol.Presence{Header: h, Kind: protocol.PresenceHello, Hello: &hello})
}

// greetAgain begins the conversation anew on the connection that is up.
func (u *Uplink) greetAgain() {
	u.link.answered, u.link.tries, u.link.said = false, 0, protocol.Seq{}
	u.cfg.Relay.TakesSamples(false)
	u.loop.Moved()
	u.cfg.Numbers.Unheard()
	u.hello()
}

// silence is how long nothing may be granted before the hello is said again: a
// coordinator that was restarted, and whose announcement was lost, takes nothing
// else. Before that, after doubt, a lease asks for a grant.
const doubt, silence = 35 * time.Second, time.Minute

// Listen says hello again when the coordinator has fallen silent.
func (u *Uplink) Listen() {
	if !u.link.answered {
		return
	}
	heard := max(u.link.since, u.cfg.Lease.GrantedMS())
	switch since := time.Duration(u.loop.BootMS()-heard) * time.Millisecond; {
	case since > silence:
		u.greetAgain()
	case since > doubt:
		u.cfg.Lease.Soon()
	}
}

// greeted takes the answer to the hello: from now on the rest may be said.
func (u *Uplink) greeted(give protocol.Nonce) {
	u.cfg.Numbers.Answered(u.link.conn, give)
	if !u.link.online {
		u.link.online = u.state(protocol.TypePresence, protocol.ChannelPresence, func(h protocol.Header) any {
			return protocol.Presence{Header: h, Kind: protocol.PresenceOnline}
		})
	}
	if u.link.answered {
		return
	}
	u.link.answered, u.link.since = true, u.loop.BootMS()
	u.loop.Moved()
	u.helloAgain.Stop()
	u.cfg.Lease.Soon()
	u.cfg.Relay.Renew()
	u.cfg.Log.Info("the coordinator has answered", "conn", u.link.conn, "term_ring", u.gate.Seen.Ring, "term", u.gate.Seen.Counter)
	u.beat.tellAll()
	u.sendHeartbeat()
}

// goodbyeTimeout is how long a dead line may hold a shutdown up.
const goodbyeTimeout = 2 * time.Second

// Goodbye says that this process ends because it was told to. It is the last
// message, so it goes past the sender, which may have been waiting for long.
func (u *Uplink) Goodbye() {
	if !u.link.answered {
		return
	}
	_, chal, ok := u.cfg.Numbers.Next(protocol.TypePresence, u.loop.BootMS())
	if !ok {
		return
	}
	h := u.cfg.Host.Header(protocol.TypePresence)
	h.Seq, h.Chal = protocol.Seq{Inc: u.self.Inc, Conn: u.link.conn, K: protocol.KGoodbye}, chal
	payload, err := u.cfg.Host.Seal(protocol.Presence{Header: h, Kind: protocol.PresenceGoodbye})
	if err != nil {
		u.cfg.Log.Error("the goodbye cannot be signed", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(u.loop.Steps(), goodbyeTimeout)
	defer cancel()
	if err := u.cfg.Link.Publish(ctx, u.cfg.Host.Topic(protocol.ChannelPresence), payload, true); err != nil {
		u.cfg.Log.Info("the goodbye was not sent; the will speaks for us", "error", err)
	}
}

// state sends a state message, if the coordinator has answered.
func (u *Uplink) state(t protocol.Type, c protocol.Channel, build func(protocol.Header) any) bool {
	seq, chal, ok := u.cfg.Numbers.Next(t, u.loop.BootMS())
	if !ok {
		return false
	}
	h := u.cfg.Host.Header(t)
	h.Seq, h.Chal = seq, chal
	u.out.post(u.link.conn, t, c, build(h))
	return true
}

// refuse counts a message that was not taken, under its one code.
func (u *Uplink) refuse(topic string, err error) {
	u.cfg.Traffic.Refused(err)
	if skipped, ok := u.refused.Pass(u.loop.Now()); ok {
		u.cfg.Log.Warn("a message was refused", "topic", topic, "error", err, "more", skipped)
	}
}

// HeardMS is when the coordinator gave a sign of life last, by the boot clock: a receipt,
// or a grant. It is 0 before the first, and may be called by any goroutine.
func HeardMS(u *Uplink) int64 { return max(u.heard.Load(), u.cfg.Lease.GrantedMS()) }
