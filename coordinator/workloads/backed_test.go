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

// TestDataInBackups: when the host of a workload is lost, another host makes it from a backup
// of the hosts that have held it. The coordinator keeps and tells the name of the backup, and
// never starts the old copy on the first host.
func TestDataInBackups(t *testing.T) {
	s := born(t, "backup")
	s.copyOn("a")
	s.away["a"] = true
	s.keep(2*time.Minute + 10*time.Second)
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
	s.away["a"], s.away["b"] = false, true
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Free || !strings.Contains(w.Why, "a: it has a copy with old data") {
		t.Errorf("its old copy is started: %+v", w)
	}
	s.away["b"] = false
	s.keep(20 * time.Second)
	if w := s.only(); w.Host != "b" || w.Phase != unique.Held {
		t.Errorf("when the host with its data is back: %+v", w)
	}
}

// TestNoBackup: a host that finds no good backup is left alone, and the workload waits for
// the host that has its data.
func TestNoBackup(t *testing.T) {
	s := born(t, "backup")
	s.copyOn("a")
	s.away["a"] = true
	s.keep(2*time.Minute + 10*time.Second)
	s.ends(protocol.StateFailed, "no target of this host has a backup of it")
	var took protocol.Seq
	for range 5 {
		took, _ = s.renew("b", took)
		s.later(time.Second)
	}
	if w := s.only(); w.Phase != unique.Free || w.DataHost != "a" || w.Restored != "" || !strings.Contains(w.Failed["b"].Why, "no target") {
		t.Fatalf("%+v", w)
	}
	s.away["a"] = false
	s.keep(20 * time.Second)
	if w := s.only(); w.Host != "a" || w.Phase != unique.Held {
		t.Errorf("when its host is back: %+v", w)
	}
}

// TestLostWithoutAWord: a host that was lost while it made a workload may have the newest
// data or not, so the coordinator starts no copy. It only has one made from a backup.
func TestLostWithoutAWord(t *testing.T) {
	s := born(t, "backup")
	s.copyOn("a")
	s.away["a"] = true
	s.keep(2*time.Minute + 10*time.Second)
	s.ends(protocol.StateLost, "")
	s.copyOn("b")
	s.away["a"], s.away["b"] = false, true
	s.keep(5 * time.Minute)
	if w := s.only(); w.Phase != unique.Free || w.DataHost != "" || !strings.Contains(w.Why, "a: it has a copy with old data") {
		t.Errorf("%+v", w)
	}
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
