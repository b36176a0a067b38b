package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// TestFindings: each thing that is wrong is found by the check of its name, with its
// cause and what mends it, and nothing else is.
func TestFindings(t *testing.T) {
	now := time.Unix(1e9, 0)
	seen := now.Add(-time.Hour)
	fleet := api.Status{Version: "1.2.0", Ring: 3, Brokers: []string{"mqtts://broker:8883"}}
	host := api.Host{ID: "edge-01", State: "approved", Connectivity: "online", SeenAt: &seen, InventoryAt: &seen, Version: "1.2.0", DiskBytes: 100, DiskFree: 50, ClockOffset: "1.5s", Ring: 3, Policy: &api.Policy{Source: "builtin"}}
	for name, c := range map[string]struct {
		fleet func(*api.Status)
		host  func(*api.Host)
		check string // RESULT CHECK
		cause string
	}{
		"well":         {},
		"old copy":     {fleet: func(s *api.Status) { s.Recovery = "its hosts have seen more" }, check: "failed recovery", cause: "seen more"},
		"recovering":   {fleet: func(s *api.Status) { s.Recovered = &api.Recovered{Hosts: 3, Answered: 1} }, check: "warning recovered", cause: "2 of 3 hosts"},
		"ring":         {fleet: func(s *api.Status) { s.Ring = 2 }, check: "failed ring", cause: "ring 2 in force, and this machine has ring 3"},
		"enrolment":    {fleet: func(s *api.Status) { s.Pending = 2 }, check: "warning enrolments", cause: "2 hosts"},
		"revoked":      {host: func(h *api.Host) { h.State = "revoked" }, check: "warning membership", cause: "it is revoked"},
		"quarantined":  {host: func(h *api.Host) { h.Quarantined = "two speak for it" }, check: "failed quarantine", cause: "two speak"},
		"away":         {host: func(h *api.Host) { h.Connectivity = "offline" }, check: "failed connection", cause: "offline, last heard of 1h0m0s ago; it dials mqtts://broker:8883"},
		"never seen":   {host: func(h *api.Host) { h.Connectivity, h.SeenAt = "unknown", nil }, check: "failed connection", cause: "not heard of"},
		"no inventory": {host: func(h *api.Host) { h.InventoryAt = nil }, check: "warning inventory", cause: "never told"},
		"degraded":     {host: func(h *api.Host) { h.Degraded = "the disk is full" }, check: "failed state", cause: "disk is full"},
		"no cgroups":   {host: func(h *api.Host) { h.Unsupported = []string{"cgroup2: it is read-only"} }, check: "warning cgroup2", cause: "it is read-only"},
		"full":         {host: func(h *api.Host) { h.DiskFree = 9 }, check: "warning disk", cause: "9 %"},
		"clock":        {host: func(h *api.Host) { h.ClockOffset = "-3h0m0.2s" }, check: "warning clock", cause: "-3h0m0s"},
		"old agent":    {host: func(h *api.Host) { h.Version = "1.1.0" }, check: "warning version", cause: "1.1.0"},
		"old ring":     {host: func(h *api.Host) { h.Ring = 2 }, check: "warning ring", cause: "ring 2 in force, and the coordinator ring 3"},
		"no policy":    {host: func(h *api.Host) { h.Policy = nil }, check: "warning policy", cause: "has not told"},
		"policy":       {host: func(h *api.Host) { h.Policy = &api.Policy{Broken: "line 3"} }, check: "failed policy", cause: "line 3"},
		"alert":        {host: func(h *api.Host) { h.ActiveAlerts = []api.Alert{{ID: "disk.low/root", Text: "2 % free"}} }, check: "warning alert disk.low/root", cause: "2 % free"},
	} {
		s, h := fleet, host
		if c.fleet != nil {
			c.fleet(&s)
		}
		if c.host != nil {
			c.host(&h)
		}
		found := append(examineFleet(s, time.Second, "1.2.0", 3), examineHost(h, s, now)...)
		found = slices.DeleteFunc(found, func(f finding) bool { return f.Result == api.FindingOK })
		if c.check == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", name, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Result+" "+found[0].Check != c.check || !strings.Contains(found[0].Cause, c.cause) || found[0].Object == "" {
			t.Errorf("%s: %+v, want %s: %s", name, found, c.check, c.cause)
			continue
		}
		if program, _, _ := strings.Cut(found[0].Mend, " "); program != "hostler" && program != "hostler-coordinator" && program != "timedatectl" {
			t.Errorf("%s is mended by %q, which is no command", name, found[0].Mend)
		}
	}
	if f := examineFleet(fleet, -time.Minute, "1.2.0", 3); !slices.ContainsFunc(f, func(f finding) bool { return f.Check == "clock" && f.Result == api.FindingWarning }) {
		t.Errorf("a clock that is a minute behind: %+v", f)
	}
}

// TestFindingsOfThisHost: what the agent tells, and its containers.
func TestFindingsOfThisHost(t *testing.T) {
	s := api.AgentStatus{Host: "edge-01", Fleet: "lab", Connection: "connecting", Degraded: "the disk is full", Version: "1.1.0", Policy: api.Policy{Broken: "line 3"}}
	for _, f := range examineAgent(s, "1.2.0") {
		if f.Result == api.FindingOK || f.Cause == "" || f.Mend == "" {
			t.Errorf("%+v", f)
		}
	}
	for _, f := range examineAgent(api.AgentStatus{Connection: "none", Version: "1.2.0"}, "1.2.0") {
		if f.Result != api.FindingOK {
			t.Errorf("a host of no fleet: %+v", f)
		}
	}
	found := examineContainers([]api.Container{{Host: "edge-01", Name: "web"}, {Host: "edge-01", Name: "db", Broken: "it failed 5 times"}})
	if len(found) != 1 || found[0].Object != "container edge-01/db" || found[0].Mend != "hostler ct reset edge-01/db" {
		t.Errorf("%+v", found)
	}
}
