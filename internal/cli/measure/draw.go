package measure

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/term"
)

const (
	sparkWidth = 24
	plotWidth  = 62
	plotHeight = 8
)

// eighths fill a character from below.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

// columns spreads points over time into columns. A column without a sample is NaN.
func columns(points []api.MetricPoint, width int) []float64 {
	out := make([]float64, width)
	weight := make([]float64, width)
	if len(points) == 0 {
		return out[:0]
	}
	from := points[0].AtMS - points[0].SpanMS
	whole := float64(max(points[len(points)-1].AtMS-from, 1))
	for _, p := range points {
		// A sample fills all columns that it covers, so that few samples make no gaps.
		first := int(float64(p.AtMS-p.SpanMS-from) / whole * float64(width))
		last := int(math.Ceil(float64(p.AtMS-from)/whole*float64(width))) - 1
		for i := max(0, first); i <= min(width-1, last); i++ {
			out[i] += p.Mean
			weight[i]++
		}
	}
	for i := range out {
		if out[i] /= weight[i]; weight[i] == 0 {
			out[i] = math.NaN()
		}
	}
	return out
}

// top is the largest value of columns, and at least a little.
func top(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			most = max(most, v)
		}
	}
	return most
}

// spark draws points in one line, from zero to the largest. A gap is a dot.
func spark(points []api.MetricPoint, width int) string {
	values := columns(points, width)
	most := top(values)
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteRune('·')
		case most == 0 || v <= 0:
			b.WriteRune(eighths[1])
		default:
			b.WriteRune(eighths[1+int(math.Min(v/most, 1)*7)])
		}
	}
	return b.String()
}

// plot draws each series.
func (a *commands) plot(lines []line) error {
	for i, l := range lines {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		name := strings.TrimSpace(l.Metric + " " + l.Part)
		if l.Container != "" {
			name = l.Container + ": " + name
		}
		fmt.Fprintf(a.Out, "%s  now %s  mean %s  max %s\n", term.Printable(name), amount(l.last, l.Unit), amount(l.mean, l.Unit), amount(l.most, l.Unit))
		for _, row := range chart(l) {
			fmt.Fprintln(a.Out, row)
		}
	}
	return nil
}

// chart draws one series over its time.
func chart(l line) []string {
	values := columns(l.Points, plotWidth)
	most := top(values)
	labels := []string{amount(most, l.Unit), amount(most/2, l.Unit), amount(0, l.Unit)}
	wide := 0
	for _, s := range labels {
		wide = max(wide, len([]rune(s)))
	}
	var rows []string
	for r := range plotHeight {
		label := ""
		switch r {
		case 0:
			label = labels[0]
		case plotHeight / 2:
			label = labels[1]
		case plotHeight - 1:
			label = labels[2]
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%*s ┤", wide, label)
		for _, v := range values {
			fill := 0
			if most > 0 && !math.IsNaN(v) {
				fill = int(math.Round(math.Min(v/most, 1)*plotHeight*8)) - (plotHeight-1-r)*8
			}
			b.WriteRune(eighths[min(8, max(0, fill))])
		}
		rows = append(rows, strings.TrimRight(b.String(), " "))
	}
	first, last := l.Points[0], l.Points[len(l.Points)-1]
	from, to := time.UnixMilli(first.AtMS-first.SpanMS), time.UnixMilli(last.AtMS)
	form := "15:04"
	if to.Sub(from) > 24*time.Hour {
		form = "2 Jan 15:04"
	}
	left, right := from.Format(form), to.Format(form)
	gap := max(1, plotWidth-len(left)-len(right))
	return append(rows, strings.Repeat(" ", wide+1)+"└"+strings.Repeat("─", plotWidth), strings.Repeat(" ", wide+2)+left+strings.Repeat(" ", gap)+right)
}
