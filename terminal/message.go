package terminal

import "encoding/binary"

// A Message is what travels between a peer and its server, over a
// connection that is of this peer and keeps messages apart.
type Message struct {
	Kind   MessageKind
	Offset int64
	Data   []byte
}

// MessageKind is what a message is.
type MessageKind byte

// The kinds of messages. The zero value is invalid.
const (
	MessageTyped  MessageKind = 'i' // from the peer: Data is a packet
	MessageAck    MessageKind = 'a' // to it: everything of its stream before Offset was taken, or Refused; no Data
	MessageOutput MessageKind = 'o' // to it: what the terminal printed, from Offset on
	MessageEnd    MessageKind = 'e' // to it, the last: how the session ended, as a JSON action of the API
)

// MaxOutput is the most that one message carries, and MaxMessage the longest
// message, in bytes.
const (
	MaxOutput  = 64 << 10
	MaxMessage = 1 + offsetSize + MaxOutput
)

// AppendMessage appends an encoded message to b.
func AppendMessage(b []byte, m Message) []byte {
	b = binary.BigEndian.AppendUint64(append(b, byte(m.Kind)), uint64(m.Offset))
	return append(b, m.Data...)
}

// ParseMessage decodes a message. Its Data is a part of b.
func ParseMessage(b []byte) (Message, error) {
	if len(b) < 1+offsetSize || len(b) > MaxMessage {
		return Message{}, ErrFormat
	}
	m := Message{Kind: MessageKind(b[0]), Data: b[1+offsetSize:]}
	offset := binary.BigEndian.Uint64(b[1:])
	if offset > Refused {
		return Message{}, ErrFormat
	}
	m.Offset = int64(offset)
	ok := false
	switch m.Kind {
	case MessageTyped:
		ok = len(m.Data) >= headSize && len(m.Data) <= MaxPacket && m.Offset == 0
	case MessageAck:
		ok = len(m.Data) == 0
	case MessageOutput:
		ok = len(m.Data) > 0
	case MessageEnd:
		ok = m.Offset == 0
	}
	if !ok {
		return Message{}, ErrFormat
	}
	return m, nil
}
