package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// TestPaired: both ways are measured in turns, and their medians are compared.
func TestPaired(t *testing.T) {
	var order strings.Builder
	way := func(name string, values ...float64) func(context.Context) (float64, error) {
		return func(context.Context) (float64, error) {
			order.WriteString(name)
			v := values[0]
			values = values[1:]
			return v, nil
		}
	}
	for _, c := range []struct {
		compare func(ours, theirs float64) float64
		want    float64
	}{{quotient, 0.75}, {difference, -1}, {speedup, 1.33}} {
		order.Reset()
		b := &bench{talk: io.Discard}
		if err := b.paired(t.Context(), pair{
			row: row{name: "x", unit: shorter, target: 1}, n: 3, others: "bare", compare: c.compare,
			ours: way("o", 1, 100, 3), theirs: way("t", 4, 1, 50),
		}); err != nil {
			t.Fatal(err)
		}
		if got := b.report.figures[0]; got.Value != c.want || order.String() != "ottoot" {
			t.Errorf("%v in the order %s, want %v", got, order.String(), c.want)
		}
		if got := b.report.notes[0]; got != "x: an order 3 ms, bare 4 ms, medians of 3." {
			t.Error(got)
		}
	}
}
