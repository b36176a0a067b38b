package agent_test

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
)

// inTwo runs a test on a host with LXC and podman.
func inTwo(t *testing.T, test func(t *testing.T, w *world, podman *containertest.Fake)) {
	t.Helper()
	podman := containertest.NewFake(container.KindPodman)
	in(t, func(c *agent.Config) {
		c.Runtimes = []container.Runtime{c.Runtimes[0], podman}
	}, func(t *testing.T, w *world) { test(t, w, podman) })
}

// image is the creation of a container of podman.
func image(n byte, start bool) protocol.Spec {
	s := creation(n, start)
	s.Args = &protocol.CreateArgs{Template: "registry.example/debian:12", Start: start}
	return s
}

// shown is a container as the host tells of it.
func (w *world) shown(runtime, name string) (found protocol.Container) {
	w.t.Helper()
	all, err := w.agent.Containers(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range all {
		if c.Runtime == runtime && c.Name == name {
			return c.Container
		}
	}
	return found
}

// TestTwoRuntimes: what is asked for decides which of them makes a container, names
// are unique over both, and a foreign container of either is shown and left alone.
func TestTwoRuntimes(t *testing.T) {
	inTwo(t, func(t *testing.T, w *world, podman *containertest.Fake) {
		podman.Put(container.Info{Name: "ct-3", State: container.StateRunning})
		w.pass(time.Minute)
		asked := creation(4, false)
		asked.Args = &protocol.CreateArgs{Template: "busybox", Runtime: "podman"}
		twin := image(5, false)
		twin.Name = "ct-1"
		for n, spec := range []protocol.Spec{creation(1, true), image(2, true), creation(3, false), asked, twin} {
			w.coord.order(actionID(byte(n+1)), spec)
		}
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(3), "accept NEW", "fail FAILED error") // podman has that name
		w.expect(actionID(4), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(5), "accept NEW", "fail FAILED error") // LXC has that name
		for name, want := range map[string]struct{ runtime, state, intended string }{
			"ct-1": {"lxc", "running", "running"}, "ct-2": {"podman", "running", "running"},
			"ct-3": {"podman", "running", ""}, "ct-4": {"podman", "stopped", "stopped"},
		} {
			if c := w.shown(want.runtime, name); c.State != want.state || c.Intended != want.intended {
				t.Errorf("%s of %s is %+v", name, want.runtime, c)
			}
		}
		w.coord.order(actionID(6), on(protocol.KindStop, 2))
		w.pass(time.Second)
		w.expect(actionID(6), "start RUNNING", "succeed DONE ok")
		w.coord.order(actionID(7), on(protocol.KindDestroy, 2))
		w.pass(time.Second)
		w.expect(actionID(7), "start RUNNING", "succeed DONE ok")
		if c := w.shown("podman", "ct-2"); c.Name != "" {
			t.Errorf("it is still there: %+v", c)
		}
	})
}

// TestRuntimeThatIsMissing: a host without podman says so at once, and makes containers
// of images by LXC unless podman is asked for.
func TestRuntimeThatIsMissing(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		asked := image(1, false)
		asked.Args = &protocol.CreateArgs{Template: "registry.example/debian:12", Runtime: "podman"}
		w.coord.order(actionID(1), asked)
		w.coord.order(actionID(2), image(2, false))
		w.pass(time.Second)
		w.expect(actionID(1), "refuse FAILED unsupported")
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
		if c := w.shown("lxc", "ct-2"); c.State != "stopped" {
			t.Errorf("of an image there is %+v", c)
		}
	})
}

// TestRuntimeAway: while podman does not answer, the state of its containers is unknown,
// failed requests do not count against them, and LXC works as before. When podman
// answers again, its containers are brought to their intended states.
func TestRuntimeAway(t *testing.T) {
	inTwo(t, func(t *testing.T, w *world, podman *containertest.Fake) {
		w.coord.order(actionID(1), creation(1, true))
		w.coord.order(actionID(2), image(2, true))
		w.pass(time.Second)
		podman.SetFault(func(containertest.Op, string) (bool, error) { return false, container.ErrUnavailable })
		if err := podman.Enter("ct-2", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
		if c := w.shown("podman", "ct-2"); c.State != string(container.StateUnknown) || c.Failures != 0 || c.Broken != "" {
			t.Errorf("while podman is away: %+v", c)
		}
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("the container of LXC is %v", got)
		}
		w.coord.order(actionID(3), image(3, false))
		w.coord.order(actionID(4), on(protocol.KindRestart, 2))
		w.pass(time.Second)
		w.expect(actionID(3), "start RUNNING", "fail FAILED error")
		w.expect(actionID(4), "start RUNNING", "fail FAILED error")
		if c := w.shown("podman", "ct-3"); c.Name != "" {
			t.Errorf("a creation that never began left %+v", c)
		}
		podman.SetFault(nil)
		w.pass(time.Minute)
		if c := w.shown("podman", "ct-2"); c.State != string(container.StateRunning) {
			t.Errorf("when podman is back: %+v", c)
		}
		w.coord.order(actionID(5), image(3, false))
		w.pass(time.Second)
		w.expect(actionID(5), "start RUNNING", "succeed DONE ok")
	})
}
