package agent_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// keeps orders a change of how a container is kept, and returns how that ended.
func (w *world) keeps(id, n byte, change contract.Change) string {
	w.t.Helper()
	s := on(protocol.KindSet, n)
	s.Args = &protocol.SetArgs{Change: change}
	w.coord.order(actionID(id), s)
	w.pass(time.Second)
	all := w.coord.told(actionID(id))
	return all[len(all)-1]
}

// reboots restarts the host, with all containers stopped.
func (w *world) reboots(names ...string) {
	w.t.Helper()
	w.down()
	for _, name := range names {
		if err := w.lxc.Enter(name, container.StateStopped); err != nil {
			w.t.Fatal(err)
		}
	}
	w.boot = "boot of " + time.Now().String()
	w.up()
}

// starts notes the order in which containers are started. One that is stuck does not start.
func (w *world) starts() (all func() []string, stuck func(name string)) {
	var mu sync.Mutex
	var begun []string
	var bad string
	w.lxc.SetFault(func(op containertest.Op, name string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if op == containertest.OpStart {
			if name == bad {
				return false, container.ErrBusy
			}
			begun = append(begun, name)
		}
		return true, nil
	})
	return func() []string {
			mu.Lock()
			defer mu.Unlock()
			all := begun
			begun = nil
			return all
		}, func(name string) {
			mu.Lock()
			defer mu.Unlock()
			bad = name
		}
}

// TestStartOrder: after a reboot containers are started by their order, and after those on
// which they depend. One that does not start keeps no other waiting for ever.
func TestStartOrder(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		for n := byte(1); n <= 4; n++ {
			w.until(n, "keep")
		}
		for i, c := range []struct {
			n      byte
			change contract.Change
			want   string
		}{
			{4, contract.Change{StartOrder: 1}, "succeed DONE ok"},
			{3, contract.Change{StartOrder: 2}, "succeed DONE ok"},
			{1, contract.Change{StartAfter: []string{"ct-2"}}, "succeed DONE ok"},
			{2, contract.Change{StartAfter: []string{"ct-1"}}, "fail FAILED error"},
			{2, contract.Change{StartAfter: []string{"ct-2"}}, "fail FAILED error"},
			{2, contract.Change{StartAfter: []string{"ct-9"}}, "fail FAILED error"},
			{1, contract.Change{StartAfter: []string{"ct-2", "ct-3", "ct-2"}}, "succeed DONE ok"},
		} {
			if got := w.keeps(byte(10+i), c.n, c.change); got != c.want {
				t.Errorf("%d: %+v: %s, want %s", c.n, c.change, got, c.want)
			}
		}
		if c := w.told(1); !slices.Equal(c.StartAfter, []string{"ct-2", "ct-3"}) {
			t.Errorf("it tells %+v", c)
		}
		starts, stuck := w.starts()
		w.reboots("ct-1", "ct-2", "ct-3", "ct-4")
		w.pass(time.Minute)
		if got := starts(); !slices.Equal(got, []string{"ct-4", "ct-3", "ct-2", "ct-1"}) {
			t.Errorf("they were started as %q", got)
		}

		stuck("ct-2")
		w.reboots("ct-1", "ct-2", "ct-3", "ct-4")
		w.pass(90 * time.Second)
		if got := starts(); !slices.Equal(got, []string{"ct-4", "ct-3"}) {
			t.Errorf("they were started as %q", got)
		}
		if c := w.told(1); !strings.Contains(c.Waits, "ct-2") || !strings.Contains(c.Waits, "broken") {
			t.Errorf("it tells %+v", c)
		}
		w.pass(time.Minute)
		if got := starts(); !slices.Equal(got, []string{"ct-1"}) || w.told(1).Waits != "" {
			t.Errorf("they were started as %q, and it waits: %q", got, w.told(1).Waits)
		}

		stuck("")
		if got := w.keeps(30, 1, contract.Change{StartAfter: []string{"none"}}); got != "succeed DONE ok" || len(w.told(1).StartAfter) > 0 {
			t.Errorf("%s, %+v", got, w.told(1))
		}
		w.coord.order(actionID(31), on(protocol.KindDestroy, 2))
		w.pass(time.Second)
	})
}
