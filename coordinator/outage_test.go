package coordinator_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// TestAThousandComeBack: the coordinator is away for half an hour, and 1,000 hosts come back
// over the reconnect window, 100 of them with a unique container each. No host is called
// late or offline meanwhile, nothing is fenced or taken from a host, and each host is
// online.
func TestAThousandComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			hosts, held = 1000, 100
			window      = 20 * time.Second
		)
		f := coordtest.New(t)
		f.Tune(func(c *coordinator.Config) { c.Window = func(int) time.Duration { return window } })
		f.Stop()
		all := make([]*coordtest.Host, hosts)
		for i := range all {
			all[i] = f.AddHost(protocol.HostID(fmt.Sprintf("edge-%04d", i)))
		}
		if err := f.Store().Update(t.Context(), func(tx core.Tx) error {
			for i, h := range all[:held] {
				if err := tx.Workloads.Put(uniqueOn(h.ID, i)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		f.Restart()
		for _, h := range all {
			h.Connect()
		}
		elapse(time.Minute)
		if n := online(t, f); n != hosts {
			t.Fatalf("%d hosts are online at first", n)
		}
		newest, err := f.Coordinator().Journal().Events(t.Context(), 0, 100_000)
		if err != nil {
			t.Fatal(err)
		}

		f.Stop() // and the broker with it: no host hears what becomes of the others
		for _, h := range all {
			h.Break()
		}
		elapse(30 * time.Minute)
		f.Restart()
		draw := rand.New(rand.NewPCG(16, 1))
		waits := make([]time.Duration, hosts)
		for i := range waits {
			waits[i] = time.Duration(draw.Int64N(int64(window)))
		}
		back := slices.Clone(all)
		for passed := time.Duration(0); passed < window; passed += time.Second {
			for i, h := range back {
				if waits[i] >= passed && waits[i] < passed+time.Second {
					h.Connect()
				}
			}
			elapse(time.Second)
			degrees(t, f)
		}
		for range 120 {
			elapse(time.Second)
			degrees(t, f)
		}
		if n := online(t, f); n != hosts {
			t.Errorf("%d hosts are online two minutes after the window, want %d", n, hosts)
		}
		after, err := f.Coordinator().Journal().Events(t.Context(), newest[len(newest)-1].ID, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range after {
			if e.Type == "host.late" || e.Type == "host.offline" {
				t.Errorf("%s of %s: %s", e.Type, e.Host, e.Data)
			}
		}
		workloads := f.Coordinator().Workloads().List()
		if len(workloads) != held {
			t.Errorf("%d workloads are held, want %d", len(workloads), held)
		}
		for _, w := range workloads {
			if w.Phase != unique.Held || w.Epoch.Counter != 1 {
				t.Errorf("%s is %s on %s under epoch %s: %s", w.Name, w.Phase, w.Host, w.Epoch, w.Why)
			}
		}
		if held := f.Coordinator().Fencing().Held(); len(held) != 0 {
			t.Errorf("fences are held back: %+v", held)
		}
		if err := f.Store().View(t.Context(), func(tx core.Tx) error {
			ops, err := tx.Fences.List()
			if len(ops) != 0 {
				t.Errorf("hosts were fenced: %+v", ops)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// degrees checks that no host is called late or offline.
func degrees(t *testing.T, f *coordtest.Fleet) {
	t.Helper()
	s, err := f.Coordinator().Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Hosts[core.Late]+s.Hosts[core.Offline] > 0 {
		t.Errorf("while hosts come back they are %v", s.Hosts)
	}
}

// online counts the hosts that are online.
func online(t *testing.T, f *coordtest.Fleet) int {
	t.Helper()
	s, err := f.Coordinator().Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Hosts[core.Online]
}

// uniqueOn is a unique workload that a host holds under the first epoch.
func uniqueOn(host protocol.HostID, i int) core.Workload {
	w := unique.Workload{
		Name: protocol.ContainerName(fmt.Sprintf("u%d", i)), Host: host, Phase: unique.Held, Data: unique.DataNone,
		Epoch: protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 1}, Counter: 1},
		CTID:  protocol.CTID{6: 0x70, 8: 0x80}, // the form of an id
	}
	binary.BigEndian.PutUint32(w.CTID[12:], uint32(i))
	return core.Workload{Workload: w}
}
