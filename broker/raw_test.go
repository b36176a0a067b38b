package broker_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/protocol/san"
)

// rawClient speaks MQTT by hand, so that it can do what a well-behaved library
// would not.
type rawClient struct {
	t       *testing.T
	conn    net.Conn
	version byte
	got     chan packets.Packet // what the broker sent; closed at the end
}

// dialRaw opens a line as name and says nothing yet.
func dialRaw(t *testing.T, s *brokertest.Server, name san.Name) *rawClient {
	t.Helper()
	conn, err := s.Dialer(name)(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return wrapRaw(t, conn, 4)
}

func wrapRaw(t *testing.T, conn net.Conn, version byte) *rawClient {
	c := &rawClient{t: t, conn: conn, version: version, got: make(chan packets.Packet, 10_000)}
	go c.read()
	t.Cleanup(func() { _ = conn.Close() })
	return c
}

func (c *rawClient) read() {
	defer close(c.got)
	r := bufio.NewReader(c.conn)
	for {
		first, err := r.ReadByte()
		if err != nil {
			return
		}
		var h packets.FixedHeader
		if h.Decode(first) != nil {
			return
		}
		h.Remaining, _, err = packets.DecodeLength(r)
		if err != nil {
			return
		}
		body := make([]byte, h.Remaining)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		pk := packets.Packet{FixedHeader: h, ProtocolVersion: c.version}
		switch h.Type {
		case packets.Connack:
			err = pk.ConnackDecode(body)
		case packets.Suback:
			err = pk.SubackDecode(body)
		case packets.Publish:
			err = pk.PublishDecode(body)
		case packets.Puback:
			err = pk.PubackDecode(body)
		case packets.Disconnect:
			err = pk.DisconnectDecode(body)
		}
		if err != nil {
			c.t.Errorf("decoding what the broker sent: %v", err)
			return
		}
		c.got <- pk
	}
}

func (c *rawClient) send(encode func(*bytes.Buffer) error) {
	c.t.Helper()
	var buf bytes.Buffer
	if err := encode(&buf); err != nil {
		c.t.Fatal(err)
	}
	// The broker may have hung up already; the test sees what follows from it.
	_, _ = c.conn.Write(buf.Bytes())
}

// next returns the next packet, and false if the connection ended instead.
func (c *rawClient) next() (packets.Packet, bool) {
	pk, ok := <-c.got
	return pk, ok
}

// connect sends a CONNECT and returns the code of the answer, -1 if there was
// none.
func (c *rawClient) connect(id string, change func(*packets.Packet)) int {
	c.t.Helper()
	pk := packets.Packet{
		FixedHeader:     packets.FixedHeader{Type: packets.Connect},
		ProtocolVersion: 4,
		Connect:         packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: id, Keepalive: 60, Clean: true},
	}
	if change != nil {
		change(&pk)
	}
	c.version = pk.ProtocolVersion
	c.send(pk.ConnectEncode)
	ack, ok := c.next()
	if !ok {
		return -1
	}
	return int(ack.ReasonCode)
}

func withWill(topic, payload string) func(*packets.Packet) {
	return func(pk *packets.Packet) {
		pk.Connect.WillFlag, pk.Connect.WillRetain, pk.Connect.WillQos = true, true, 1
		pk.Connect.WillTopic, pk.Connect.WillPayload = topic, []byte(payload)
	}
}

// subscribe returns the code for each filter.
func (c *rawClient) subscribe(filters ...string) []byte {
	c.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: 1, ProtocolVersion: c.version}
	for _, f := range filters {
		pk.Filters = append(pk.Filters, packets.Subscription{Filter: f})
	}
	c.send(pk.SubscribeEncode)
	ack, _ := c.next()
	return ack.ReasonCodes
}

func (c *rawClient) publish(topic string, payload []byte, change func(*packets.Packet)) {
	c.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish}, TopicName: topic, Payload: payload, ProtocolVersion: c.version}
	if change != nil {
		change(&pk)
	}
	c.send(pk.PublishEncode)
}

// ended waits for the end of the connection, over whatever still comes.
func (c *rawClient) ended() {
	for range c.got {
	}
}

// as is dialRaw and a plain CONNECT that must succeed.
func as(t *testing.T, s *brokertest.Server, name san.Name, id string, change func(*packets.Packet)) *rawClient {
	t.Helper()
	c := dialRaw(t, s, name)
	if code := c.connect(id, change); code != 0 {
		t.Fatalf("%v as %q: CONNACK %d", name, id, code)
	}
	return c
}

func open(ctx context.Context, t *testing.T, s *brokertest.Server, name san.Name) (net.Conn, error) {
	t.Helper()
	return s.Dialer(name)(ctx, "")
}
