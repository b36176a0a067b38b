//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// sessionEnds are the ways in which people leave sessions.
var sessionEnds = []string{"exit", "command", "detach", "kill", "lost"}

// TestSessionsLeaveNothing begins and ends sessions in all ways, and compares both
// daemons before and after, and the host: what ran in them, and what watched over it.
func TestSessionsLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	l := newLeaks(t, w, h)
	l.drop = w.path("drop")
	mkdir(t, l.drop)
	l.sit(t, len(sessionEnds))
	h.restart(t, term)
	l.lists(t)
	before := l.rest(t, nil)
	l.sit(t, 2*len(sessionEnds))
	h.restart(t, kill)
	after := l.rest(t, &before)
	t.Logf("before %+v", before)
	t.Logf("after  %+v", after)
	hasLeftNothing(t, before, after)
	if left := running(w.dir); len(left) > 0 {
		t.Errorf("processes of sessions are left: %q", left)
	}
	w.quiet(t)
}

// sit has n people begin sessions at the same time, and leave them in all ways, the
// agent being restarted under them. It waits until the sessions have ended.
func (l *leaks) sit(t *testing.T, n int) {
	t.Helper()
	people := make([]*person, n)
	for i := range people {
		argv := []string{"attach", l.h.name}
		if i%2 == 1 {
			argv = []string{"run", "-t", l.h.name, "--", "sh", "-i"}
		}
		people[i] = l.w.sit(t, argv...)
	}
	var all sync.WaitGroup
	each := func(do func(way string, p *person)) {
		for i, p := range people {
			all.Go(func() { do(sessionEnds[i%len(sessionEnds)], p) })
		}
		all.Wait()
	}
	each(func(_ string, p *person) { p.shell() })
	l.h.restart(t, kill)
	each(func(way string, p *person) {
		p.types("echo still he''re\r")
		p.sees("still here\r\n")
		switch way {
		case "exit":
			p.types("exit 3\r")
			p.exits(3)
		case "command":
			p.types("sleep 98765 & exec true\r")
			p.exits(0)
		case "detach":
			p.types("\x10\x11")
			p.exits(0)
		case "kill":
			_ = p.cmd.Process.Kill() // it runs
			<-p.done
		case "lost": // as of a line that brings nothing any more
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
		}
	})
	ids := strings.Fields(l.w.must(t, "action", "ls", "--no-headers", "-o", "name", "--open"))
	l.w.ended(t, ids...)
	for _, p := range people {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	}
}

// running are the processes of this machine that have something of a directory in
// their arguments, and watch over commands.
func running(dir string) (all []string) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
	for _, file := range found {
		b, err := os.ReadFile(file)
		if line := strings.ReplaceAll(string(b), "\x00", " "); err == nil && strings.Contains(line, dir) && strings.Contains(line, "hostler-run") {
			all = append(all, line)
		}
	}
	return all
}
