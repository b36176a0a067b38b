// Package scrape makes of what hosts last told the metrics that Prometheus is answered
// with. However many hosts, containers, versions and alerts there are, the series are
// bounded.
package scrape

import (
	"maps"
	"slices"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/internal/warnings"
)

const (
	// MaxHosts is how many hosts have series of their own in one answer: some 20
	// each. The others are counted, and a selector finds them.
	MaxHosts = 2000
	// maxVersions is how many versions of the agent are told apart.
	maxVersions = 50
	// otherValue stands for all values of a label beyond those that are told apart.
	otherValue = "other"
)

// Fleet gathers what is told of hosts. The values of each label come from a list,
// or are bounded by a number: no container and no text of a host becomes one.
type Fleet struct {
	hosts, containers, versions map[string]float64
	alerts                      map[[2]string]float64 // code, severity
	each                        map[string][]prom.Series
	shown, hidden               int
}

var severities = []string{warnings.Critical, warnings.Minor}

// New returns an answer without hosts.
func New() *Fleet {
	f := &Fleet{hosts: make(map[string]float64), containers: make(map[string]float64), versions: make(map[string]float64), alerts: make(map[[2]string]float64), each: make(map[string][]prom.Series)}
	for _, c := range core.Degrees() {
		f.hosts[string(c)] = 0
	}
	for _, s := range container.States() {
		f.containers[string(s)] = 0
	}
	for _, w := range warnings.All() {
		for _, severity := range severities {
			if w.Severity == severity || w.Severity == warnings.ByRule {
				f.alerts[[2]string{string(w.Code), severity}] = 0
			}
		}
	}
	return f
}

// among returns a value of a label, if the label has it.
func among(known map[string]float64, value string) string {
	if _, ok := known[value]; ok {
		return value
	}
	return otherValue
}

// Add counts a host in.
func (f *Fleet) Add(v members.HostView) {
	f.hosts[among(f.hosts, string(v.Connectivity))]++
	i := v.Inventory
	if _, known := f.versions[i.Host.Version]; known || len(f.versions) < maxVersions {
		f.versions[i.Host.Version]++
	} else {
		f.versions[otherValue]++
	}
	running := 0
	for _, c := range i.Containers {
		f.containers[among(f.containers, c.State)]++
		if c.State == "running" {
			running++
		}
	}
	severe := make(map[string]int)
	for _, a := range i.Alerts {
		code, severity := otherValue, warnings.Minor
		if w, ok := warnings.Of(a.ID); ok {
			code = string(w.Code)
		}
		if a.Severity == warnings.Critical {
			severity = warnings.Critical
		}
		f.alerts[[2]string{code, severity}]++
		severe[severity]++
	}
	if f.shown == MaxHosts {
		f.hidden++
		return
	}
	f.shown++
	set := func(name string, value float64) {
		f.each[name] = append(f.each[name], prom.Series{Values: []string{string(v.ID)}, Value: value})
	}
	set("up", truth(v.Connectivity == core.Online))
	set("seen_timestamp_seconds", float64(v.SeenMS)/1000)
	set("quarantined", truth(v.Quarantined != ""))
	for _, severity := range severities {
		f.each["alerts"] = append(f.each["alerts"], prom.Series{Values: []string{string(v.ID), severity}, Value: float64(severe[severity])})
	}
	if i.AtMS == 0 {
		return // it has told nothing yet, and no zero
	}
	set("degraded", truth(i.Host.Degraded != ""))
	set("containers", float64(len(i.Containers)))
	set("containers_running", float64(running))
	set("cpus", float64(i.Host.CPUs))
	set("load1", float64(i.Host.Load1000)/1000)
	set("memory_bytes", float64(i.Host.MemoryBytes))
	set("memory_free_bytes", float64(i.Host.MemoryFree))
	set("disk_bytes", float64(i.Host.DiskBytes))
	set("disk_free_bytes", float64(i.Host.DiskFree))
	set("queue_depth", float64(i.Host.QueueDepth))
	set("uptime_seconds", (time.Duration(i.Host.UptimeMS) * time.Millisecond).Seconds())
	set("inventory_timestamp_seconds", float64(i.AtMS)/1000)
}

// told are the metrics of a host, in their order.
var told = []struct{ name, help string }{
	{"up", "1 while the host is online."},
	{"seen_timestamp_seconds", "When the host was last heard, by the coordinator's clock; 0 if not since its start."},
	{"quarantined", "1 while nothing is sent to the host although it is approved."},
	{"degraded", "1 while the host accepts nothing new."},
	{"containers", "Containers of the host."},
	{"containers_running", "Containers of the host that run."},
	{"cpus", "Processors of the host."},
	{"load1", "Load average of the host over one minute."},
	{"memory_bytes", "Memory of the host."},
	{"memory_free_bytes", "Memory of the host that is free."},
	{"disk_bytes", "Size of the file system of the agent's state."},
	{"disk_free_bytes", "What of it is free."},
	{"queue_depth", "Actions that the host has accepted and not ended."},
	{"uptime_seconds", "Time since the host was booted."},
	{"inventory_timestamp_seconds", "When the host told all this, by the coordinator's clock."},
}

// Write adds the metrics to an answer, as they stand.
func (f *Fleet) Write(s *prom.Scrape) {
	s.GaugeBy("hosts", "Hosts that are not revoked, by connectivity.", "connectivity", f.hosts)
	s.Gauge("hosts_shown", "Hosts with series of their own.", float64(f.shown))
	s.Gauge("hosts_hidden", "Hosts without: one answer has too many. Ask with ?label= for some of them.", float64(f.hidden))
	s.GaugeBy("containers", "Containers of these hosts, by the state that their hosts last told.", "state", f.containers)
	s.GaugeBy("agents", "Hosts by the version of their agent.", "version", f.versions)
	var alerts []prom.Series
	for _, code := range slices.SortedFunc(maps.Keys(f.alerts), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		alerts = append(alerts, prom.Series{Values: code[:], Value: f.alerts[code]})
	}
	s.Gauges("alerts", "Alerts that are raised, by code and severity.", []string{"code", "severity"}, alerts)
	for _, m := range told {
		s.Gauges("host_"+m.name, m.help, []string{"host"}, f.each[m.name])
	}
	s.Gauges("host_alerts", "Alerts of the host that are raised, by severity.", []string{"host", "severity"}, f.each["alerts"])
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
