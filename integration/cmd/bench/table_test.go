package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() *report {
	floor, rate := 1.23456, 1100.4
	r := &report{
		figures: []figure{
			{Name: "roundtrip_p50_ms", Value: 4.25, Unit: "ms", Target: 6, Floor: &floor},
			{Name: "actions_per_s", Value: 299, Unit: "1/s", Target: 300, Floor: &rate},
			{Name: "agent_rss_mb", Value: 20, Unit: "MB", Target: 20},
			{Name: "hours_per_s", Value: 7, Unit: "1/s"},
		},
		spreads: []spread{{what: "fsync of 4 KiB"}, {what: "not measured"}},
		notes:   []string{"One note.", "Another."},
	}
	for _, v := range []float64{0.2, 0.1234, 0.15} {
		r.spreads[0].add(v)
	}
	return r
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	if err := sample().print(&out); err != nil {
		t.Fatal(err)
	}
	want := `
figure            value  unit  target  floor  × floor
roundtrip_p50_ms   4.25    ms     ≤ 6   1.23     3.44
actions_per_s       299   1/s   ≥ 300   1100    0.272  missed
agent_rss_mb         20    MB    ≤ 20      –        –
hours_per_s           7   1/s       –      –        –

The machine meanwhile, lowest and highest median of a calibration:
fsync of 4 KiB  0.123  0.2  ms

One note.
Another.
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWriteJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.json")
	if err := writeJSON(path, sample().figures[1:3]); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `[
  {
    "name": "actions_per_s",
    "value": 299,
    "unit": "1/s",
    "target": 300,
    "floor": 1100.4
  },
  {
    "name": "agent_rss_mb",
    "value": 20,
    "unit": "MB",
    "target": 20,
    "floor": null
  }
]
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMet(t *testing.T) {
	for _, tc := range []struct {
		unit          string
		value, target float64
		want          bool
	}{
		{"ms", 5, 6, true}, {"ms", 6, 6, true}, {"ms", 6.01, 6, false},
		{perSecond, 1, 0, true}, {"ms", 1, 0, true},
		{perSecond, 301, 300, true}, {perSecond, 300, 300, true}, {perSecond, 299, 300, false},
	} {
		f := figure{Value: tc.value, Unit: tc.unit, Target: tc.target}
		if got := f.met(); got != tc.want {
			t.Errorf("%v %s against %v: met %t, want %t", tc.value, tc.unit, tc.target, got, tc.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.012345: "0.0123", 1.239: "1.24", 17.456: "17.5", 2.0: "2", 3862.4: "3862", 1e7: "10000000"} {
		if got := number(v); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	values := make([]float64, 100)
	for i := range values {
		values[len(values)-1-i] = float64(i + 1)
	}
	for p, want := range map[int]float64{50: 50, 99: 99, 100: 100} {
		if got := percentile(values, p); got != want {
			t.Errorf("p%d of 100…1 is %v, want %v", p, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-nonsense"}, {"more"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%v: got %v", args, err)
		}
	}
}

func TestMissed(t *testing.T) {
	r := report{figures: []figure{{Name: "a", Value: 1, Unit: "ms", Target: 2}, {Name: "b", Value: 3, Unit: "ms", Target: 2}, {Name: "c", Value: 3, Unit: perSecond, Target: 4}}}
	if err := r.missed(); err == nil || err.Error() != "2 of 3 figures miss their targets: b, c" {
		t.Error(err)
	}
	r.figures = r.figures[:1]
	if err := r.missed(); err != nil {
		t.Error(err)
	}
}
