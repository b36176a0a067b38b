package coordinator_test

import (
	"testing"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/protocol"
)

func TestSummary(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		f.AddHost("edge-08")
		gone := f.AddHost("edge-09")
		if err := f.Coordinator().Members().Revoke(t.Context(), f.Admin(), gone.ID, "stolen"); err != nil {
			t.Fatal(err)
		}
		h.Set(func(f *coordtest.Facts) {
			f.Containers = []protocol.Container{{Name: "web", Runtime: "lxc", State: "running"}, {Name: "db", Runtime: "lxc", State: "running"}}
		})
		h.Heartbeat()
		propose(t, f, h)
		s, err := f.Coordinator().Summary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Hosts[core.Online] != 1 || s.Hosts[core.Unknown] != 1 || s.Revoked != 1 {
			t.Errorf("hosts %v and %d revoked, want 1 online, 1 unknown, 1 revoked", s.Hosts, s.Revoked)
		}
		if n, ok := s.Actions[protocol.StateRunning]; s.Actions[protocol.StatePendingSchedule] != 1 || n != 0 || !ok {
			t.Errorf("actions %v, want 1 waiting and the other states with 0", s.Actions)
		}
		if s.Containers["running"] != 2 {
			t.Errorf("containers %v, want 2 running", s.Containers)
		}
	})
}

func TestAuditTellsWhoDidWhat(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		rows, _, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{After: 1, Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].Verb != "action.request" || rows[0].Actor != "token:admin" || rows[0].Object != a.ID.String() ||
			rows[0].Host != h.ID || rows[0].Digest != a.Digest {
			t.Errorf("audit: %+v, %v", rows, err)
		}
		if rows, _, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{After: rows[0].N, Limit: 10}); len(rows) != 0 || err != nil {
			t.Errorf("after the last row: %+v, %v", rows, err)
		}
	})
}

func TestAlertsWakeWatchers(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		last, err := f.Coordinator().Journal().LastEvent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		changed, done := f.Coordinator().Journal().EventsChanged()
		defer done()
		h.Alert(protocol.Alert{AlertInfo: protocol.AlertInfo{ID: "disk/full", Severity: "warning", Text: "the disk is full", SinceMS: 1}, Raised: true})
		<-changed
		events, err := f.Coordinator().Journal().Events(t.Context(), last, 10)
		if err != nil || len(events) != 1 || events[0].Type != "alert.raised" || events[0].Object != "disk/full" {
			t.Errorf("events: %+v, %v", events, err)
		}
	})
}
