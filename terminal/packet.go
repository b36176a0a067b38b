package terminal

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
)

// ErrFormat is what everything that is malformed gives.
var ErrFormat = errors.New("malformed message of a terminal session")

// Peer names one who takes part in a session. It is drawn at random by the peer.
type Peer [8]byte

const digits = "0123456789abcdef"

// String returns the peer as it is written in addresses: 16 hexadecimal digits.
func (p Peer) String() string {
	b := make([]byte, 0, 2*len(p))
	for _, c := range p {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return string(b)
}

// ParsePeer reads what String has written.
func ParsePeer(s string) (p Peer, err error) {
	if len(s) != 2*len(p) {
		return p, ErrFormat
	}
	for i := range p {
		hi, lo := strings.IndexByte(digits, s[2*i]), strings.IndexByte(digits, s[2*i+1])
		if hi < 0 || lo < 0 {
			return Peer{}, ErrFormat
		}
		p[i] = byte(hi<<4 | lo)
	}
	return p, nil
}

const (
	offsetSize = 8
	numberSize = 8
	headSize   = len(Peer{}) + numberSize + offsetSize
	// MaxPacket is the longest packet, in bytes.
	MaxPacket = headSize + MaxData
	// AckSize is the length of an acknowledgement, in bytes.
	AckSize = len(Peer{}) + offsetSize
	// Refused, as the offset of an acknowledgement, says that nothing of this peer
	// is taken any more: its stream was malformed, or there were too many peers.
	Refused = math.MaxInt64
)

// Packet is a part of a peer's stream.
type Packet struct {
	Peer   Peer
	Number uint64 // of all packets of the peer, from 1; 0 says that the peer has left
	Offset int64  // of the first byte of Data
	Data   []byte // none is a sign of life
}

// Left reports whether a packet is the word that its peer has left, which is not the
// peer's own.
func (p *Packet) Left() bool { return p.Number == 0 }

// AppendPacket appends an encoded packet to b.
func AppendPacket(b []byte, p Packet) []byte {
	b = append(b, p.Peer[:]...)
	b = binary.BigEndian.AppendUint64(b, p.Number)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Offset))
	return append(b, p.Data...)
}

// ParsePacket decodes a packet. Its Data is a part of b.
func ParsePacket(b []byte) (p Packet, err error) {
	if len(b) < headSize || len(b) > MaxPacket {
		return p, ErrFormat
	}
	copy(p.Peer[:], b)
	p.Number = binary.BigEndian.Uint64(b[len(p.Peer):])
	offset := binary.BigEndian.Uint64(b[len(p.Peer)+numberSize:])
	p.Data = b[headSize:]
	if p.Number == 0 && (offset != 0 || len(p.Data) > 0) || offset > Refused-1-uint64(len(p.Data)) {
		return Packet{}, ErrFormat
	}
	p.Offset = int64(offset)
	return p, nil
}

// Ack says how far a peer's stream was taken: everything before Offset.
type Ack struct {
	Peer   Peer
	Offset int64 // or Refused
}

// AppendAck appends an encoded acknowledgement to b.
func AppendAck(b []byte, a Ack) []byte {
	b = append(b, a.Peer[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(a.Offset))
}

// ParseAcks decodes acknowledgements that stand one behind the other.
func ParseAcks(b []byte) ([]Ack, error) {
	if len(b) == 0 || len(b)%AckSize != 0 || len(b) > MaxPeers*AckSize {
		return nil, ErrFormat
	}
	acks := make([]Ack, 0, len(b)/AckSize)
	for ; len(b) > 0; b = b[AckSize:] {
		var a Ack
		copy(a.Peer[:], b)
		offset := binary.BigEndian.Uint64(b[len(a.Peer):])
		if offset > Refused {
			return nil, ErrFormat
		}
		a.Offset = int64(offset)
		acks = append(acks, a)
	}
	return acks, nil
}
