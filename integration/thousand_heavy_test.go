//go:build integration && heavy

package integration

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/api"
)

// TestThousandContainers: a host runs 1,000 containers, as many as a bridge of Linux nearly
// takes. All of them are told, measured and held over a kill of the agent, one that ends is
// started again, and the host stays online.
func TestThousandContainers(t *testing.T) {
	const many, makers = 1000, 4
	enoughTerminals(t)
	w := newWorld(t)
	h := w.newHost(t, "edge-01", true)
	small := freeSubnet(t) // 254 addresses
	config := read(t, h.config())
	write(t, h.config(), config[:strings.Index(config, "subnet = ")]+fmt.Sprintf("subnet = %q\nnames = false\n", netip.PrefixFrom(small.Addr(), 20).Masked()))
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", h.name, "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	from := w.events.mark()
	var g errgroup.Group
	g.SetLimit(makers)
	for n := range many {
		g.Go(func() error {
			if r := w.cli(t, "ct", "create", fmt.Sprintf("edge-01/c-%04d", n), "--template", "busybox", "--start"); r.code != 0 {
				return fmt.Errorf("%s: %s", r.line, r.stderr)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	running := func() (n int) {
		for _, c := range show[[]api.Container](t, w, "ct", "ls", "edge-01") {
			if c.State == "running" {
				n++
			}
		}
		return n
	}
	allRun := func(what string) {
		t.Helper()
		for end := time.Now().Add(patience); running() != many; elapse(t, time.Second) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d containers are told to run", what, running())
			}
		}
	}
	first := func(name string) int { // 0 while it does not run
		out, err := exec.CommandContext(t.Context(), "lxc-info", "-P", h.path("lxc"), "-n", name, "-p", "-H").Output()
		pid, bad := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil || bad != nil {
			return 0
		}
		return max(pid, 0)
	}
	allRun("made")
	for end := time.Now().Add(patience); ; elapse(t, time.Second) {
		if out := w.must(t, "metrics", "edge-01/c-0999", "-o", "csv", "--since", "5m"); strings.Contains(out, "tasks") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a container of a thousand is not measured")
		}
	}
	names := []string{"c-0000", "c-0500", "c-0999"}
	before := make(map[string]int)
	for _, name := range names {
		if before[name] = first(name); before[name] == 0 {
			t.Fatalf("%s does not run", name)
		}
	}
	h.restart(t, kill)
	allRun("after a kill of the agent")
	for _, name := range names {
		if pid := first(name); pid != before[name] {
			t.Errorf("%s has first process %d, and had %d", name, pid, before[name])
		}
	}
	if err := syscall.Kill(before["c-0500"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; elapse(t, time.Second) {
		if now := first("c-0500"); now != 0 && now != before["c-0500"] {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a container that has ended is not started again")
		}
	}
	allRun("after the end of one")
	for _, e := range w.events.since(from) {
		if e.Type == "host.late" && e.Host == h.name || e.Type == "host.offline" {
			t.Errorf("%s of %s: %s", e.Type, e.Host, e.Data)
		}
	}
}

// enoughTerminals lets the kernel have as many pseudo terminals as a thousand containers take,
// as doc/containers.md tells operators to, and puts the limit back in the end.
func enoughTerminals(t *testing.T) {
	t.Helper()
	const limit = "/proc/sys/kernel/pty/max"
	before := read(t, limit)
	write(t, limit, "16384")
	t.Cleanup(func() { write(t, limit, before) })
}
