package main

import (
	"log/slog"
	"testing"

	"github.com/hostler-io/hostler/alerts"
	"github.com/hostler-io/hostler/metrics"
)

// TestGivenRules: the coordinator's rules are in force beside those of the host, which
// count where both name the same; one that is not understood takes none of the others away.
func TestGivenRules(t *testing.T) {
	own, err := alerts.Parse("host load=4/15s")
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{judge: alerts.New(own, nil), own: own, log: slog.New(slog.DiscardHandler)}
	sample := metrics.Sample{Span: metrics.Interval, Values: []metrics.Value{
		{Series: metrics.Series{Metric: metrics.Load1}, Mean: 2}, {Series: metrics.Series{Metric: metrics.Tasks}, Mean: 500},
	}}
	m.rules([]string{"host load=1/15s tasks=100/15s", "host colour=3/15s"})
	m.takeRules()
	got := m.judge.Judge(sample)
	if len(got) != 1 || got[0].ID != "measured.tasks.warning//" || !got[0].Raised {
		t.Errorf("%+v", got)
	}
	m.rules(nil)
	m.takeRules()
	if got := m.judge.Judge(sample); len(got) != 1 || got[0].ID != "measured.tasks.warning//" || got[0].Raised {
		t.Errorf("after the rules went: %+v", got)
	}
}
