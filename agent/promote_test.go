package agent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/data"
)

// TestPromote: a container that runs is frozen while an image is made of it, and runs
// again although the agent dies meanwhile. The image becomes a container that is kept as
// the first one was, and loses its name, whenever the agent dies.
func TestPromote(t *testing.T) {
	for _, hang := range []containertest.Op{containertest.OpCreate, containertest.OpForget, containertest.OpStart} {
		t.Run(string(hang), func(t *testing.T) {
			in(t, nil, func(t *testing.T, w *world) {
				source := creation(1, true)
				source.Args = &protocol.CreateArgs{Template: "busybox", Start: true, Labels: []string{"app=web"}, Env: []string{"A=b"}, Class: "cloned", Schedules: contract.Schedules{Backup: &contract.Schedule{EveryMS: 86_400_000, KeepDaily: 7}}}
				w.coord.order(actionID(1), source)
				w.pass(time.Second)
				w.lxc.Hang(containertest.OpPromote)
				promote := on(protocol.KindPromote, 1)
				promote.Args = &protocol.PromoteArgs{NewImage: data.NewImage{Image: "web:1"}}
				w.coord.order(actionID(2), promote)
				w.pass(time.Second)
				if got := w.state(1); got != container.StateFrozen {
					t.Errorf("while its files are read, it is %s", got)
				}
				w.restart()
				w.lxc.Hang("")
				w.pass(time.Minute)
				if got := w.state(1); got != container.StateRunning {
					t.Errorf("afterwards it is %s", got)
				}
				if _, err := w.lxc.Kept(t.Context(), "localhost/web:1"); err != nil {
					t.Fatalf("%v: %q", err, w.coord.told(actionID(2)))
				}
				w.lxc.Hang(hang)
				demote := creation(2, true)
				demote.Kind, demote.Args = protocol.KindDemote, &protocol.DemoteArgs{Demotion: data.Demotion{Image: "localhost/web:1", Start: true}}
				w.coord.order(actionID(3), demote)
				w.pass(time.Second)
				w.restart()
				w.lxc.Hang("")
				w.pass(time.Minute)
				d, _, err := agent.Remembered(t.Context(), w.agent, "ct-2")
				if err != nil || w.state(2) != container.StateRunning || d.Class != "cloned" || d.Template != "localhost/web:1" || !slices.Equal(d.Labels, []string{"app=web"}) || !slices.Equal(d.Settings.Env, []string{"A=b"}) {
					t.Errorf("it is %s and kept as %+v, %v: %q", w.state(2), d, err, w.coord.told(actionID(3)))
				}
				if s := d.Settings.Backup; s == nil || s.EveryMS != 86_400_000 || s.KeepDaily != 7 {
					t.Errorf("its backups are kept as %+v", s)
				}
				if _, err := w.lxc.Kept(t.Context(), "localhost/web:1"); err == nil {
					t.Error("the image has its name still")
				}
			})
		})
	}
}
