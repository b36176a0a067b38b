package mqtt

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

func TestBackoffIsDrawnBelowTheBound(t *testing.T) {
	b := backoff{base: time.Second, limit: 30 * time.Second}
	bounds := []time.Duration{1, 2, 4, 8, 16, 30, 30, 30}
	for i, want := range bounds {
		almost := b.next(0.999999999)
		if want *= time.Second; almost > want || almost < want-time.Millisecond {
			t.Errorf("failure %d: at most %v, want %v", i+1, almost, want)
		}
	}
	if b.next(0) != 0 {
		t.Error("the least wait is not zero")
	}
	for range 1 << 10 { // no overflow, however long it lasts
		if d := b.next(0.5); d != 15*time.Second {
			t.Fatalf("half of the cap is %v", d)
		}
	}
	b.reset()
	if d := b.next(0.5); d != time.Second/2 {
		t.Errorf("after a reset: %v, want half of the base", d)
	}
}

// Full jitter: past the cap the waits of many clients fill the whole interval
// evenly. Jitter added before the cap would pile them up at its end.
func TestBackoffSpreadsClients(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var tenth [10]int
	const clients = 10_000
	for range clients {
		b := backoff{base: time.Second, limit: 30 * time.Second, failures: 20}
		tenth[int(b.next(rng.Float64())/(3*time.Second))]++
	}
	for i, n := range tenth {
		if n < clients/10*8/10 || n > clients/10*12/10 {
			t.Errorf("tenth %d of the interval has %d of %d clients", i, n, clients)
		}
	}
}

// TestWindow: the first wait after the broker has closed a connection is drawn from the
// whole window; the next ones, and those after a line that broke, are not.
func TestWindow(t *testing.T) {
	cfg := Config{Addresses: []string{"a"}}.withDefaults()
	var spread atomic.Int64
	spread.Store(int64(20 * time.Second))
	p := newPacer(&cfg)
	p.spread = &spread
	p.ended(cfg.StableAfter, true)
	if d := p.backoff.next(0.75); d != 15*time.Second {
		t.Errorf("after the broker closed it: %v, want 15s", d)
	}
	if d := p.backoff.next(0.5); d > cfg.BackoffBase {
		t.Errorf("after an attempt that failed: %v, want up to %v", d, cfg.BackoffBase)
	}
	p.ended(cfg.StableAfter, false)
	if d := p.backoff.next(0.75); d != cfg.BackoffBase*3/4 {
		t.Errorf("after the line broke: %v, want %v", d, cfg.BackoffBase*3/4)
	}
	spread.Store(0)
	p.ended(cfg.StableAfter, true)
	if d := p.backoff.next(0.75); d != cfg.BackoffBase*3/4 {
		t.Errorf("without a window: %v, want %v", d, cfg.BackoffBase*3/4)
	}
}

func TestStableConnectionResetsTheBackoff(t *testing.T) {
	cfg := Config{Addresses: []string{"a"}}.withDefaults()
	p := newPacer(&cfg)
	for range 10 {
		p.backoff.next(0)
	}
	p.ended(cfg.StableAfter-1, false)
	if p.backoff.failures != 10 {
		t.Error("a connection that fell at once counts as a success")
	}
	p.ended(cfg.StableAfter, false)
	if p.backoff.failures != 0 {
		t.Error("a connection that stayed up does not reset")
	}
}
