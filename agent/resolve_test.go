package agent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// resolving are wires that tell containers where names are.
type resolving struct{ *wires }

func (resolving) Resolver(n queue.Network) (string, error) { return "/names/" + n.Bridge, nil }

// TestNames: the names of a network are those of its containers that run, as soon as they
// do, and after a start of the agent. A container is told where they are, unless it brings
// its own.
func TestNames(t *testing.T) {
	net := &wires{}
	in(t, func(c *agent.Config) { c.Network = resolving{net} }, func(t *testing.T, w *world) {
		n := byte(0)
		do := func(s protocol.Spec, want ...string) {
			t.Helper()
			n++
			w.coord.order(actionID(n), s)
			w.pass(time.Second)
			w.expect(actionID(n), "start RUNNING", "succeed DONE ok")
			net.mu.Lock()
			defer net.mu.Unlock()
			if !slices.Equal(net.named, want) {
				t.Errorf("after %s these have names: %q, want %q", s.Kind, net.named, want)
			}
		}
		do(creation(1, false))
		do(on(protocol.KindStart, 1), "ct-1 10.9.0.2")
		own := creation(2, true)
		own.Args.(*protocol.CreateArgs).Mounts = []string{"/host/resolv.conf:/etc/resolv.conf"}
		do(own, "ct-1 10.9.0.2", "ct-2 10.9.0.3")
		do(on(protocol.KindStop, 1), "ct-2 10.9.0.3")
		rename := on(protocol.KindRename, 1)
		rename.Args = &protocol.RenameArgs{NewName: "web"}
		do(rename, "ct-2 10.9.0.3")
		do(on(protocol.KindStart, 1), "ct-2 10.9.0.3", "web 10.9.0.2")
		w.down()
		net.named = nil
		w.up()
		w.pass(time.Second)
		if want := []string{"ct-2 10.9.0.3", "web 10.9.0.2"}; !slices.Equal(net.named, want) {
			t.Errorf("after a start of the agent these have names: %q, want %q", net.named, want)
		}
		for name, want := range map[string]container.Mount{
			"web":  {Source: "/names/br-test", Path: "/etc/resolv.conf", ReadOnly: true, Optional: true},
			"ct-2": {Source: "/host/resolv.conf", Path: "/etc/resolv.conf"},
		} {
			if got := w.lxc.Mounts(name); !slices.Equal(got, []container.Mount{want}) {
				t.Errorf("%s has the mounts %v, want %v", name, got, want)
			}
		}
		do(on(protocol.KindStop, 2), "web 10.9.0.2")
		do(on(protocol.KindDestroy, 2), "web 10.9.0.2")
	})
}
