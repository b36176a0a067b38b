package workloads

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// from are the hosts whose backups count for the creation that is pending.
func (s *stage) from() []protocol.HostID {
	s.Helper()
	a, err := core.Read(s.Context(), s.base, func(tx core.Tx) (core.Action, error) { return tx.Actions.Get(s.only().Pending) })
	if err != nil {
		s.Fatal(err)
	}
	spec, err := protocol.DecodeRequest(a.Spec)
	if err != nil {
		s.Fatal(err)
	}
	return protocol.ArgsOf[protocol.CreateArgs](&spec).Restore
}

// copyOn has a host tell that it has the container.
func (s *stage) copyOn(h protocol.HostID) {
	s.tell(h, func(h *core.Host) { h.Inventory.Containers = []protocol.Container{{CTID: ctid, Name: "db"}} })
}

// loses has workload db lose its host a, so that host b is to make it from a backup.
func loses(t *testing.T) *stage {
	s := born(t, "backup")
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
	if w.Host != "b" || w.Phase != unique.Held || w.Epoch.Counter != 2 || !slices.Equal(s.from(), []protocol.HostID{"a", "b"}) {
		t.Fatalf("%+v, of %v", w, s.from())
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

// TestNoBackup: a host that finds no good backup is left alone, and the workload waits for
// the host that has its data.
func TestNoBackup(t *testing.T) {
	s := loses(t)
	s.ends(protocol.StateFailed, "no target of this host has a backup of it")
	var took protocol.Seq
	for range 5 {
		took, _ = s.renew("b", took)
		s.later(time.Second)
	}
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
