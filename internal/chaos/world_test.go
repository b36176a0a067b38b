package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the schedules")
	seeds     = flag.Uint64("seeds", 37, "number of schedules, a tenth of them with a backup that is restored")
)

// TestSchedules plays schedules of faults. Each seed is one.
func TestSchedules(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			play(t, seed, seed%10 == 0)
		})
	}
}

// TestRegressions plays the schedules that have found something.
func TestRegressions(t *testing.T) {
	for _, c := range []struct {
		seed    uint64
		backups bool
		found   string
	}{
		{20828, false, "a heartbeat that was lost was not repeated before something else changed"},
		{80, true, "without the question for what was accepted since the backup, it is not known"},
		{120, true, "the same, with containers"},
		{1050, true, "with numbers for what had not ended, it is sent once more"},
	} {
		t.Run(fmt.Sprint(c.seed), func(t *testing.T) {
			t.Parallel()
			t.Log(c.found)
			play(t, c.seed, c.backups)
		})
	}
}

// world is a fleet on a broker that is not to be trusted.
type world struct {
	t      *testing.T
	seed   uint64
	r      *rand.Rand // of the schedule
	plan   plan
	dir    string
	begun  time.Time
	dice   *dice
	ring   ring
	log    *slog.Logger
	broker *broker
	center *center
	hosts  []*host

	work    sync.WaitGroup // people who ask until they are answered
	mu      sync.Mutex
	asked   []asked
	leases  map[protocol.HostID]*leases
	settled bool
	backups bool // the coordinator's machine is lost once, and recovered from a backup
}

// asked is an action that somebody was promised.
type asked struct {
	id       protocol.ActionID
	host     *host
	spec     protocol.Spec
	followed *[]byte // its output as somebody read it who follows it; nil if nobody does
	cancel   bool    // somebody wants it to end
}

// plan is what a seed has in store, beside single steps.
type plan struct {
	length time.Duration
	harm   harm
	crowd  int // actions for one host, at the most: more than a window of its stream
}

// draw makes a plan.
func draw(r *rand.Rand) plan {
	p := plan{length: time.Minute + time.Duration(r.IntN(180))*time.Second}
	p.harm = harm{lose: r.IntN(50), double: r.IntN(40), late: r.IntN(50), spoil: r.IntN(30)}
	switch r.IntN(10) {
	case 0:
		p.harm.far = 1 + r.IntN(10)
	case 1, 2:
		p.harm.spare = true
	case 3:
		p.crowd = 300
	}
	return p
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), begun: time.Now(), dice: newDice(seed),
		ring: newRing("edge-1", "edge-2"), broker: newBroker(seed), leases: make(map[protocol.HostID]*leases)}
	level := slog.LevelError + 1
	if *seeds == 1 {
		level = slog.LevelDebug
	}
	w.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
	w.plan = draw(w.r)
	w.broker.watch = w.overhear
	store := storetest.NewMem(w.faults())
	w.center = &center{w: w, store: store, dir: t.TempDir()}
	for i, id := range []protocol.HostID{"edge-1", "edge-2"} {
		err := store.Update(t.Context(), func(tx core.Tx) error {
			return tx.Hosts.Put(core.Host{ID: id, State: core.HostApproved, Key: key(id).Key(), PublicKey: []byte{1}, ApprovedBy: "ann"})
		})
		if err != nil {
			t.Fatal(err)
		}
		w.leases[id] = &leases{sent: make(map[protocol.Seq]int64), granted: make(map[protocol.Seq]int64)}
		w.hosts = append(w.hosts, newHost(w, id, uint64(i)))
	}
	return w
}

// faults lets the store of the coordinator repeat transactions, as databases do.
func (w *world) faults() storetest.Faults {
	r := rand.New(rand.NewPCG(w.seed, 13))
	return storetest.Faults{Repeat: func() bool { return r.IntN(8) == 0 }}
}

// play plays one schedule and checks what has come of it.
func play(t *testing.T, seed uint64, backups bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		w.backups = backups
		defer func() {
			if t.Failed() {
				t.Logf("once more: go test ./internal/chaos -run Schedules -seed %d -seeds 1", seed)
			}
		}()
		w.through(w.schedule())
		w.end()
	})
}

// through goes through the steps of a schedule and checks what has come of it.
func (w *world) through(steps []step) {
	w.center.start()
	for _, h := range w.hosts {
		h.start()
	}
	w.pass(time.Second)
	w.broker.mu.Lock()
	w.broker.harm = w.plan.harm
	w.broker.mu.Unlock()
	for _, s := range steps {
		w.pass(time.Until(w.begun.Add(s.at)))
		w.log.Info("step", "at", s.at, "what", s.what)
		s.do()
	}
	w.pass(time.Until(w.begun.Add(w.plan.length)))
	w.calm()
	w.pass(Settled)
	w.work.Wait()
	w.settled = true
	w.check("when it has settled")
	if w.plan.harm.far > 0 && !w.t.Failed() {
		w.pass(farMax)
		w.check("after the last message arrived")
	}
}

// look is how often leases are looked at.
const look = 5 * time.Second

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	for d > 0 {
		hop := min(d, look)
		<-time.After(hop)
		d -= hop
		w.lookAtLeases()
	}
	synctest.Wait()
}

// calm ends the faults and brings everybody up.
func (w *world) calm() {
	w.log.Info("calm")
	w.broker.calm()
	for _, h := range w.hosts {
		h.lxc.SetFault(nil)
	}
	if w.center.coord == nil {
		w.center.start()
	}
	for _, h := range w.hosts {
		if h.agent == nil {
			h.start()
		}
	}
	w.cancelAgain()
}

// end takes everything down.
func (w *world) end() {
	w.center.end(false)
	for _, h := range w.hosts {
		h.end(false)
		h.machine.reboot()
		if err := h.lxc.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// step is one thing that happens at a time after the beginning.
type step struct {
	at   time.Duration
	what string
	do   func()
}

// schedule draws everything that happens.
func (w *world) schedule() []step {
	var all []step
	add := func(most int, what string, do func(r *rand.Rand)) {
		for range w.r.IntN(most + 1) {
			r := rand.New(rand.NewPCG(w.r.Uint64(), w.r.Uint64()))
			at := time.Duration(w.r.Int64N(int64(w.plan.length)))
			all = append(all, step{at, what, func() { do(r) }})
		}
	}
	if w.plan.crowd > 0 {
		add(w.plan.crowd, "crowd", func(r *rand.Rand) { w.ask(r, w.hosts[0]) })
	}
	for _, h := range w.hosts {
		add(12, "ask "+string(h.id), func(r *rand.Rand) { w.ask(r, h) })
		add(2, "local "+string(h.id), func(r *rand.Rand) { w.local(r, h) })
		add(1, "accident "+string(h.id), func(*rand.Rand) { h.machine.accident() })
		add(3, "collapse "+string(h.id), func(r *rand.Rand) { h.collapse(r) })
		if w.plan.harm.spare {
			continue // the link of such a plan works: nobody says hello again
		}
		add(1, "trigger "+string(h.id), func(*rand.Rand) { w.trigger(h) })
		add(3, "cut "+string(h.id), func(*rand.Rand) { w.broker.cut(h.id) })
		add(2, "freeze "+string(h.id), func(*rand.Rand) { w.broker.freeze(h.id) })
		add(2, "restart "+string(h.id), func(r *rand.Rand) { w.bounce(r, h) })
	}
	add(15, "invent", func(r *rand.Rand) { w.broker.invent(r, []protocol.HostID{"edge-1", "edge-2"}) })
	add(2, "stall", func(r *rand.Rand) { w.stall(time.Duration(r.IntN(40)) * time.Second) })
	if !w.plan.harm.spare {
		add(2, "restart the coordinator", w.bounceCenter)
		add(1, "restart the broker", func(r *rand.Rand) {
			w.broker.restart(time.Duration(r.IntN(60))*time.Second, r.IntN(2) == 0)
		})
	}
	if w.backups {
		all = append(all, w.loss()...)
	}
	slices.SortStableFunc(all, func(a, b step) int { return int(a.at - b.at) })
	return all
}

// bounce ends the agent of a host, or the whole host, and starts it again
// after a while.
func (w *world) bounce(r *rand.Rand, h *host) {
	if h.agent == nil {
		return
	}
	switch r.IntN(3) {
	case 0:
		h.end(false)
	case 1:
		h.end(true)
	case 2:
		h.reboot()
	}
	if r.IntN(4) > 0 {
		w.pass(time.Duration(r.IntN(20)) * time.Second)
		h.start()
	}
}

// bounceCenter does so to the coordinator.
func (w *world) bounceCenter(r *rand.Rand) {
	if w.center.coord == nil {
		return
	}
	w.center.end(r.IntN(3) > 0)
	if r.IntN(4) > 0 {
		w.pass(time.Duration(r.IntN(20)) * time.Second)
		w.center.start()
	}
}

// stall makes the coordinator's disk hang.
func (w *world) stall(d time.Duration) {
	if w.center.coord == nil {
		return
	}
	w.center.disk.mu.Lock()
	defer w.center.disk.mu.Unlock()
	w.center.disk.stall = time.Now().Add(d)
}

func (w *world) trigger(h *host) {
	if h.agent != nil {
		_ = h.agent.Trigger(context.Background()) // nobody waits for it
	}
}

// ann may do everything.
var ann = core.Actor{Name: "ann", Role: core.RoleAdmin}

// ask requests an action, and does so again until it was accepted, as people
// and tools do; some change their minds.
func (w *world) ask(r *rand.Rand, h *host) {
	a := asked{id: actionID(r), host: h, spec: w.spec(r, h)}
	cancel := a.spec.Kind == protocol.KindRun && (a.spec.Process().Argv[0] == "hang" || r.IntN(4) == 0)
	follow := a.spec.Kind == protocol.KindRun && a.spec.Process().Argv[0] == "print" && r.IntN(2) == 0
	if follow {
		a.spec.Process().Argv[1] += "0" // only who follows gets all of so much
		a.followed = new([]byte)
	}
	patience := time.Duration(r.IntN(30_000)) * time.Millisecond
	w.want(a, cancel, patience)
}

// want asks for an action until it is accepted; what is cancelled is so after
// some patience, and what somebody follows is read to its end.
func (w *world) want(a asked, cancel bool, patience time.Duration) {
	a.cancel = cancel
	w.mu.Lock()
	w.asked = append(w.asked, a)
	w.mu.Unlock()
	w.work.Go(func() {
		w.insist(func(ctx context.Context, c *coordinator.Coordinator) error {
			_, err := c.Actions().Propose(ctx, ann, actions.Request{ID: a.id, Host: a.host.id, Spec: encode(a.spec)})
			return err
		})
		if cancel {
			<-past(patience)
			w.insist(func(ctx context.Context, c *coordinator.Coordinator) error {
				_, err := c.Actions().Cancel(ctx, ann, a.id)
				return w.unlessForgotten(ctx, c, err)
			})
		}
		if a.followed != nil {
			w.insist(func(ctx context.Context, c *coordinator.Coordinator) error {
				return a.follow(ctx, c, w)
			})
		}
	})
}

// follow reads the output of an action from where it was left to its end.
func (a *asked) follow(ctx context.Context, c *coordinator.Coordinator, w *world) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second) // the coordinator may be gone
	defer stop()
	span, err := c.Relay().Output.Read(ctx, relay.Reading{Action: a.id, FD: protocol.Stdout, Offset: int64(len(*a.followed)), Follow: true, Hold: true}, func(p []byte) error {
		*a.followed = append(*a.followed, p...)
		return nil
	})
	if err != nil && w.unlessForgotten(ctx, c, err) == nil {
		return nil
	}
	if err == nil && span.Next != -1 {
		err = errOffline
	}
	if err != nil {
		return errEnd // once more
	}
	return nil
}

// insist asks the coordinator until it answers.
func (w *world) insist(do func(context.Context, *coordinator.Coordinator) error) {
	for {
		w.broker.mu.Lock()
		c := w.broker.coord
		w.broker.mu.Unlock()
		if c != nil {
			err := do(context.Background(), c)
			if err == nil {
				return
			}
			if !errors.Is(err, errEnd) {
				w.t.Errorf("a request was refused: %v", err)
				return
			}
		}
		<-time.After(time.Second)
	}
}

// local requests an action on the host itself.
func (w *world) local(r *rand.Rand, h *host) {
	if h.agent == nil {
		return
	}
	a := asked{id: actionID(r), host: h, spec: w.spec(r, h)}
	if a.spec.Kind != protocol.KindRun || a.spec.Process().Argv[0] == "hang" {
		a.spec = protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("true")}
	}
	if _, err := h.agent.Propose(context.Background(), a.id, encode(a.spec), "root"); err != nil {
		w.t.Errorf("a local request was refused: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, a)
}

func actionID(r *rand.Rand) protocol.ActionID {
	var b [10]byte
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return protocol.NewActionID(time.Now().UnixMilli(), b)
}

// spec draws something to do.
func (w *world) spec(r *rand.Rand, h *host) protocol.Spec {
	run := func(argv ...string) protocol.Spec {
		return protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: argv}, TimeLimit: protocol.TimeLimit{TimeoutMS: protocol.NoTimeout}}}
	}
	ct := 1 + r.IntN(2)
	target := protocol.NewCTID(int64(ct), [10]byte{h.id[len(h.id)-1], byte(r.IntN(2))})
	switch r.IntN(14) {
	case 0:
		return run("false")
	case 1, 2:
		return run("sleep", fmt.Sprint(time.Duration(r.IntN(60_000))*time.Millisecond))
	case 3, 4:
		return run("print", fmt.Sprint(r.IntN(120_000)), fmt.Sprint(time.Duration(r.IntN(20_000))*time.Millisecond))
	case 5:
		return run("hang")
	case 6:
		return protocol.Spec{Kind: protocol.KindPing}
	case 7:
		return protocol.Spec{Kind: protocol.KindCreate, Target: target, Name: protocol.ContainerName(fmt.Sprint("ct-", ct)), Args: &protocol.CreateArgs{Template: "busybox", Start: r.IntN(2) == 0}}
	case 8, 9, 10:
		kinds := []protocol.Kind{protocol.KindStart, protocol.KindStop, protocol.KindDestroy, protocol.KindReset, protocol.KindReset}
		return protocol.Spec{Kind: kinds[r.IntN(len(kinds))], Target: target}
	}
	return run("true")
}
