package terminal

import "encoding/binary"

// Kind is what a frame says.
type Kind byte

// The kinds of frames. The zero value is invalid.
const (
	KindData   Kind = iota + 1 // what was typed, any bytes
	KindResize                 // the peer's window has another size
	KindEOF                    // the end of the input, as the terminal's user would type it; more may follow
)

// frameHead is a kind and the length of what follows.
const frameHead = 3

// maxFrame is the most that one frame carries, in bytes.
const maxFrame = 1<<16 - 1

// Size is that of a window, in characters.
type Size struct{ Rows, Cols uint16 }

const resizeSize = 4

// AppendData appends p as typed to a stream, in as many frames as it takes.
func AppendData(b, p []byte) []byte {
	for len(p) > 0 {
		n := min(len(p), maxFrame)
		b = append(appendHead(b, KindData, n), p[:n]...)
		p = p[n:]
	}
	return b
}

// AppendResize appends a new size of the window to a stream.
func AppendResize(b []byte, s Size) []byte {
	b = appendHead(b, KindResize, resizeSize)
	b = binary.BigEndian.AppendUint16(b, s.Rows)
	return binary.BigEndian.AppendUint16(b, s.Cols)
}

func appendHead(b []byte, k Kind, n int) []byte {
	return binary.BigEndian.AppendUint16(append(b, byte(k)), uint16(n))
}

// An Event is what a frame, or a part of a frame, says.
type Event struct {
	Kind Kind
	Data []byte // of KindData
	Size Size   // of KindResize
}

// A decoder takes a stream of frames apart, in whatever pieces it comes. It keeps
// no more of it than a head.
type decoder struct {
	head [frameHead + resizeSize]byte
	have int // bytes in head
	left int // bytes of a data frame that are still to come
}

// next takes the first event from p and returns how many bytes of p it has
// used. No event is a zero Kind: the rest of a frame is still to come.
func (d *decoder) next(p []byte) (e Event, used int, err error) {
	if d.left > 0 {
		n := min(d.left, len(p))
		d.left -= n
		return Event{Kind: KindData, Data: p[:n]}, n, nil
	}
	used = d.fill(p, frameHead)
	if d.have < frameHead {
		return Event{}, used, nil
	}
	kind, length := Kind(d.head[0]), int(binary.BigEndian.Uint16(d.head[1:]))
	switch {
	case kind == KindData && length > 0:
		d.have, d.left = 0, length
		return Event{}, used, nil
	case kind == KindResize && length == resizeSize:
		used += d.fill(p[used:], frameHead+resizeSize)
		if d.have < frameHead+resizeSize {
			return Event{}, used, nil
		}
		e = Event{Kind: kind, Size: Size{binary.BigEndian.Uint16(d.head[3:]), binary.BigEndian.Uint16(d.head[5:])}}
	case kind == KindEOF && length == 0:
		e = Event{Kind: kind}
	default:
		return Event{}, used, ErrFormat
	}
	d.have = 0
	return e, used, nil
}

// fill copies bytes of p into the head until it has n.
func (d *decoder) fill(p []byte, n int) int {
	if d.have >= n {
		return 0
	}
	c := copy(d.head[d.have:n], p)
	d.have += c
	return c
}
