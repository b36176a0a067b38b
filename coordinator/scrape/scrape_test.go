package scrape

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/protocol"
)

// TestFleetMetricsAreBounded: hosts that tell names of their own choosing, and a fleet
// that is larger than one answer, make no more series than there may be.
func TestFleetMetricsAreBounded(t *testing.T) {
	f := New()
	for n := range MaxHosts + 100 {
		v := members.HostView{Presence: core.Presence{Connectivity: core.Online}}
		v.ID = protocol.HostID(fmt.Sprintf("edge-%05d", n))
		v.Inventory.AtMS = 1
		v.Inventory.Host.Version = fmt.Sprint("1.0.", n)
		v.Inventory.Containers = []protocol.Container{{State: "running", Name: fmt.Sprint("ct", n)}, {State: fmt.Sprint("state", n)}}
		v.Inventory.Alerts = []protocol.AlertInfo{
			{ID: fmt.Sprint("mine.", n), Severity: fmt.Sprint("bad", n)}, {ID: "measured.disk.critical//", Severity: "critical"}, {ID: "host.degraded", Severity: "critical"},
		}
		f.Add(v)
	}
	w := httptest.NewRecorder()
	prom.Handler("hostler_fleet_", func(_ context.Context, s *prom.Scrape) error { f.Write(s); return nil }).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	text := w.Body.String()
	for _, line := range []string{
		`hostler_fleet_hosts{connectivity="online"} 2100`, `hostler_fleet_hosts_shown 2000`, `hostler_fleet_hosts_hidden 100`,
		`hostler_fleet_containers{state="running"} 2100`, `hostler_fleet_containers{state="other"} 2100`, `hostler_fleet_agents{version="other"} 2050`,
		`hostler_fleet_alerts{code="host.degraded",severity="critical"} 2100`, `hostler_fleet_alerts{code="other",severity="warning"} 2100`,
		`hostler_fleet_alerts{code="measured.disk",severity="critical"} 2100`, `hostler_fleet_alerts{code="sink.lost",severity="warning"} 0`,
		`hostler_fleet_host_up{host="edge-00000"} 1`, `hostler_fleet_host_alerts{host="edge-01999",severity="critical"} 2`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	if n := strings.Count(text, "\nhostler_fleet_"); n > MaxHosts*(len(told)+2)+200 {
		t.Errorf("%d series", n)
	}
	if strings.Contains(text, "ct7") || strings.Contains(text, "edge-02000") {
		t.Error("a name is told that may not be")
	}
}
