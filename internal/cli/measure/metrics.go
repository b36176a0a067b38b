// Package measure shows what hosts have measured: hostler metrics and top.
package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/hostcmd"
)

type commands struct{ *dispatch.Dispatcher }

// Commands returns hostler metrics and top.
func Commands(d *dispatch.Dispatcher) []*cobra.Command {
	a := &commands{d}
	return []*cobra.Command{a.metricsCommand(), a.topCommand()}
}

// line is a series with what its columns show.
type line struct {
	api.MetricLine
	last, mean, most float64
}

func lineNoun() show.Noun[line] {
	return show.NounOf("metric", "container metric part now mean max points+ history", show.Cells[line]{
		"container": func(l line) any { return l.Container },
		"metric":    func(l line) any { return l.Metric },
		"part":      func(l line) any { return l.Part },
		"now":       func(l line) any { return amount(l.last, l.Unit) },
		"mean":      func(l line) any { return amount(l.mean, l.Unit) },
		"max":       func(l line) any { return amount(l.most, l.Unit) },
		"points":    func(l line) any { return len(l.Points) },
		"history":   func(l line) any { return spark(l.Points, sparkWidth) },
	})
}

// sample is one point, for tables that programs read.
type sample struct {
	At        time.Time `json:"at"`
	Container string    `json:"container"`
	Metric    string    `json:"metric"`
	Part      string    `json:"part"`
	Unit      string    `json:"unit"`
	SpanMS    int64     `json:"span_ms"`
	Mean      float64   `json:"mean"`
	Max       float64   `json:"max"`
}

func sampleNoun() show.Noun[sample] {
	return show.NounOf[sample]("metric", "at container metric part unit span_ms mean max", nil)
}

func (a *commands) metricsCommand() *cobra.Command {
	since := term.DurationFlag{}
	var names []string
	var all, plot bool
	cmd := &cobra.Command{
		Use: "metrics [HOST | HOST/NAME]", Short: "Show what a host has measured, of itself or of a container", Args: term.AtMost(1),
		Long: `Shows the samples that a host keeps: of the last hour every 15 s, of the last day
every minute, of the last week every five minutes. NOW is the newest sample, MEAN
and MAX are over the time that was asked for, and HISTORY is drawn from zero up.

With --plot each series is drawn large. -o csv and -o json print every sample.
Memory is what the kernel could not take back; cpu is in percent of one processor.`,
		Example: `  hostler metrics edge-07
  hostler metrics edge-07/web --since 1d --metric cpu --metric memory
  hostler metrics edge-07 --all --metric cpu
  hostler metrics edge-07 --metric load1 --plot
  hostler metrics edge-07 --since 7d -o csv > edge-07.csv`,
		ValidArgsFunction: a.Completing(conn.AnyOf(conn.HostNames, conn.ContainerNames)),
	}
	v := show.ListFlags(cmd)
	f := cmd.Flags()
	f.Var(&since, "since", "how far back, at most 7d (default 1h)")
	f.StringArrayVar(&names, "metric", nil, "only this metric; may be repeated")
	f.BoolVar(&all, "all", false, "the host and all its containers")
	f.BoolVar(&plot, "plot", false, "draw each series")
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		where, err := parsePlace(strings.Join(args, ""), r.Local)
		if err != nil {
			return term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		if where.Name != "" && all {
			return term.Usage(cmd.CommandPath()+" --help", "--all is for a host; %s is a container", where)
		}
		back := since.Value
		if back == 0 {
			back = time.Hour
		}
		if back < watchEvery || back > kept {
			return term.Usage(cmd.CommandPath()+" --help", "--since %s is not between %s and 7d, for which samples are kept", since.String(), watchEvery)
		}
		q := &protocol.MetricsArgs{Metrics: hostcmd.Metrics{SinceMS: back.Milliseconds(), Container: where.Name, All: all, Names: names}, OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}
		first := true
		read := func(ctx context.Context) ([]line, error) {
			if !first { // there is nothing new before that, and each question is an action
				if err := term.Pause(ctx, watchEvery); err != nil {
					return nil, err
				}
			}
			first = false
			return a.read(ctx, r, where, q)
		}
		switch {
		case plot:
			lines, err := read(cmd.Context())
			if err != nil {
				return err
			}
			return a.plot(lines)
		case v.Format.Word == "csv":
			return show.Items(cmd.Context(), a.UI, v, sampleNoun(), func(ctx context.Context) ([]sample, error) {
				lines, err := read(ctx)
				return samples(lines), err
			})
		}
		return show.Items(cmd.Context(), a.UI, v, lineNoun(), read)
	})
	return cmd
}

// parsePlace reads HOST or HOST/NAME, or on a host NAME or nothing.
func parsePlace(s string, local bool) (conn.Ref, error) {
	switch {
	case local && s == "":
		return conn.Ref{}, nil
	case s == "":
		return conn.Ref{}, errors.New("name a host, or a container as HOST/NAME")
	case local || strings.Contains(s, "/"):
		return conn.ParseRef(s, local)
	}
	host, err := conn.ParseHost(s)
	return conn.Ref{Host: host}, err
}

// read asks the host, and reads what it prints.
func (a *commands) read(ctx context.Context, r *conn.Remote, where conn.Ref, q *protocol.MetricsArgs) ([]line, error) {
	what := "read the metrics of " + where.String()
	b, err := a.Ask(ctx, r, where.Host, where.String(), what, maxAnswer, protocol.Spec{Kind: protocol.KindHostMetrics, Args: q})
	if err != nil {
		return nil, err
	}
	lines, err := parse(bytes.NewReader(b))
	if err == nil && len(lines) == 0 {
		if where.Name != "" {
			if _, err := r.Container(ctx, where); err != nil {
				return nil, term.Cannot(what, err)
			}
		}
		a.Say("There are no samples of %s in that time. A host measures itself and its running containers every 15 s while its agent runs.", where)
	}
	return lines, term.Cannot(what, err)
}

// watchEvery is how often a host measures itself, and kept for how long it keeps samples.
const (
	watchEvery = 15 * time.Second
	kept       = 7 * 24 * time.Hour
)

// maxAnswer bounds what a host may answer: 64 MiB are a week of 300 containers.
const maxAnswer = 64 << 20

// parse reads lines of JSON.
func parse(r io.Reader) ([]line, error) {
	var lines []line
	for d := json.NewDecoder(r); ; {
		var l line
		switch err := d.Decode(&l.MetricLine); {
		case err == io.EOF:
			return lines, nil
		case err != nil:
			return nil, dispatch.ErrAnswer
		}
		if l.sum(); len(l.Points) > 0 {
			lines = append(lines, l)
		}
	}
}

// sum fills in the columns.
func (l *line) sum() {
	var total, span float64
	l.most = math.Inf(-1)
	for _, p := range l.Points {
		weight := float64(max(p.SpanMS, 1))
		total += p.Mean * weight
		span += weight
		l.most = max(l.most, p.Max)
		l.last = p.Mean
	}
	l.mean = total / span
}

func samples(lines []line) []sample {
	var all []sample
	for _, l := range lines {
		for _, p := range l.Points {
			all = append(all, sample{time.UnixMilli(p.AtMS).UTC(), l.Container, l.Metric, l.Part, l.Unit, p.SpanMS, p.Mean, p.Max})
		}
	}
	slices.SortStableFunc(all, func(x, y sample) int { return x.At.Compare(y.At) })
	return all
}

// amount writes a value with its unit.
func amount(v float64, unit string) string {
	switch unit {
	case "B":
		return term.Size(int64(v))
	case "B/s":
		return term.Size(int64(v)) + "/s"
	case "%":
		return fmt.Sprintf("%.1f%%", v)
	case "s":
		if v >= 120 {
			return term.Roughly(time.Duration(v * float64(time.Second)))
		}
		return fmt.Sprintf("%.1fs", v)
	case "":
		if v == math.Trunc(v) || v >= 1000 {
			return fmt.Sprintf("%.0f", v)
		}
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}
