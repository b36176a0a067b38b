package uplink

import (
	"context"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// position is where one stream stands.
type position struct {
	up     bool
	at     protocol.Position // newest taken in, or sent
	freed  protocol.Position // newest that a receipt has freed, of a stream up
	resend stream.Resend     // of a stream up
}

// streams are where all streams stand.
type streams struct {
	cfg  *Config
	all  map[protocol.Stream]*position
	wake map[protocol.Stream]*loop.Timer // when a stream up is to be looked at
}

// load reads where the streams stand.
func (s *streams) load(ctx context.Context) error {
	p, err := s.cfg.Queue.Positions(ctx)
	if err != nil {
		return err
	}
	s.all = make(map[protocol.Stream]*position)
	for _, at := range p.Have {
		s.all[at.Stream] = &position{at: at}
	}
	for i, at := range p.Sent {
		up := &position{up: true, at: at, freed: p.Freed[i]}
		up.resend.Freed(p.Freed[i].N, s.cfg.Loop.Now(), s.cfg.Loop.Jitter())
		s.all[at.Stream] = up
	}
	return nil
}

// unsent is how many items wait for a receipt.
func (s *streams) unsent() (n uint64) {
	for _, p := range s.all {
		if p.up {
			n += p.at.N - p.freed.N
		}
	}
	return n
}

// connected has what waits for a receipt sent once more.
func (s *streams) connected() {
	for _, p := range s.all {
		p.resend.Connected()
	}
}

// wrote notes that a step of the queue has written reports up to n. Only a hello
// needs their digests too, and looks them up.
func (s *streams) wrote(n uint64) {
	p := s.all[protocol.StreamReport]
	p.at.N = max(p.at.N, n)
}

// reread looks up where the streams up stand after a step that may have written
// any number of items.
func (s *streams) reread() {
	p, err := s.cfg.Queue.Positions(s.cfg.Loop.Steps())
	if !s.cfg.Loop.Disk(err) {
		return
	}
	for _, at := range p.Sent {
		s.all[at.Stream].at = at
	}
}

// renamed sets the streams down to their beginning that were of another store.
func (s *streams) renamed(store protocol.StoreID) {
	for _, p := range s.all {
		if !p.up && p.at.Store != store {
			p.at = protocol.Position{Store: store, Stream: p.at.Stream}
		}
	}
}

// hello tells where all streams stand.
func (s *streams) hello(h *protocol.Hello) {
	for _, p := range s.all {
		switch {
		case p.up:
			h.Sent = append(h.Sent, p.at)
			if p.freed.N > 0 {
				h.Freed = append(h.Freed, p.freed)
			}
		case !p.at.Store.IsZero():
			h.Have = append(h.Have, p.at)
		}
	}
}

// have is how far the streams down were taken in.
func (s *streams) have() (all []protocol.Position) {
	for _, name := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
		if p := s.all[name]; !p.at.Store.IsZero() {
			all = append(all, p.at)
		}
	}
	return all
}
