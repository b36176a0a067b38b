//go:build integration && hostlertest

package integration

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// faultKind is something that happens to a host or to the coordinator.
type faultKind string

// The faults. All but the last three happen to a host.
const (
	agentStops      faultKind = "the agent is stopped by SIGSTOP"
	agentDies       faultKind = "the agent is killed"
	agentThenGuard  faultKind = "the agent is killed, then the guard"
	guardThenAgent  faultKind = "the guard is killed, then the agent"
	secondDies      faultKind = "the second process of the guard is killed"
	allDie          faultKind = "the agent and all its children are killed at once"
	packetsDrop     faultKind = "packets are dropped in both directions"
	sentDrop        faultKind = "packets from the host are dropped"
	receivedDrop    faultKind = "packets to the host are dropped"
	dateSteps       faultKind = "the date steps"
	drained         faultKind = "the host is drained"
	coordinatorDies faultKind = "the coordinator is killed"
	otherDateSteps  faultKind = "the date of the coordinator steps"
)

// head is where faults of the coordinator happen.
const head = "coordinator"

// together is how many faults there are at most at one time: one host is free of them.
const together = 2

// calmAfter is how many faults come between two times without any.
const calmAfter = 10

// fault is one of a plan.
type fault struct {
	kind  faultKind
	where string
	// from and to are its time in the plan, which the machine may be behind.
	from, to time.Duration
	pause    time.Duration // between the two parts of one that has two
	date     time.Duration // by which the date steps
}

// moment is a moment of a plan: a fault begins or ends; without a fault all are over, and
// the containers must run.
type moment struct {
	at    time.Duration
	fault *fault
	ends  bool
}

// faultPlan makes n faults of a seed, for hosts that lose what they hold after the
// takeover time.
func faultPlan(seed uint64, n int, hosts []string, takeover time.Duration) (steps []moment) {
	random := rand.New(rand.NewPCG(seed, 4))
	var now time.Duration
	var under []*fault
	for i := range n {
		f := &fault{kind: anyKind(random)}
		for {
			under = slices.DeleteFunc(under, func(o *fault) bool { return o.to <= now })
			if f.where = anywhere(random, f.kind, hosts, under); f.where != "" {
				break
			}
			now += 500 * time.Millisecond
		}
		f.from = now
		f.to = now + lasting(random, f.kind, takeover)
		f.pause = time.Duration(random.IntN(1500)) * time.Millisecond
		f.date = time.Duration(random.Int64N(int64(2*decade))) - decade
		under = append(under, f)
		steps = append(steps, moment{f.from, f, false}, moment{f.to, f, true})
		now += time.Duration(random.IntN(2500)) * time.Millisecond
		if (i+1)%calmAfter == 0 || i == n-1 {
			for _, o := range under {
				now = max(now, o.to)
			}
			steps = append(steps, moment{at: now})
		}
	}
	slices.SortStableFunc(steps, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return steps
}

// anyKind chooses a fault. Those of the coordinator are rare: after each of them nothing
// is taken from a host for a takeover time.
func anyKind(random *rand.Rand) faultKind {
	of := []faultKind{
		agentStops, agentStops, agentDies, agentDies, agentThenGuard, agentThenGuard, guardThenAgent, guardThenAgent, secondDies, allDie, allDie,
		packetsDrop, packetsDrop, packetsDrop, sentDrop, receivedDrop, dateSteps, drained, coordinatorDies, coordinatorDies, otherDateSteps,
	}
	return of[random.IntN(len(of))]
}

// anywhere chooses where a fault can happen beside others, or nowhere. A drain is ordered
// of the coordinator, so that does not fail at the same time.
func anywhere(random *rand.Rand, kind faultKind, hosts []string, under []*fault) string {
	if len(under) >= together {
		return ""
	}
	at := func(where string) bool {
		return slices.ContainsFunc(under, func(o *fault) bool { return o.where == where })
	}
	switch kind {
	case coordinatorDies, otherDateSteps:
		if at(head) || slices.ContainsFunc(under, func(o *fault) bool { return o.kind == drained }) {
			return ""
		}
		return head
	case drained:
		if at(head) {
			return ""
		}
	}
	free := slices.DeleteFunc(slices.Clone(hosts), at)
	return free[random.IntN(len(free))]
}

// lasting chooses how long a fault lasts: less than a takeover takes, about as long, or
// longer.
func lasting(random *rand.Rand, kind faultKind, takeover time.Duration) time.Duration {
	percent := func(from, to int64) time.Duration {
		return takeover * time.Duration(from+random.Int64N(to-from)) / 100
	}
	switch kind {
	case secondDies, dateSteps, otherDateSteps:
		return percent(5, 40)
	case coordinatorDies:
		return percent(5, 130)
	}
	switch random.IntN(3) {
	case 0:
		return percent(5, 80)
	case 1:
		return percent(90, 110)
	}
	return percent(120, 200)
}

// TestFaultPlan: a seed gives one plan, whose faults leave one host in peace, hit no place
// twice at a time, and are all over where the containers must run.
func TestFaultPlan(t *testing.T) {
	hosts := []string{"edge-01", "edge-02", "edge-03"}
	kinds := map[faultKind]int{}
	for seed := range uint64(50) {
		steps := faultPlan(seed, 41, hosts, 10*time.Second)
		again := faultPlan(seed, 41, hosts, 10*time.Second)
		under, calm := map[string]faultKind{}, 0
		for i, s := range steps {
			switch {
			case s.at != again[i].at || (s.fault == nil) != (again[i].fault == nil) || s.fault != nil && *s.fault != *again[i].fault:
				t.Fatalf("seed %d gives two plans: %+v, and %+v", seed, s, again[i])
			case s.fault == nil:
				if calm++; len(under) != 0 {
					t.Errorf("seed %d: there are faults when all are over: %v", seed, under)
				}
			case s.ends:
				delete(under, s.fault.where)
			case under[s.fault.where] != "":
				t.Errorf("seed %d: %s has %q and %q", seed, s.fault.where, under[s.fault.where], s.fault.kind)
			default:
				under[s.fault.where] = s.fault.kind
				kinds[s.fault.kind]++
			}
			if len(under) > together {
				t.Errorf("seed %d: %v at once", seed, under)
			}
		}
		if calm != 5 {
			t.Errorf("seed %d: the containers must run %d times, want 5", seed, calm)
		}
	}
	if len(kinds) != 13 {
		t.Errorf("of 13 faults there are %v", kinds)
	}
}
