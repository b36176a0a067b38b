package stream_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// sender is one end: what its database keeps, and what it forgets.
type sender struct {
	rows   map[uint64][]byte // the outbox
	chain  map[uint64]protocol.Digest
	newest protocol.Position
	freed  protocol.Position
	resend stream.Resend
}

func (s *sender) clone() sender {
	c := *s
	c.rows, c.chain = map[uint64][]byte{}, map[uint64]protocol.Digest{}
	for n, item := range s.rows {
		c.rows[n], c.chain[n] = item, s.chain[n]
	}
	return c
}

// packet is an item on its way, or a receipt.
type packet struct {
	at      time.Duration
	item    []byte
	n       uint64
	receipt bool
	have    protocol.Position
}

// sim is a sender, a receiver and what is between them, on a clock of its own.
type sim struct {
	choose    func(n int) int
	now       time.Duration
	from      sender
	have      protocol.Position // the receiver's, durable
	delivered [][]byte          // in the same transaction
	made      [][]byte          // every item, in order
	air       []packet
	faulty    bool
	serial    uint64
	verdicts  map[stream.Covers]int
}

const maxDelay = 5 * time.Second

func newSim(choose func(n int) int) *sim {
	start := protocol.Position{Store: here, Stream: protocol.StreamReport}
	return &sim{choose: choose, faulty: true, have: start, verdicts: map[stream.Covers]int{},
		from: sender{rows: map[uint64][]byte{}, chain: map[uint64]protocol.Digest{}, newest: start, freed: start}}
}

// put sends a packet: lost, once or more often, each time with a delay of its
// own.
func (s *sim) put(p packet) {
	copies := 1
	if s.faulty {
		copies = []int{0, 0, 1, 1, 1, 1, 2, 3}[s.choose(8)]
	}
	for range copies {
		p.at = s.now + 50*time.Millisecond
		if s.faulty {
			p.at = s.now + time.Duration(s.choose(int(maxDelay/time.Millisecond)))*time.Millisecond
		}
		s.air = append(s.air, p)
	}
}

func (s *sim) jitter() float64 { return float64(s.choose(100)) / 100 }

func (s *sim) create() {
	s.serial++
	item := binary.BigEndian.AppendUint64([]byte("item "), s.serial)
	s.from.newest = stream.Next(s.from.newest, item)
	s.from.rows[s.from.newest.N], s.from.chain[s.from.newest.N] = item, s.from.newest.H
	s.made = append(s.made, item)
}

// transmit sends what is due.
func (s *sim) transmit() error {
	first, last := s.from.resend.Due(s.from.newest.N, s.now, s.jitter())
	for n := first; n <= last; n++ {
		item, ok := s.from.rows[n]
		if !ok {
			return fmt.Errorf("item %d is due and gone", n)
		}
		s.put(packet{item: item, n: n})
	}
	if last > s.from.freed.N+stream.Window {
		return fmt.Errorf("item %d goes out, %d are receipted", last, s.from.freed.N)
	}
	return nil
}

// take delivers one packet.
func (s *sim) take(p packet) error {
	if p.receipt {
		return s.takeReceipt(p.have)
	}
	switch stream.Receive(s.have, s.from.newest.Store, p.n) {
	case stream.Deliver:
		s.have = stream.Next(s.have, p.item)
		s.delivered = append(s.delivered, p.item)
		if s.faulty && s.choose(10) == 0 {
			return nil // it crashes before the receipt
		}
	case stream.Foreign:
		return fmt.Errorf("item %d is foreign", p.n)
	}
	s.put(packet{receipt: true, have: s.have})
	return nil
}

func (s *sim) takeReceipt(have protocol.Position) error {
	chain := func(n uint64) (protocol.Digest, bool) { h, ok := s.from.chain[n]; return h, ok }
	c := stream.Receipt(s.from.newest, s.from.freed, have, chain)
	s.verdicts[c]++
	if c != stream.Frees {
		return nil
	}
	for n := s.from.freed.N + 1; n <= have.N; n++ {
		if n > uint64(len(s.delivered)) || !bytes.Equal(s.delivered[n-1], s.from.rows[n]) {
			return fmt.Errorf("item %d is freed and the receiver does not have it", n)
		}
		delete(s.from.rows, n)
		delete(s.from.chain, n)
	}
	s.from.freed = have
	s.from.resend.Freed(have.N, s.now, s.jitter())
	return nil
}

// restart is that of a process: what is not in the database is gone.
func (s *sim) restart() {
	s.from.resend = stream.Resend{}
	s.from.resend.Freed(s.from.freed.N, s.now, s.jitter())
}

// advance moves the clock to the next thing that happens, at most to limit.
func (s *sim) advance(limit time.Duration) error {
	if err := s.transmit(); err != nil {
		return err
	}
	next := limit
	if at, ok := s.from.resend.Wake(); ok {
		if at <= s.now {
			return fmt.Errorf("at %s it wants to be asked again at %s", s.now, at)
		}
		next = min(next, at)
	}
	for _, p := range s.air {
		next = min(next, p.at)
	}
	s.now = max(s.now, next)
	due := slices.IndexFunc(s.air, func(p packet) bool { return p.at <= s.now })
	if due < 0 {
		return nil
	}
	p := s.air[due]
	s.air = slices.Delete(s.air, due, due+1)
	return s.take(p)
}

// faults is a stretch of everything that can go wrong.
func (s *sim) faults(steps int) error {
	for range steps {
		switch s.choose(12) {
		case 0, 1, 2:
			for range s.choose(20) {
				s.create()
			}
		case 3:
			s.restart()
		case 4:
			s.from.resend.Connected()
		case 5:
			s.air = nil // the broker restarts
		case 6:
			s.now += time.Duration(s.choose(600)) * time.Second // nobody is there
		}
		for range 4 {
			if err := s.advance(s.now + time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}

// quiet runs without faults until nothing is left to send, and returns how
// long that took.
func (s *sim) quiet() (time.Duration, error) {
	s.faulty = false
	began := s.now
	for len(s.air) > 0 || s.from.freed.N < s.from.newest.N {
		if s.now-began > time.Hour {
			return 0, fmt.Errorf("after an hour item %d of %d is receipted", s.from.freed.N, s.from.newest.N)
		}
		if err := s.advance(s.now + time.Hour); err != nil {
			return 0, err
		}
	}
	return s.now - began, nil
}

// bound is when everything is delivered after the last fault: the longest
// delay between resends passes, what was under way may still come and make gaps
// that one more resend mends, and then windows follow each other at the pace
// of receipts.
func bound(items uint64) time.Duration {
	const roundTrip = 100 * time.Millisecond
	return time.Minute + 2*maxDelay + time.Duration(items/stream.Window+2)*roundTrip
}

// runHonest delivers every item once and in order, and in time.
func runHonest(s *sim, steps int) error {
	if err := s.faults(steps); err != nil {
		return err
	}
	limit := bound(s.from.newest.N - s.from.freed.N)
	took, err := s.quiet()
	switch {
	case err != nil:
		return err
	case took > limit:
		return fmt.Errorf("it took %s, at most %s were promised", took, limit)
	case !slices.EqualFunc(s.made, s.delivered, bytes.Equal):
		return fmt.Errorf("%d made, %d delivered, or in another order", len(s.made), len(s.delivered))
	case s.verdicts[stream.Ahead]+s.verdicts[stream.Differs] > 0:
		return fmt.Errorf("verdicts %v, and nobody was rolled back", s.verdicts)
	case len(s.from.rows) > 0:
		return fmt.Errorf("%d rows are left", len(s.from.rows))
	}
	return nil
}

// runSenderBack restores the sender from a copy. If its history is another
// one then, it is told so, and frees nothing of it.
func runSenderBack(s *sim, steps int) error {
	if err := s.faults(steps); err != nil {
		return err
	}
	old := s.from.clone()
	if err := s.faults(1 + s.choose(steps+1)); err != nil {
		return err
	}
	known := s.have
	s.from = old
	s.restart()
	s.air = nil
	s.verdicts = map[stream.Covers]int{}
	for range s.choose(100) {
		s.create()
	}
	if known.N <= old.newest.N {
		return nil // everything that the receiver has is in the copy
	}
	// From here on the receiver may take items of the new history behind those
	// of the old one; what matters is that the sender hears of it.
	s.faulty = false
	began := s.now
	for s.verdicts[stream.Ahead]+s.verdicts[stream.Differs] == 0 {
		if s.from.newest.N == s.from.freed.N {
			// A sender that has nothing to send is told at its next hello.
			if err := s.takeReceipt(s.have); err != nil {
				return err
			}
		} else if err := s.advance(s.now + time.Minute); err != nil {
			return err
		}
		if s.verdicts[stream.Frees] > 0 || s.now-began > bound(0) {
			return fmt.Errorf("after %s a sender that was rolled back has heard %v", s.now-began, s.verdicts)
		}
	}
	return nil
}

// runReceiverBack restores the receiver from a copy. Either the items that it
// lost are still in the outbox and come again, or it is found to be behind.
func runReceiverBack(s *sim, steps int) error {
	if err := s.faults(steps); err != nil {
		return err
	}
	have, delivered := s.have, len(s.delivered)
	if err := s.faults(1 + s.choose(steps+1)); err != nil {
		return err
	}
	s.air = nil
	s.have, s.delivered = have, s.delivered[:delivered]
	if behind := have.N < s.from.freed.N; behind != stream.Behind(s.from.freed, s.have) {
		return fmt.Errorf("have %d, freed %d, behind: %t", have.N, s.from.freed.N, !behind)
	} else if behind {
		return nil
	}
	return runHonest(s, 0)
}

func explore(t *testing.T, seeds int, run func(s *sim, steps int) error) {
	t.Helper()
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		if err := run(newSim(rng.IntN), 5+seed%40); err != nil {
			t.Fatalf("seed %d: %s", seed, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		choose := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
		if err := run(newSim(choose), rapid.IntRange(0, 10).Draw(t, "steps")); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDelivery(t *testing.T) { explore(t, 1500, runHonest) }

func TestSenderRolledBack(t *testing.T) { explore(t, 1500, runSenderBack) }

func TestReceiverRolledBack(t *testing.T) { explore(t, 1500, runReceiverBack) }
