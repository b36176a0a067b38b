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
	people := w.eight(t)
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
			w.outlive(t, people, fmt.Sprintf("%s-%d", name, number), away, outage)
		}
	}
	for _, p := range people {
		p.types("exit 7\r")
		p.exits(7)
	}
}

// eight are people at sessions of their own on edge-01.
func (w *world) eight(t *testing.T) (people []*person) {
	t.Helper()
	for range 8 {
		p := w.sit(t, "attach", "edge-01")
		p.shell()
		people = append(people, p)
	}
	return people
}

// outlive has everybody type during an outage: it is done once, and all go on.
func (w *world) outlive(t *testing.T, people []*person, name string, away time.Duration, outage func(during func())) {
	t.Helper()
	file := w.path("typed-" + name)
	begun := time.Now()
	outage(func() {
		for i, p := range people {
			p.types(fmt.Sprintf("echo %d >>%s; echo he''re-%s\r", i, file, name))
		}
		elapse(t, away)
	})
	for _, p := range people {
		p.sees("here-" + name + "\r\n")
	}
	t.Logf("%s for %v: all are back after %v", name, away, time.Since(begun)-away)
	typed := read(t, file)
	for i := range people {
		if n := strings.Count(typed, fmt.Sprintf("%d\n", i)); n != 1 {
			t.Errorf("%s for %v: what session %d typed was done %d times", name, away, i, n)
		}
	}
}

// TestSessionsOutlivePartitions cuts the network beside eight sessions: they go on. When
// the power of their host fails, their people are told that it does not answer, and
// that their sessions have ended once it is back.
func TestSessionsOutlivePartitions(t *testing.T) {
	t.Parallel()
	partitions(t, 6*time.Second)
}

func partitions(t *testing.T, times ...time.Duration) {
	l := newLab(t, "1")
	people := l.eight(t)
	for _, away := range times {
		for _, host := range []string{"edge-01", "coordinator"} {
			l.outlive(t, people, fmt.Sprintf("%s-%d", host, away/time.Second), away, func(during func()) {
				l.dev(t, "partition", host).exits(t, 0)
				during()
				l.dev(t, "heal", host).exits(t, 0)
			})
		}
	}
	const silent = "has not answered for"
	told := make([]int, len(people))
	for i, p := range people {
		told[i] = strings.Count(p.screen.String(), silent)
	}
	l.dev(t, "kill", "edge-01").exits(t, 0)
	for i, p := range people {
		p.types("echo lost\r") // of who types nothing, nothing is missing
		until(t, &p.screen.change, "somebody to be told that the host is silent", func() bool { return strings.Count(p.screen.String(), silent) > told[i] })
	}
	l.dev(t, "heal", "edge-01").exits(t, 0)
	for _, p := range people {
		p.sees("the host was restarted under it")
		p.exits(125)
	}
}
