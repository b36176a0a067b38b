package mqtt

import (
	"math/rand/v2"
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

func TestStableConnectionResetsTheBackoff(t *testing.T) {
	cfg := Config{Addresses: []string{"a"}}.withDefaults()
	p := newPacer(&cfg)
	for range 10 {
		p.backoff.next(0)
	}
	p.ended(cfg.StableAfter - 1)
	if p.backoff.failures != 10 {
		t.Error("a connection that fell at once counts as a success")
	}
	p.ended(cfg.StableAfter)
	if p.backoff.failures != 0 {
		t.Error("a connection that stayed up does not reset")
	}
}
