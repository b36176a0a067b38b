package agent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// cloneOf asks for a copy of ct-1.
func cloneOf(n byte, start bool) protocol.Spec {
	s := creation(n, start)
	s.Kind, s.Args = protocol.KindClone, &protocol.CloneArgs{Clone: data.Clone{Source: ctid(1).String(), SourceName: "ct-1", Start: start}}
	return s
}

// TestClone: a clone is kept as its source is, but for its name, its address and its
// ports. While its files are copied nothing is done to the source, and an agent that dies
// meanwhile has made it in the end.
func TestClone(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		source := creation(1, true)
		source.Args = &protocol.CreateArgs{Template: "busybox", Start: true, Labels: []string{"app=web"}, Env: []string{"A=b"}, Hostname: "www", Class: "cloned"}
		w.coord.order(actionID(1), source)
		w.pass(time.Second)
		w.lxc.Hang(containertest.OpClone)
		w.coord.order(actionID(2), cloneOf(2, true))
		w.pass(time.Second)
		w.coord.order(actionID(3), on(protocol.KindStop, 1))
		w.pass(time.Second)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("while it is copied, the source is %s", got)
		}
		w.restart()
		w.lxc.Hang("")
		w.pass(time.Minute)
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("the source is %s after its stop", got)
		}
		if got := w.state(2); got != container.StateRunning {
			t.Errorf("the clone is %s", got)
		}
		d, _, err := agent.Remembered(t.Context(), w.agent, "ct-2")
		if err != nil || !slices.Equal(d.Labels, []string{"app=web"}) || !slices.Equal(d.Settings.Env, []string{"A=b"}) || d.Class != "cloned" || d.Settings.Hostname != "" || d.Template != "busybox" {
			t.Errorf("the clone is %+v, %v", d, err)
		}
		wrong := cloneOf(3, false)
		wrong.Args = &protocol.CloneArgs{Clone: data.Clone{Source: ctid(1).String(), SourceName: "ct-2"}}
		for n, s := range map[byte]protocol.Spec{4: wrong, 5: cloneOf(2, false)} {
			w.coord.order(actionID(n), s)
			w.pass(time.Second)
			if got := w.coord.told(actionID(n)); !slices.ContainsFunc(got, func(s string) bool { return s == "fail FAILED error" }) {
				t.Errorf("clone %d: %q", n, got)
			}
		}
	})
}

// TestHostname: the host name of a container is changed while it is stopped, and is
// remembered then; of one that runs nothing changes.
func TestHostname(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		set := on(protocol.KindConfig, 1)
		set.Args = &protocol.ConfigArgs{Set: []string{"hostname=www", "label.a=b"}}
		w.coord.order(actionID(2), set)
		w.pass(time.Second)
		if d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1"); err != nil || d.Settings.Hostname != "" || len(d.Labels) != 0 {
			t.Errorf("while it runs: %+v, %v", d, err)
		}
		w.coord.order(actionID(3), on(protocol.KindStop, 1))
		w.coord.order(actionID(4), set)
		w.pass(time.Second)
		d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1")
		if err != nil || d.Settings.Hostname != "www" || !slices.Equal(d.Labels, []string{"a=b"}) || w.lxc.Hostname("ct-1") != "www" {
			t.Errorf("%+v, %v, in the runtime %q", d, err, w.lxc.Hostname("ct-1"))
		}
	})
}
