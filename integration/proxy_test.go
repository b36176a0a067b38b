//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/san"
)

// proxy is a broker in the middle that is not to be trusted. It shows hosts a
// certificate of the fleet for a broker, speaks to the real broker with theirs,
// and plays with what is published in both directions.
type proxy struct {
	listener net.Listener
	upstream string
	as       map[string]*tls.Config // by host
	seed     uint64
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	harm   harm
	count  map[string]uint64
	lines  map[lineID]*line
	said   []published
}

// harm is what happens to messages, in percent. The zero value is an honest
// broker.
type harm struct{ lose, double, late, spoil int }

// lineID names one direction of a client's connection.
type lineID struct {
	client string
	up     bool
}

// line is one direction of a connection.
type line struct {
	mu     sync.Mutex
	to     net.Conn
	ends   func() // closes both directions
	frozen bool
}

// published is a message as it was published.
type published struct {
	on      lineID
	topic   string
	payload []byte
	retain  byte
}

// lateness is how late a message may be: long enough for both sides to be
// killed and started again meanwhile.
const lateness = 15 * time.Second

// newProxy listens for the hosts that [proxy.carry] names.
func (w *world) newProxy(t testing.TB, seed uint64) *proxy {
	t.Helper()
	own, err := tls.LoadX509KeyPair(w.issued(t, san.Name{Kind: san.Broker}))
	if err != nil {
		t.Fatal(err)
	}
	roots := w.roots(t)
	server := certs.ServerTLS{
		Certificate: func() *tls.Certificate { return &own },
		Roots:       func() *x509.CertPool { return roots },
		Admit:       func(san.Name, *x509.Certificate) error { return nil },
	}
	l, err := tls.Listen("tcp", freeAddress(t), server.Mutual())
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, upstream: w.mqtt, seed: seed, as: make(map[string]*tls.Config), count: make(map[string]uint64), lines: make(map[lineID]*line)}
	p.wg.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// issued is a new certificate of the fleet's authority, as two files.
func (w *world) issued(t testing.TB, name san.Name) (cert, key string) {
	t.Helper()
	l := w.issue(t, name)
	return l.cert, l.key
}

// carry lets a host come through.
func (p *proxy) carry(t testing.TB, w *world, host string) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(w.issued(t, san.Name{Kind: san.Host, ID: host}))
	if err != nil {
		t.Fatal(err)
	}
	roots := w.roots(t)
	client := certs.ClientTLS{Certificate: func() *tls.Certificate { return &cert }, Roots: func() *x509.CertPool { return roots }}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.as[host] = client.Config()
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.join(conn.(*tls.Conn)) })
	}
}

// join connects a host with the real broker until one of them ends it.
func (p *proxy) join(down *tls.Conn) {
	defer down.Close()
	if err := down.Handshake(); err != nil {
		return
	}
	name, err := certs.RoleOf(down.ConnectionState().PeerCertificates[0])
	if err != nil {
		return
	}
	p.mu.Lock()
	as := p.as[name.ID]
	p.mu.Unlock()
	up, err := tls.Dial("tcp", p.upstream, as)
	if err != nil {
		return
	}
	defer up.Close()
	fromHost, fromBroker := bufio.NewReader(down), bufio.NewReader(up)
	connect, err := readPacket(fromHost)
	if err != nil || connect.kind() != packetConnect {
		return
	}
	client, err := connect.clientID()
	if err != nil {
		return
	}
	ends := func() { down.Close(); up.Close() }
	lines := map[lineID]*line{{client, true}: {to: up, ends: ends}, {client, false}: {to: down, ends: ends}}
	lines[lineID{client, true}].write(connect)
	answer, err := readPacket(fromBroker)
	if err != nil {
		return
	}
	lines[lineID{client, false}].write(answer)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	for id, l := range lines {
		p.lines[id] = l
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { defer ends(); p.pump(lineID{client, true}, lines, fromHost) })
	both.Go(func() { defer ends(); p.pump(lineID{client, false}, lines, fromBroker) })
	both.Wait()
}

// pump carries one direction.
func (p *proxy) pump(id lineID, lines map[lineID]*line, from *bufio.Reader) {
	there, back := lines[id], lines[lineID{id.client, !id.up}]
	for {
		m, err := readPacket(from)
		if err != nil {
			return
		}
		if m.kind() != packetPublish {
			there.write(m)
			continue
		}
		topic, number, payload, err := m.publication()
		if err != nil {
			return
		}
		if number != nil {
			back.write(packet{header: packetAck << 4, body: number}) // whatever becomes of it
		}
		p.play(published{on: id, topic: topic, payload: payload, retain: m.header & 1})
	}
}

// play decides what becomes of a message.
func (p *proxy) play(m published) {
	p.mu.Lock()
	h := p.harm
	p.said = append(p.said, m)
	p.count[m.topic]++
	f := fnv.New64a()
	fmt.Fprintf(f, "%s %d", m.topic, p.count[m.topic])
	p.mu.Unlock()
	r := rand.New(rand.NewPCG(p.seed, f.Sum64()))
	copies := 1
	if r.IntN(100) < h.lose {
		copies = 0
	}
	if r.IntN(100) < h.double {
		copies++
	}
	for range copies {
		m := m
		if r.IntN(100) < h.spoil && len(m.payload) > 0 {
			m.payload = bytes.Clone(m.payload)
			m.payload[r.IntN(len(m.payload))] ^= 1 << r.IntN(8)
			if r.IntN(2) == 0 {
				m.payload = m.payload[:r.IntN(len(m.payload))]
			}
		}
		if r.IntN(100) < h.late {
			time.AfterFunc(time.Duration(r.Int64N(int64(lateness))), func() { p.say(m) })
		} else {
			p.say(m)
		}
	}
}

// say publishes to whoever holds that connection now.
func (p *proxy) say(m published) {
	p.mu.Lock()
	l := p.lines[m.on]
	p.mu.Unlock()
	if l == nil {
		return
	}
	body := binary.BigEndian.AppendUint16(nil, uint16(len(m.topic)))
	body = append(append(body, m.topic...), m.payload...)
	l.write(packet{header: packetPublish<<4 | m.retain, body: body})
}

// invent says again what was said before.
func (p *proxy) invent(r *rand.Rand) {
	p.mu.Lock()
	var again []published
	if n := len(p.said); n > 0 {
		from := r.IntN(n)
		again = p.said[from:min(n, from+1+r.IntN(40))]
	}
	p.mu.Unlock()
	for _, m := range again {
		p.say(m)
	}
}

// all returns the lines of every connection.
func (p *proxy) all() []*line {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*line
	for _, l := range p.lines {
		all = append(all, l)
	}
	return all
}

// cut ends all connections.
func (p *proxy) cut() {
	for _, l := range p.all() {
		l.ends()
	}
}

// freeze lets nothing through the present connections any more, and tells
// nobody.
func (p *proxy) freeze() {
	for _, l := range p.all() {
		l.mu.Lock()
		l.frozen = true
		l.mu.Unlock()
	}
}

// set begins, or ends, to do harm.
func (p *proxy) set(h harm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.harm = h
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // nobody comes any more
	p.cut()
	p.wg.Wait()
}

// write sends a packet; what cannot be sent is lost.
func (l *line) write(m packet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return
	}
	if _, err := l.to.Write(m.bytes()); err != nil {
		l.ends()
	}
}

// packet is a packet of MQTT 3.1.1.
type packet struct {
	header byte
	body   []byte
}

// Types of packets.
const (
	packetConnect = 1
	packetPublish = 3
	packetAck     = 4
)

func (m packet) kind() byte { return m.header >> 4 }

func (m packet) bytes() []byte {
	b := binary.AppendUvarint([]byte{m.header}, uint64(len(m.body))) // the same form of numbers
	return append(b, m.body...)
}

// readPacket reads the next one.
func readPacket(r *bufio.Reader) (packet, error) {
	header, err := r.ReadByte()
	if err != nil {
		return packet{}, err
	}
	size, err := binary.ReadUvarint(r)
	if err != nil || size > 1<<20 {
		return packet{}, errors.Join(err, errMQTT)
	}
	m := packet{header: header, body: make([]byte, size)}
	_, err = io.ReadFull(r, m.body)
	return m, err
}

var errMQTT = errors.New("this is no MQTT")

// cutString takes a string off.
func cutString(b []byte) (s string, rest []byte, err error) {
	if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
		return "", nil, errMQTT
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return string(b[2:n]), b[n:], nil
}

// clientID reads a CONNECT.
func (m packet) clientID() (string, error) {
	_, rest, err := cutString(m.body) // the name of the protocol
	if err != nil || len(rest) < 4 {
		return "", errMQTT
	}
	id, _, err := cutString(rest[4:]) // version, flags, keep alive
	return id, err
}

// publication reads a PUBLISH. number is nil if no acknowledgement is wanted.
func (m packet) publication() (topic string, number, payload []byte, err error) {
	topic, rest, err := cutString(m.body)
	if err != nil {
		return "", nil, nil, err
	}
	if m.header&0b0110 == 0 {
		return topic, nil, rest, nil
	}
	if len(rest) < 2 {
		return "", nil, nil, errMQTT
	}
	return topic, rest[:2], rest[2:], nil
}
