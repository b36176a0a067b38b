package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/unique"
)

// brief are times as short as the inequality lets them be, so that a schedule is brief.
func brief() unique.Timing {
	return unique.Timing{TTL: 9 * time.Second, Kill: 1500 * time.Millisecond, DriftPermille: 10, Margin: 500 * time.Millisecond}
}

// plain draws a world: hosts with clocks that drift, workloads, and at least three
// faults. Every fault is over before the end.
func plain(seed uint64) World {
	r := rand.New(rand.NewPCG(seed, 2))
	w := World{Seed: seed, Timing: brief(), Min: unique.FenceReboot, Loss: r.IntN(100), Latency: time.Duration(10+r.IntN(300)) * time.Millisecond, Until: 150 * time.Second, Calm: 20 * time.Second}
	for i := range 5 + r.IntN(3) {
		h := Host{Name: fmt.Sprintf("h%d", i), Has: placement.Size{CPU: 8000, Memory: 8 << 30}, Fence: unique.FenceReboot, DriftPermille: r.Int64N(21) - 10}
		if r.IntN(3) == 0 { // a slow link beside fast ones
			h.Latency = time.Duration(1000+r.IntN(4000)) * time.Millisecond
		}
		switch r.IntN(6) {
		case 0:
			h.Fence = unique.FenceNone
		case 1:
			h.Pausable = true
		case 2:
			h.Fence = unique.FenceGuard
		}
		w.Hosts = append(w.Hosts, h)
	}
	for i := range 20 {
		x := Workload{Name: fmt.Sprintf("w%02d", i), On: w.Hosts[r.IntN(len(w.Hosts))].Name, Size: placement.Size{CPU: 500, Memory: 256 << 20}, Keeps: r.IntN(10) == 0}
		if r.IntN(10) == 0 {
			x.Data = unique.DataLocal
		}
		w.Workloads = append(w.Workloads, x)
	}
	kinds := []FaultKind{Cut, Cut, PowerOff, StopAgent, KillAgent, Unkillable, OldDisk, Restart, CutAll, Drain, Maintenance, Pause}
	for range 3 + r.IntN(4) {
		f := Fault{At: time.Duration(15_000+r.IntN(60_000)) * time.Millisecond, Kind: kinds[r.IntN(len(kinds))], Host: w.Hosts[r.IntN(len(w.Hosts))].Name, For: time.Duration(500+r.IntN(40_000)) * time.Millisecond}
		if f.Kind == Pause { // no lease survives that of a host that is not declared
			i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Pausable })
			if i < 0 {
				f.Kind = Cut
			} else {
				f.Host = w.Hosts[i].Name
			}
		}
		w.Faults = append(w.Faults, f)
	}
	for range r.IntN(4) { // often in the middle of a fault
		w.Faults = append(w.Faults, Fault{At: time.Duration(10_000+r.IntN(80_000)) * time.Millisecond, Kind: Move, Workload: fmt.Sprintf("w%02d", r.IntN(20)), Host: w.Hosts[r.IntN(len(w.Hosts))].Name})
	}
	return w
}

// Schedule draws a world by chance: at least five hosts with clocks that drift, twenty
// workloads, and at least three faults. Some workloads start after others, and every fault
// is over before the end. The same seed draws the same world.
func Schedule(seed uint64) World {
	w := plain(seed)
	r := rand.New(rand.NewPCG(seed, 4))
	for i := range w.Workloads[1:] {
		if r.IntN(4) == 0 {
			w.Workloads[i+1].After = []string{w.Workloads[r.IntN(i+1)].Name}
		}
	}
	return w
}

// SingleSchedule draws a world in which one thing goes wrong, for a while or for good, and
// everything can run on every host. So everything is to run again in time.
func SingleSchedule(seed uint64) World {
	w := plain(seed)
	r := rand.New(rand.NewPCG(seed, 5))
	w.Loss = 0
	for i := range w.Hosts {
		w.Hosts[i].Fence, w.Hosts[i].Pausable = unique.FenceReboot, false
	}
	for i := range w.Workloads {
		w.Workloads[i].Size.CPU, w.Workloads[i].Keeps, w.Workloads[i].Data = 300, false, ""
	}
	kinds := []FaultKind{Cut, PowerOff, StopAgent, KillAgent, CutAll, Restart}
	f := Fault{At: time.Duration(15_000+r.IntN(60_000)) * time.Millisecond, Kind: kinds[r.IntN(len(kinds))], Host: w.Hosts[r.IntN(len(w.Hosts))].Name, For: time.Duration(500+r.IntN(40_000)) * time.Millisecond}
	if r.IntN(2) == 0 && f.Kind != CutAll && f.Kind != Restart {
		f.For = 0 // it does not come back
	}
	w.Faults = []Fault{f}
	return w
}

// FencedSchedule draws a world without an order of starts, with devices for all hosts but the first, and with their faults, one
// at a time of each device: no code survives one that lies and is mixed up at once.
func FencedSchedule(seed uint64) World {
	w := plain(seed)
	r := rand.New(rand.NewPCG(seed, 3))
	w.Fencing, w.Witness = fence.DefaultPolicy(), true
	w.Fencing.Grace, w.Fencing.Reconnect, w.Fencing.PerHour = time.Duration(r.IntN(1000))*time.Millisecond, 3*time.Second, 10
	w.Fencing.Order = []fence.Order{fence.Auto, fence.LeaseFirst, fence.DeviceFirst}[r.IntN(3)]
	with := func(name string, hosts ...string) {
		d := Device{Name: name, Hosts: hosts, Level: 1, Tries: 2, Try: time.Duration(4+r.IntN(6)) * time.Second, Delay: time.Duration(r.IntN(2)*r.IntN(6)) * time.Second}
		f := Fault{At: time.Duration(10_000+r.IntN(60_000)) * time.Millisecond, Host: name, For: time.Duration(5_000+r.IntN(40_000)) * time.Millisecond}
		kinds := []FaultKind{DeviceHangs, DeviceLies, DeviceMixed, ""}
		if f.Kind = kinds[r.IntN(len(kinds))]; f.Kind != "" {
			w.Faults = append(w.Faults, f)
		}
		// The lies of one that cannot be asked are not found.
		d.NoStatus = f.Kind != DeviceLies && r.IntN(4) == 0
		w.Devices = append(w.Devices, d)
	}
	var rack []string
	for i := range w.Hosts[1:] {
		h := &w.Hosts[i+1]
		if h.Pinned = r.IntN(3) == 0; i%2 == 0 {
			rack = append(rack, h.Name) // one device for several, which keep it busy for one another
			continue
		}
		with("of-"+h.Name, h.Name)
	}
	with("rack", rack...)
	for i := range w.Hosts { // hosts of several sites are fenced at once, and may want one device
		w.Hosts[i].Site = []string{"", "north"}[r.IntN(2)]
	}
	return w
}
