package measure

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// load is how busy a host is: shares of what it has, from 0 on; below 0 is unknown.
type load struct {
	conn.HostView
	cpu, memory, disk float64
}

func loadOf(h conn.HostView) load {
	used := func(free, all int64) float64 {
		if all <= 0 {
			return -1
		}
		return float64(all-free) / float64(all)
	}
	l := load{h, -1, used(h.MemoryFree, h.MemoryBytes), used(h.DiskFree, h.DiskBytes)}
	if h.CPUs > 0 {
		l.cpu = h.Load1 / float64(h.CPUs)
	}
	return l
}

func loadNoun() show.Noun[load] {
	share := func(v float64) any {
		if v < 0 {
			return ""
		}
		return fmt.Sprintf("%.0f%%", v*100)
	}
	return show.NounOf("id", "host:id state load load1+ cpus+ memory disk containers queue:queue_depth alerts~ told_at:inventory_at labels+", show.Cells[load]{
		"load":       func(l load) any { return share(l.cpu) },
		"memory":     func(l load) any { return share(l.memory) },
		"disk":       func(l load) any { return share(l.disk) },
		"containers": func(l load) any { return fmt.Sprintf("%d/%d", l.Running, l.Containers) },
		"alerts":     func(l load) any { return len(l.ActiveAlerts) },
	})
}

// orders are the columns that hostler top sorts by, largest first.
var orders = map[string]func(l load) float64{
	"load":       func(l load) float64 { return l.cpu },
	"memory":     func(l load) float64 { return l.memory },
	"disk":       func(l load) float64 { return l.disk },
	"containers": func(l load) float64 { return float64(l.Running) },
	"queue":      func(l load) float64 { return float64(l.QueueDepth) },
	"alerts":     func(l load) float64 { return float64(len(l.ActiveAlerts)) },
}

func (a *commands) topCommand() *cobra.Command {
	var labels conn.Selector
	order := "load"
	cmd := &cobra.Command{
		Use: "top", Short: "Show the busiest hosts first", Args: term.NoArgs,
		Long: `Lists hosts by what they use: LOAD is the load average of one minute as a share of
the processors, MEMORY and DISK (of the file system of the agent's state) as shares
of what there is. A host tells these with its heartbeats; TOLD_AT says when.`,
		Example: "  hostler top\n  hostler top --watch --sort memory\n  hostler top -l site=lab --limit 10",
	}
	v := show.ListFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "only those selected by labels")
	cmd.Flags().StringVar(&order, "sort", order, "load, memory, disk, containers, queue or alerts")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		by, ok := orders[order]
		if !ok {
			return term.Usage(cmd.CommandPath()+" --help", "--sort %q is none of load, memory, disk, containers, queue and alerts", order)
		}
		return show.Items(cmd.Context(), a.UI, v, loadNoun(), func(ctx context.Context) ([]load, error) {
			hosts, err := r.Hosts(ctx)
			var all []load
			for _, h := range hosts {
				if h.State != "revoked" && labels.Match(h.Labels) {
					all = append(all, loadOf(conn.HostView{Host: h, State: conn.ShownState(h)}))
				}
			}
			slices.SortStableFunc(all, func(x, y load) int { return cmp.Compare(by(y), by(x)) })
			return all, err
		})
	})
	return cmd
}
