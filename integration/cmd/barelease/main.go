// Barelease is what leases take that are checked and answered with a grant, and no more: a
// floor for package bench.
//
//	barelease ADDRESS AUTHORITY SWARM
//
// It serves the hosts of a file of bench with a certificate of an authority. It checks the
// signature of each lease and answers with a signed grant, both of which have the form of the fleet. It reads nothing of a
// lease, remembers nothing, limits nothing and carries no message to another client.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

func main() {
	fmt.Fprintln(os.Stderr, "barelease:", run(os.Args[1], os.Args[2], os.Args[3]))
	os.Exit(1)
}

// host is one of those that are served.
type host struct {
	ID       string
	Receipts string // a topic
	Identity string // the file of its key
	Fleet    protocol.FleetName
	Held     []protocol.LeaseHeld
}

// run serves until that fails.
func run(address, authority, swarm string) error {
	b, err := os.ReadFile(swarm)
	if err != nil {
		return err
	}
	var hosts struct{ Hosts []host }
	if err := json.Unmarshal(b, &hosts); err != nil {
		return err
	}
	known := make(map[string]host, len(hosts.Hosts))
	for _, h := range hosts.Hosts {
		known[h.ID] = h
	}
	config, err := serverTLS(authority)
	if err != nil {
		return err
	}
	own, err := certs.Generate("barelease", time.Now())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			c := &client{Conn: tls.Server(conn, config), own: own, known: known}
			if err := c.serve(); !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "barelease:", err)
			}
			_ = conn.Close() // it may be closed
		}()
	}
}

// serverTLS demands a certificate. Whose it is, is not looked at.
func serverTLS(authority string) (*tls.Config, error) {
	ca, err := certs.LoadAuthority(authority)
	if err != nil {
		return nil, err
	}
	key, err := certs.NewTLSKey()
	if err != nil {
		return nil, err
	}
	request, err := key.Request()
	if err != nil {
		return nil, err
	}
	der, err := ca.Issue(request, certs.Leaf{Name: san.Name{Kind: san.Coordinator}, Server: true, Addresses: []string{"127.0.0.1"}, Now: time.Now()})
	if err != nil {
		return nil, err
	}
	pair, err := key.Certificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}, Certificates: []tls.Certificate{*pair},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
	}, nil
}

// client is the connection of one host.
type client struct {
	*tls.Conn
	own   *certs.Identity
	known map[string]host

	host  host
	key   protocol.PublicKey // of the host
	topic string             // of grants
	grant []byte             // what is signed each time
}

// The packets of MQTT 3.1.1 that are needed here.
const (
	connect   = 0x1
	connack   = 0x20
	publish   = 0x3
	puback    = 0x40
	subscribe = 0x8
	suback    = 0x90
)

// serve answers until the connection ends.
func (c *client) serve() error {
	r := bufio.NewReaderSize(c.Conn, 512)
	for {
		kind, err := r.ReadByte()
		if err != nil {
			return err
		}
		size, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		switch kind >> 4 {
		case connect:
			err = c.know(body)
		case subscribe: // without the topics, which are as many as their rights
			err = c.send(suback, body[:2], make([]byte, bytes.Count(body, []byte("hostler/"))))
		case publish:
			n := 2 + int(binary.BigEndian.Uint16(body))
			topic, payload := string(body[2:n]), body[n:]
			if kind&0x6 != 0 {
				if err = c.send(puback, payload[:2]); err != nil {
					return err
				}
				payload = payload[2:]
			}
			err = c.take(topic[strings.LastIndexByte(topic, '/')+1:], payload)
		}
		if err != nil {
			return err
		}
	}
}

// know finds out who has connected.
func (c *client) know(body []byte) error {
	const before = 10 // the name and version of the protocol, flags, keep-alive
	id := body[before+2:][:binary.BigEndian.Uint16(body[before:])]
	c.host = c.known[string(id)]
	key, err := certs.LoadIdentity(c.host.Identity)
	if err != nil {
		return err
	}
	c.key = key.PublicKey()
	return c.send(connack, []byte{0, 0})
}

// take takes a message. Only a hello and a lease are answered.
func (c *client) take(channel string, payload []byte) error {
	e, err := protocol.Split(payload)
	if err != nil {
		return err
	}
	switch protocol.Channel(channel) {
	case protocol.ChannelPresence:
		return c.greet(e.Body)
	case protocol.ChannelLease:
		if err := c.key.Verify(e.Sig, e.Body); err != nil {
			return err
		}
		return c.say(c.topic, c.grant)
	}
	return nil
}

// greet answers a hello with what the leases are to carry.
func (c *client) greet(body []byte) error {
	var p protocol.Presence
	if err := json.Unmarshal(body, &p); err != nil || p.Kind != protocol.PresenceHello {
		return err
	}
	header := protocol.Header{Type: protocol.TypeGrant, Fleet: p.Fleet, From: protocol.Coordinator, To: p.From, Ring: p.Ring,
		Seq: p.Seq, Heard: p.Seq, Term: protocol.Term{Ring: 1, Counter: 1}}
	var err error
	if c.grant, err = json.Marshal(protocol.Grant{Header: header, TTLms: 90_000, Held: c.host.Held}); err != nil {
		return err
	}
	c.topic = protocol.HostTopic(c.host.Fleet, protocol.HostID(c.host.ID), protocol.ChannelGrant).String()
	header.Type = protocol.TypeReceipt
	receipt, err := json.Marshal(protocol.Receipt{Header: header, Answers: p.Seq, Give: protocol.Nonce{1}})
	if err != nil {
		return err
	}
	return c.say(c.host.Receipts, receipt)
}

// say signs and sends a message.
func (c *client) say(topic string, body []byte) error {
	raw, err := protocol.Seal(c.own, body, nil)
	if err != nil {
		return err
	}
	return c.send(publish<<4, binary.BigEndian.AppendUint16(nil, uint16(len(topic))), []byte(topic), raw)
}

// send writes a packet at once.
func (c *client) send(kind byte, parts ...[]byte) error {
	body := bytes.Join(parts, nil)
	_, err := c.Write(append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...))
	return err
}
