package mqtt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Types of MQTT control packets, the high four bits of a packet's first byte.
const (
	packetConnack = 2
	packetPublish = 3
	packetSuback  = 9
)

// maxConnackCode is the highest return code of MQTT 3.1.1.
const maxConnackCode = 5

// guardConn stands between the library and the network. The broker is not
// trusted, and the library allocates whatever length a header claims (up to
// 256 MiB), indexes past its own slice when a SUBACK holds more answers than
// were asked for, and takes a CONNACK with an unknown code for a yes. The guard
// follows the packets as they pass and fails the read before the library has seen
// all of such a one. It also sets the
// deadline of each write, where the library would use its time for handing over.
//
// Read is called by one goroutine at a time, Write by several.
type guardConn struct {
	net.Conn
	maxPacket    int           // longest packet, without its fixed header
	suback       int           // exact length of the one SUBACK that may come
	writeTimeout time.Duration // of each piece of a write
	writing      chan struct{} // held by the one that writes; room for one
	wide         atomic.Bool   // the line is known to be fast
	closed       atomic.Bool   // the other end has closed the connection

	// Owned by the reading goroutine.
	body  int  // bytes of the current packet still to come
	kind  byte // its type, once the first byte was seen
	begun bool // inside a fixed header
	size  int  // length read so far
	shift int
}

const (
	// piece is how much must be written within a write timeout. Twice of it pass in
	// half a minute where a line of 9.6 kbit/s is shared.
	piece = 8 << 10
	// widePiece is the same on a line that is known to be fast, where each piece
	// costs more than it is worth. Should the line become that slow, it still passes
	// within the two minutes of a bulk connection.
	widePiece = 64 << 10
	// wideRate is how many bytes pass a fast line in a second.
	wideRate = 4 << 20
)

// Write writes piece by piece, so that the deadline is one for progress: a long
// message on a slow line is no dead line. Others wait until all of it is written.
func (g *guardConn) Write(p []byte) (n int, err error) {
	g.writing <- struct{}{}
	defer func() { <-g.writing }()
	return g.write(p)
}

func (g *guardConn) write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if err = g.SetWriteDeadline(time.Now().Add(g.writeTimeout)); err != nil {
			return n, err
		}
		most := piece
		if g.wide.Load() {
			most = widePiece
		}
		var k int
		k, err = g.Conn.Write(p[n:min(n+most, len(p))])
		n += k
	}
	return n, err
}

// publish writes a PUBLISH packet of QoS 0 without a copy of its payload, which the
// library would make twice.
func (g *guardConn) publish(topic string, payload []byte) error {
	head := appendPublish(make([]byte, 0, 5+2+len(topic)), topic, len(payload))
	g.writing <- struct{}{}
	defer func() { <-g.writing }()
	if len(payload) < piece {
		_, err := g.write(append(head, payload...))
		return err
	}
	if _, err := g.write(head); err != nil {
		return err
	}
	_, err := g.write(payload)
	return err
}

// appendPublish appends what stands before the payload of a PUBLISH packet of QoS 0.
func appendPublish(b []byte, topic string, payload int) []byte {
	b = append(b, packetPublish<<4)
	n := 2 + len(topic) + payload
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	b = append(b, byte(n))
	b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	return append(b, topic...)
}

func (g *guardConn) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		g.closed.Store(true)
	}
	if bad := g.scan(p[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

// scan follows the stream of packets through p.
func (g *guardConn) scan(p []byte) error {
	for len(p) > 0 {
		if g.body > 0 {
			skip := min(g.body, len(p))
			g.body -= skip
			if code := p[skip-1]; g.body == 0 && g.kind == packetConnack && code > maxConnackCode {
				return fmt.Errorf("broker refused the connection with code %#x", code)
			}
			p = p[skip:]
			continue
		}
		b := p[0]
		p = p[1:]
		if !g.begun {
			g.begun, g.kind, g.size, g.shift = true, b>>4, 0, 0
			continue
		}
		g.size |= int(b&0x7f) << g.shift
		g.shift += 7
		if b&0x80 != 0 && g.shift < 28 {
			continue
		}
		if err := g.check(b); err != nil {
			return err
		}
		g.begun, g.body = false, g.size
	}
	return nil
}

// check judges a packet by its fixed header, whose last byte is last.
func (g *guardConn) check(last byte) error {
	switch {
	case last&0x80 != 0:
		return fmt.Errorf("broker sent a length of more than four bytes: %w", ErrTooLarge)
	case g.size > g.maxPacket:
		return fmt.Errorf("broker sent a packet of %d bytes: %w", g.size, ErrTooLarge)
	case g.kind == packetConnack && g.size != 2:
		return fmt.Errorf("broker sent a CONNACK of %d bytes", g.size)
	case g.kind == packetSuback && g.size != g.suback:
		return fmt.Errorf("broker sent a SUBACK of %d bytes instead of %d", g.size, g.suback)
	}
	return nil
}
