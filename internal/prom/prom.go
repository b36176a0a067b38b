// Package prom writes metrics for Prometheus, in its text format. Engines count
// with plain numbers and know nothing of how those are shown.
//
// Nothing is registered and nothing is kept: at each scrape one function is
// asked for a snapshot and writes it down.
//
//	h := prom.Handler("hostler_coordinator_", func(ctx context.Context, s *prom.Scrape) error {
//		n := c.Stats()
//		s.Counter("messages_received_total", "Messages that came in.", float64(n.Received))
//		s.CounterBy("messages_refused_total", "Messages refused.", "code", refused)
//		return nil
//	})
//
// A label's values must all be present from the first scrape on, with zero if
// nothing happened: a series that appears with its first increment hides that
// increment from rate(). So a snapshot lists every value that there can be.
//
// The format is a few lines of text; the library that is usually linked for it
// brings a registry and protocol buffers, 2.3 MB that every host would carry.
package prom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// contentType names the format to the scraper.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// Scrape is one answer being written. It belongs to the function that it was
// given to and to one goroutine.
type Scrape struct {
	prefix string
	text   bytes.Buffer
	names  map[string]bool
	errs   []error
}

// Gauge writes a value that goes up and down.
func (s *Scrape) Gauge(name, help string, value float64) {
	s.write("gauge", name, help, "", map[string]float64{"": value})
}

// GaugeBy writes such a value for each value of one label.
func (s *Scrape) GaugeBy(name, help, label string, values map[string]float64) {
	s.write("gauge", name, help, label, values)
}

// Counter writes a count since the start of the process. By convention its
// name ends in "_total".
func (s *Scrape) Counter(name, help string, value float64) {
	s.write("counter", name, help, "", map[string]float64{"": value})
}

// CounterBy writes such a count for each value of one label.
func (s *Scrape) CounterBy(name, help, label string, values map[string]float64) {
	s.write("counter", name, help, label, values)
}

// Series is one of several values of a metric, told apart by labels: Values are those
// of the labels that [Scrape.Gauges] names.
type Series struct {
	Values []string
	Value  float64
}

// Gauges writes values that go up and down, one for each series. Which there are
// changes with what they describe.
func (s *Scrape) Gauges(name, help string, labels []string, all []Series) {
	if !s.begin("gauge", name, help, labels...) {
		return
	}
	for _, one := range all {
		if len(one.Values) != len(labels) {
			s.fail("metric %q: %d values for labels %q", s.prefix+name, len(one.Values), labels)
			return
		}
		s.line(s.prefix+name, labels, one.Values, one.Value)
	}
}

func (s *Scrape) write(kind, name, help, label string, values map[string]float64) {
	var labels []string
	if label != "" {
		labels = []string{label}
	}
	if !s.begin(kind, name, help, labels...) {
		return
	}
	for _, value := range slices.Sorted(maps.Keys(values)) {
		s.line(s.prefix+name, labels, []string{value}[:len(labels)], values[value])
	}
}

// begin writes what stands above the values of a metric.
func (s *Scrape) begin(kind, name, help string, labels ...string) bool {
	name = s.prefix + name
	for _, l := range labels {
		if !isName(l) {
			s.fail("metric %q with label %q: not a name", name, l)
			return false
		}
	}
	switch {
	case !isName(name):
		s.fail("metric %q: not a name", name)
		return false
	case s.names[name]:
		s.fail("metric %q is written twice", name)
		return false
	}
	s.names[name] = true
	fmt.Fprintf(&s.text, "# HELP %s %s\n# TYPE %s %s\n", name, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help), name, kind)
	return true
}

// quoted writes what would end the value of a label.
var quoted = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (s *Scrape) line(name string, labels, values []string, value float64) {
	var pairs []string
	for i, l := range labels {
		if !utf8.ValidString(values[i]) {
			s.fail("metric %q: the value %q of label %q is not text", name, values[i], l)
			return
		}
		pairs = append(pairs, l+`="`+quoted.Replace(values[i])+`"`)
	}
	s.text.WriteString(name)
	if len(pairs) > 0 {
		s.text.WriteString("{" + strings.Join(pairs, ",") + "}")
	}
	s.text.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}

func (s *Scrape) fail(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

// isName reports whether s may name a metric or a label.
func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Handler serves metrics: those that fill writes, under names that start with
// prefix, and those of the Go runtime and the process, under their usual
// names. A scrape that fails is answered with 500 as a whole: half a snapshot
// would look like a change. The reason is for the operator's eyes, so the
// handler must stand behind the same door as everything else.
func Handler(prefix string, fill func(context.Context, *Scrape) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &Scrape{names: make(map[string]bool)}
		err := s.system() // first: what fill does is nothing that the process has otherwise
		s.prefix = prefix
		if err = errors.Join(err, fill(r.Context(), s), errors.Join(s.errs...)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(s.text.Bytes()) // a scraper that has gone asks again
	})
}
