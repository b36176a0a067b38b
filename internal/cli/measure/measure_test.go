package measure

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// every makes points of one minute each.
func every(values ...float64) (points []api.MetricPoint) {
	for i, v := range values {
		points = append(points, api.MetricPoint{AtMS: int64(i+1) * 60_000, SpanMS: 60_000, Mean: v, Max: v})
	}
	return points
}

func TestSpark(t *testing.T) {
	gap := every(1, 2, 3, 4)
	gap[3].AtMS += 4 * 60_000
	for want, points := range map[string][]api.MetricPoint{
		"▁▂▃▄▅▆▇█": every(0, 1.0001, 2.001, 3.001, 4.001, 5.001, 6.001, 7),
		"▁▁▁▁▁▁▁▁": every(0, 0, 0, 0),
		"████████": every(5),
		"▂▄▆····█": gap,
		"":         nil,
	} {
		if got := spark(points, 8); got != want {
			t.Errorf("%v is drawn as %q, want %q", points, got, want)
		}
	}
}

func TestChart(t *testing.T) {
	l := line{MetricLine: api.MetricLine{Metric: "cpu", Unit: "%", Points: every(0, 50, 100)}}
	l.sum()
	rows := chart(l)
	if len(rows) != plotHeight+2 || !strings.HasPrefix(rows[0], "100.0% ┤") || !strings.HasSuffix(rows[0], "█") ||
		!strings.Contains(rows[plotHeight-1], "0.0% ┤") || strings.Count(rows[plotHeight-1], "█") < plotWidth*2/3-1 {
		t.Errorf("it is drawn as\n%s", strings.Join(rows, "\n"))
	}
	for _, r := range rows {
		if len([]rune(r)) > 80 {
			t.Errorf("%d columns: %s", len([]rune(r)), r)
		}
	}
	if l.mean != 50 || l.most != 100 || l.last != 100 {
		t.Errorf("mean, max and now are %v, %v, %v", l.mean, l.most, l.last)
	}
}

func TestParse(t *testing.T) {
	lines, err := parse(strings.NewReader(`{"metric":"cpu","unit":"%","points":[{"at_ms":2000,"span_ms":1000,"mean":3,"max":4},{"at_ms":5000,"span_ms":3000,"mean":7,"max":7}]}
{"metric":"load1","points":[]}
`))
	if err != nil || len(lines) != 1 || lines[0].mean != 6 || lines[0].most != 7 || lines[0].last != 7 {
		t.Errorf("%+v, %v", lines, err)
	}
	if all := samples(lines); len(all) != 2 || all[0].At.Unix() != 2 || all[1].Mean != 7 {
		t.Errorf("the samples are %+v", all)
	}
	if _, err := parse(strings.NewReader(`{"metric":"cpu"`)); err == nil {
		t.Error("half a line is taken")
	}
}

func TestAmount(t *testing.T) {
	for want, got := range map[string]string{
		"12.5%": amount(12.5, "%"), "1.5MiB": amount(1.5*(1<<20), "B"), "2.0KiB/s": amount(2048, "B/s"), "3": amount(3, ""), "0.25": amount(0.25, ""), "42.5 °C": amount(42.5, "°C"),
		"0.0s": amount(0, "s"), "90.5s": amount(90.5, "s"), "2h": amount(7300, "s"), "89d": amount(7775759.5, "s"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
