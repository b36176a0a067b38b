// Package simulate is hostler sim: a fleet with unique containers on virtual time.
package simulate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/sim"
)

// Command returns hostler sim. more are commands of it.
func Command(ui *term.UI, more ...*cobra.Command) *cobra.Command {
	quiet := false
	cmd := &cobra.Command{
		Use: "sim FILE", Short: "Play what a fleet does with unique containers when hosts fail", Args: term.Exactly(1),
		Long: `Plays hosts, unique containers and faults on virtual time, with the code by which the
coordinator decides, and prints what happens. It asks no coordinator and changes nothing.
An observer looks for what must never be, such as two copies at one time, and the last
lines name each of these rules. The exit code is 1 if it finds that one was broken.

A line of FILE is one of these (- is standard input; # begins a comment):

  lease ttl=90s kill=15s drift=10 margin=10s
  network loss=5% latency=200ms
  host edge-01 cpu=400% memory=8GiB fence=reboot drift=5
  workload db on=edge-01 cpu=100% memory=1GiB priority=5 data=none
  workload web memory=1GiB after=db
  fence first=auto action=reboot grace=10s per-hour=3 witness
  device pdu hosts=edge-01,edge-02 level=1 tries=2 try=60s delay=0s
  at 5m cut edge-01 for 10m
  at 8m move db to edge-02
  until 30m

Of faults, move is a person's: hostler ct move. The others are cut, power-off, stop-agent, kill-agent, pause, unkillable, old-disk, drain
and maintenance of a host, and restart and cut-all of the coordinator. A device can be
device-hangs (no answer comes), device-lies (it tells that it has switched off what is on) and
device-mixed (it answers for another of its hosts whether that is on).`,
		Example: "  hostler sim ./lost.sim\n  hostler sim ./lost.sim --quiet",
	}
	cmd.AddCommand(more...)
	cmd.Flags().BoolVar(&quiet, "quiet", false, "print what it came to, and not each line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := read(ui.In, args[0])
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			return term.Cannot("read "+args[0], err)
		}
		if err != nil {
			return term.Usage("hostler sim --help", "%s", err)
		}
		if !quiet {
			w.Log = func(at time.Duration, text string) { fmt.Fprintf(ui.Out, "%-12s %s\n", at, text) }
		}
		return report(ui.Out, w, play(ui, w))
	}
	return cmd
}

// play plays a world, and shows on a terminal how far it is.
func play(ui *term.UI, w sim.World) sim.Report {
	tick := ui.Tick("playing", "")
	defer tick.End()
	w.Reached = func(at time.Duration) {
		tick.Tell(fmt.Sprintf("%d %%, %s of %s", 100*at/w.Until, at.Truncate(time.Second), w.Until))
	}
	return sim.Run(w)
}

func read(stdin io.Reader, path string) (sim.World, error) {
	if path == "-" {
		return sim.Parse(stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return sim.World{}, err
	}
	defer f.Close()
	w, err := sim.Parse(f)
	if err != nil {
		return sim.World{}, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// report prints what a play came to.
func report(out io.Writer, w sim.World, r sim.Report) error {
	fmt.Fprintf(out, "\nplayed %s of %d hosts and %d workloads: %d takeovers, %d fences, longest time without one of them %s\n", w.Until, len(w.Hosts), len(w.Workloads), r.Takeovers, r.Fences, r.Longest.Round(time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(r.Stopped)) {
		fmt.Fprintf(out, "at the end %s runs nowhere: %s\n", name, r.Stopped[name])
	}
	if len(r.Violations) == 0 {
		for _, rule := range sim.Invariants() {
			fmt.Fprintln(out, rule)
		}
		return nil
	}
	for _, v := range r.Violations {
		fmt.Fprintln(out, "VIOLATION", v)
	}
	return &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("%d violations", len(r.Violations)), Why: "what must never be has happened", Next: "read the lines before the first VIOLATION"}
}
