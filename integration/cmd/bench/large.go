package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/integration/cmd/bench/proc"
)

// The largest fleet that one coordinator is to serve, and how its hosts live: each sends
// a lease every 30 s, and of one in ten a container changes each minute.
const (
	largeHosts = 10_000
	leaseEvery = 30 * time.Second
	changing   = 10
	liveFor    = time.Minute
	// comeBack is the window over which a coordinator has its hosts come back.
	comeBack = 20 * time.Second
)

// large is what is measured with ten thousand hosts.
type large struct{ *bench }

func (b large) measure(ctx context.Context) error {
	for _, step := range []func(context.Context) error{b.live, b.leases, b.storms} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leases measures what of one processor a coordinator takes while each of its hosts holds
// unique work and sends leases, a third of what a grant is good for apart, and nothing else:
// each has told what it has before, or the coordinator would ask for that every 10 s. The
// floor is what the same hosts take of a program that checks and answers leases, and does
// nothing else.
func (b large) leases(ctx context.Context) error {
	holds := func(f *fleet) { f.unique = true }
	return thousand(b).ofMany(ctx, largeHosts, holds, func(f *fleet, s *swarmProcess) error {
		fmt.Fprintln(b.talk, "measuring lease_cost_pct")
		cost, err := s.atRest(f.coordinator, "work", "beat 1")
		if err != nil {
			return err
		}
		address, err := freeAddress()
		if err != nil {
			return err
		}
		bare, err := f.spawn("barelease", "barelease", address, f.path("coordinator/ca.pem"), f.path("swarm.json"))
		if err != nil {
			return err
		}
		if err := until(ctx, "barelease listens", func() bool {
			c, err := net.Dial("tcp", address)
			return err == nil && c.Close() == nil
		}); err != nil {
			return err
		}
		floor, err := s.atRest(bare.Process.Pid, "at "+address, "work")
		if err != nil {
			return fmt.Errorf("measuring the floor of lease_cost_pct: %w", err)
		}
		b.report.figures = append(b.report.figures, row{name: "lease_cost_pct", unit: "%", target: 10, floor: func(floors) float64 { return floor }}.figure(cost, floors{}))
		return nil
	})
}

// atRest has the swarm do what some lines say, and then send leases alone. It returns what
// percentage of one processor a process takes meanwhile.
func (s *swarmProcess) atRest(pid int, first ...string) (float64, error) {
	for _, line := range append(first, "rest "+leaseEvery.String()) {
		if _, err := s.say(line); err != nil {
			return 0, err
		}
	}
	before, _, err := proc.CPU(pid)
	if err != nil {
		return 0, err
	}
	if _, err := s.say("rest " + liveFor.String()); err != nil {
		return 0, err
	}
	after, _, err := proc.CPU(pid)
	return (after - before) / ms(liveFor) * 100, err
}

// live measures what a coordinator takes while its hosts live, and how long a change takes
// until the coordinator holds it durably. The processor time is a share of all processors;
// the memory is that at the end.
func (b large) live(ctx context.Context) error {
	return thousand(b).ofMany(ctx, largeHosts, asIs, func(f *fleet, s *swarmProcess) error {
		fmt.Fprintln(b.talk, "measuring hosts10k_cpu_pct")
		for _, line := range []string{"work", "beat 1"} {
			if _, err := s.say(line); err != nil {
				return err
			}
		}
		// Each host has its own moment for its lease from the first time on.
		if _, err := s.say("live " + leaseEvery.String()); err != nil {
			return err
		}
		before, _, err := proc.CPU(f.coordinator)
		if err != nil {
			return err
		}
		p99, err := s.say("live " + liveFor.String())
		if err != nil {
			return err
		}
		after, _, err := proc.CPU(f.coordinator)
		if err != nil {
			return err
		}
		memory, err := proc.RSS(f.coordinator)
		if err != nil {
			return err
		}
		b.add("hosts10k_rss_mb", memory, 900)
		b.report.figures = append(b.report.figures,
			row{name: "hosts10k_cpu_pct", unit: "%", target: 15}.figure((after-before)/ms(liveFor)/float64(runtime.NumCPU())*100, floors{}),
			row{name: "hosts10k_apply_p99_ms", unit: "ms", target: 50}.figure(p99*1000, floors{}))
		return nil
	})
}

// storms measures how long it takes until each host has its answer: when all come back at
// once, and when they come back over the window. API answers are timed meanwhile.
func (b large) storms(ctx context.Context) error {
	return b.stormOf(ctx, largeHosts, func(f *fleet, s *swarmProcess) error {
		p, err := newProbe(f.url(), f.ca(), f.token)
		if err != nil {
			return err
		}
		defer p.client.CloseIdleConnections()
		fmt.Fprintln(b.talk, "measuring storm10k_at_once_s")
		var answers []float64
		looks, offline := 0, 0.0 // how many hosts were taken for offline at most
		storm := func(window time.Duration) (seconds float64, err error) {
			asking, stop := context.WithCancel(ctx)
			var g errgroup.Group
			g.Go(func() error {
				for pause(asking, 50*time.Millisecond) == nil {
					begin := time.Now()
					if _, err := p.call(ctx, http.MethodGet, "/v1/hosts?limit=100", nil); err != nil {
						return err
					}
					if answers = append(answers, ms(time.Since(begin))); len(answers)%40 != 0 {
						continue
					}
					page, err := p.call(ctx, http.MethodGet, "/metrics", nil)
					if err != nil {
						return err
					}
					n, err := metric(string(page), `hostler_coordinator_hosts{connectivity="offline"}`)
					if err != nil {
						return err
					}
					looks, offline = looks+1, max(offline, n)
				}
				return nil
			})
			seconds, err = s.say("connect " + window.String())
			stop()
			if failed := g.Wait(); err == nil {
				err = failed
			}
			return seconds, err
		}
		atOnce, err := storm(0)
		if err != nil {
			return err
		}
		if err := pause(ctx, settle); err != nil {
			return err
		}
		spread, err := storm(comeBack)
		if err != nil {
			return err
		}
		f10k, err := b.calibrate(ctx)
		if err != nil {
			return err
		}
		floor := func(f floors) float64 { return f.storm(largeHosts) }
		b.report.figures = append(b.report.figures,
			row{name: "storm10k_at_once_s", unit: "s", target: 10, floor: floor}.figure(atOnce, f10k),
			row{name: "storm10k_online_s", unit: "s", target: 30, floor: func(f floors) float64 { return max(comeBack.Seconds(), floor(f)) }}.figure(spread, f10k),
			row{name: "storm10k_api_p99_ms", unit: "ms", target: 500}.figure(percentile(answers, 99), floors{}))
		b.report.notes = append(b.report.notes, fmt.Sprintf("storm10k: in %d looks while all came back, %s of %d hosts were called offline at most.", looks, number(offline), largeHosts))
		return nil
	})
}

// live has all workers live as hosts do for a time, and returns how long the slowest of a
// hundred changes took until its receipt came.
func (s *swarm) live(ctx context.Context, last time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, last)
	defer cancel()
	g, working := errgroup.WithContext(ctx)
	var mu sync.Mutex
	var took []float64
	g.Go(func() error {
		return s.inTurn(working, leaseEvery, 1, func(w *worker) error { return w.lease() })
	})
	g.Go(func() error {
		return s.inTurn(working, time.Minute, changing, func(w *worker) error {
			g.Go(func() error {
				begin := time.Now()
				if err := w.changeOnce(working); err != nil && working.Err() == nil {
					return fmt.Errorf("a change of %s: %w", w.ID, err)
				} // what is not receipted when the time is over took at least so long
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(begin).Seconds())
				return nil
			})
			return nil
		})
	})
	if err := g.Wait(); err != nil {
		return 0, err
	}
	if len(took) == 0 {
		return 0, fmt.Errorf("no change was receipted within %s", last)
	}
	return time.Duration(percentile(took, 99) * float64(time.Second)), nil
}

// rest has all workers send leases, and nothing else, for a time.
func (s *swarm) rest(ctx context.Context, last time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, last)
	defer cancel()
	return last, s.inTurn(ctx, leaseEvery, 1, func(w *worker) error { return w.lease() })
}

// inTurn does something with each nth worker once in a period, evenly spread over it,
// until ctx ends.
func (s *swarm) inTurn(ctx context.Context, period time.Duration, nth int, do func(*worker) error) error {
	count := len(s.workers) / nth
	begin := time.Now()
	for i := 0; ; i++ {
		at := begin.Add(period * time.Duration(i/count)).Add(period * time.Duration(i%count) / time.Duration(count))
		if wait := time.Until(at); wait > 0 && pause(ctx, wait) != nil || ctx.Err() != nil {
			return nil
		}
		if err := do(s.workers[i%count*nth]); err != nil {
			return err
		}
	}
}
