//go:build integration

package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// ticker counts aloud until a file appears, and says the time by the machine's
// own clock, so that a pause would be seen. It writes one line about itself to
// a file, so that a second beginning would be seen.
const ticker = `echo "$0" >>"$1"; i=0; while [ ! -e "$2" ]; do i=$((i+1)); read up rest </proc/uptime; echo tick $i $up; sleep 0.2; done`

// longestPause is how long a ticker may be silent: the machine may be busy, but
// what stops a command for good stops it for longer.
func longestPause() float64 { return within(5*time.Second, 30*time.Second).Seconds() }

// orders sends orders, one after the other, until it is told to stop.
type orders struct {
	change
	w       *world
	witness string
	pace    time.Duration // between two of them, so that not too many pile up
	stop    chan struct{}
	done    chan struct{}

	mu       sync.Mutex
	sent     int
	accepted map[string]int // number of the order, by action
	strange  []string       // failures that no coordinator which is away explains
}

// startOrders begins to send orders, each of which writes its number to the
// witness.
func (w *world) startOrders(witness string, pace time.Duration) *orders {
	o := &orders{w: w, witness: witness, pace: pace, stop: make(chan struct{}), done: make(chan struct{}), accepted: make(map[string]int)}
	go o.run() // ends by finish
	return o
}

func (o *orders) run() {
	defer close(o.done)
	pace := time.NewTicker(max(o.pace, time.Nanosecond))
	defer pace.Stop()
	for i := 1; ; i++ {
		select {
		case <-o.stop:
			return
		case <-pace.C:
		}
		var out, talk strings.Builder
		cmd := exec.Command(filepath.Join(o.w.bin, "hostler"), "run", "edge-01", "--no-wait", "--", "sh", "-c", `echo "$0" >>"$1"`, strconv.Itoa(i), o.witness)
		cmd.Env, cmd.Stdout, cmd.Stderr = o.w.env(), &out, &talk
		err := cmd.Run()
		o.mu.Lock()
		o.sent++
		switch exit, ok := errors.AsType[*exec.ExitError](err); {
		case err == nil:
			o.accepted[strings.TrimSpace(out.String())] = i
		case !ok || exit.ExitCode() != 125:
			o.strange = append(o.strange, fmt.Sprintf("order %d: %v: %s", i, err, talk.String()))
		}
		o.mu.Unlock()
		o.fire()
	}
}

// more waits until so many more orders were accepted, so that none of the
// kills falls into a silence that another one made.
func (o *orders) more(t testing.TB, n int) {
	t.Helper()
	count := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.accepted)
	}
	want := count() + n
	until(t, &o.change, "orders go through", func() bool { return count() >= want })
}

// finish stops sending and checks that each order that was accepted has run
// once, and none of the others twice.
func (o *orders) finish(t testing.TB) {
	t.Helper()
	close(o.stop)
	<-o.done
	for _, s := range o.strange {
		t.Error(s)
	}
	var ids []string
	for id := range o.accepted {
		ids = append(ids, id)
	}
	for id, got := range o.w.ended(t, ids...) {
		if got != "DONE ok" {
			t.Errorf("action %s is %s, want DONE ok", id, got)
		}
	}
	ran := make(map[string]int)
	for _, number := range strings.Fields(read(t, o.witness)) {
		if ran[number]++; ran[number] > 1 {
			t.Errorf("order %s ran twice", number)
		}
	}
	for id, number := range o.accepted {
		if ran[strconv.Itoa(number)] == 0 {
			t.Errorf("order %d was accepted as %s and never ran", number, id)
		}
	}
	t.Logf("%d orders sent, %d accepted, %d ran", o.sent, len(o.accepted), len(ran))
}

// unnoticed checks that a ticker ran once, to its end, without a gap.
func (w *world) unnoticed(t testing.TB, id string) {
	t.Helper()
	w.done(t, id)
	n, last, gap := 0, 0.0, 0.0
	for line := range strings.Lines(w.must(t, "action", "logs", id, "--follow")) {
		var i int
		var at float64
		if _, err := fmt.Sscanf(line, "tick %d %f", &i, &at); err != nil {
			t.Errorf("action %s: %v: %q", id, err, line)
			return
		}
		if n++; i != n {
			t.Errorf("action %s: tick %d is the %dth", id, i, n)
		}
		if n > 1 {
			gap = max(gap, at-last)
		}
		last = at
	}
	if n < 5 || gap > longestPause() {
		t.Errorf("action %s: %d ticks, the longest pause %.2f s", id, n, gap)
	}
}

// TestKills kills everything that can be killed while commands run and orders
// are under way.
func TestKills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.newHost(t, "edge-01", true)
	write(t, h.config(), read(t, h.config())+"[commands]\nparallel = 32\n")
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")

	witness, stop := w.path("tickers"), w.path("enough")
	inContainer := h.path("lxc/web/rootfs/enough")
	tick := func(where, name, witness, stop string) string {
		return strings.TrimSpace(w.must(t, where, name, "--timeout", "10m", "--no-wait", "--", "sh", "-c", ticker, "begun", witness, stop))
	}
	var tickers []string
	for range 19 {
		tickers = append(tickers, tick("run", "edge-01", witness, stop))
	}
	tickers = append(tickers, tick("exec", "edge-01/web", "/tickers", "/enough"))
	for _, id := range tickers {
		w.state(t, id, "RUNNING")
	}
	o := w.startOrders(w.path("witness"), 0)

	o.more(t, 3)
	w.coordinator.signal(t, hup)
	o.more(t, 3)

	h.restart(t, kill)
	o.more(t, 3)

	w.coordinator.end(t, kill)
	w.startCoordinator(t)
	o.more(t, 3)

	h.agent.signal(t, kill)
	w.coordinator.end(t, kill)
	h.agent.code(t)
	w.startCoordinator(t)
	h.start(t)
	o.more(t, 3)

	for _, id := range tickers {
		if act := w.action(t, id); act.State != "RUNNING" {
			t.Errorf("action %s is %s %s after all the kills", id, act.State, act.Reason)
		}
	}
	write(t, stop, "")
	write(t, inContainer, "")
	o.finish(t)
	for _, id := range tickers {
		w.unnoticed(t, id)
	}
	if got := strings.Count(read(t, witness), "begun\n"); got != 19 {
		t.Errorf("19 commands on the host have begun %d times", got)
	}
	if got := read(t, h.path("lxc/web/rootfs/tickers")); got != "begun\n" {
		t.Errorf("the command in the container has begun: %q", got)
	}

	t.Run("a new coordinator on the old store knows all of it", func(t *testing.T) {
		w.coordinator.end(t, kill)
		w.startCoordinator(t)
		known := make(map[string]string)
		for _, a := range show[[]api.Action](t, w, "action", "ls", "--limit", "0") {
			known[a.ID] = a.State
		}
		for id := range o.accepted {
			if known[id] != "DONE" {
				t.Errorf("action %s is %q", id, known[id])
			}
		}
	})
	t.Run("nothing is left over", func(t *testing.T) {
		w.quiet(t)
		h.unlocked(t)
	})
	t.Run("a supervisor that is killed takes its command along", func(t *testing.T) { supervisorKilled(t, h) })
}

// TestOutputThroughKills follows a command that writes all the while: no byte of
// it is lost, repeated or changed, whoever is killed.
func TestOutputThroughKills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	const script = `i=0; while [ $i -lt 80 ]; do i=$((i+1)); head -c 100000 /dev/urandom | tee -a "$0"; sleep 0.05; done`
	p := w.start(t, "hostler", "run", "edge-01", "--timeout", "10m", "--", "sh", "-c", script, w.path("copy"))
	written := func(n int) {
		t.Helper()
		until(t, &p.out.change, fmt.Sprintf("%d bytes of output arrive", n), func() bool { return len(p.out.String()) >= n || p.ended() })
	}
	written(500_000)
	h.agent.end(t, kill)
	h.startAlone(t)
	written(2_000_000)
	w.coordinator.signal(t, hup)
	written(3_500_000)
	w.coordinator.end(t, kill)
	w.startCoordinator(t)
	written(5_000_000)
	h.agent.signal(t, kill)
	w.coordinator.end(t, kill)
	h.agent.code(t)
	w.startCoordinator(t)
	h.startAlone(t)
	r := p.finish(t).exits(t, 0)
	if r.stdout != read(t, w.path("copy")) {
		t.Errorf("%d bytes arrived of %d, or they are others", len(r.stdout), len(read(t, w.path("copy"))))
	}
}

// unlocked checks that nobody holds the lock of a run directory.
func (h *host) unlocked(t testing.TB) {
	t.Helper()
	locks, err := filepath.Glob(h.path("runs/*/*/lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range locks {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // swept meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		f.Close()
	}
}

// supervisorKilled kills supervisors, once while the agent watches and once
// while it is away.
func supervisorKilled(t *testing.T, h *host) {
	w := h.w
	for _, away := range []bool{false, true} {
		mark := fmt.Sprintf("mark-%t", away)
		gate := w.fifo(t, "gate-"+mark)
		id := w.submit(t, "edge-01", "sh", "-c", `echo $$ >"$1"; read x <"$0"`, gate, w.path(mark))
		fileUntil(t, w.path(mark), "the command begins", func(s string) bool { return strings.HasSuffix(s, "\n") })
		var pid int
		if _, err := fmt.Sscan(read(t, w.path(mark)), &pid); err != nil {
			t.Fatal(err)
		}
		supervisor := w.supervisor(t, id)
		if away {
			h.agent.end(t, kill)
		}
		endProcess(supervisor)
		if away {
			h.start(t)
		}
		if got := w.ended(t, id)[id]; got != "FAILED interrupted" {
			t.Errorf("with the agent away: %t: it is %s, want FAILED interrupted", away, got)
		}
		awaitExit(pid)
		w.quiet(t)
	}
}

func pids(m map[int]string) []int {
	var all []int
	for pid := range m {
		all = append(all, pid)
	}
	return all
}

// TestKillLoop kills at random moments. HOSTLER_SEED repeats a run's choices.
func TestKillLoop(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed(t), 1))
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	o := w.startOrders(w.path("witness"), 0)
	kills := 0
	for begin := time.Now(); time.Since(begin) < 30*time.Second; kills++ {
		o.more(t, 1+random.IntN(5))
		agent, coordinator := random.IntN(2) == 0, random.IntN(3) == 0
		switch {
		case coordinator && agent:
			h.agent.signal(t, kill)
			w.coordinator.end(t, kill)
			h.agent.code(t)
			w.startCoordinator(t)
			h.startAlone(t)
		case coordinator:
			w.coordinator.end(t, kill)
			w.startCoordinator(t)
		case agent:
			h.agent.end(t, kill)
			h.startAlone(t)
		default:
			w.coordinator.signal(t, hup)
		}
	}
	o.more(t, 1)
	o.finish(t)
	t.Logf("%d kills", kills)
	w.quiet(t)
	h.unlocked(t)
}
