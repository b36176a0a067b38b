package measure

import (
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestUses: each container has one row, of its newest samples, and the parts of a metric
// are added.
func TestUses(t *testing.T) {
	series := func(container, metric, part, unit string, values ...float64) line {
		return line{MetricLine: api.MetricLine{Container: container, Metric: metric, Part: part, Unit: unit, Points: every(values...)}}
	}
	all := usesOf("edge-07", []line{
		series("", "cpu", "", "%", 400), series("web", "cpu", "", "%", 3, 7), series("web", "received", "eth0", "B/s", 10),
		series("web", "received", "eth1", "B/s", 5), series("db", "memory", "", "B", 1<<20),
	})
	if len(all) != 2 || all[0].Container != "db" || all[1].Uses["cpu"] != 7 || all[1].Uses["received"] != 15 || all[1].At.Unix() != 120 || all[1].Host != "edge-07" {
		t.Errorf("%+v", all)
	}
	if _, measured := all[0].Uses["cpu"]; measured {
		t.Error("what was not measured is 0")
	}
}
