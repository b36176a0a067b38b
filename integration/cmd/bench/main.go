// Bench measures what an order costs: it brings up a fleet of its own from the
// built programs (a coordinator, one host, a bridge), measures it as its users
// see it, by HTTP, by the command line and in /proc, takes everything down
// again, and prints a table with the goal for each figure and its floor.
//
// A floor is what the figure cannot fall below on this machine (a rate: rise
// above), measured in the same minute without Hostler. Those of orders do the same
// work: durable, signed, and supervised by the smallest honest program. The others are
// computed from fork and exec, fsync, signatures, HTTPS. The last column tells how many
// times its floor a figure is. Machines have more than one speed, so
// every figure is measured three times, each time beside its floor, and the best
// of the three counts.
//
// A ratio, and what something takes beyond another program, has no floor: both ways are
// taken in turns in the same minute, their medians are compared, and a note tells both.
// What is measured inside of this program is the median of three. A figure without a goal
// shows a dash, and misses none.
//
// What was not measured is not in the table. When a run fails the table shows
// what there is, and no file is written.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/integration/cmd/bench/bare"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errUsage says that the flags were wrong and that the user has been told.
var errUsage = errors.New("usage")

// limit is how long the whole run may take, the taking down excluded.
const limit = 30 * time.Minute

// run is the program. Without -strict a target that is missed is no error: the table
// says so.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	bin := flags.String("bin", "bin", "directory with the built programs")
	simulate := flags.String("swarm", "", "be the hosts of this file, for another run")
	only := flags.String("only", "", "measure these alone, a list with commas: "+strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
	strict := flags.Bool("strict", false, "fail if a figure misses its target")
	out := flags.String("out", "bench.json", "file that the figures are written to")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	var steps []step
	for name := range strings.SplitSeq(*only, ",") {
		if step, ok := parts[name]; ok {
			steps = append(steps, step)
		} else if *only != "" {
			fmt.Fprintf(stderr, "-only: there is no %q\n", name)
			return errUsage
		}
	}
	if flags.NArg() > 0 {
		flags.Usage()
		return errUsage
	}
	if *simulate != "" {
		return serveSwarm(ctx, *simulate, os.Stdin, stdout)
	}
	if os.Geteuid() != 0 {
		return errors.New("containers, links and control groups need root")
	}
	dir, err := filepath.Abs(*bin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := measure(ctx, dir, steps, stderr)
	if err != nil {
		// What was measured is still of use to whoever reads it, but not to
		// a program that expects all of it.
		return errors.Join(err, r.print(stdout))
	}
	if err := writeJSON(*out, r.figures); err != nil {
		return err
	}
	if err := r.print(stdout); err != nil || !*strict {
		return err
	}
	return r.missed()
}

// measure brings the fleet up, measures, and takes it down, also when
// something went wrong in between: the steps, or everything if there are none. It
// returns what it has measured in any case.
func measure(ctx context.Context, bin string, steps []step, stderr io.Writer) (r report, err error) {
	f, err := newFleet(bin)
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			f.tellLogs(stderr)
		}
		err = errors.Join(err, f.close(context.WithoutCancel(ctx)))
	}()
	if err := f.start(ctx); err != nil {
		return r, fmt.Errorf("bringing up a fleet: %w", err)
	}
	config, err := calibrationTLS()
	if err != nil {
		return r, err
	}
	way, err := bare.New(ctx, bin, config)
	if err != nil {
		return r, fmt.Errorf("preparing the floors: %w", err)
	}
	defer func() { err = errors.Join(err, way.Close()) }()
	b, err := newBench(f, way, stderr)
	if err != nil {
		return r, err
	}
	err = b.all(ctx, steps)
	return b.report, err
}
