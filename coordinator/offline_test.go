package coordinator_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/alerting"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestOfflineRule: the coordinator raises what no host can tell, keeps it over a restart,
// and clears it when the host is online again.
func TestOfflineRule(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		raised := func() (ids []string) {
			t.Helper()
			synctest.Wait()
			v, err := f.Coordinator().Members().Host(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range v.Inventory.Alerts {
				ids = append(ids, a.ID+" "+a.Severity)
				if strings.HasPrefix(a.ID, "coordinator.offline") && !strings.HasPrefix(a.Text, "not heard for more than ") {
					t.Errorf("the alert says %q", a.Text)
				}
			}
			return ids
		}
		want := func(what string, ids ...string) {
			t.Helper()
			if got := raised(); !slices.Equal(got, ids) {
				t.Errorf("%s: raised are %q, want %q", what, got, ids)
			}
		}
		h.Set(func(f *coordtest.Facts) { f.Info.Rules = &protocol.RulesInfo{} })
		h.Heartbeat()
		_, err := f.Coordinator().Alerts().SetRule(t.Context(), f.Admin(), alerting.RuleSet{
			Name: "away", Of: "host", Rules: []string{"ram=80%", "offline=2m", "offline=5m:critical", "clock=1m"},
		}, "")
		if err != nil {
			t.Fatal(err)
		}
		if sent := given(h); len(sent) != 1 || !slices.Equal(sent[0].Rules, []string{"host ram=80%/1m0s"}) {
			t.Errorf("the host is sent %v, and cannot judge whether it is offline", sent)
		}
		want("a host that is there")
		h.Silence()
		after(2 * time.Minute)
		want("a host that was silent for two minutes")
		after(20 * time.Second)
		want("soon after that", "coordinator.offline warning")
		after(3 * time.Minute)
		want("five minutes", "coordinator.offline warning", "coordinator.offline.critical critical")
		f.Restart()
		after(time.Minute)
		want("after a restart", "coordinator.offline warning", "coordinator.offline.critical critical")
		h.Connect()
		h.Heartbeat()
		after(20 * time.Second)
		want("a host that is back")
		h.Set(func(f *coordtest.Facts) { f.Info.ClockMS = time.Now().Add(-time.Hour).UnixMilli() })
		h.Heartbeat()
		after(20 * time.Second)
		if got := raised(); !slices.Contains(got, "coordinator.clock warning") {
			t.Errorf("a clock an hour late raises %q", got)
		}
		var events []string
		all, err := f.Coordinator().Journal().Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if strings.HasPrefix(e.Type, "alert.") && strings.HasPrefix(e.Object, core.CoordinatorAlert) {
				events = append(events, e.Type+" "+e.Object)
			}
		}
		if expect := []string{
			"alert.raised coordinator.offline", "alert.raised coordinator.offline.critical", "alert.cleared coordinator.offline",
			"alert.cleared coordinator.offline.critical", "alert.raised coordinator.clock",
		}; !slices.Equal(events, expect) {
			t.Errorf("the events are %q, want %q", events, expect)
		}
		if err := f.Coordinator().Alerts().RemoveRule(t.Context(), f.Admin(), "away", ""); err != nil {
			t.Fatal(err)
		}
		after(20 * time.Second)
		want("without the rule")
	})
}
