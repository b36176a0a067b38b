package measure

import (
	"cmp"
	"context"
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

// ContainerCommands returns hostler ct stats and ct top.
func ContainerCommands(d *dispatch.Dispatcher) []*cobra.Command {
	a := &commands{d}
	stats := a.useCommand("name", &cobra.Command{
		Use: "stats [HOST | HOST/NAME]", Short: "Show what containers use, by name",
		Long: `Shows the newest sample of the running containers of a host, or of one of them: a
host measures them every 15 s. CPU is in percent of one processor, memory is what
the kernel could not take back, MEMORY_MAX is the limit, if there is one. READ and
WRITTEN are of disks, IN and OUT of the network. For what was before: hostler metrics.`,
		Example: "  hostler ct stats edge-07\n  hostler ct stats edge-07/web --watch\n  hostler ct stats edge-07 -o json",
	})
	top := a.useCommand("cpu", &cobra.Command{
		Use: "top [HOST]", Short: "Show the containers of a host, the busiest first",
		Long: `Shows what hostler ct stats shows, of all running containers of a host, the one
first that uses the most.`,
		Example: "  hostler ct top edge-07\n  hostler ct top edge-07 --sort memory --watch",
	})
	return []*cobra.Command{stats, top}
}

// use is what a container uses, by its newest sample. What was not measured is absent.
type use struct {
	Host      string             `json:"host"`
	Container string             `json:"name"`
	At        time.Time          `json:"at"`
	Uses      map[string]float64 `json:"uses"` // by metric, its parts together
	units     map[string]string
}

// useColumns are those of a use, each a metric, by the name of the column.
var useColumns = [][2]string{
	{"cpu", "cpu"}, {"memory", "memory"}, {"memory_max", "memory_max"}, {"disk", "disk"}, {"tasks", "tasks"},
	{"read", "read"}, {"written", "written"}, {"in", "received"}, {"out", "sent"},
}

func useNoun() show.Noun[use] {
	cells := show.Cells[use]{
		"name": func(u use) any { return u.Container },
		"at":   func(u use) any { return u.At },
	}
	names := []string{"host", "name"}
	for _, c := range useColumns {
		column, metric := c[0], c[1]
		names = append(names, column)
		cells[column] = func(u use) any {
			v, ok := u.Uses[metric]
			if !ok {
				return ""
			}
			return amount(v, u.units[metric])
		}
	}
	return show.NounOf("name", strings.Join(append(names, "at+"), " "), cells)
}

// usesOf makes the newest sample of each container of series.
func usesOf(host string, lines []line) []use {
	found := make(map[string]*use)
	for _, l := range lines {
		if l.Container == "" || len(l.Points) == 0 {
			continue
		}
		u := found[l.Container]
		if u == nil {
			u = &use{Host: host, Container: l.Container, Uses: make(map[string]float64), units: make(map[string]string)}
			found[l.Container] = u
		}
		newest := l.Points[len(l.Points)-1]
		if at := time.UnixMilli(newest.AtMS).UTC(); at.After(u.At) {
			u.At = at
		}
		u.Uses[l.Metric] += newest.Mean
		u.units[l.Metric] = l.Unit
	}
	all := make([]use, 0, len(found))
	for _, u := range found {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(x, y use) int { return cmp.Compare(x.Container, y.Container) })
	return all
}

// newestWithin is how far back the newest sample of a container that runs can lie.
const newestWithin = 4 * watchEvery

// useCommand makes a command that lists uses, in an order.
func (a *commands) useCommand(order string, cmd *cobra.Command) *cobra.Command {
	one := strings.Contains(cmd.Use, "/NAME")
	cmd.Args, cmd.ValidArgsFunction = term.AtMost(1), a.Completing(conn.HostNames)
	if one {
		cmd.ValidArgsFunction = a.Completing(conn.AnyOf(conn.HostNames, conn.ContainerNames))
	}
	v := show.ListFlags(cmd)
	cmd.Flags().StringVar(&order, "sort", order, "name, cpu, memory, disk, tasks, read, written, in or out")
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		i := slices.IndexFunc(useColumns, func(c [2]string) bool { return c[0] == order })
		if i < 0 && order != "name" {
			return term.Usage(cmd.CommandPath()+" --help", "--sort %q is none of its columns", order)
		}
		where, err := parsePlace(strings.Join(args, ""), r.Local)
		if err == nil && where.Name != "" && !one {
			return term.Usage("hostler ct stats "+where.String(), "%s is a container; top is about all of a host", where)
		}
		if err != nil {
			return term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		host := string(where.Host)
		if r.Local { // it is not named
			var s api.AgentStatus
			if err := r.Get(cmd.Context(), "/status", nil, &s); err != nil {
				return term.Cannot("read the metrics of this host", err)
			}
			host = s.Host
		}
		q := &protocol.MetricsArgs{Metrics: hostcmd.Metrics{SinceMS: newestWithin.Milliseconds(), Container: where.Name, All: where.Name == ""}, OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}
		for _, c := range useColumns {
			q.Names = append(q.Names, c[1])
		}
		first := true
		return show.Items(cmd.Context(), a.UI, v, useNoun(), func(ctx context.Context) ([]use, error) {
			if !first { // there is nothing new before that
				if err := term.Pause(ctx, watchEvery); err != nil {
					return nil, err
				}
			}
			first = false
			lines, err := a.read(ctx, r, where, q)
			all := usesOf(host, lines)
			if order != "name" {
				by := useColumns[i][1]
				slices.SortStableFunc(all, func(x, y use) int { return cmp.Compare(y.Uses[by], x.Uses[by]) })
			}
			return all, err
		})
	})
	return cmd
}
