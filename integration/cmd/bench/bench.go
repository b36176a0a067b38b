package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/integration/cmd/bench/bare"
	"github.com/hostler-io/hostler/integration/cmd/bench/proc"
	"github.com/hostler-io/hostler/integration/cmd/bench/sealing"
	"github.com/hostler-io/hostler/protocol"
)

// rounds is how often everything is measured that has two speeds.
const rounds = 3

// bench measures one fleet.
type bench struct {
	fleet  *fleet
	probe  *probe
	bare   *bare.Way // what floors are measured on
	talk   io.Writer // what is going on, for whoever waits
	report report
}

func newBench(f *fleet, bare *bare.Way, talk io.Writer) (*bench, error) {
	p, err := newProbe(f.url(), f.ca(), f.token)
	if err != nil {
		return nil, err
	}
	return &bench{fleet: f, probe: p, bare: bare, talk: talk, report: report{spreads: noSpreads()}}, nil
}

// row is what a figure is to be.
type row struct {
	name, unit string
	target     float64              // 0: times is given instead
	times      float64              // the target as a multiple of the floor
	floor      func(floors) float64 // nil: none is known
	// same measures a floor that does the same work, in place of one that is computed.
	same func(context.Context) (float64, error)
}

// best measures the rows three times, each time beside their floors, and takes
// for each the best, with the floor that was measured beside it.
func (b *bench) best(ctx context.Context, rows []row, once func() ([]float64, error)) error {
	found := make([]figure, len(rows))
	fmt.Fprintln(b.talk, "measuring", rows[0].name)
	for i := range rounds {
		f, err := b.calibrate(ctx)
		if err != nil {
			return err
		}
		values, err := once()
		if err != nil {
			return fmt.Errorf("measuring %s: %w", rows[0].name, err)
		}
		for j, r := range rows {
			if i > 0 && !found[j].better(values[j]) {
				continue
			}
			if r.same != nil {
				floor, err := r.same(ctx)
				if err != nil {
					return fmt.Errorf("measuring the floor of %s: %w", r.name, err)
				}
				r.floor = func(floors) float64 { return floor }
			}
			found[j] = r.figure(values[j], f)
		}
	}
	b.report.figures = append(b.report.figures, found...)
	return nil
}

func (r row) figure(value float64, f floors) figure {
	fig := figure{Name: r.name, Value: round(value), Unit: r.unit, Target: r.target}
	if r.floor != nil {
		floor := round(r.floor(f))
		fig.Floor = &floor
		if r.times > 0 {
			fig.Target = round(r.times * floor)
		}
	}
	return fig
}

// add adds a figure that no speed of the machine changes.
func (b *bench) add(name string, value, target float64) {
	b.report.figures = append(b.report.figures, figure{Name: name, Value: round(value), Unit: "MB", Target: round(target)})
}

// A step measures some figures.
type step func(*bench, context.Context) error

// parts are the steps that can be asked for alone.
var parts = map[string]step{
	"roundtrip": (*bench).roundtrip,
	"load":      (*bench).load,
	"cancel":    (*bench).cancels,
	"delta":     (*bench).deltas,
	"output":    (*bench).outputs,
	"first":     (*bench).firstByte,
	"line":      (*bench).lineLag,
	"stdout":    (*bench).stdout,
	"stdin":     (*bench).stdin,
	"followers": (*bench).manyFollowers,
	"many":      func(b *bench, ctx context.Context) error { return thousand{b}.runMany(ctx) },
	"noop":      (*bench).noop,
	"lxc":       (*bench).containers,
	"memory":    (*bench).memoryAlone,
	"placement": func(b *bench, ctx context.Context) error { return inside{b}.places(ctx) },
	"sim":       func(b *bench, ctx context.Context) error { return inside{b}.plays(ctx) },
	"podman":    func(b *bench, ctx context.Context) error { return pods{b}.podmans(ctx) },
	"exit":      func(b *bench, ctx context.Context) error { return pods{b}.deaths(ctx) },
	"copies":    func(b *bench, ctx context.Context) error { return copying{b}.copies(ctx) },
	"pull":      func(b *bench, ctx context.Context) error { return pulling{b}.pulls(ctx) },
	"restore":   func(b *bench, ctx context.Context) error { return crowds{b}.restore(ctx) },
	"rest":      func(b *bench, ctx context.Context) error { return crowds{b}.atRest(ctx) },
	"influx":    func(b *bench, ctx context.Context) error { return inside{b}.writes(ctx) },
	"fleet":     func(b *bench, ctx context.Context) error { return large{b}.measure(ctx) },
	"lease":     func(b *bench, ctx context.Context) error { return large{b}.leases(ctx) },
	"takeover":  func(b *bench, ctx context.Context) error { return takeover{b}.measure(ctx) },
	"beat":      func(b *bench, ctx context.Context) error { return thousand{b}.heartbeats(ctx) },
}

// all measures everything, in an order in which no figure spoils another: an
// idle agent first, then orders, what they have left in its memory, and only
// then containers. If steps are given, it measures these instead.
func (b *bench) all(ctx context.Context, steps []step) error {
	for _, step := range steps {
		if err := step(b, ctx); err != nil {
			return err
		}
	}
	if len(steps) > 0 {
		return nil
	}
	idle, err := b.idleMemory(ctx)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		b.roundtrip, b.commandLine, b.commits, b.cancels, b.load, b.noop, b.seal, b.deltas, b.outputs,
		func(ctx context.Context) error { return b.memory(ctx, idle) },
		b.containers, thousand{b}.runMany, thousand{b}.heartbeats, b.storm, large{b}.measure,
		pods{b}.podmans, pods{b}.deaths, copying{b}.copies, pulling{b}.pulls, crowds{b}.restore, crowds{b}.atRest, inside{b}.writes, inside{b}.places, inside{b}.plays, takeover{b}.measure,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return b.binaries()
}

// settle is how long a daemon gets to come to rest before its memory is read.
const settle = 7 * time.Second

func (b *bench) idleMemory(ctx context.Context) (float64, error) {
	if err := pause(ctx, settle); err != nil {
		return 0, err
	}
	return proc.RSS(b.fleet.agent)
}

// runTrue and ping are the requests of most figures.
func runTrue() ([]byte, error) {
	return request(protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("/bin/true")})
}

func ping() ([]byte, error) { return request(protocol.Spec{Kind: protocol.KindPing}) }

func (b *bench) roundtrip(ctx context.Context) error {
	order, err := runTrue()
	if err != nil {
		return err
	}
	if _, err := b.probe.oneByOne(ctx, 20, order); err != nil { // caches and pools are filled once
		return err
	}
	return b.best(ctx, []row{
		{name: "roundtrip_p50_ms", unit: "ms", times: 2.5, same: func(ctx context.Context) (float64, error) {
			return median(60, func() error { return b.bare.Command(ctx) })
		}},
		{name: "roundtrip_p99_ms", unit: "ms", target: 20, floor: floors.roundtrip},
	}, func() ([]float64, error) {
		values, err := b.probe.oneByOne(ctx, 200, order)
		if err != nil {
			return nil, err
		}
		return []float64{percentile(values, 50), percentile(values, 99)}, nil
	})
}

func (b *bench) commandLine(ctx context.Context) error {
	return b.best(ctx, []row{{name: "cli_run_true_p50_ms", unit: "ms", target: 25, floor: floors.cli}}, func() ([]float64, error) {
		const n = 40
		b.probe.orders += n
		p50, err := median(n, func() error {
			_, err := b.fleet.must(ctx, "hostler", "run", hostName, "--", "/bin/true")
			return err
		})
		return []float64{p50}, err
	})
}

// commits counts how often an order waits for a disk, on both sides.
func (b *bench) commits(ctx context.Context) error {
	order, err := runTrue()
	if err != nil {
		return err
	}
	return b.best(ctx, []row{{name: "commits_per_roundtrip", unit: "commits", target: 6, floor: floors.commits}}, func() ([]float64, error) {
		const n = 200
		before, err := b.allCommits(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := b.probe.oneByOne(ctx, n, order); err != nil {
			return nil, err
		}
		after, err := b.allCommits(ctx)
		return []float64{(after - before) / n}, err
	})
}

// allCommits is how many durable commits both databases of the fleet have made.
func (b *bench) allCommits(ctx context.Context) (float64, error) {
	page, err := b.probe.call(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	theirs, err := metric(string(page), "hostler_coordinator_store_commits_total")
	if err != nil {
		return 0, err
	}
	if page, err = b.fleet.agentMetrics(ctx); err != nil {
		return 0, err
	}
	ours, err := metric(string(page), "hostler_agent_store_commits_total")
	return theirs + ours, err
}

// metric is the value of one without labels.
func metric(page, name string) (float64, error) {
	for line := range strings.Lines(page) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

func (b *bench) load(ctx context.Context) error {
	order, err := runTrue()
	if err != nil {
		return err
	}
	var spent []usage
	if err := b.best(ctx, []row{
		{name: "actions_per_s", unit: perSecond, times: 0.4, same: b.bare.Supervised},
		{name: "cpu_per_action_ms", unit: "ms", times: 4, floor: func(f floors) float64 { return f.execCPU }},
	}, func() ([]float64, error) {
		rate, each, err := b.loadOnce(ctx, order)
		spent = append(spent, each)
		return []float64{rate, each.sum()}, err
	}); err != nil {
		return err
	}
	u := slices.MinFunc(spent, func(u, v usage) int { return cmp.Compare(u.sum(), v.sum()) })
	b.report.notes = append(b.report.notes, fmt.Sprintf("cpu_per_action_ms: coordinator %s, agent %s, supervisor and command %s.",
		number(u.coordinator), number(u.agent), number(u.commands)))
	return nil
}

// loadOnce returns how many orders a second went through, ten in flight, and
// the processor time that one of them took.
func (b *bench) loadOnce(ctx context.Context, order []byte) (rate float64, each usage, err error) {
	const n = 600 // enough for a clock of 10 ms
	before, err := b.fleet.usage()
	if err != nil {
		return 0, usage{}, err
	}
	took, err := b.probe.atOnce(ctx, n, 10, order)
	if err != nil {
		return 0, usage{}, err
	}
	// The last supervisors end after their orders have.
	if err := pause(ctx, 300*time.Millisecond); err != nil {
		return 0, usage{}, err
	}
	after, err := b.fleet.usage()
	return n / took.Seconds(), after.minus(before).per(n), err
}

func (b *bench) noop(ctx context.Context) error {
	order, err := ping()
	if err != nil {
		return err
	}
	return b.best(ctx, []row{{name: "noop_actions_per_s", unit: perSecond, times: 0.4, same: b.bare.Messages}}, func() ([]float64, error) {
		const n = 2000
		took, err := b.probe.atOnce(ctx, n, 50, order)
		return []float64{n / took.Seconds()}, err
	})
}

func (b *bench) seal(ctx context.Context) error {
	s, err := sealing.New(fleetName, hostName)
	if err != nil {
		return err
	}
	return b.best(ctx, []row{{name: "seal_open_us", unit: "µs", times: 1.3, floor: floors.keysUS}}, func() ([]float64, error) {
		p50, err := median(2000, s.Once)
		return []float64{1000 * p50}, err
	})
}

// containers measures a container of its own. Its floors are what liblxc alone takes
// for the same container.
func (b *bench) containers(ctx context.Context) error {
	name := hostName + "/" + container
	if _, err := b.fleet.must(ctx, "hostler", "ct", "create", name, "--template", "busybox"); err != nil {
		return err
	}
	start, stop, command, err := b.containerOrders(ctx)
	if err != nil {
		return err
	}
	if err := b.best(ctx, []row{{name: "lxc_start_p50_ms", unit: "ms", times: 1.7, same: b.bareLXC("start", 10)}}, func() ([]float64, error) {
		values := make([]float64, 10)
		for i := range values {
			if _, err := b.probe.oneByOne(ctx, 1, stop); err != nil {
				return nil, err
			}
			took, err := b.probe.oneByOne(ctx, 1, start)
			if err != nil {
				return nil, err
			}
			values[i] = took[0]
		}
		return []float64{percentile(values, 50)}, nil
	}); err != nil {
		return err
	}
	if err := b.best(ctx, []row{{name: "lxc_exec_p50_ms", unit: "ms", times: 2, same: b.bareLXC("exec", 60)}}, func() ([]float64, error) {
		values, err := b.probe.oneByOne(ctx, 60, command)
		if err != nil {
			return nil, err
		}
		return []float64{percentile(values, 50)}, nil
	}); err != nil {
		return err
	}
	_, err = b.fleet.must(ctx, "hostler", "ct", "rm", name, "--yes")
	return err
}

// containerOrders are the requests that start and stop the container, which
// runs when they are returned, and run true in it.
func (b *bench) containerOrders(ctx context.Context) (start, stop, command []byte, err error) {
	var all []struct {
		Name string        `json:"name"`
		CTID protocol.CTID `json:"ctid"`
	}
	if err := b.probe.get(ctx, "/v1/containers", &all); err != nil {
		return nil, nil, nil, err
	}
	if len(all) != 1 {
		return nil, nil, nil, fmt.Errorf("the fleet has %d containers, want 1", len(all))
	}
	id := all[0].CTID
	specs := []protocol.Spec{
		{Kind: protocol.KindStart, Target: id, Name: container},
		{Kind: protocol.KindStop, Target: id, Name: container, Args: &protocol.StopArgs{GraceMS: 1}},
		{Kind: protocol.KindExec, Target: id, Name: container, Args: protocol.Command("true")},
	}
	requests := make([][]byte, len(specs))
	for i, s := range specs {
		if requests[i], err = request(s); err != nil {
			return nil, nil, nil, err
		}
	}
	if err := b.probe.order(ctx, requests[0]); err != nil {
		return nil, nil, nil, fmt.Errorf("starting the container: %w", err)
	}
	return requests[0], requests[1], requests[2], nil
}

// many is the number of actions after which the agent's memory is compared.
const many = 10_000

// memoryAlone is memory of a fleet that has done nothing else.
func (b *bench) memoryAlone(ctx context.Context) error {
	idle, err := b.idleMemory(ctx)
	if err != nil {
		return err
	}
	return b.memory(ctx, idle)
}

// memory brings the actions of this run to ten thousand with commands, and
// compares the agent's memory with that before the first.
func (b *bench) memory(ctx context.Context, idle float64) error {
	order, err := runTrue()
	if err != nil {
		return err
	}
	n := max(0, many-b.probe.orders)
	fmt.Fprintf(b.talk, "ordering %d more, to have given %d\n", n, b.probe.orders+n)
	if _, err := b.probe.atOnce(ctx, n, 10, order); err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	after, err := proc.RSS(b.fleet.agent)
	if err != nil {
		return err
	}
	file, err := proc.RSSFile(b.fleet.agent)
	if err != nil {
		return err
	}
	b.report.notes = append(b.report.notes, fmt.Sprintf("agent_rss_after_10k_mb: of it %s MB are the agent's own program file.", number(file)))
	b.add("agent_rss_mb", idle, 22)
	b.add("agent_rss_after_10k_mb", after, 26)
	return nil
}

func (b *bench) binaries() error {
	for _, p := range []struct {
		name, program string
		target        float64
	}{
		{"agent_binary_mb", "hostler-agent", 18},
		{"cli_binary_mb", "hostler", 18},
		{"run_binary_mb", "hostler-run", 2},
	} {
		v, err := size(filepath.Join(b.fleet.bin, p.program))
		if err != nil {
			return err
		}
		b.add(p.name, v, p.target)
	}
	return nil
}
