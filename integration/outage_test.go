//go:build integration

package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// TestSessionsOutliveOutages takes the coordinator, its answers, and the agent away
// from eight sessions, and gives them back: everybody goes on, and what was typed
// meanwhile happens once.
func TestSessionsOutliveOutages(t *testing.T) {
	t.Parallel()
	outages(t, 6*time.Second)
}

// outages takes each away for each time.
func outages(t *testing.T, times ...time.Duration) {
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	var people []*person
	for range 8 {
		p := w.sit(t, "attach", "edge-01")
		p.shell()
		people = append(people, p)
	}
	back := func(from int) {
		w.event(t, from, "the host is back", func(e api.Event) bool { return e.Type == "host.online" })
	}
	number := 0
	for _, away := range times {
		for name, outage := range map[string]func(during func()){
			"refused": func(during func()) {
				w.coordinator.end(t, kill)
				during()
				from := w.events.mark()
				w.startCoordinator(t)
				back(from)
			},
			"silent": func(during func()) {
				if err := w.coordinator.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				during()
				if err := w.coordinator.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			},
			"host": func(during func()) {
				h.agent.end(t, kill)
				during()
				h.start(t)
			},
		} {
			number++
			file := w.path(fmt.Sprint("typed-", number))
			begun := time.Now()
			outage(func() {
				for i, p := range people {
					p.types(fmt.Sprintf("echo %d >>%s; echo he''re-%d\r", i, file, number))
				}
				elapse(t, away)
			})
			for _, p := range people {
				p.sees(fmt.Sprintf("here-%d\r\n", number))
			}
			t.Logf("%s for %v: all are back after %v", name, away, time.Since(begun)-away)
			typed := read(t, file)
			for i := range people {
				if n := strings.Count(typed, fmt.Sprintf("%d\n", i)); n != 1 {
					t.Errorf("%s for %v: what session %d typed was done %d times", name, away, i, n)
				}
			}
		}
	}
	for _, p := range people {
		p.types("exit 7\r")
		p.exits(7)
	}
}
