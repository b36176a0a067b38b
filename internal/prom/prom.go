// Package prom writes metrics for Prometheus. It is the only importer of the
// metrics library, so that engines count with plain numbers and know nothing
// of how those are shown.
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
package prom

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Scrape is one answer being written. It belongs to the function that it was
// given to and to one goroutine.
type Scrape struct {
	prefix string
	send   chan<- prometheus.Metric
	err    error
}

// Gauge writes a value that goes up and down.
func (s *Scrape) Gauge(name, help string, value float64) {
	s.write(prometheus.GaugeValue, name, help, "", map[string]float64{"": value})
}

// GaugeBy writes such a value for each value of one label.
func (s *Scrape) GaugeBy(name, help, label string, values map[string]float64) {
	s.write(prometheus.GaugeValue, name, help, label, values)
}

// Counter writes a count since the start of the process. By convention its
// name ends in "_total".
func (s *Scrape) Counter(name, help string, value float64) {
	s.write(prometheus.CounterValue, name, help, "", map[string]float64{"": value})
}

// CounterBy writes such a count for each value of one label.
func (s *Scrape) CounterBy(name, help, label string, values map[string]float64) {
	s.write(prometheus.CounterValue, name, help, label, values)
}

func (s *Scrape) write(kind prometheus.ValueType, name, help, label string, values map[string]float64) {
	var names []string
	if label != "" {
		names = []string{label}
	}
	desc := prometheus.NewDesc(s.prefix+name, help, names, nil)
	for value, n := range values {
		var labels []string
		if label != "" {
			labels = []string{value}
		}
		m, err := prometheus.NewConstMetric(desc, kind, n, labels...)
		if err != nil {
			s.err = errors.Join(s.err, err)
			continue
		}
		s.send <- m
	}
}

// snapshot makes one scrape out of a function. It describes nothing
// beforehand, so the library checks what it writes at each scrape.
type snapshot struct {
	ctx    context.Context
	prefix string
	fill   func(context.Context, *Scrape) error
}

func (snapshot) Describe(chan<- *prometheus.Desc) {}

func (c snapshot) Collect(send chan<- prometheus.Metric) {
	s := &Scrape{prefix: c.prefix, send: send}
	if err := errors.Join(c.fill(c.ctx, s), s.err); err != nil {
		send <- prometheus.NewInvalidMetric(prometheus.NewDesc(c.prefix+"scrape", "The snapshot failed.", nil, nil), err)
	}
}

// Handler serves metrics: those that fill writes, under names that start with
// prefix, and those of the Go runtime and the process, under their usual
// names. A scrape that fails is answered with 500 as a whole: half a snapshot
// would look like a change. The reason is for the operator's eyes, so the
// handler must stand behind the same door as everything else.
func Handler(prefix string, fill func(context.Context, *Scrape) error) http.Handler {
	system := prometheus.NewRegistry()
	system.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := prometheus.NewRegistry()
		own.MustRegister(snapshot{r.Context(), prefix, fill})
		promhttp.HandlerFor(prometheus.Gatherers{own, system}, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, r)
	})
}
