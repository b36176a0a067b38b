//go:build integration && hostlertest

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

const (
	// crashHosts is how many hosts are killed at the same time; the last one
	// has containers.
	crashHosts = 4
	// crashRound is how many kills a fleet gets before it is judged and a new
	// one made, so that a seed that fails can be tried again soon.
	crashRound = 100
)

// TestRandomKills kills processes at random moments and points, under load. The
// number of kills is HOSTLER_KILLS, a few dozen if it is not set; HOSTLER_SEED
// repeats the choices of the round that printed it. The moments are the
// machine's.
func TestRandomKills(t *testing.T) {
	kills, seed := uint64(40), uint64(time.Now().UnixNano())
	for name, v := range map[string]*uint64{"HOSTLER_KILLS": &kills, "HOSTLER_SEED": &seed} {
		if s := os.Getenv(name); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			*v = n
		}
	}
	for done := uint64(0); done < kills; done += crashRound {
		n := min(crashRound, kills-done)
		t.Run(fmt.Sprintf("SEED=%d N=%d", seed, n), func(t *testing.T) { newFray(t, seed, int64(n)).run(t) })
		seed++
	}
}

// TestFoundSeeds repeats the rounds that have found something.
func TestFoundSeeds(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		n    int64
		what string
	}{
		{1, 30, "the choices with which the suite began"},
	} {
		t.Run(strconv.FormatUint(c.seed, 10), func(t *testing.T) {
			t.Parallel()
			t.Log(c.what)
			newFray(t, c.seed, c.n).run(t)
		})
	}
}

// fray is a wreck under load that is killed at random.
type fray struct {
	*wreck
	seed   uint64
	left   atomic.Int64  // kills that are still to be made
	enough chan struct{} // closed when none are
	// together is held to read by who kills one host, and to write by who kills
	// everything at once.
	together sync.RWMutex
	begun    time.Time
	made     counter // kills
}

func newFray(t testing.TB, seed uint64, kills int64) *fray {
	t.Helper()
	f := &fray{wreck: newWreck(t), seed: seed, enough: make(chan struct{}), begun: time.Now()}
	f.left.Store(kills)
	for i := range crashHosts {
		f.addLimb(t, fmt.Sprintf("edge-0%d", i+1), i == crashHosts-1)
	}
	return f
}

func (f *fray) run(t *testing.T) {
	t.Helper()
	var loads, killers sync.WaitGroup
	for i, l := range f.limbs {
		for lane := range 2 {
			loads.Go(func() { f.load(t, l, f.random(uint64(10*i+lane))) })
		}
		if l.bridge != "" {
			loads.Go(func() { f.containers(t, l) })
		}
		killers.Go(func() { f.killLimb(t, l, f.random(uint64(100+i))) })
	}
	killers.Go(func() { f.killHead(t, f.random(200)) })
	killers.Wait()
	took := time.Since(f.begun)
	close(f.enough)
	loads.Wait()
	f.judge(t)
	n := f.made.count()
	t.Logf("%d kills in %s, %.0f in a minute; %d actions acknowledged", n, took.Round(time.Second), float64(n)/took.Minutes(), len(f.history.Acked()))
}

// random is a source of choices that is not shared.
func (f *fray) random(lane uint64) *rand.Rand { return rand.New(rand.NewPCG(f.seed, lane)) }

func (f *fray) over() bool {
	select {
	case <-f.enough:
		return true
	default:
		return false
	}
}

// load asks for one thing after the other.
func (f *fray) load(t testing.TB, l *limb, r *rand.Rand) {
	for !f.over() && !t.Failed() {
		switch n := r.IntN(10); {
		case n < 2:
			f.end(t, l, f.pings(t, l))
		case n < 4:
			id := f.runs(t, l, "5")
			if r.IntN(2) == 0 {
				_, _ = f.see(t.Context(), id, "50ms") // it may be away
			}
			f.cancel(t, id)
			f.end(t, l, id)
		case n < 6:
			f.end(t, l, f.runs(t, l, "0.2"))
		default:
			f.end(t, l, f.runs(t, l, "0"))
		}
	}
}

// containers leads containers through their lives, and into them.
func (f *fray) containers(t testing.TB, l *limb) {
	for i := 0; !f.over() && !t.Failed(); i++ {
		f.cycle(t, l, fmt.Sprintf("%s-%d", filepath.Base(f.dir), i)) // control groups are the machine's
	}
}

func (l *limb) name() string { return l.host.name }

// progress waits until a host has ended so many more actions: a kill that falls
// into the silence that another one made finds nothing.
func (f *fray) progress(t testing.TB, l *limb, n int) {
	want := l.ended.count() + n
	until(t, &l.ended.change, l.name()+" ends actions", func() bool { return l.ended.count() >= want })
}

// take takes one of the kills that are left.
func (f *fray) take() bool { return f.left.Add(-1) >= 0 }

// limbPoints are the points that a host passes while it works.
func limbPoints(l *limb) []failpoint.Step {
	steps := []failpoint.Step{"A1", "A2", "A3", "A4", "A5", "A6", "A9", "A10", "S1", "S2", "S3", "S4", "S6", "S7", "F3"}
	if l.bridge != "" {
		steps = append(steps, "A7", "S5", "S8", "S9", "S10", "S11", "S12", "S14", "S15", "S16")
	}
	return steps
}

// headPoints are those of the coordinator.
func headPoints() []failpoint.Step {
	return []failpoint.Step{"C1", "C2", "C3", "C4", "C5", "C11", "C12", "C14", "C15", "F3"}
}

// pointPatience is how long an armed point waits for somebody to come by.
const pointPatience = 2 * time.Second

// killLimb kills what belongs to a host.
func (f *fray) killLimb(t testing.TB, l *limb, r *rand.Rand) {
	for !t.Failed() && f.take() {
		f.progress(t, l, r.IntN(4))
		f.together.RLock()
		for !f.killOne(t, l, r) { // nobody of that kind was there
		}
		l.revive(t)
		f.together.RUnlock()
		f.made.add()
	}
}

// killOne makes one choice, and reports whether anybody died of it.
func (f *fray) killOne(t testing.TB, l *limb, r *rand.Rand) bool {
	switch n := r.IntN(10); {
	case n < 4:
		steps := limbPoints(l)
		return f.killAt(t, l.victim, steps[r.IntN(len(steps))], r)
	case n < 6:
		return f.killStarted(t, l, r, "hostler-run", "hostler-lxc")
	case n < 7:
		f.killStarted(t, l, r, "hostler-run", "hostler-lxc")
		fallthrough
	default:
		p := l.process()
		p.signal(t, kill)
		p.code(t)
		return true
	}
}

// killAt arms a point, before or after the step, for one of its next hits.
func (f *fray) killAt(t testing.TB, v *victim, step failpoint.Step, r *rand.Rand) bool {
	point := step.Before()
	if r.IntN(2) == 0 {
		point = step.After()
	}
	v.arm(t, point, 1+r.IntN(3))
	return v.hit(t, point, pointPatience) != 0
}

// killStarted kills one of the processes that the host's agent has started.
func (f *fray) killStarted(t testing.TB, l *limb, r *rand.Rand, programs ...string) bool {
	found := l.started(programs...)
	all := pids(found)
	if len(all) == 0 {
		return false
	}
	pid := all[r.IntN(len(all))]
	if h, ok := hold(pid, func() bool { return l.started(programs...)[pid] == found[pid] }); ok {
		h.end()
	}
	return true
}

// killHead kills the coordinator, now and then with everything else.
func (f *fray) killHead(t testing.TB, r *rand.Rand) {
	for !t.Failed() && f.take() {
		for _, l := range f.limbs {
			f.progress(t, l, 2+r.IntN(5))
		}
		switch n := r.IntN(10); {
		case n < 2:
			f.killAll(t)
		case n < 6:
			steps := headPoints()
			for !f.killAt(t, f.head, steps[r.IntN(len(steps))], r) {
			}
		default:
			p := f.head.process()
			p.signal(t, kill)
			p.code(t)
		}
		f.head.revive(t)
		f.made.add()
	}
}

// killAll kills every process at once.
func (f *fray) killAll(t testing.TB) {
	f.together.Lock()
	defer f.together.Unlock()
	victims := []*victim{f.head}
	for _, l := range f.limbs {
		victims = append(victims, l.victim)
	}
	for _, v := range victims {
		v.process().signal(t, kill)
	}
	for _, l := range f.limbs {
		for _, pid := range pids(l.started("hostler-run", "hostler-lxc")) {
			_ = syscall.Kill(pid, kill) // it may have ended
		}
	}
	for _, v := range victims {
		v.process().code(t)
		v.revive(t)
	}
}

// cycle leads a container through its life, whatever becomes of each step: its
// helpers may be killed more often than a step is tried.
func (f *fray) cycle(t testing.TB, l *limb, name string) {
	id := newCTID()
	for _, s := range life(id, "busybox", name) {
		f.end(t, l, f.step(t, l, s))
	}
	for { // what is left must be destroyed in the end
		got := f.end(t, l, f.step(t, l, protocol.Spec{Kind: protocol.KindDestroy, Target: id, Args: &protocol.StopArgs{GraceMS: 100}}))
		if got.State == protocol.StateDone || got.Reason == protocol.ReasonTargetGone {
			return
		}
		if t.Failed() {
			return
		}
	}
}
