package hostcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/metrics"
)

func (c Config) metricsCommand() *cobra.Command {
	var (
		dir, container string
		since          time.Duration
		names          []string
		all            bool
	)
	cmd := &cobra.Command{
		Use: "metrics", Short: "Print what was measured of this host, as lines of JSON, also while the agent is down", Args: noArgs,
		Long: "Print the samples of this host or of one of its containers, one series to a line. Points are\n" +
			"[Unix milliseconds, milliseconds that it covers, mean, maximum]. For tables and pictures use\n" +
			"hostler metrics.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= 0 {
				return daemon.Usage(fmt.Errorf("--since %s is not above zero", since))
			}
			if all && container != "" {
				return daemon.Usage(fmt.Errorf("--all and --container cannot be combined"))
			}
			if dir == "" {
				var err error
				if dir, err = c.Metrics(); err != nil {
					return err
				}
			}
			now := clock.Now()
			q := metrics.Query{Since: now.Add(-since), Until: now, Now: now, Container: container, Everything: all}
			for _, n := range names {
				if _, ok := metrics.InfoOf(metrics.Metric(n)); !ok {
					return daemon.Usage(fmt.Errorf("there is no metric %q; known are %v", n, metricNames()))
				}
				q.Metrics = append(q.Metrics, metrics.Metric(n))
			}
			return printMetrics(cmd.OutOrStdout(), dir, q)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the samples (default: as configured)")
	cmd.Flags().StringVar(&container, "container", "", "the container of this name instead of the host")
	cmd.Flags().BoolVar(&all, "all", false, "the host and all containers")
	cmd.Flags().DurationVar(&since, "since", time.Hour, "how far back")
	cmd.Flags().StringArrayVar(&names, "metric", nil, "only this metric (repeat for more)")
	return cmd
}

func metricNames() (names []metrics.Metric) {
	for _, i := range metrics.Metrics() {
		names = append(names, i.Metric)
	}
	return names
}

// printMetrics writes the lines that hostler metrics reads.
func printMetrics(w io.Writer, dir string, q metrics.Query) error {
	lines, err := metrics.Read(dir, q)
	if err != nil {
		return fmt.Errorf("read the samples: %w", err)
	}
	out := json.NewEncoder(w)
	for _, l := range lines {
		info, _ := metrics.InfoOf(l.Metric)
		line := api.MetricLine{Container: l.Container, Metric: string(l.Metric), Part: l.Part, Unit: string(info.Unit), Points: make([]api.MetricPoint, 0, len(l.Points))}
		for _, p := range l.Points {
			line.Points = append(line.Points, api.MetricPoint{AtMS: p.At.UnixMilli(), SpanMS: p.Span.Milliseconds(), Mean: p.Mean, Max: p.Max})
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
