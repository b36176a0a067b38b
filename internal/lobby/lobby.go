// Package lobby bounds the connections whose other end has not said who it is, over
// all listeners of a program together.
//
// Strangers cost a descriptor each, and an address that may have all of them keeps the
// members out. So there are so many places for strangers and no more. Who has said
// who it is leaves its place and keeps the connection. When all places are taken, one
// is made free in this order:
//
//   - the oldest stranger's, if it has had its place for [hurried];
//   - the oldest one's of the address that holds the most, if that is another address
//     than the newcomer's and holds more than that one would;
//   - none: the newcomer is turned away, and may come again.
//
// So no address is limited as long as there is room: a site of 500 hosts may stand
// behind one, and 2,000 hosts may come back at once.
package lobby

import (
	"container/heap"
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// ErrFull turns a connection away.
var ErrFull = errors.New("too many connections that are not authenticated yet")

// hurried is how long a stranger has at least, however many wait: a full handshake
// takes a second on a line of 100 kbit/s, and 10 s at 9.6 kbit/s, for which there is
// time while places are free.
const hurried = 5 * time.Second

// Lobby is where strangers wait. Its methods may be called from any goroutine.
type Lobby struct {
	places int

	mu      sync.Mutex
	all     list.List // of *Seat, who came first in front
	origins map[netip.Prefix]*origin
	largest origins // a heap
	count   Stats
}

// Stats is a snapshot of what a Lobby counts. All but Strangers only grow.
type Stats struct {
	Strangers  int    // now
	TurnedAway uint64 // found no place
	Displaced  uint64 // lost theirs to another one
	Overdue    uint64 // did not say in time who they are
}

// origin is where strangers come from.
type origin struct {
	from   netip.Prefix
	places list.List // of *Seat, who came first in front
	index  int       // in the heap
}

// Seat is that of one stranger.
type Seat struct {
	lobby     *Lobby
	conn      net.Conn
	since     time.Time
	timer     *time.Timer
	origin    *origin       // nil once it has left
	all, here *list.Element // in the lists of all and of its origin
}

// New returns an empty lobby with so many places, 1 at least.
func New(places int) *Lobby {
	return &Lobby{places: max(places, 1), origins: make(map[netip.Prefix]*origin)}
}

// Enter gives a connection a place for as long as patience. After that, or when the
// place goes to another one, the connection is closed. The error is [ErrFull], and the
// connection the caller's to close.
func (l *Lobby) Enter(conn net.Conn, patience time.Duration) (*Seat, error) {
	from := Origin(conn.RemoteAddr().String())
	l.mu.Lock()
	var gone *Seat
	if l.all.Len() >= l.places {
		if gone = l.victim(from); gone == nil {
			l.count.TurnedAway++
			l.mu.Unlock()
			return nil, ErrFull
		}
		l.count.Displaced++
		l.remove(gone)
	}
	p := &Seat{lobby: l, conn: conn, since: time.Now()}
	l.add(p, from)
	p.timer = time.AfterFunc(patience, p.overdue)
	l.mu.Unlock()
	if gone != nil {
		_ = gone.conn.Close() // its server notices
	}
	return p, nil
}

// victim returns the connection whose place a newcomer takes, if any.
func (l *Lobby) victim(from netip.Prefix) *Seat {
	oldest := l.all.Front().Value.(*Seat)
	if time.Since(oldest.since) >= hurried {
		return oldest
	}
	own := 1
	if o := l.origins[from]; o != nil {
		own += o.places.Len()
	}
	if most := l.largest[0]; most.from != from && most.places.Len() > own {
		return most.places.Front().Value.(*Seat)
	}
	return nil
}

func (l *Lobby) add(p *Seat, from netip.Prefix) {
	o := l.origins[from]
	if o == nil {
		o = &origin{from: from}
		l.origins[from] = o
		heap.Push(&l.largest, o)
	}
	p.origin, p.all, p.here = o, l.all.PushBack(p), o.places.PushBack(p)
	heap.Fix(&l.largest, o.index)
}

// remove takes a place out of the books, and reports whether it was in them.
func (l *Lobby) remove(p *Seat) bool {
	o := p.origin
	if o == nil {
		return false
	}
	p.origin = nil
	p.timer.Stop()
	l.all.Remove(p.all)
	o.places.Remove(p.here)
	if heap.Fix(&l.largest, o.index); o.places.Len() == 0 {
		heap.Remove(&l.largest, o.index)
		delete(l.origins, o.from)
	}
	return true
}

// Leave gives the place back: its holder has said who it is, or has gone. It may be
// called more than once.
func (p *Seat) Leave() {
	p.lobby.mu.Lock()
	defer p.lobby.mu.Unlock()
	p.lobby.remove(p)
}

func (p *Seat) overdue() {
	p.lobby.mu.Lock()
	was := p.lobby.remove(p)
	if was {
		p.lobby.count.Overdue++
	}
	p.lobby.mu.Unlock()
	if was {
		_ = p.conn.Close() // its server notices
	}
}

// Stats returns what was counted until now.
func (l *Lobby) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.count
	n.Strangers = l.all.Len()
	return n
}

// origins is a heap with whom holds the most places on top.
type origins []*origin

func (h origins) Len() int           { return len(h) }
func (h origins) Less(i, j int) bool { return h[i].places.Len() > h[j].places.Len() }
func (h origins) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *origins) Push(x any) {
	o := x.(*origin)
	o.index = len(*h)
	*h = append(*h, o)
}
func (h *origins) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return o
}

// Origin returns where strangers of a remote address come from, such as one may have
// it: an IPv4 address, or an IPv6 network of 64 bits. What has no address shares one.
func Origin(remote string) netip.Prefix {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := a.Addr().Unmap().WithZone(""), 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
