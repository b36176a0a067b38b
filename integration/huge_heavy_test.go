//go:build integration && heavy

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/api"
)

// hugeOutput is how much a command writes, in bytes.
const hugeOutput = 10_000_000_000

// hugeLine is what it writes again and again.
const hugeLine = "a line of a log that nobody will ever read to its end, as long as those of logs are\n"

// hugeRSS is how much memory an agent may take meanwhile, in KiB.
const hugeRSS = 40 << 10

// hugePatience is how long it may take to write it all.
const hugePatience = 10 * time.Minute

// TestHugeOutput writes logs of 10 GB behind the slowest link: one that nobody
// follows, one that is followed for a while, and one that is followed to its end,
// which is a cancel. None of them delays a lease or a heartbeat, none stands still,
// and of none does the host keep more than its cap.
func TestHugeOutput(t *testing.T) {
	l := newLab(t, "1")
	from := l.events.mark()
	agent := l.agentOf(t, "edge-01")
	hellos := l.metric(t, "edge-01", `messages_sent_total{type="presence/1"}`)
	l.slow(t, "edge-01", slowest)

	t.Log("nobody follows")
	const script = `yes "$0" | head -c "$1"`
	argv := []string{"sh", "-c", script, strings.TrimSuffix(hugeLine, "\n"), strconv.Itoa(hugeOutput)}
	kept := l.submit(t, "edge-01", argv...)
	l.huge(t, kept)

	t.Log("somebody follows for a while")
	log := l.spawn(t, "log", l.env(), append([]string{"sh", "-c", `exec hostler run edge-01 --timeout 60m -- "$@" >"$0"`, l.path("seen")}, argv...)...)
	l.flows(t, l.path("seen"), max(*chaosFor, 3*time.Minute))
	l.leases(t, "edge-01")
	log.end(t, kill)
	for i, line := range strings.SplitAfter(read(t, l.path("seen")), "\n") {
		if line != hugeLine && !strings.HasPrefix(hugeLine, line) {
			t.Fatalf("line %d of the log was seen as %q", i+1, line)
		}
	}
	l.huge(t, l.newestAction(t))

	t.Log("somebody follows until it is cancelled")
	log = l.spawn(t, "log", l.env(), append([]string{"sh", "-c", `exec hostler run edge-01 --timeout 60m -- "$@" >"$0"`, l.path("seen-2")}, argv...)...)
	l.flows(t, l.path("seen-2"), max(*chaosFor, time.Minute))
	begun := time.Now()
	id := l.newestAction(t)
	l.must(t, "action", "cancel", id, "--no-wait")
	if got := l.ended(t, id)[id]; !strings.HasPrefix(got, "CANCELLED") {
		t.Errorf("it was cancelled, and is %s", got)
	}
	t.Logf("beside the log, a cancel took %v", time.Since(begun).Round(time.Millisecond))
	log.end(t, kill)

	for _, e := range l.events.since(from) {
		if e.Type == "host.offline" {
			t.Errorf("%s was taken for dead: %v", e.Host, e.Data)
		}
	}
	l.leases(t, "edge-01")
	if now := l.metric(t, "edge-01", `messages_sent_total{type="presence/1"}`); now != hellos {
		t.Errorf("the connection that carries leases was made anew: %v hellos, %v before", now, hellos)
	}
	rss := peakKiB(t, agent)
	t.Logf("the agent took %d KiB of memory at most", rss)
	if rss > hugeRSS {
		t.Errorf("the agent took %d KiB of memory, want %d at most", rss, hugeRSS)
	}
	l.honest(t, "edge-01")
	l.steady(t, from, "edge-01")
	l.trusted(t)
}

// huge waits for the end of a command that wrote all of its output, and holds what
// is kept of it to the caps.
func (l *lab) huge(t testing.TB, id string) {
	t.Helper()
	begun := time.Now()
	for !slices.ContainsFunc(l.events.since(0), func(e api.Event) bool {
		state, _ := e.Data["state"].(string)
		return e.Type == "action.state" && e.Object == id && final(state)
	}) && time.Since(begun) < hugePatience {
		elapse(t, time.Second)
	}
	l.done(t, id)
	t.Logf("its end was told after %v", time.Since(begun).Round(time.Second))
	var st unix.Stat_t
	files, err := filepath.Glob(filepath.Join(filepath.Dir(l.nodes["edge-01"].Socket), "runs", id, "*", "stdout"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the files of its output: %q, %v", files, err)
	}
	if err := unix.Stat(files[0], &st); err != nil {
		t.Fatal(err)
	}
	act := l.action(t, id)
	if len(act.Output) == 0 {
		t.Fatalf("its report tells of no output: %+v", act)
	}
	o := act.Output[0]
	t.Logf("of %d bytes %d are left out from byte %d on, and the rest takes %d of the host's disk", o.Bytes, o.Dropped, o.DropAt, st.Blocks*512)
	if o.Bytes != hugeOutput || o.Bytes-o.Dropped > maxKept || st.Blocks*512 > maxKept {
		t.Errorf("of %d bytes want %d, %d at most of them kept", o.Bytes, int64(hugeOutput), maxKept)
	}
}

// agentOf is the process of a host's agent.
func (l *lab) agentOf(t testing.TB, host string) int {
	t.Helper()
	config := strings.TrimSuffix(filepath.Dir(l.nodes[host].Socket), "/") + ".toml"
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline") // it may be gone
		if argv := strings.Split(string(b), "\x00"); err == nil && filepath.Base(argv[0]) == "hostler-agent" && slices.Contains(argv, config) {
			pid, err := strconv.Atoi(filepath.Base(d))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("no agent has the configuration %s", config)
	return 0
}

// peakKiB is the most memory that a process ever had.
func peakKiB(t testing.TB, pid int) (kib int) {
	t.Helper()
	for line := range strings.Lines(read(t, fmt.Sprintf("/proc/%d/status", pid))) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib
		}
	}
	t.Fatalf("process %d has no VmHWM", pid)
	return 0
}
