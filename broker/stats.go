package broker

import (
	"sync/atomic"
	"time"
)

// Stats is a snapshot of a Server's counters. All but Connections only grow.
type Stats struct {
	Connections  int    // now, those in their handshake included
	Sessions     int    // now, those past CONNECT
	Accepted     uint64 // connections accepted
	Refused      uint64 // connections that never became a session
	TakenOver    uint64 // sessions ended by a newer one of the same client
	Cut          uint64 // connections ended by this side, for any reason
	Floods       uint64 // of those: for sending far above the limit
	Messages     uint64 // messages that hosts and coordinators published
	Bytes        uint64 // their payloads
	Wills        uint64 // wills published
	Denied       uint64 // publishes, subscriptions and retentions without the right to
	Limited      uint64 // messages dropped for being above the rate limit
	IngestErrors uint64 // messages that Ingest did not take
	SlowDrops    uint64 // messages that a slow reader missed
}

type counters struct {
	accepted, refused, takenOver, cut, floods             atomic.Uint64
	messages, bytes, wills, denied, limited, ingestErrors atomic.Uint64
	slowDrops                                             atomic.Uint64
}

// Stats returns the counters as they are now.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	conns, sessions := len(s.conns), len(s.sessions)
	s.mu.Unlock()
	n := &s.count
	return Stats{
		Connections:  conns,
		Sessions:     sessions,
		Accepted:     n.accepted.Load(),
		Refused:      n.refused.Load(),
		TakenOver:    n.takenOver.Load(),
		Cut:          n.cut.Load(),
		Floods:       n.floods.Load(),
		Messages:     n.messages.Load(),
		Bytes:        n.bytes.Load(),
		Wills:        n.wills.Load(),
		Denied:       n.denied.Load(),
		Limited:      n.limited.Load(),
		IngestErrors: n.ingestErrors.Load(),
		SlowDrops:    n.slowDrops.Load(),
	}
}

// logGate lets one line through per second: what strangers can cause must not
// fill a disk.
type logGate struct{ last atomic.Int64 }

func (g *logGate) open(now time.Time) bool {
	last, at := g.last.Load(), now.UnixNano()
	return (last == 0 || at-last >= int64(time.Second)) && g.last.CompareAndSwap(last, at)
}
