package main

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/bridges"
	"github.com/hostler-io/hostler/agent/facts"
	"github.com/hostler-io/hostler/agent/oom"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/alerts"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/metrics"
	"github.com/hostler-io/hostler/protocol"
)

// usageEvery is the pause between two looks at what root directories take: each file
// is looked at.
const usageEvery = 15 * time.Minute

// meter measures this host beside the agent. It disturbs nothing: what it cannot do is
// logged, once, and samples are missing.
type meter struct {
	dir   string
	limit int64
	list  func(context.Context) ([]agent.Container, error)
	disk  func(runtime, name string) (used, most int64) // of the root directory of a container; most is 0 without a limit
	judge *alerts.Judge
	facts facts.Facts
	own   []alerts.Rule            // of this host's configuration
	given atomic.Pointer[[]string] // by the coordinator, where they have changed
	log   *slog.Logger

	out   outlet
	names bridges.Unserved
	oom   oom.Judge

	latest atomic.Pointer[metrics.Sample]

	mu    sync.Mutex
	sizes map[string]size // of the root directories of containers
}

type size struct{ bytes, files int64 }

// newMeter reads the rules of alerts, and which alerts are raised by them.
func newMeter(ctx context.Context, s state, c config, q *queue.Queue, nets *bridges.Bridges, tags map[string]string, write func(context.Context, []byte) error, log *slog.Logger) (*meter, error) {
	rules, err := c.Alerts.parse()
	if err != nil {
		return nil, err
	}
	raised, err := q.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, a := range raised {
		ids = append(ids, a.ID)
	}
	sink, err := c.Metrics.Influx.sink(s, tags, write, log)
	if err != nil {
		return nil, err
	}
	now := time.Duration(clock.BootMS()) * time.Millisecond
	out := newOutlet(sink, ids)
	return &meter{dir: s.metrics(), limit: int64(c.Metrics.MiB) << 20, judge: alerts.New(rules, ids), own: rules, out: out, facts: facts.Facts{Lost: out.lost}, names: nets.Unserved(ids), oom: oom.New(ids, now), log: log}, nil
}

// run measures until ctx ends, and raises alerts.
func (m *meter) run(ctx context.Context, raise func(protocol.Alert) error) error {
	var untold []alerts.Change // that the disk has not taken yet, in their order
	c, err := metrics.NewCollector(metrics.Config{})
	if err != nil {
		m.log.Warn("this host is not measured", "error", err)
		return nil
	}
	store, err := metrics.OpenStore(m.dir, m.limit)
	if err != nil {
		m.log.Warn("this host is not measured", "error", err)
		return nil
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { m.lookAtDisks(ctx) })
	beside.Go(func() { m.out.run(ctx, m.log) })
	soon := make(chan struct{}, 1)
	beside.Go(func() {
		metrics.Watch(ctx, func() {
			select {
			case soon <- struct{}{}:
			default: // a sample is due already
			}
		}, func(err error) {
			m.log.Info("samples are not taken earlier for one of the things that can become worse", "reason", err)
		})
	})
	failing := false
	for {
		all, err := m.list(ctx)
		if err != nil {
			return nil // the agent is ending
		}
		now := time.Duration(clock.BootMS()) * time.Millisecond
		running := m.containers(all)
		sample := c.Collect(clock.Now(), now, running)
		sample.Values = append(sample.Values, m.facts.Values(now, clock.Now(), all)...)
		m.takeRules()
		m.latest.Store(&sample)
		for _, c := range m.judge.Judge(sample) {
			untold = append(slices.DeleteFunc(untold, func(o alerts.Change) bool { return o.ID == c.ID }), c)
		}
		untold = slices.DeleteFunc(untold, func(c alerts.Change) bool { // what stays is told with the next sample
			return raise(protocol.Alert{Raised: c.Raised, AlertInfo: warnings.Measured(c.ID, string(c.Severity), c.Text, sample.At.UnixMilli())}) == nil
		})
		if m.out.sink != nil {
			m.out.sink.Offer(sample)
		}
		for _, a := range m.out.alerts(sample.At.UnixMilli()) {
			if raise(a) == nil { // else it is told with the next sample
				m.out.raised[a.ID] = a.Raised
			}
		}
		for _, a := range m.names.Changes(sample.At.UnixMilli()) {
			if raise(a) == nil { // else it is told with the next sample
				m.names.Told(a)
			}
		}
		for _, a := range m.oom.Changes(sample, now) {
			if raise(a) == nil { // else it is told with the next sample
				m.oom.Told(a)
			}
		}
		err = store.Append(sample)
		if (err != nil) != failing {
			if failing = err != nil; failing {
				m.log.Warn("samples are lost", "error", err)
			} else {
				m.log.Info("samples are kept again")
			}
		}
		if wait(ctx, soonest, nil) != nil || pause(ctx, metrics.Interval-soonest, soon) != nil {
			return nil
		}
	}
}

// rules gives the meter the coordinator's rules of alerts, from any goroutine. They are
// in force with the next sample.
func (m *meter) rules(texts []string) { m.given.Store(&texts) }

// takeRules puts the rules into force that came since the last sample.
func (m *meter) takeRules() {
	texts := m.given.Swap(nil)
	if texts == nil {
		return
	}
	var given []alerts.Rule
	for _, text := range *texts {
		rules, err := alerts.Parse(text)
		if err != nil { // of a newer coordinator; the others count all the same
			m.log.Warn("a rule of the coordinator is not understood", "error", err)
			continue
		}
		given = append(given, rules...)
	}
	m.judge.Rules(alerts.Combine(m.own, given))
}

// soonest is how far samples are apart at least, whatever the kernel tells.
const soonest = 3 * time.Second

// pause waits, but not longer than until something is told.
func pause(ctx context.Context, d time.Duration, soon <-chan struct{}) error {
	select {
	case <-time.After(d):
		return nil
	case <-soon:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// containers returns those that run.
func (m *meter) containers(all []agent.Container) (running []metrics.Container) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range all {
		if c.InitPID != 0 {
			s := m.sizes[c.Name]
			ct := metrics.Container{Name: c.Name, InitPID: c.InitPID, Disk: s.bytes, Inodes: s.files}
			if used, most := m.disk(c.Runtime, c.Name); most > 0 {
				ct.Disk, ct.DiskMax = used, most
			}
			running = append(running, ct)
		}
	}
	return running
}

// lookAtDisks measures the root directories of running containers, one after the other.
func (m *meter) lookAtDisks(ctx context.Context) {
	for {
		all, err := m.list(ctx)
		if err != nil {
			return
		}
		sizes := make(map[string]size)
		for _, c := range m.containers(all) {
			// The dot makes it the directory, where the name is a link.
			if b, files, err := metrics.Usage(ctx, "/proc/"+strconv.Itoa(c.InitPID)+"/root/."); err == nil {
				sizes[c.Name] = size{b, files}
			}
		}
		m.mu.Lock()
		m.sizes = sizes
		m.mu.Unlock()
		if wait(ctx, usageEvery, nil) != nil {
			return
		}
	}
}

// scrape writes the newest sample for Prometheus: a metric of a name for each of ours,
// with the container, or none for the host, and the part as labels.
func (m *meter) scrape(s *prom.Scrape) {
	m.out.scrape(s)
	sample := m.latest.Load()
	if sample == nil || clock.Now().Sub(sample.At).Abs() > staleAfter {
		return // what is not measured any more is not shown as if it were
	}
	by := make(map[metrics.Metric][]prom.Series)
	for _, v := range sample.Values {
		by[v.Metric] = append(by[v.Metric], prom.Series{Values: []string{v.Container, strings.ToValidUTF8(v.Part, "\ufffd")}, Value: v.Mean})
	}
	for _, i := range metrics.Metrics() {
		if all := by[i.Metric]; len(all) > 0 {
			s.Gauges("measured_"+string(i.Metric)+suffixes[i.Unit], i.Doc, []string{"container", "part"}, all)
		}
	}
}

// staleAfter is when a sample is too old to be shown as the present.
const staleAfter = 4 * metrics.Interval

// suffixes are how Prometheus names units.
var suffixes = map[metrics.Unit]string{
	metrics.Percent: "_percent", metrics.Bytes: "_bytes", metrics.BytesPerSecond: "_bytes_per_second", metrics.Celsius: "_celsius",
	metrics.Seconds: "_seconds",
}
