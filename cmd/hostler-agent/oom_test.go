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

// TestOOMKinds: what is killed in a container, because the memory of the host is used up,
// is of the host; where the kernel says nothing of the limit, it counts for the container.
func TestOOMKinds(t *testing.T) {
	type kills struct{ killed, limit float64 }
	for what, c := range map[string]struct {
		samples []map[string]kills
		want    []string
	}{
		"a limit":               {[]map[string]kills{{"": {1, -1}, "web": {1, 1}}}, []string{"container.oom/web"}},
		"the host":              {[]map[string]kills{{"": {1, -1}, "web": {1, 0}}}, []string{"host.oom"}},
		"both":                  {[]map[string]kills{{"": {2, -1}, "web": {1, 0}, "db": {1, 2}}}, []string{"container.oom/db", "host.oom"}},
		"the kernel is mute":    {[]map[string]kills{{"": {1, -1}, "web": {1, -1}}}, []string{"container.oom/web"}},
		"killed a moment later": {[]map[string]kills{{"": {0, -1}, "web": {0, 1}}, {"": {1, -1}, "web": {1, 0}}}, []string{"container.oom/web"}},
		"killed long after":     {[]map[string]kills{{"web": {0, 1}}, {"web": {0, 0}}, {"": {1, -1}, "web": {1, 0}}}, []string{"host.oom"}},
	} {
		o := newOOMs(nil, 0)
		var got []string
		for n, one := range c.samples {
			var s metrics.Sample
			for name, k := range one {
				s.Values = append(s.Values, metrics.Value{Series: metrics.Series{Container: name, Metric: metrics.OOM}, Mean: k.killed})
				if k.limit >= 0 {
					s.Values = append(s.Values, metrics.Value{Series: metrics.Series{Container: name, Metric: metrics.OOMLimit}, Mean: k.limit})
				}
			}
			for _, a := range o.judge(s, time.Duration(n)*metrics.Interval) {
				got = append(got, a.ID)
				o.told(a)
			}
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
