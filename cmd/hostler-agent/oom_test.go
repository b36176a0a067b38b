package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/metrics"
)

// TestOOM follows kills in two containers and on the host.
func TestOOM(t *testing.T) {
	o := newOOMs([]string{"container.oom/old", "measured.ram.warning//", "host.degraded"}, 0)
	at := func(s time.Duration, kills map[string]float64, want ...string) {
		t.Helper()
		sample := metrics.Sample{At: time.Unix(int64(s/time.Second), 0)}
		for name, n := range kills {
			sample.Values = append(sample.Values, metrics.Value{Series: metrics.Series{Container: name, Metric: metrics.OOM}, Mean: n})
		}
		var got []string
		for _, a := range o.judge(sample, s) {
			word := "-"
			if a.Raised {
				word = "+"
			}
			got = append(got, word+a.ID)
			if a.Text == "" || a.Severity == "" {
				t.Errorf("%s says nothing: %+v", a.ID, a)
			}
			if !strings.HasSuffix(a.ID, "untold") {
				o.told(a)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("at %s: %q, want %q", s, got, want)
		}
	}
	at(time.Second, nil)
	at(time.Minute, map[string]float64{"": 1, "web": 1}, "+container.oom/web") // the host counts it too
	at(2*time.Minute, map[string]float64{"": 3, "web": 1, "db": 1}, "+container.oom/db", "+host.oom")
	at(3*time.Minute, map[string]float64{"": 1, "untold": 1}, "+container.oom/untold")
	at(4*time.Minute, map[string]float64{"": 0, "web": 0}, "+container.oom/untold") // the disk had not taken it
	at(15*time.Minute, nil, "+container.oom/untold", "-container.oom/old")
	at(16*time.Minute, map[string]float64{"web": 1}, "+container.oom/untold")
	at(18*time.Minute, nil, "-container.oom/db", "-host.oom")
	at(31*time.Minute, nil, "-container.oom/web")
	at(time.Hour, nil)
	if len(o.last)+len(o.raised) > 0 {
		t.Errorf("it remembers %v and %v", o.last, o.raised)
	}
}
