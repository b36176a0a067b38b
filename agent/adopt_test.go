package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
)

// adoption takes over the foreign container ct-n.
func adoption(n byte, privileged bool) protocol.Spec {
	s := creation(n, false)
	s.Kind, s.Args = protocol.KindAdopt, &protocol.AdoptArgs{Privileged: privileged}
	return s
}

// TestAdopt: a container of others is kept as it is from then on, whatever interrupts that.
// One that cannot be adopted stays foreign, as do one that is privileged and one of ours.
func TestAdopt(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.lxc.Put(container.Info{Name: "ct-1", State: container.StateRunning})
		w.lxc.Put(container.Info{Name: "ct-2", State: container.StateStopped, Privileged: true})
		w.pass(time.Minute) // it is seen
		w.lxc.Hang(containertest.OpAdopt)
		w.coord.order(actionID(1), adoption(1, false))
		w.pass(time.Second)
		w.restart()
		w.lxc.Hang("")
		w.pass(time.Minute)
		d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1")
		if err != nil || d.Class != "pinned" || d.Offline != "keep" || d.Template != container.Adopted {
			t.Errorf("it is kept as %+v, %v", d, err)
		}
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Second)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("it ran when it was adopted, and is not started again: %s", got)
		}
		refused := func(n byte, s protocol.Spec, want string) {
			t.Helper()
			w.coord.order(actionID(n), s)
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
		refused(2, adoption(2, false), "--privileged")
		refused(3, adoption(3, false), "no foreign container")
		again := adoption(3, false)
		again.Name = "ct-1"
		refused(4, again, "already")
		w.lxc.SetFault(func(op containertest.Op, name string) (bool, error) {
			if op == containertest.OpAdopt {
				return true, errors.New("no room")
			}
			return false, nil
		})
		refused(5, adoption(2, true), "no room")
		w.lxc.SetFault(nil)
		w.pass(time.Second)
		if info, err := w.lxc.Inspect(t.Context(), "ct-2"); err != nil || info.CTID != "" {
			t.Errorf("what could not be adopted is %+v, %v", info, err)
		}
		w.coord.order(actionID(6), adoption(2, true))
		w.pass(time.Second)
		w.expect(actionID(6), "start RUNNING", "succeed DONE ok")
		all, err := w.agent.Containers(t.Context())
		if err != nil || len(all) != 2 || all[1].Intended != "stopped" || !all[1].Privileged {
			t.Errorf("there are %+v, %v", all, err)
		}
	})
}
