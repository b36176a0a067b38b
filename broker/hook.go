package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// hook is where the library asks and tells. All its methods but OnACLCheck for
// reading and OnPublishDropped run on the reader of the connection they are
// about, or on one of the crew while that reader waits; see [hook.carry].
type hook struct {
	mochi.HookBase
	server *Server
}

// ID names the hook to the library.
func (h *hook) ID() string { return "hostler" }

// Provides says which of the library's questions are answered here.
func (h *hook) Provides(b byte) bool {
	switch b {
	case mochi.OnConnect, mochi.OnConnectAuthenticate, mochi.OnACLCheck, mochi.OnPacketRead,
		mochi.OnPublish, mochi.OnPublishDropped, mochi.OnWill, mochi.OnWillSent:
		return true
	}
	return false
}

// connOf returns our connection behind a client of the library, or nil for the
// inline client.
func connOf(cl *mochi.Client) *conn {
	c, _ := cl.Net.Conn.(*conn)
	return c
}

// OnConnect judges a CONNECT. The client gets the code, the log the reason.
func (h *hook) OnConnect(cl *mochi.Client, pk packets.Packet) error {
	c := connOf(cl)
	if code, err := h.admit(c, cl, pk); err != nil {
		if code == packets.ErrNotAuthorized && cl.Properties.ProtocolVersion < 5 {
			code = packets.ErrBadUsernameOrPassword // which the library turns into 5, not authorized
		}
		if code == packets.ErrServerBusy && cl.Properties.ProtocolVersion < 5 {
			code = packets.ErrServerUnavailable
		}
		return errors.Join(err, h.server.mqtt.SendConnack(cl, code, false, nil))
	}
	h.server.cfg.Logger.Debug("client connected", slog.String("name", c.name.String()),
		slog.String("client_id", c.clientID), slog.String("remote", cl.Net.Remote))
	return nil
}

func (h *hook) admit(c *conn, cl *mochi.Client, pk packets.Packet) (packets.Code, error) {
	s := h.server
	c.clientID = cl.ID // the library has made one where the client gave none
	c.version = cl.Properties.ProtocolVersion
	var err error
	if c.bulk, err = checkClientID(c.name, c.clientID); err != nil {
		return packets.ErrClientIdentifierNotValid, err
	}
	if k := pk.Connect.Keepalive; k == 0 || k > maxKeepAlive {
		return packets.ErrNotAuthorized, fmt.Errorf("keep-alive of %d s is not within 1 to %d", k, maxKeepAlive)
	}
	if pk.Connect.WillFlag {
		if !s.rules.mayWill(c.name, c.bulk, pk.Connect.WillTopic) {
			return packets.ErrNotAuthorized, fmt.Errorf("no right to a will on %.100q", pk.Connect.WillTopic)
		}
		if len(pk.Connect.WillPayload) > protocol.MaxMessage {
			return packets.ErrNotAuthorized, fmt.Errorf("will of %d bytes", len(pk.Connect.WillPayload))
		}
	}
	id, err := s.attach(c)
	if err != nil {
		return packets.ErrServerBusy, err
	}
	limit := s.cfg.Limit
	c.maxPacket = protocol.MaxMessage + packetOverhead
	switch {
	case c.bulk:
		limit, c.maxPacket = s.cfg.BulkLimit, protocol.MaxChunk+packetOverhead
	case c.name.Kind == san.Coordinator:
		c.maxPacket = protocol.MaxDocument + packetOverhead
	}
	c.meter = newMeter(limit, time.Now())
	c.session = true

	cl.ID = id
	cl.Properties.Clean = true               // sessions end with their connection
	cl.Properties.Will.WillDelayInterval = 0 // a delayed will would bypass Ingest
	return packets.CodeSuccess, nil
}

// OnConnectAuthenticate agrees: TLS and OnConnect have decided.
func (h *hook) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// OnPacketRead judges the size and the rate of what a client sends. Rejecting a
// packet here ends the connection.
func (h *hook) OnPacketRead(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	c := connOf(cl)
	if !c.session { // the CONNECT, or what came instead
		return pk, nil
	}
	if c.slow.Load() { // it would put off the deadline of its last write
		return pk, packets.ErrRejectPacket
	}
	size := pk.FixedHeader.Remaining
	if size > c.maxPacket {
		return h.end(c, pk, "packet too large")
	}
	if c.name.Kind != san.Coordinator {
		v := c.meter.take(time.Now(), size)
		if v == flooding {
			h.server.count.floods.Add(1)
			return h.end(c, pk, "far above the rate limit")
		}
		c.over = v == overLimit
	}
	switch pk.FixedHeader.Type {
	case packets.Publish:
		if pk.FixedHeader.Qos > 1 {
			return h.end(c, pk, "QoS 2 is not served")
		}
		if !c.bulk { // of a stream of chunks, few connections are busy for long
			return h.carry(cl, pk)
		}
	case packets.Subscribe:
		if c.filters += len(pk.Filters); c.filters > maxFilters {
			return h.end(c, pk, "too many subscriptions")
		}
	}
	return pk, nil
}

// carried stands for a packet that needs nothing more: the acknowledgement of a message that
// was never sent, as no message has the number 0, is ignored.
var carried = packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}}

// carry has one of the crew do with a publish what the library would do with it next, on the
// reader of the connection, whose stack that makes as deep as twice what it needs to wait.
// The reader waits, so the order of what it reads stays. A failure ends the connection as it
// does there.
func (h *hook) carry(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	s := h.server
	var err error
	s.crew.do(func() {
		err = s.mqtt.InjectPacket(cl, pk)
		var code packets.Code
		if errors.As(err, &code) && code.Code >= packets.ErrUnspecifiedError.Code && cl.Properties.ProtocolVersion == 5 {
			_ = s.mqtt.DisconnectClient(cl, code) // it ends either way
		}
	})
	if err != nil {
		return pk, fmt.Errorf("%w: %w", packets.ErrRejectPacket, err)
	}
	return carried, nil
}

// end makes the library end the connection as broken, so that its will goes out.
func (h *hook) end(c *conn, pk packets.Packet, reason string) (packets.Packet, error) {
	c.cause.CompareAndSwap(nil, &reason)
	return pk, packets.ErrRejectPacket
}

// OnACLCheck says who may publish to a topic (write), subscribe to a filter, and
// get a message of a topic.
func (h *hook) OnACLCheck(cl *mochi.Client, topic string, write bool) bool {
	c := connOf(cl)
	if c == nil {
		return cl.Net.Inline
	}
	var ok bool
	if write {
		ok = h.server.rules.mayPublish(c.name, topic)
	} else {
		ok = len(topic) <= maxFilter && h.server.rules.mayRead(c.name, topic)
	}
	if !ok {
		h.server.count.denied.Add(1)
	}
	return ok
}

// OnPublish passes a message to Ingest. It never returns CodeSuccessIgnore, which
// would hide the message from its readers and drop its retention.
func (h *hook) OnPublish(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline {
		return pk, nil
	}
	s, c := h.server, connOf(cl)
	topic, err := protocol.ParseTopic(pk.TopicName)
	if err != nil { // OnACLCheck let nothing else through
		return pk, packets.ErrRejectPacket
	}
	if pk.FixedHeader.Retain && !topic.Channel.Retained() {
		s.count.denied.Add(1)
		pk.FixedHeader.Retain = false
	}
	if c.over && !isState(topic.Channel) {
		s.count.limited.Add(1)
		return pk, packets.ErrRejectPacket
	}
	s.count.messages.Add(1)
	s.count.bytes.Add(uint64(len(pk.Payload)))
	if topic.Channel.Direction() == protocol.Up {
		h.ingest(c, pk)
	}
	return pk, nil
}

// OnPublishDropped counts what a reader missed. A viewer that missed something
// is cut off: a client that only reads cannot know that there was more, and sees what
// is retained when it comes back. Hosts and coordinators stay, as what they
// miss is repeated until they receipt it. It must not wait: it runs on the
// reader of the connection that published, or in its place.
func (h *hook) OnPublishDropped(cl *mochi.Client, _ packets.Packet) {
	h.server.count.slowDrops.Add(1)
	if c := connOf(cl); c != nil && c.name.Kind == san.Viewer {
		c.endSlow()
	}
}

// OnWill withholds the will of a connection that ended with the Server: an empty
// topic has no readers.
func (h *hook) OnWill(_ *mochi.Client, will mochi.Will) (mochi.Will, error) {
	if h.server.closing.Load() {
		return mochi.Will{}, nil
	}
	return will, nil
}

// OnWillSent passes a will to Ingest; the library does not call OnPublish for it.
func (h *hook) OnWillSent(cl *mochi.Client, pk packets.Packet) {
	if pk.TopicName == "" {
		return
	}
	h.server.count.wills.Add(1)
	h.ingest(connOf(cl), pk)
}

func (h *hook) ingest(c *conn, pk packets.Packet) {
	if err := h.server.cfg.Ingest(pk.TopicName, pk.Payload, c.name); err != nil {
		h.server.count.ingestErrors.Add(1)
	}
}
