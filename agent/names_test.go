package agent_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
)

// TestNameOfAnother: people approve what a name says, hosts do what an id says, so
// what calls a container by the name of another one is not accepted, whoever asks.
func TestNameOfAnother(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		named := func(kind protocol.Kind, name protocol.ContainerName) protocol.Spec {
			s := on(kind, 1)
			s.Name = name
			return s
		}
		w.coord.order(actionID(1), creation(1, false))
		w.coord.order(actionID(2), creation(2, false))
		w.pass(time.Second)
		rename := named(protocol.KindRename, "ct-2")
		rename.Args = &protocol.RenameArgs{NewName: "scratch"}
		exec := named(protocol.KindExec, "ct-2")
		exec.Args = protocol.Command("true")
		for i, s := range []protocol.Spec{named(protocol.KindDestroy, "ct-2"), named(protocol.KindStop, "scratch"), named(protocol.KindStopNow, "ct-2"), rename, exec} {
			id := actionID(10 + byte(i))
			if s.Kind == protocol.KindStopNow {
				w.coord.now(id, s)
			} else {
				w.coord.order(id, s)
			}
			w.pass(time.Second)
			w.expect(id, "refuse FAILED wrong_name")
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if act, err := w.agent.Propose(t.Context(), protocol.ActionID{}, b, agent.LocalRoot); err == nil {
				t.Errorf("%s of %q is accepted on the host itself: %+v", s.Kind, s.Name, act)
			}
		}
		if w.state(1) == "" {
			t.Error("the container is gone")
		}
		w.coord.order(actionID(30), named(protocol.KindDestroy, "ct-1"))
		w.pass(time.Second)
		if w.state(1) != "" {
			t.Error("by its own name it is not destroyed")
		}
	})
}

// TestFormerNames: who asked by the name that a container had, or will have when
// what was accepted before is done, meant this one.
func TestFormerNames(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		renamed := func(to protocol.ContainerName) protocol.Spec {
			s := on(protocol.KindRename, 1)
			s.Args = &protocol.RenameArgs{NewName: to}
			return s
		}
		stop := func(id byte, name protocol.ContainerName) {
			s := on(protocol.KindStop, 1)
			s.Name = name
			w.coord.order(actionID(id), s)
		}
		done := func(first, last byte) {
			t.Helper()
			w.pass(time.Second)
			for id := first; id <= last; id++ {
				if got := w.coord.told(actionID(id)); len(got) == 0 || got[len(got)-1] != "succeed DONE ok" {
					t.Errorf("action %d: %q", id, got)
				}
			}
		}
		alone := command("hang")
		alone.Args.(*protocol.CommandArgs).Exclusive = true
		w.coord.order(actionID(40), alone)
		w.coord.order(actionID(41), creation(2, false))
		w.pass(time.Second)
		behind := on(protocol.KindStop, 2)
		for i, name := range []protocol.ContainerName{"ct-2", "ct-1"} { // its creation waits
			behind.Name = name
			w.coord.order(actionID(42+byte(i)), behind)
		}
		w.pass(time.Second)
		w.coord.cancel(actionID(40))
		done(41, 42)
		w.expect(actionID(43), "refuse FAILED wrong_name")
		w.coord.order(actionID(1), creation(1, false))
		stop(2, "ct-1") // it is not there yet
		w.coord.order(actionID(3), renamed("db"))
		stop(4, "db")
		stop(5, "ct-1")
		done(1, 5)
		w.restart()
		w.pass(time.Minute)
		stop(6, "ct-1")
		done(6, 6)
		for i := range byte(17) {
			w.coord.order(actionID(10+i), renamed(protocol.ContainerName(fmt.Sprintf("db-%d", i))))
		}
		done(10, 26)
		stop(30, "db-0") // sixteen names before the present one
		done(30, 30)
		stop(31, "ct-1") // that was long ago
		w.pass(time.Second)
		w.expect(actionID(31), "refuse FAILED wrong_name")
	})
}
