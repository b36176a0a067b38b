//go:build integration && hostlertest

package integration

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/integration/copiestest"
)

var (
	faultCount = flag.Int("faults", 8, "how many faults there are under unique containers")
	faultSeed  = flag.Uint64("seed", 0, "which faults those are; 0: new ones, whose seed is printed")
)

// shortLease are the shortest times with which a busy machine renews leases: a takeover
// comes after (6 s + 2 s) × (1 + 2 × 1 %) + 1 s, rounded up.
const (
	shortLease    = "[lease]\nmin_self_fence = \"guard\"\nttl_seconds = 6\nkill_seconds = 2\nmargin_seconds = 1\n"
	shortTakeover = 10 * time.Second
)

// manyFaults is how many faults bring a takeover for sure.
const manyFaults = 50

// ordeal is a fleet under faults with its unique containers. Each host has a network of its
// own.
type ordeal struct {
	*world
	netns   string // with a dash and a number, the network of a host
	names   []string
	byName  map[string]*host
	clocks  map[string]*clocks // of the hosts and of the coordinator
	happen  map[faultKind]int
	free    []copiestest.Span
	unique  []string // names of the containers
	shared  string   // directory to which they write
	subnet  netip.Prefix
	address netip.Addr // of the coordinator
}

// TestUniqueUnderFaults: whatever dies, stops or is cut off, no two copies of a unique
// container run at the same real time, epochs never fall, and when all faults are over each
// container runs. The copies tell it themselves, every 10 ms.
func TestUniqueUnderFaults(t *testing.T) {
	seed := *faultSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-faults %d -seed %d", *faultCount, seed)
	o := newOrdeal(t)
	begun := time.Now()
	o.play(t, faultPlan(seed, *faultCount, o.names, shortTakeover))
	var takeovers, overlaps int
	for _, name := range o.unique {
		beats, err := copiestest.Parse(read(t, filepath.Join(o.shared, name)))
		if err != nil {
			t.Fatal(err)
		}
		v := copiestest.Judge(beats, o.free)
		t.Logf("%s: %d beats of %d copies, %d takeovers, at least %s between two hosts, %d overlaps", name, len(beats), v.Copies, v.Takeovers, v.Shortest, v.Overlaps)
		for _, wrong := range v.Wrong {
			t.Errorf("%s: %s", name, wrong)
		}
		takeovers, overlaps = takeovers+v.Takeovers, overlaps+v.Overlaps
	}
	for _, kind := range slices.Sorted(maps.Keys(o.happen)) {
		t.Logf("%3d × %s", o.happen[kind], kind)
	}
	t.Logf("seed %d: %d faults in %s, %d takeovers, %d overlaps", seed, *faultCount, time.Since(begun).Round(time.Second), takeovers, overlaps)
	if *faultCount >= manyFaults && takeovers == 0 {
		t.Errorf("%d faults brought no takeover: nothing was tried", *faultCount)
	}
}

// newOrdeal makes the fleet, and starts a container on each host.
func newOrdeal(t testing.TB) *ordeal {
	t.Helper()
	o := &ordeal{
		netns: fmt.Sprintf("hf%d", os.Getpid()%100000), names: []string{"edge-01", "edge-02", "edge-03"},
		byName: map[string]*host{}, clocks: map[string]*clocks{}, happen: map[faultKind]int{},
	}
	o.subnet = freeSubnet(t)
	o.address = o.subnet.Addr().Next()
	t.Cleanup(o.dropNetwork) // when the world is down
	newWorld(t, func(w *world) {
		o.world = w
		o.makeNetwork(t)
		for _, at := range []*string{&w.http, &w.mqtt} {
			*at = netip.AddrPortFrom(o.address, netip.MustParseAddrPort(*at).Port()).String()
		}
		o.clocks[head] = w.newClocks(t, head)
		w.served = append(w.served, o.clocks[head].environ())
	})
	write(t, o.path("coordinator.toml"), read(t, o.path("coordinator.toml"))+shortLease)
	o.coordinator.end(t, term)
	o.startCoordinator(t)
	for i, name := range o.names {
		h := o.newHost(t, name, false)
		o.byName[name], o.clocks[name] = h, o.newClocks(t, name)
		h.env = append(h.env, o.clocks[name].environ())
		h.within = []string{"nsenter", "--net=/run/netns/" + o.networkOf(i)}
		// liblxc looks for a bridge by its name in /sys, which shows the machine's network, so
		// the bridge inside has the name of the one outside.
		config := strings.Replace(read(t, h.config()), "[network]\n", fmt.Sprintf("[network]\nbridge = %q\n", o.netns), 1)
		write(t, h.config(), config+"[unique]\nguard = true\npausable = \"no\"\n")
		p, words := h.join(t, o.invite(t))
		o.must(t, "host", "approve", name, "--words", words)
		p.finish(t).exits(t, 0)
		h.start(t)
	}
	o.startContainers(t)
	return o
}

// startContainers makes a container for each host, which writes to a directory of all.
func (o *ordeal) startContainers(t testing.TB) {
	t.Helper()
	o.shared = o.path("beats")
	mkdir(t, o.shared)
	if err := os.Chmod(o.shared, 0o755); err != nil {
		t.Fatal(err)
	}
	image := o.pulseImage(t, filepath.Join(o.bin, "pulse"))
	for i, host := range o.names {
		name := fmt.Sprintf("u%d", i+1)
		o.unique = append(o.unique, name)
		file := filepath.Join(o.shared, name)
		write(t, file, "")
		if err := os.Chmod(file, 0o666); err != nil { // each host's copy is another user
			t.Fatal(err)
		}
		o.must(t, "ct", "create", host+"/"+name, image, "--runtime", "lxc", "--class", "unique", "--data", "none",
			"--mount", o.shared+":/beats", "--start", "--", "/pulse", "/beats/"+name)
	}
	o.run(t)
}

// networkOf is the name of the network of a host, and of its cable to the machine.
func (o *ordeal) networkOf(i int) string { return fmt.Sprintf("%s-%d", o.netns, i+1) }

// makeNetwork makes a network for each host, and a bridge on which all of them meet the
// coordinator.
func (o *ordeal) makeNetwork(t testing.TB) {
	t.Helper()
	ip := func(args ...string) { t.Helper(); o.tool(t, append([]string{"ip"}, args...)...) }
	ip("link", "add", o.netns, "type", "bridge")
	ip("address", "add", netip.PrefixFrom(o.address, o.subnet.Bits()).String(), "dev", o.netns)
	ip("link", "set", o.netns, "up")
	at := o.address
	for i := range o.names {
		net := o.networkOf(i)
		at = at.Next()
		ip("netns", "add", net)
		ip("link", "add", net, "type", "veth", "peer", "name", "eth0", "netns", net)
		ip("link", "set", net, "master", o.netns, "up")
		ip("-n", net, "address", "add", netip.PrefixFrom(at, o.subnet.Bits()).String(), "dev", "eth0")
		ip("-n", net, "link", "set", "eth0", "up")
		ip("-n", net, "link", "set", "lo", "up")
	}
}

// dropNetwork takes away what makeNetwork has made, as far as it came.
func (o *ordeal) dropNetwork() {
	for i := range o.names {
		_ = exec.Command("ip", "netns", "delete", o.networkOf(i)).Run() // it may not have been made
	}
	_ = exec.Command("ip", "link", "delete", o.netns).Run() // it may not have been made
}

// play plays a plan: the machine may be behind it, but keeps its order.
func (o *ordeal) play(t testing.TB, plan []moment) {
	t.Helper()
	begun := time.Now()
	for _, s := range plan {
		if behind := time.Since(begun) - s.at; behind < 0 {
			elapse(t, -behind)
		} else {
			begun = begun.Add(behind) // the rest keeps its distances
		}
		switch {
		case s.fault == nil:
			o.run(t)
		case s.ends:
			o.end(t, *s.fault)
		default:
			t.Logf("%s: %s, for %s", s.fault.where, s.fault.kind, (s.fault.to - s.fault.from).Round(time.Millisecond))
			o.happen[s.fault.kind]++
			o.begin(t, *s.fault)
		}
	}
}

// begin lets a fault happen.
func (o *ordeal) begin(t testing.TB, f fault) {
	t.Helper()
	h := o.byName[f.where]
	switch f.kind {
	case agentStops:
		h.agent.signal(t, syscall.SIGSTOP)
	case agentDies:
		h.agent.end(t, kill)
	case agentThenGuard:
		h.agent.end(t, kill)
		elapse(t, f.pause)
		endAll(h.guard())
	case guardThenAgent:
		endAll(h.guard())
		elapse(t, f.pause)
		h.agent.end(t, kill)
	case secondDies:
		if _, second := h.guardPair(); second != 0 {
			endAll(second)
		}
	case allDie:
		first, second := h.guardPair()
		all := append(offspring(h.agent.pid()), h.agent.pid(), first)
		endAll(slices.DeleteFunc(all, func(pid int) bool { return pid == second })...) // it stays: nothing else would kill the container
		h.agent.code(t)
	case packetsDrop, sentDrop, receivedDrop:
		o.drop(t, f)
	case dateSteps, otherDateSteps:
		o.clocks[f.where].set(t, f.date, 0)
	case drained:
		o.must(t, "host", "drain", f.where)
	case coordinatorDies:
		o.coordinator.end(t, kill)
	}
}

// end undoes a fault.
func (o *ordeal) end(t testing.TB, f fault) {
	t.Helper()
	h := o.byName[f.where]
	switch f.kind {
	case agentStops:
		h.agent.signal(t, syscall.SIGCONT)
	case agentDies, agentThenGuard, guardThenAgent, allDie:
		h.startAlone(t)
	case packetsDrop, sentDrop, receivedDrop:
		o.tool(t, append(slices.Clone(h.within), "nft", "flush", "ruleset")...)
	case dateSteps, otherDateSteps:
		o.clocks[f.where].set(t, 0, 0)
	case drained:
		o.must(t, "host", "undrain", f.where)
	case coordinatorDies:
		o.startCoordinator(t)
	}
}

// drop drops packets of a host.
func (o *ordeal) drop(t testing.TB, f fault) {
	t.Helper()
	rules := "table inet cut {\n"
	if f.kind != sentDrop {
		rules += "chain in { type filter hook input priority 0; iifname eth0 drop; }\n"
	}
	if f.kind != receivedDrop {
		rules += "chain out { type filter hook output priority 0; oifname eth0 drop; }\n"
	}
	file := o.path(f.where + ".nft")
	write(t, file, rules+"}\n")
	o.tool(t, append(slices.Clone(o.byName[f.where].within), "nft", "-f", file)...)
}

// run waits until each container runs, now that all faults are over, and has run for a
// second.
func (o *ordeal) run(t testing.TB) {
	t.Helper()
	from := sinceBoot(t)
	defer func() { o.free = append(o.free, copiestest.Span{From: from + time.Second, To: sinceBoot(t)}) }()
	for _, name := range o.unique {
		for o.lastBeat(t, name) < from+time.Second {
			for _, p := range []*process{o.coordinator, o.byName["edge-01"].agent, o.byName["edge-02"].agent, o.byName["edge-03"].agent} {
				if p.ended() {
					t.Fatalf("%s ended by itself: %v\n%s", p.name, p.err, p.talk.tail())
				}
			}
			if sinceBoot(t)-from > patience {
				t.Fatalf("%s does not run %s after all faults were over:\n%s\n%s", name, patience, o.cli(t, "why", name).stdout, o.cli(t, "lease", "ls").stdout)
			}
			elapse(t, 50*time.Millisecond)
		}
	}
	t.Logf("each container runs %s after all faults were over", (sinceBoot(t) - from).Round(time.Millisecond))
}

// lastBeat is when a container wrote last; 0 if it never did.
func (o *ordeal) lastBeat(t testing.TB, name string) time.Duration {
	t.Helper()
	f, err := os.Open(filepath.Join(o.shared, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, min(info.Size(), 200))
	if _, err := f.ReadAt(b, info.Size()-int64(len(b))); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n") // the last one is empty
	if len(lines) < 2 {
		return 0
	}
	beats, err := copiestest.Parse(lines[len(lines)-2] + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return beats[0].At
}

// guardPair are the first process of the guard of a host and the one that follows it; 0
// stands for one that is not there.
func (h *host) guardPair() (first, second int) {
	first = h.guard()
	if first != 0 {
		for _, pid := range offspring(first) {
			second = pid
		}
	}
	return first, second
}

// guard is the first process of the guard of a host; 0: it is not there.
func (h *host) guard() int {
	for pid, line := range h.w.relatives() {
		if strings.Contains(line, " guard ") && strings.Contains(line, h.socket()+"-guard") {
			return pid
		}
	}
	return 0
}

// offspring are the processes that a process has begun, and that have not ended.
func offspring(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		b, _ := os.ReadFile(list) // the thread may have ended
		for _, child := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(child); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// endAll kills processes, as close together as it can; 0 is none.
func endAll(pids ...int) {
	for _, pid := range pids {
		if pid > 1 {
			_ = syscall.Kill(pid, kill) // it may have ended
		}
	}
}

// sinceBoot is the time since the boot of the machine, by which the copies write.
func sinceBoot(t testing.TB) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
