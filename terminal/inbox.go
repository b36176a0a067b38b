package terminal

// Inbox puts the streams of all peers of a session together again. It is pure and
// belongs to one goroutine; the zero value is empty.
type Inbox struct {
	peers map[Peer]*incoming
}

type incoming struct {
	decoder decoder
	number  uint64 // the highest of a packet
	taken   int64  // every byte before it was taken
	done    int64  // every byte before it is acknowledged
	refused bool
}

// Take takes what is new of a packet and hands its events to do, in order, each
// with the offset behind it, at which [Inbox.Done] may acknowledge it. The event's
// Data is a part of the packet. alive tells that the packet proves that the peer is
// there, and fresh that there was something to take. What is repeated, or is too
// far ahead, is not taken; the acknowledgement tells where the peer stands.
func (in *Inbox) Take(p Packet, do func(e Event, end int64)) (ack Ack, fresh, alive bool) {
	s := in.peers[p.Peer]
	if s == nil {
		if p.Offset != 0 {
			return Ack{p.Peer, 0}, false, false // its first packet was lost
		}
		if len(in.peers) >= MaxPeers {
			return Ack{p.Peer, Refused}, false, false
		}
		if in.peers == nil {
			in.peers = make(map[Peer]*incoming)
		}
		s = new(incoming)
		in.peers[p.Peer] = s
	}
	alive = p.Number > s.number && !s.refused
	s.number = max(s.number, p.Number)
	end := p.Offset + int64(len(p.Data))
	if !s.refused && p.Offset <= s.taken && end > s.taken && end <= s.done+Window {
		fresh = true
		if err := s.take(p.Data[s.taken-p.Offset:], do); err != nil {
			s.refused = true
		}
	}
	return s.ack(p.Peer), fresh, alive
}

func (s *incoming) take(p []byte, do func(Event, int64)) error {
	for len(p) > 0 {
		e, used, err := s.decoder.next(p)
		if err != nil {
			return err
		}
		s.taken += int64(used)
		p = p[used:]
		if e.Kind != 0 {
			do(e, s.taken)
		}
	}
	return nil
}

// Done notes that everything of a peer before offset was dealt with, and returns
// the acknowledgement of that.
func (in *Inbox) Done(p Peer, offset int64) Ack {
	s := in.peers[p]
	if s == nil {
		return Ack{p, 0}
	}
	s.done = min(max(s.done, offset), s.taken)
	return s.ack(p)
}

func (s *incoming) ack(p Peer) Ack {
	if s.refused {
		return Ack{p, Refused}
	}
	return Ack{p, s.done}
}
