package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// shelf is volumes in memory.
type shelf struct {
	mu    sync.Mutex
	owned map[string]int // how often, by name
}

func (s *shelf) Ensure(name string, _ int64) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.owned[name]; !ok {
		s.owned[name] = 0
	}
	return "/volumes/" + name, nil
}

func (s *shelf) Fill(name string, now int64, _ container.Layer) error {
	_, err := s.Ensure(name, now)
	return err
}

func (s *shelf) Own(_ context.Context, name string, _ container.IDRange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned[name]++
	return nil
}

func (s *shelf) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.owned[name]; !ok {
		return fmt.Errorf("volume %s: %w", name, container.ErrNotFound)
	}
	delete(s.owned, name)
	return nil
}

// TestVolumes: a volume is given to its container before each start, is no second one's,
// and is removed when no container has it.
func TestVolumes(t *testing.T) {
	s := &shelf{owned: make(map[string]int)}
	in(t, func(c *agent.Config) { c.Volumes = s }, func(t *testing.T, w *world) {
		with := func(n byte, privileged bool) protocol.Spec {
			spec := creation(n, true)
			spec.Args = &protocol.CreateArgs{Template: "busybox", Start: true, Volumes: []string{"data:/srv"}, Privileged: privileged}
			return spec
		}
		remove := protocol.Spec{Kind: protocol.KindVolumeRemove, Args: &protocol.VolumeArgs{Volume: "data"}}
		w.coord.order(actionID(1), with(1, false))
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		if s.owned["data"] != 1 {
			t.Errorf("its files were given to it %d times", s.owned["data"])
		}
		failed := func(n byte, spec protocol.Spec, want string) {
			t.Helper()
			w.coord.order(actionID(n), spec)
			w.pass(time.Second)
			var got []string
			w.coord.see(func() {
				for _, r := range w.coord.reports {
					if r.Action == actionID(n) {
						got = append(got, string(r.State)+": "+r.Detail)
					}
				}
			})
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "FAILED") && strings.Contains(s, want) }) {
				t.Errorf("action %d: %q, want %q", n, got, want)
			}
		}
		failed(2, with(2, false), "container ct-1 has volume data")
		failed(3, with(2, true), "container ct-1 has volume data")
		failed(4, remove, "container ct-1 has volume data")
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Second)
		if got := w.state(1); got != container.StateRunning || s.owned["data"] != 2 {
			t.Errorf("it is %s, and its files were given to it %d times", got, s.owned["data"])
		}
		all, err := w.agent.Containers(t.Context())
		if err != nil || len(all) != 1 || !slices.Equal(all[0].Volumes, []string{"data:/srv"}) {
			t.Errorf("there are %+v, %v", all, err)
		}
		w.coord.order(actionID(5), on(protocol.KindDestroy, 1))
		w.pass(time.Second)
		w.coord.order(actionID(6), remove)
		w.pass(time.Second)
		w.expect(actionID(6), "start RUNNING", "succeed DONE ok")
		failed(7, remove, "data")
		if err := s.Remove("data"); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("it is there: %v", err)
		}
		w.coord.order(actionID(8), with(3, true))
		w.coord.order(actionID(9), with(4, true))
		w.pass(time.Second)
		for _, n := range []byte{8, 9} {
			if got := w.coord.told(actionID(n)); !slices.Contains(got, "succeed DONE ok") {
				t.Errorf("creation %d of a privileged one: %q", n, got)
			}
		}
	})
}

// TestClaimsThatComeTogether: what two orders of one message cannot both have, one of them
// has.
func TestClaimsThatComeTogether(t *testing.T) {
	s := &shelf{owned: make(map[string]int)}
	in(t, func(c *agent.Config) { c.Volumes = s }, func(t *testing.T, w *world) {
		w.line.breaks(true)
		for n := range byte(3) {
			spec := creation(n+1, false)
			spec.Args = &protocol.CreateArgs{Template: "busybox", Volumes: []string{"data:/srv"}}
			w.coord.order(actionID(n+1), spec)
		}
		w.pass(time.Minute)
		w.line.heal()
		w.pass(time.Minute)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		for n := range byte(2) {
			if got := w.coord.told(actionID(n + 2)); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "fail FAILED") }) {
				t.Errorf("creation %d with the volume of another container: %q", n+2, got)
			}
		}
	})
}
