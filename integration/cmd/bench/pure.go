package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/sim"
	"github.com/hostler-io/hostler/unique"
)

// The fleet that is placed: hosts, and the workloads of each.
const (
	placedHosts = 10_000
	placedEach  = 20
)

// inside is what is measured in the process of the bench itself.
type inside struct{ *bench }

// middle measures rows that nothing of the fleet has a part in, three times, and takes the
// median of each.
func (b inside) middle(rows []row, once func() ([]float64, error)) error {
	fmt.Fprintln(b.talk, "measuring", rows[0].name)
	all := make([][]float64, len(rows))
	for range rounds {
		values, err := once()
		if err != nil {
			return fmt.Errorf("measuring %s: %w", rows[0].name, err)
		}
		for i, v := range values {
			all[i] = append(all[i], v)
		}
	}
	for i, r := range rows {
		b.report.figures = append(b.report.figures, r.figure(percentile(all[i], 50), floors{}))
	}
	return nil
}

// places measures what package placement takes for a fleet of ten thousand hosts: for all
// its workloads from nothing, and for those of one host that is lost.
func (b inside) places(context.Context) error {
	return b.middle([]row{{name: "placement_10k_s", unit: "s", target: 1}, {name: "placement_loss_s", unit: "s", target: 0.05}}, func() ([]float64, error) {
		hosts, loads := placedFleet()
		begin := time.Now()
		placed := placement.Place(hosts, loads, placement.Spread)
		fresh := time.Since(begin)
		if err := allPlaced(placed, len(loads), ""); err != nil {
			return nil, err
		}
		hosts, loads = lostHost(hosts, loads)
		begin = time.Now()
		placed = placement.Place(hosts, loads, placement.Spread)
		loss := time.Since(begin)
		return []float64{fresh.Seconds(), loss.Seconds()}, allPlaced(placed, len(loads), hosts[0].Name)
	})
}

// placedFleet is hosts with room for all workloads, and workloads that have no host yet.
func placedFleet() (hosts []placement.Host, loads []placement.Workload) {
	for i := range placedHosts {
		hosts = append(hosts, placement.Host{Name: fmt.Sprintf("h%05d", i), Has: placement.Size{CPU: 64_000, Memory: 256 << 30}})
		for j := range placedEach {
			loads = append(loads, placement.Workload{Name: fmt.Sprintf("w%05d-%02d", i, j), Size: placement.Size{CPU: 1000, Memory: 4 << 30}})
		}
	}
	return hosts, loads
}

// lostHost is the fleet when each host has its workloads and the first host is lost; with
// the workloads that the first host had, which alone are to be placed.
func lostHost(hosts []placement.Host, loads []placement.Workload) ([]placement.Host, []placement.Workload) {
	for i := range hosts[1:] {
		h := &hosts[1+i]
		for _, w := range loads[(1+i)*placedEach : (2+i)*placedEach] {
			h.Has = placement.Size{CPU: h.Has.CPU - w.Size.CPU, Memory: h.Has.Memory - w.Size.Memory}
			h.Load++
		}
	}
	loads = loads[:placedEach]
	for i := range loads {
		loads[i].On = hosts[0].Name
	}
	hosts[0].Closed, hosts[0].Empties = "it is lost", true
	return hosts, loads
}

// allPlaced fails unless n workloads have a host, and none has the lost host.
func allPlaced(placed []placement.Placed, n int, lost string) error {
	if len(placed) != n {
		return fmt.Errorf("%d workloads of %d are in the plan", len(placed), n)
	}
	for _, p := range placed {
		if p.To == "" || p.To == lost {
			return fmt.Errorf("workload %s is to run on host %q: %s", p.Workload, p.To, p.Why)
		}
	}
	return nil
}

// The fleet that is played: hosts with the default times. Some hold a unique workload, and
// one host loses its power.
const (
	playedHosts = 100_000
	playedLoads = 50
	playedTime  = 3 * time.Minute
)

// plays measures how many hours of hosts package sim plays in a second. It has no goal: the
// note tells what bounds it, which is one processor, that plays event after event.
func (b inside) plays(context.Context) error {
	w := sim.World{Seed: 1, Timing: unique.Default(), Min: unique.FenceReboot, Latency: 100 * time.Millisecond, Until: playedTime}
	for i := range playedHosts {
		w.Hosts = append(w.Hosts, sim.Host{Name: fmt.Sprintf("h%06d", i), Has: placement.Size{CPU: 8000, Memory: 8 << 30}, Fence: unique.FenceReboot})
	}
	for i := range playedLoads {
		w.Workloads = append(w.Workloads, sim.Workload{Name: fmt.Sprintf("w%02d", i), On: w.Hosts[i].Name, Size: placement.Size{CPU: 500, Memory: 256 << 20}})
	}
	w.Faults = []sim.Fault{{At: 10 * time.Second, Kind: sim.PowerOff, Host: w.Hosts[0].Name, For: time.Hour}}
	var events, used []float64
	if err := b.middle([]row{{name: "sim_host_hours_per_s", unit: perSecond}}, func() ([]float64, error) {
		before, err := spent()
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		got := sim.Run(w)
		took := time.Since(begin)
		after, err := spent()
		if err != nil {
			return nil, err
		}
		if len(got.Violations) > 0 || len(got.Stopped) > 0 || got.Takeovers != 1 {
			err = errors.Join(err, fmt.Errorf("%d takeovers; violations %v; stopped %v", got.Takeovers, got.Violations, got.Stopped))
		}
		events, used = append(events, float64(got.Events)/took.Seconds()), append(used, (after-before).Seconds()/took.Seconds())
		return []float64{playedHosts * playedTime.Hours() / took.Seconds()}, err
	}); err != nil {
		return err
	}
	b.report.notes = append(b.report.notes, fmt.Sprintf("sim_host_hours_per_s: %d hosts and %d workloads for %s of their time; %s events a second, by %s processors.",
		playedHosts, playedLoads, playedTime, number(percentile(events, 50)), number(percentile(used, 50))))
	return b.schedules()
}

// chances is how many schedules are played; their time is multiplied by tenfold.
const chances, tenfold = 10_000, 10

// schedules measures how long 100,000 schedules of faults take on all processors, from the
// time of a tenth of them.
func (b inside) schedules() error {
	return b.middle([]row{{name: "sim_100k_schedules_s", unit: "s", target: 60}}, func() ([]float64, error) {
		var next atomic.Uint64
		var bad error
		var mu sync.Mutex
		var workers sync.WaitGroup
		begin := time.Now()
		for range runtime.GOMAXPROCS(0) {
			workers.Go(func() {
				for seed := next.Add(1); seed <= chances; seed = next.Add(1) {
					if got := sim.Run(sim.Schedule(seed)); len(got.Violations) > 0 {
						mu.Lock()
						bad = fmt.Errorf("schedule %d: %v", seed, got.Violations)
						mu.Unlock()
					}
				}
			})
		}
		workers.Wait()
		return []float64{tenfold * time.Since(begin).Seconds()}, bad
	})
}
