package terminal

// Outbox is a peer's side of its stream: what was not acknowledged, to be sent
// again. It is pure and belongs to one goroutine.
type Outbox struct {
	Peer Peer

	number uint64 // of the newest packet
	buf    []byte // from acked on
	acked  int64
	sent   int64
}

// Room is how much may be appended before something is acknowledged, in bytes. A
// frame takes a little more than what it carries.
func (o *Outbox) Room() int { return max(0, Window-len(o.buf)) }

// Append appends frames, as made by AppendData and its like.
func (o *Outbox) Append(frames []byte) { o.buf = append(o.buf, frames...) }

// Next returns the next packet that was not sent yet, if it is within window bytes
// of what was acknowledged, at most [Window]. Its Data is valid until the next call
// of a method.
func (o *Outbox) Next(window int) (Packet, bool) {
	from := int(o.sent - o.acked)
	to := min(len(o.buf), from+MaxData, window, Window)
	if from >= to {
		return Packet{}, false
	}
	o.number++
	p := Packet{o.Peer, o.number, o.sent, o.buf[from:to]}
	o.sent += int64(to - from)
	return p, true
}

// Alive returns a sign of life.
func (o *Outbox) Alive() Packet {
	o.number++
	return Packet{Peer: o.Peer, Number: o.number, Offset: o.sent}
}

// Acked takes an acknowledgement. It reports whether it told anything new.
func (o *Outbox) Acked(offset int64) bool {
	if offset <= o.acked || offset > o.acked+int64(len(o.buf)) {
		return false
	}
	o.buf = append(o.buf[:0], o.buf[offset-o.acked:]...)
	o.acked = offset
	o.sent = max(o.sent, offset)
	return true
}

// Rewind makes everything that was not acknowledged be sent again. It reports
// whether there is anything.
func (o *Outbox) Rewind() bool {
	o.sent = o.acked
	return len(o.buf) > 0
}

// Empty reports that everything was acknowledged.
func (o *Outbox) Empty() bool { return len(o.buf) == 0 }
