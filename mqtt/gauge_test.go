package mqtt

import (
	"fmt"
	"testing"
	"time"
)

// pipe is a line of so many bytes per second behind a system that takes writes
// until it holds 64 KiB, and then none until half of it has gone.
type pipe struct {
	rate float64
	now  time.Duration
	held float64
	at   time.Duration
}

func (p *pipe) drain() {
	p.held = max(0, p.held-(p.now-p.at).Seconds()*p.rate)
	p.at = p.now
}

func (p *pipe) pass(d time.Duration) { p.now += d; p.drain() }

// write returns when a message has arrived at the other end.
func (p *pipe) write(n int) (arrives time.Duration) {
	p.drain()
	for left := n; left > 0; {
		part := min(left, piece)
		if p.held+float64(part) > 64<<10 {
			p.pass(time.Duration((p.held - 32<<10) / p.rate * float64(time.Second)))
		}
		p.held += float64(part)
		left -= part
		p.now += 20 * time.Microsecond // the call itself
	}
	return p.now + time.Duration(p.held/p.rate*float64(time.Second))
}

// sender sends what the gauge says, between 1 and 128 KiB at a time.
type sender struct {
	*testing.T
	pipe  pipe
	gauge *gauge
	last  time.Duration // arrival of the newest message
}

func newSender(t *testing.T, rate float64, trip time.Duration) *sender {
	s := &sender{T: t, pipe: pipe{rate: rate}}
	took := 3*trip + time.Duration(handshake/rate*float64(time.Second))
	s.pipe.pass(took)
	s.gauge = newGauge(s.pipe.now, took)
	return s
}

func (s *sender) size() int { return min(max(int(s.gauge.rate()), 1<<10), 128<<10) }

func (s *sender) send(n int) (arrives time.Duration) {
	began := s.pipe.now
	arrives = s.pipe.write(n)
	s.gauge.wrote(n, began, s.pipe.now)
	return arrives
}

// flood sends as much as it can and returns the longest time between two
// arrivals, and how many messages it took.
func (s *sender) flood(bytes int) (gap time.Duration, messages int) {
	s.last = max(s.last, s.pipe.now)
	for ; bytes > 0; messages++ {
		n := s.size()
		at := s.send(n)
		gap, s.last = max(gap, at-s.last), at
		bytes -= n
	}
	return gap, messages
}

// TestGaugeOfALine: whatever a line carries, something arrives every few
// seconds, from the first message on, and a fast one is used in full.
func TestGaugeOfALine(t *testing.T) {
	for _, c := range []struct {
		rate     float64 // bytes per second
		trip     time.Duration
		gap      time.Duration // at most, between arrivals
		messages int           // at most, of 8 MiB
	}{
		{1200, 100 * time.Millisecond, 2 * time.Second, 8 << 10},
		{7000, 100 * time.Millisecond, 2 * time.Second, 2 << 10},
		{125_000, 20 * time.Millisecond, 2 * time.Second, 90},
		{125_000, 600 * time.Millisecond, 2 * time.Second, 130}, // a satellite
		{12.5e6, 20 * time.Millisecond, time.Second, 70},
		{125e6, 200 * time.Microsecond, time.Second, 64}, // a LAN: none more than it must
		{12.5e6, 600 * time.Millisecond, time.Second, 110},
	} {
		t.Run(fmt.Sprintf("%.0f B per s, %v away", c.rate, c.trip), func(t *testing.T) {
			s := newSender(t, c.rate, c.trip)
			gap, messages := s.flood(8 << 20)
			if gap > c.gap || messages > c.messages {
				t.Errorf("%v without an arrival, %d messages; want %v and %d at most", gap, messages, c.gap, c.messages)
			}
		})
	}
}

// TestGaugeOfALineThatChanges: it follows the line within what it measures from.
func TestGaugeOfALineThatChanges(t *testing.T) {
	s := newSender(t, 12.5e6, 20*time.Millisecond)
	s.flood(8 << 20)
	s.pipe.rate = 1200
	s.flood(evidence + 128<<10)
	if gap, _ := s.flood(1 << 20); gap > 2*time.Second {
		t.Errorf("slow now, %v without an arrival", gap)
	}
	s.pipe.rate = 12.5e6
	s.flood(evidence + hidden)
	if n := s.size(); n < 128<<10 {
		t.Errorf("fast again, %d bytes at a time", n)
	}
}

// TestGaugeOfATrickle: little that goes at once shows no fast line.
func TestGaugeOfATrickle(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
		s := newSender(t, 1200, 100*time.Millisecond)
		for range 10_000 {
			s.send(100)
			s.pipe.pass(every)
		}
		if gap, _ := s.flood(1 << 20); gap > 4*time.Second {
			t.Errorf("after a trickle every %v, %v without an arrival", every, gap)
		}
	}
}

// TestGaugeDelay: what was written has arrived within about that time.
func TestGaugeDelay(t *testing.T) {
	for _, rate := range []float64{1200, 125_000, 12.5e6} {
		s := newSender(t, rate, 20*time.Millisecond)
		for range 5000 {
			arrives := s.send(s.size())
			if took := arrives - s.pipe.now; took > s.gauge.delay()*3/2+time.Millisecond {
				t.Fatalf("%.0f B per s: arrives in %v, want about %v at most", rate, took, s.gauge.delay())
			}
		}
	}
}

// TestGaugeOfAFastTrickle: a line that is idle most of the time is not taken for
// a slow one, and is no less known for what it is when it is flooded again.
func TestGaugeOfAFastTrickle(t *testing.T) {
	for _, every := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 200 * time.Millisecond} {
		s := newSender(t, 12.5e6, 200*time.Microsecond)
		before := s.gauge.rate()
		for range 2000 {
			s.send(600)
			s.pipe.pass(every)
		}
		if now := s.gauge.rate(); now < before {
			t.Errorf("after lines every %v the line carries %.0f B per s, %.0f before", every, now, before)
		}
		s.pipe.rate = 1200
		s.flood(evidence + 128<<10)
		if gap, _ := s.flood(1 << 20); gap > 2*time.Second {
			t.Errorf("slow now, %v without an arrival", gap)
		}
	}
}
