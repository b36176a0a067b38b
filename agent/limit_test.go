package agent_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/limit"
)

// kernel keeps limits of first processes.
type kernel struct {
	mu     sync.Mutex
	limits map[int]limit.Limits
}

func (k *kernel) Supported() []limit.Resource {
	return []limit.Resource{limit.CPU, limit.Memory}
}

func (k *kernel) Files(limit.Limits) ([]container.GroupFile, error) { return nil, nil }

func (k *kernel) Limit(_, _ string, init int, l limit.Limits, force bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l[limit.Memory] == "1MiB" && !force {
		return fmt.Errorf("it uses more")
	}
	k.limits[init] = k.limits[init].With(l)
	return nil
}

func (k *kernel) Effective(_, _ string, init int) (limit.Limits, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.limits[init], nil
}

// TestContainerLimits: limits are in force at once, after a restart of the container by
// whomever, and after one of the agent; also if that died while they were set. What
// cannot be limited here is refused.
func TestContainerLimits(t *testing.T) {
	k := &kernel{limits: make(map[int]limit.Limits)}
	in(t, func(c *agent.Config) { c.Limiter = k }, func(t *testing.T, w *world) {
		limit := func(n byte, force bool, set ...string) {
			t.Helper()
			w.coord.order(actionID(n), protocol.Spec{Kind: protocol.KindLimit, Target: ctid(1), Args: &protocol.LimitArgs{Set: set, Force: force}})
			w.pass(time.Minute)
		}
		expect := func(want ...string) {
			t.Helper()
			d, effective, err := agent.Remembered(t.Context(), w.agent, "ct-1")
			if err != nil || !slices.Equal(d.Settings.Limits.Strings(), want) || !slices.Equal(effective.Strings(), want) {
				t.Errorf("limits are %v, in force %v, %v, want %v", d.Settings.Limits, effective, err, want)
			}
		}
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		limit(2, false, "cpu=150%", "memory=64MiB")
		expect("cpu=150%", "memory=64MiB")
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		expect("cpu=150%", "memory=64MiB")
		limit(3, false, "memory=1MiB")
		expect("cpu=150%", "memory=64MiB")
		w.lxc.Hang(containertest.OpInspect)
		w.coord.order(actionID(4), protocol.Spec{Kind: protocol.KindLimit, Target: ctid(1), Args: &protocol.LimitArgs{Set: []string{"cpu=none", "memory=1MiB"}, Force: true}})
		w.pass(time.Second)
		w.restart()
		w.lxc.Hang("")
		w.pass(time.Minute)
		d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1")
		if err != nil || !slices.Equal(d.Settings.Limits.Strings(), []string{"memory=1MiB"}) {
			t.Errorf("%v, %v", d.Settings.Limits, err)
		}
		set := func(n byte, set ...string) {
			w.coord.order(actionID(n), protocol.Spec{Kind: protocol.KindConfig, Target: ctid(1), Args: &protocol.ConfigArgs{Set: set}})
			w.pass(time.Minute)
		}
		set(6, "label.app=web", "limit.cpu=50%", "limit.memory=2MiB")
		expect("cpu=50%", "memory=2MiB")
		set(7, "label.app=other", "limit.memory=1MiB", "limit.cpu") // below present use
		set(8, "label.app=other", "limit.disk=1GiB")                // unsupported
		expect("cpu=50%", "memory=2MiB")
		if got := w.shown("lxc", "ct-1").Labels; !slices.Equal(got, []string{"app=web"}) {
			t.Errorf("of changes that fail in part, the labels are %q", got)
		}
		set(9, "label.app", "limit.cpu")
		if got := w.shown("lxc", "ct-1").Labels; len(got) > 0 {
			t.Errorf("the label is still there: %q", got)
		}
		limit(5, false, "disk=5GiB")
		if got := w.coord.told(actionID(5)); !slices.Contains(got, "refuse FAILED unsupported") {
			t.Errorf("a limit of disk: %q", got)
		}
	})
}
