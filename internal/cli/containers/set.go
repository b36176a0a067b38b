package containers

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

func (a *commands) ctSetCommand() *cobra.Command {
	var change contract.Change
	var labels, gone []string
	cmd := &cobra.Command{
		Use: "set {HOST/NAME | -l SELECTOR}", Short: "Change how a container is kept",
		Long: `Changes how a container is kept, from now on. What is not named stays.

--label and --remove-label change its labels, all or none, in a request of their own.
Other settings are those of hostler ct config.

--offline says what it does while its host is cut off from the coordinator: keep goes
on for ever, stop-after=8h stops it when the host was cut off for eight hours. It then
stays stopped until the coordinator is heard again, and is started then. Time for which
the host is powered off does not count. See also: hostler host explain-offline
The contract of a unique container stays as it was made.

--start-order and --start-after say when it is started, should several be, as after a
reboot: those of a lower order first, those without one last; and one that is started
after others waits until they run, for two minutes at most.

--health-cmd, --health-tcp and --health-http say how the host looks at it while it runs:
a command in it that ends with 0, a port that takes connections, a request that is
answered with a status below 400. When --health-retries checks in a row have failed, the
container is unhealthy: an alert tells so, and it is restarted, more and more seldom.`,
		Example: "  hostler ct set edge-01/web --offline stop-after=8h\n  hostler ct set edge-01/web --offline keep --class cloned\n  hostler ct set -l app=web --offline stop-after=30m\n  hostler ct set edge-01/web --health-http :8080/ready --health-interval 10s\n  hostler ct set edge-01/db --health-cmd --health-action mark -- pg_isready -q",
	}
	cmd.Flags().StringVar(&change.Offline, "offline", "", "what it does while its host is cut off: keep, or stop-after=DURATION")
	cmd.Flags().Var(&startOrder{&change.StartOrder}, "start-order", "when it is started: 1 first, 1000 last, or none")
	cmd.Flags().StringSliceVar(&change.StartAfter, "start-after", nil, "containers of its host that are to run before, or none")
	cmd.Flags().StringVar(&change.Class, "class", "", "pinned: it belongs to this host; cloned: other hosts may have copies of it")
	_ = cmd.RegisterFlagCompletionFunc("class", cobra.FixedCompletions([]string{"pinned", "cloned"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringArrayVar(&labels, "label", nil, "label, NAME=VALUE; may be repeated")
	cmd.Flags().StringArrayVar(&gone, "remove-label", nil, "name of a label to take away; may be repeated")
	var h health
	h.flags(cmd)
	a.onManyContainers(cmd, "set", "set", func(string) (protocol.Spec, error) {
		err := h.change(&change)
		if err == nil {
			err = change.Check()
		}
		switch labelled := len(labels)+len(gone) > 0; {
		case err != nil:
		case labelled && reflect.ValueOf(change).IsZero():
			return relabel(labels, gone)
		case labelled:
			err = errors.New("labels are changed in a request of their own: give --label and --remove-label alone")
		case reflect.ValueOf(change).IsZero():
			err = errors.New("there is nothing to set")
		}
		if err != nil {
			return protocol.Spec{}, term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		return protocol.Spec{Kind: protocol.KindSet, Args: &protocol.SetArgs{Change: change}}, nil
	})
	one := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return term.AtMost(1)(cmd, h.before(cmd, args))
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return one(cmd, h.before(cmd, args)) }
	return cmd
}

// relabel asks for a change of labels.
func relabel(labels, gone []string) (protocol.Spec, error) {
	if err := conn.CheckLabels(labels); err != nil {
		return protocol.Spec{}, term.Usage("", "%s", err)
	}
	var s protocol.ConfigArgs
	for _, l := range labels {
		s.Set = append(s.Set, "label."+l)
	}
	for _, l := range gone {
		if strings.Contains(l, "=") {
			return protocol.Spec{}, term.Usage("", "--remove-label %q: want the name of a label", l)
		}
		s.Set = append(s.Set, "label."+l)
	}
	return protocol.Spec{Kind: protocol.KindConfig, Args: &s}, nil
}

// health are the flags of a check.
type health struct {
	cmd, off                 bool
	argv                     []string
	check                    contract.Check
	port                     int
	interval, timeout, start term.DurationFlag
}

func (h *health) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&h.cmd, "health-cmd", false, "look at it by a command in it, which stands behind --")
	f.IntVar(&h.port, "health-tcp", 0, "look at it by a connection to a port")
	f.StringVar(&h.check.HTTP, "health-http", "", "look at it by a request, :PORT/PATH")
	f.BoolVar(&h.off, "health-off", false, "look at it no more")
	f.Var(&h.interval, "health-interval", "how far checks are apart (default 30s)")
	f.Var(&h.timeout, "health-timeout", "how long one may take (default 10s)")
	f.Int64Var(&h.check.Retries, "health-retries", 0, "how many have to fail in a row (default 3)")
	f.Var(&h.start, "health-start", "for how long after a start failures do not count")
	f.StringVar(&h.check.Action, "health-action", "", "restart it then (the default), or mark it only")
	_ = cmd.RegisterFlagCompletionFunc("health-action", cobra.FixedCompletions([]string{contract.Restart, contract.Mark}, cobra.ShellCompDirectiveNoFileComp))
}

// before takes the command that stands behind --, and returns what stands before.
func (h *health) before(cmd *cobra.Command, args []string) []string {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 && dash <= len(args) {
		h.argv = args[dash:]
		return args[:dash]
	}
	return args
}

// change adds the check to a change, if one is asked for.
func (h *health) change(c *contract.Change) error {
	check := h.check
	check.Off, check.TCP = h.off, int64(h.port)
	check.IntervalMS, check.TimeoutMS, check.StartMS = h.interval.Value.Milliseconds(), h.timeout.Value.Milliseconds(), h.start.Value.Milliseconds()
	switch {
	case h.cmd && len(h.argv) == 0:
		return errors.New("the command is missing: it stands behind --, as in --health-cmd -- /bin/true")
	case !h.cmd && len(h.argv) > 0:
		return errors.New("what stands behind -- is the command of --health-cmd")
	case h.cmd:
		check.Cmd = h.argv
	}
	if !reflect.ValueOf(check).IsZero() {
		c.Health = &check
	}
	return nil
}

// startOrder is the place of a container in the order of starts.
type startOrder struct{ n *int64 }

func (f *startOrder) Type() string { return "order" }

func (f *startOrder) String() string {
	if f.n == nil || *f.n == 0 {
		return ""
	}
	return strconv.FormatInt(*f.n, 10)
}

func (f *startOrder) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case s == contract.None:
		n = -1
	case err != nil || n < 1 || n > contract.MaxOrder:
		return fmt.Errorf("%q is no place in an order: use a number from 1 to %d, or %s", s, contract.MaxOrder, contract.None)
	}
	*f.n = n
	return nil
}
