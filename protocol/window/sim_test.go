package window_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol/window"
)

// packet is a chunk on its way, or a credit.
type packet struct {
	at     time.Time
	credit bool
	offset int64
	n      int64 // bytes of the chunk, or the window of the credit
	gone   int64 // up to where the sender has dropped bytes
}

// link carries packets on a clock of its own. While it is faulty it loses,
// repeats and reorders them.
type link struct {
	choose func(n int) int
	now    time.Time
	air    []packet
	faulty bool
}

const maxDelay = 5 * time.Second

func (l *link) put(p packet) {
	copies := 1
	if l.faulty {
		copies = []int{0, 0, 1, 1, 1, 1, 2, 3}[l.choose(8)]
	}
	for range copies {
		p.at = l.now.Add(50 * time.Millisecond)
		if l.faulty {
			p.at = l.now.Add(time.Duration(l.choose(int(maxDelay/time.Millisecond))) * time.Millisecond)
		}
		l.air = append(l.air, p)
	}
}

// take returns a packet that has arrived by now, those that were sent first before
// all others.
func (l *link) take() (packet, bool) {
	for i, p := range l.air {
		if !p.at.After(l.now) {
			l.air = append(l.air[:i:i], l.air[i+1:]...)
			return p, true
		}
	}
	return packet{}, false
}

// arrival is when the next packet arrives, at until at the latest.
func (l *link) arrival(until time.Time) time.Time {
	for _, p := range l.air {
		if p.at.Before(until) {
			until = p.at
		}
	}
	return until
}

// world is two ends of a link.
type world interface {
	// fault lets something go wrong.
	fault()
	// step lets both ends do what is due and the clock go on to what happens next,
	// but not beyond a time.
	step(until time.Time) error
	// done reports whether all has arrived that is wanted.
	done() (bool, error)
	line() *link
}

// run lets a world go through faults, and then be well until all is done.
func run(w world, steps int) error {
	l := w.line()
	l.faulty = true
	for range steps {
		w.fault()
		for range 6 {
			if err := w.step(l.now.Add(time.Second)); err != nil {
				return err
			}
		}
	}
	l.faulty = false
	for began := l.now; ; {
		done, err := w.done()
		if err != nil || done {
			return err
		}
		if took := l.now.Sub(began); took > 10*time.Minute {
			return fmt.Errorf("not done %s after the last fault", took)
		}
		if err := w.step(l.now.Add(time.Minute)); err != nil {
			return err
		}
	}
}

func explore(t *testing.T, seeds int, make func(l *link) world) {
	t.Helper()
	begin := time.Unix(1, 0)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		if err := run(make(&link{choose: rng.IntN, now: begin}), 5+seed%40); err != nil {
			t.Fatalf("seed %d: %s", seed, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		choose := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
		if err := run(make(&link{choose: choose, now: begin}), rapid.IntRange(0, 10).Draw(t, "steps")); err != nil {
			t.Fatal(err)
		}
	})
}

// input is a Resender and a Receiver, as the input of actions has them.
type input struct {
	*link
	size    int64
	from    window.Resender
	to      window.Receiver
	allowed int64 // end of the newest credit that the sender has
	asked   int64 // end of the credit that went furthest
	wake    time.Time
	window  int64
	sink    int64 // what the sink has; a process that begins anew goes on there
}

func newInput(l *link) world {
	i := &input{link: l, size: int64(1 + l.choose(400<<10)), window: 8 << 10}
	i.to = window.NewReceiver(0)
	i.ask()
	return i
}

func (i *input) line() *link { return i.link }

func (i *input) ask() {
	i.to.Ask(i.window)
	i.asked = max(i.asked, i.to.Have()+i.window)
	i.put(packet{credit: true, offset: i.to.Have(), n: i.window})
	i.rest()
}

// rest lets the receiver wait, from now on.
func (i *input) rest() { i.wake = i.now.Add(i.to.Patience()) }

func (i *input) fault() {
	switch i.choose(10) {
	case 0: // the sender begins anew
		i.from, i.allowed = window.Resender{}, 0
	case 1: // the receiver does; what its sink has not taken is lost
		i.to, i.asked = window.NewReceiver(i.sink), 0
		i.ask()
	case 2: // a new connection
		i.air = nil
		i.ask()
	case 3: // silence
		i.now = i.now.Add(time.Duration(i.choose(300)) * time.Second)
	case 4, 5:
		i.window = int64(2<<10 + i.choose(128<<10))
	}
}

func (i *input) step(until time.Time) error {
	for {
		n := min(i.from.Chunk(), i.size-i.from.Next())
		if n <= 0 {
			break
		}
		p := packet{offset: i.from.Next(), n: n}
		if p.offset+n > i.allowed {
			return fmt.Errorf("a chunk up to %d, the newest credit allows %d", p.offset+n, i.allowed)
		}
		i.put(p)
		i.from.Sent(n, i.now)
	}
	if i.wake.Before(until) {
		until = i.wake
	}
	if left, waits := i.from.Overdue(i.now); waits && i.now.Add(left).Before(until) {
		until = i.now.Add(left)
	}
	if until = i.arrival(until); until.After(i.now) {
		i.now = until
	}
	i.from.Again(i.now)
	if !i.now.Before(i.wake) {
		i.to.Again()
		i.ask()
	}
	p, ok := i.take()
	switch {
	case !ok:
		return nil
	case p.credit:
		i.from.Allow(p.offset, p.n, i.now)
		i.allowed = p.offset + p.n
		return nil
	}
	return i.arrive(p)
}

func (i *input) arrive(p packet) error {
	next := i.to.Next()
	switch v := i.to.Judge(p.offset, p.n); {
	case v == window.Follows && (p.offset != next || p.offset+p.n > i.asked):
		return fmt.Errorf("a chunk of %d at %d follows upon %d, asked for is all before %d", p.n, p.offset, next, i.asked)
	case v != window.Follows && p.offset == next && p.offset+p.n <= i.asked:
		return fmt.Errorf("a chunk of %d at %d is not taken: %d", p.n, p.offset, v)
	case v == window.Overlap && (p.offset >= next || p.offset+p.n <= next), v == window.Repeat && p.offset+p.n > next, v == window.Gap && p.offset <= next:
		return fmt.Errorf("a chunk of %d at %d is judged %d at %d", p.n, p.offset, v, next)
	case v == window.Overlap, v == window.Repeat:
		i.ask()
	case v == window.Follows:
		i.to.Arrived(p.n)
	}
	if queued := i.to.Next() - i.to.Have(); queued > 0 && (!i.faulty || i.choose(2) == 0) {
		i.sink += queued
		if i.to.Taken(queued, i.window) {
			i.ask()
		}
	}
	i.rest()
	return nil
}

func (i *input) done() (bool, error) {
	if i.sink > i.size || i.sink != i.to.Have() {
		return false, fmt.Errorf("the sink has %d of %d, the receiver says %d", i.sink, i.size, i.to.Have())
	}
	return i.sink == i.size, nil
}

func TestInputArrives(t *testing.T) { explore(t, 1000, newInput) }
