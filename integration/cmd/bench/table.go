package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// perSecond is the unit of rates, of which more is better. Of everything else
// less is.
const perSecond = "1/s"

// perMB is the unit of speeds, and ratio that of speeds compared: of both more is
// better, too.
const (
	perMB = "MB/s"
	ratio = "of 1"
)

// figure is one line of the table, and one object of the file.
type figure struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"`
	Unit   string   `json:"unit"`
	Target float64  `json:"target"` // 0: there is no goal
	Floor  *float64 `json:"floor"`  // nil: none was measured
}

// better reports whether the figure would be better with the value v.
func (f *figure) better(v float64) bool {
	if f.rate() {
		return v > f.Value
	}
	return v < f.Value
}

// rate reports whether more is better.
func (f *figure) rate() bool { return f.Unit == perSecond || f.Unit == perMB || f.Unit == ratio }

// met reports whether the figure reaches its target, if it has one.
func (f *figure) met() bool { return f.Target == 0 || f.Value == f.Target || !f.better(f.Target) }

// spread is what the calibrations of one run found of one thing.
type spread struct {
	what     string
	low, top float64 // milliseconds
	n        int     // calibrations
}

func (s *spread) add(v float64) {
	if s.n == 0 || v < s.low {
		s.low = v
	}
	s.top = max(s.top, v)
	s.n++
}

// report is what a run found.
type report struct {
	figures []figure
	spreads []spread
	notes   []string // sentences for people
}

// missed is an error that names the figures which miss their target.
func (r *report) missed() error {
	var names []string
	for _, f := range r.figures {
		if !f.met() {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d figures miss their targets: %s", len(names), len(r.figures), strings.Join(names, ", "))
}

// print writes the table for people.
func (r *report) print(w io.Writer) error {
	if len(r.figures) == 0 {
		return nil
	}
	table := [][]string{{"figure", "value", "unit", "target", "floor", "× floor"}}
	for _, f := range r.figures {
		sign, floor, times, missed := "≤ ", "–", "–", ""
		if f.rate() {
			sign = "≥ "
		}
		if f.Floor != nil {
			floor, times = number(*f.Floor), number(f.Value / *f.Floor)
		}
		if !f.met() {
			missed = "missed"
		}
		target := sign + number(f.Target)
		if f.Target == 0 {
			target = "–"
		}
		table = append(table, []string{f.Name, number(f.Value), f.Unit, target, floor, times, missed})
	}
	text := align(table)
	table = nil
	for _, s := range r.spreads {
		if s.n > 0 {
			table = append(table, []string{s.what, number(s.low), number(s.top), "ms"})
		}
	}
	if len(table) > 0 {
		text += "\nThe machine meanwhile, lowest and highest median of a calibration:\n"
	}
	text += align(table)
	if len(r.notes) > 0 {
		text += "\n" + strings.Join(r.notes, "\n") + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// align sets a table: the first column to the left, the others to the right.
func align(table [][]string) string {
	var widths []int
	for _, row := range table {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range table {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + gap)
			} else {
				line.WriteString("  " + gap + cell)
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}

// number shows three digits that count, and never an exponent.
func number(v float64) string { return strconv.FormatFloat(round(v), 'f', -1, 64) }

// round keeps three digits, or all those before the point.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	places := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	scale := math.Pow10(places)
	return math.Round(v*scale) / scale
}

// writeJSON writes the figures for programs: a list in the order of the table.
func writeJSON(path string, figures []figure) error {
	b, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
