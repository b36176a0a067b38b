package workloads

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// pending are the arguments of the creation that is pending.
func (s *stage) pending() protocol.CreateArgs {
	s.Helper()
	a, err := core.Read(s.Context(), s.base, func(tx core.Tx) (core.Action, error) { return tx.Actions.Get(s.only().Pending) })
	if err != nil {
		s.Fatal(err)
	}
	spec, err := protocol.DecodeRequest(a.Spec)
	if err != nil {
		s.Fatal(err)
	}
	return protocol.ArgsOf[protocol.CreateArgs](&spec)
}

// unmade has host b find no backup, and let the workload go.
func (s *stage) unmade() {
	s.ends(protocol.StateFailed, "no target of this host has a backup of it")
	var took protocol.Seq
	for range 5 {
		took, _ = s.renew("b", took)
		s.later(time.Second)
	}
}

// copyOn has a host tell that it has the container.
func (s *stage) copyOn(h protocol.HostID) {
	s.tell(h, func(h *core.Host) { h.Inventory.Containers = []protocol.Container{{CTID: ctid, Name: "db"}} })
}

// loses has workload db lose its host a, so that host b is to make it from a backup.
func loses(t *testing.T, features ...string) *stage {
	s := born(t, "backup")
	s.Greeted("b", &protocol.Hello{SelfFence: "guard", Features: append([]string{"lxc", "lxc.unique"}, features...)})
	s.copyOn("a")
	s.away["a"] = true
	s.keep(2*time.Minute + 10*time.Second)
	return s
}

// back brings a host back, and the workload must run there soon.
func (s *stage) back(h protocol.HostID) {
	s.Helper()
	s.away[h] = false
	s.keep(20 * time.Second)
	if w := s.only(); w.Host != h || w.Phase != unique.Held {
		s.Errorf("when host %s, which has its data, is back: %+v", h, w)
	}
}

// waits brings host a back and takes host b away. The workload must stay down, for the copy on
// host a is old.
func (s *stage) waits(dataHost protocol.HostID) {
	s.Helper()
	s.away["a"], s.away["b"] = false, true
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Free || w.DataHost != dataHost || !strings.Contains(w.Why, "a: it has a copy with old data") {
		s.Errorf("host a has an old copy: %+v", w)
	}
}

// TestDataInBackups: when the host of a workload is lost, another host makes it from a backup
// of the hosts that have held it. The coordinator keeps and tells the name of the backup, and
// never starts the old copy on the first host.
func TestDataInBackups(t *testing.T) {
	s := loses(t)
	w := s.only()
	if args := s.pending(); w.Host != "b" || w.Phase != unique.Held || w.Epoch.Counter != 2 || !slices.Equal(args.Restore, []protocol.HostID{"a", "b"}) || args.Epochs != nil {
		t.Fatalf("%+v, of %v under %v", w, args.Restore, args.Epochs)
	}
	s.ends(protocol.StateDone, "made of backup nas:db-1 of host a, 3h0m0s before")
	s.copyOn("b")
	if w := s.only(); w.DataHost != "b" || w.Restored != "made of backup nas:db-1 of host a, 3h0m0s before" {
		t.Errorf("%+v", w)
	}
	told := 0
	if err := s.store.View(t.Context(), func(tx core.Tx) error {
		events, err := tx.Events.List(0, 1000)
		for _, e := range events {
			if e.Type == restoredEvent && e.Host == "b" && strings.Contains(string(e.Data), "3h0m0s before") {
				told++
			}
		}
		return err
	}); err != nil || told != 1 {
		t.Errorf("%d events, %v", told, err)
	}
	s.waits("b")
	s.back("b")
}

// TestEpochsOfHolders: a host that has the feature is told the epoch that each host has had
// whose backups count, and a host that comes back has a new one.
func TestEpochsOfHolders(t *testing.T) {
	s := loses(t, protocol.FeatureHolders)
	w := s.only()
	first, second := protocol.Epoch{Term: w.Epoch.Term, Counter: 1}, w.Epoch
	if args := s.pending(); second.Counter != 2 || !slices.Equal(args.Restore, []protocol.HostID{"a", "b"}) || !slices.Equal(args.Epochs, []protocol.Epoch{first, second}) {
		t.Fatalf("%+v, of %v under %v", w, args.Restore, args.Epochs)
	}
	s.unmade()
	s.back("a")
	w = s.only()
	if want := map[protocol.HostID]protocol.Epoch{"a": w.Epoch, "b": second}; w.Epoch.Compare(second) <= 0 || !maps.Equal(w.Had, want) {
		t.Errorf("%+v, want %v", w, want)
	}
	delete(w.Had, "b") // a version has kept it that kept no epochs
	if all := epochs(&w.Workload); !slices.Equal(w.Holders, []protocol.HostID{"b", "a"}) || !slices.Equal(all, []protocol.Epoch{w.Epoch, w.Epoch}) {
		t.Errorf("%v under %v", w.Holders, all)
	}
}

// TestNoBackup: a host that finds no good backup is left alone, and the workload waits for
// the host that has its data.
func TestNoBackup(t *testing.T) {
	s := loses(t)
	s.unmade()
	if w := s.only(); w.Phase != unique.Free || w.DataHost != "a" || w.Restored != "" || !strings.Contains(w.Failed["b"].Why, "no target") {
		t.Fatalf("%+v", w)
	}
	s.back("a")
}

// TestLostWithoutAWord: a host that was lost while it made a workload may have the newest
// data or not, so the coordinator starts no copy. It only has one made from a backup.
func TestLostWithoutAWord(t *testing.T) {
	s := loses(t)
	s.ends(protocol.StateLost, "")
	s.copyOn("b")
	s.waits("")
}

// TestBackedStaysOnADrainedHost: what would lose data leaves no host that is heard.
func TestBackedStaysOnADrainedHost(t *testing.T) {
	s := born(t, "backup")
	s.available("a", core.Draining)
	s.keep(2 * time.Minute)
	if w := s.only(); w.Host != "a" || w.Phase != unique.Held {
		t.Errorf("%+v", w)
	}
	if err := s.Move(t.Context(), admin, "db", "b", ""); err == nil || !strings.Contains(err.Error(), "since its newest backup would be lost") {
		t.Error(err)
	}
}
