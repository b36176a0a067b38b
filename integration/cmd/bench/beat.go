package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/integration/cmd/bench/proc"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/beat"
	"github.com/hostler-io/hostler/protocol/figures"
)

// beatPage is how many containers share a page of a full heartbeat here.
const beatPage = 40

// deltas measures what one change among fifty containers takes on the wire, as a share of
// the full heartbeat: sealed, each with its envelope.
func (b *bench) deltas(context.Context) error {
	id, err := certs.Generate("hostler bench", time.Now())
	if err != nil {
		return err
	}
	s := beatState(50)
	base := beat.Sum(s)
	size := func(h protocol.Heartbeat) (int, error) {
		h.Header = protocol.Header{Type: protocol.TypeHeartbeat, Fleet: protocol.FleetID{1}, From: protocol.HostParty(hostName), To: protocol.Coordinator, Ring: 1,
			Seq: protocol.Seq{Inc: 863358410519, Conn: 1, K: 12}, Chal: protocol.Nonce{1}}
		if h.Base == 0 && h.Part == 1 {
			h.Audit = protocol.Position{Store: protocol.StoreID{1}, Stream: protocol.StreamAudit, N: 60}
		}
		body, err := json.Marshal(h)
		if err != nil {
			return 0, err
		}
		raw, err := protocol.Seal(id, body, nil)
		return len(raw), err
	}
	first, err := size(protocol.Heartbeat{AsOf: 1, Part: 1, Parts: 2, Digest: base.Digest(), Host: &s.Host, Containers: s.Containers[:beatPage]})
	if err != nil {
		return err
	}
	second, err := size(protocol.Heartbeat{AsOf: 1, Part: 2, Parts: 2, Containers: s.Containers[beatPage:]})
	if err != nil {
		return err
	}
	s.Containers[7].State = "stopped"
	d := beat.Make(base, beat.Sum(s), s)
	change, err := size(protocol.Heartbeat{AsOf: 2, Base: 1, Part: 1, Parts: 1, Digest: d.Digest, Figures: &d.Figures, Containers: d.Containers})
	if err != nil {
		return err
	}
	b.report.figures = append(b.report.figures, figure{Name: "delta_bytes_ratio", Value: float64(change) / float64(first+second), Target: 0.04})
	fmt.Fprintf(b.talk, "a change has %d bytes, the full heartbeat %d\n", change, first+second)
	return nil
}

// beatState is what a host with containers tells.
func beatState(containers int) beat.State {
	s := beat.State{Host: protocol.HostInfo{
		Hostname: hostName, Arch: "amd64", InstanceType: "host", Version: "1.0.0", Kernel: "6.1.0-44-amd64", CPUs: 8, MemoryBytes: 64 << 30, DiskBytes: 1 << 40,
		Boot: "5f0a1c9e-6c1b-4f0e-9a55-3c2f0f7d1b6a-1", Figures: figures.Figures{UptimeMS: 4298044, ClockMS: 1795489097966, MemoryFree: 24211496960, DiskFree: 70445776896, Load1000: 1340},
	}}
	for n := range containers {
		s.Containers = append(s.Containers, protocol.Container{
			CTID: protocol.NewCTID(1795489097966, [10]byte{byte(n)}), Name: fmt.Sprintf("web-%02d", n), Runtime: "lxc", State: "running", Intended: "running",
			Class: "pinned", Offline: "keep", Addresses: []string{fmt.Sprintf("10.0.3.%d/24", n+2)}, Labels: []string{"app=shop", "tier=web"},
		})
	}
	return s
}

// The heartbeats that are sent: how many a host sends one after another, and how many
// containers each tells of.
const (
	beatsEach      = 5
	beatContainers = 10
)

// heartbeats measures how many full heartbeats a second a coordinator makes durable that
// come from a thousand hosts at once. Each host waits for the receipt of one before it
// sends the next. What they sign is signed meanwhile, by the other process.
func (b thousand) heartbeats(ctx context.Context) error {
	return b.ofMany(ctx, manyHosts, asIs, func(f *fleet, s *swarmProcess) error {
		if _, err := s.say("work"); err != nil {
			return err
		}
		const n = manyHosts * beatsEach
		var used []float64
		if err := b.best(ctx, []row{{name: "heartbeats_per_s", unit: perSecond}}, func() ([]float64, error) {
			before, _, err := proc.CPU(f.coordinator)
			if err != nil {
				return nil, err
			}
			seconds, err := s.say(fmt.Sprintf("beat %d", beatsEach))
			if err != nil {
				return nil, err
			}
			after, _, err := proc.CPU(f.coordinator)
			used = append(used, (after-before)/n)
			return []float64{n / seconds}, err
		}); err != nil {
			return err
		}
		b.report.notes = append(b.report.notes, fmt.Sprintf("heartbeats_per_s: of %d containers each, the best of %d times %d; %s ms of processor time each in the coordinator, the median.",
			beatContainers, rounds, n, number(percentile(used, 50))))
		return nil
	})
}

// beats has all workers send heartbeats, until the last one has the receipt of its last.
func (s *swarm) beats(ctx context.Context, each int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, swarmPatience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for _, w := range s.workers {
		g.Go(func() error {
			for range each {
				if err := w.beatOnce(ctx); err != nil {
					return fmt.Errorf("a heartbeat of %s: %w", w.ID, err)
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return time.Since(begin), err
}

// tells is what a worker tells in its newest heartbeat. The caller holds the lock.
func (w *worker) tells() beat.State {
	s := beatState(beatContainers)
	s.Host.Hostname, s.Host.Load1000 = w.ID, int64(w.told)
	if w.made%2 == 1 {
		s.Containers[0].State = "stopped"
	}
	return s
}

// beatOnce sends a full heartbeat and waits for its receipt.
func (w *worker) beatOnce(ctx context.Context) error {
	return w.tell(ctx, func() protocol.Heartbeat {
		w.told++
		s := w.tells()
		return protocol.Heartbeat{Digest: beat.Sum(s).Digest(), Host: &s.Host, Containers: s.Containers}
	})
}

// changeOnce sends a heartbeat that tells of one change since the one before, and waits
// for its receipt.
func (w *worker) changeOnce(ctx context.Context) error {
	return w.tell(ctx, func() protocol.Heartbeat {
		base, before := w.told, beat.Sum(w.tells())
		w.told, w.made = w.told+1, w.made+1
		s := w.tells()
		d := beat.Make(before, beat.Sum(s), s)
		return protocol.Heartbeat{Base: base, Digest: d.Digest, Figures: &d.Figures, Containers: d.Containers}
	})
}

// tell sends the heartbeat of the number that next comes to, and waits for its receipt.
func (w *worker) tell(ctx context.Context, next func() protocol.Heartbeat) error {
	w.mu.Lock()
	h := next()
	h.AsOf, h.Part, h.Parts = w.told, 1, 1
	err := w.state(protocol.ChannelHeartbeat, protocol.TypeHeartbeat, func(hd protocol.Header) any {
		h.Header = hd
		return h
	})
	w.mu.Unlock()
	for err == nil {
		select {
		case durable := <-w.durable:
			if durable >= h.AsOf {
				return nil
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}
