package hosts

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/warnings"
)

const rulesPath = "/v1/alert-rules"

func ruleNoun() show.Noun[api.AlertRule] {
	return show.NounOf("name", "name hosts~ of~ rules~ set_at set_by+ number++", show.Cells[api.AlertRule]{
		"hosts": func(r api.AlertRule) any { return whichHosts(r.Host, r.Selector) },
	})
}

// whichHosts says for which hosts something is.
func whichHosts(host, selector string) string { return cmp.Or(host, selector, "all") }

func (a *commands) alertRuleCommand() *cobra.Command {
	return term.Group("rule", "Rules: when something measured raises an alert",
		a.ruleSetCommand(), a.ruleListCommand(), a.ruleRemoveCommand())
}

func (a *commands) ruleSetCommand() *cobra.Command {
	var labels conn.Selector
	var every bool
	of := ""
	cmd := &cobra.Command{
		Use:   "set NAME RULE... [HOST|HOST/NAME]",
		Short: "Set a rule for a host, a container, or all hosts with some labels", Args: term.AtLeast(2),
		Long: `Sets the rules of this NAME, and replaces earlier ones. Each host that they are for
gets them as soon as it can be reached, and checks them offline too. Rules in the
host's own configuration stay in force, and win where both are about the same
target, quantity and severity. A host that gets the labels later gets the rules then.

A RULE is QUANTITY=THRESHOLD[/TIME][:SEVERITY], with warning or critical. Without a
time the value must be above the threshold for 60 s, and without a severity the alert
is a warning.

Of hosts and of containers: cpu, ram, swap, disk, tasks, psi-cpu, psi-memory, psi-io.
Of hosts: inodes, load, temperature, degraded=yes (the host accepts nothing new),
queue-age (how long a message has waited for the coordinator), spool-loss (how many
lines of samples for a database were lost within an hour) and certificate (the time
until it expires). Of containers: restarts (within an hour), broken=yes (it was started
in vain too often, and is left alone) and backup-age (of the newest good backup). The
coordinator itself checks offline (how long it has not heard the host; a host that
announced that it sleeps does not count) and clock (how far the host's clock is off).

Without any rule hosts tell that a container is broken, that they accept nothing new,
and that samples are lost. A rule about one of these raises a second alert, for what
lasts, or with another severity.`,
		Example: "  hostler alert rule set memory ram=80%/60s ram=95%/60s:critical -A\n  hostler alert rule set lab-disks disk=90%/5m inodes=90% -l site=lab\n" +
			"  hostler alert rule set web cpu=150%/5m restarts=3 edge-07/web\n  hostler alert rule set any-container ram=90% broken=yes/10m -A --of '*'",
		ValidArgsFunction: a.completeRule,
	}
	v := show.FormatFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "for the hosts that have these labels")
	cmd.Flags().BoolVarP(&every, "all", "A", false, "for all hosts")
	cmd.Flags().StringVar(&of, "of", "", "of those hosts: host, the name of a container, or * for each (default host)")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		want := api.NewAlertRule{Selector: labels.String(), Of: of}
		var targets []string
		for _, arg := range args[1:] {
			if strings.Contains(arg, "=") {
				want.Rules = append(want.Rules, arg)
			} else {
				targets = append(targets, arg)
			}
		}
		chosen := len(targets)
		for _, by := range []bool{labels.String() != "", every} {
			if by {
				chosen++
			}
		}
		switch {
		case len(want.Rules) == 0:
			return term.Usage("hostler alert rule set "+args[0]+" ram=80%/60s -A", "there is no quantity with a threshold")
		case chosen != 1:
			return term.Usage("add HOST, HOST/NAME, -l SELECTOR or -A", "say for which hosts the rule is, in one way")
		}
		if len(targets) == 1 {
			host, container, ok := strings.Cut(targets[0], "/")
			if want.Host = host; ok {
				if of != "" {
					return term.Usage("leave --of out", "%s names what the rule is about already", targets[0])
				}
				want.Of = container
			}
		}
		return show.Item(cmd.Context(), a.UI, v, ruleNoun(), func(ctx context.Context) (set api.AlertRule, err error) {
			err = r.Put(ctx, rulesPath+"/"+url.PathEscape(args[0]), want, &set)
			return set, term.Cannot("set rule "+args[0], err)
		})
	})
	return cmd
}

// completeRule offers the names of rules, and then quantities and hosts.
func (a *commands) completeRule(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.Completing(ruleNames)(cmd, args, word)
	}
	var all []string
	for _, w := range warnings.All() {
		if _, quantity, _ := strings.Cut(string(w.Code), "."); w.Severity == warnings.ByRule {
			all = append(all, quantity+"=")
		}
	}
	hosts, _ := a.CompletingAll(conn.HostNames)(cmd, args, word)
	return append(all, hosts...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func (a *commands) ruleListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Short: "List the rules that were set here", Args: term.NoArgs, Example: "  hostler alert rule ls\n  hostler alert rule ls -o json",
		Long: "Lists the rules that were set at the coordinator. Hosts may have others in their\nown configuration (alerts.rules), which are not listed.",
	}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, ruleNoun(), func(ctx context.Context) ([]api.AlertRule, error) {
			all, err := alertRules(ctx, r)
			return all, term.Cannot("list the rules of alerts", err)
		})
	})
	return cmd
}

func alertRules(ctx context.Context, r *conn.Remote) (all []api.AlertRule, err error) {
	err = r.Get(ctx, rulesPath, nil, &all)
	slices.SortFunc(all, func(x, y api.AlertRule) int { return strings.Compare(x.Name, y.Name) })
	return all, err
}

func ruleNames(ctx context.Context, r *conn.Remote) ([]string, error) {
	all, err := alertRules(ctx, r)
	return conn.Each(all, ruleNoun().Name), err
}

func (a *commands) ruleRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a rule; what it has raised is cleared", Args: term.Exactly(1), Example: "  hostler alert rule rm lab-disks",
		ValidArgsFunction: a.Completing(ruleNames),
		RunE: a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
			if err := r.Delete(cmd.Context(), rulesPath+"/"+url.PathEscape(args[0]), nil); err != nil {
				return term.Missing(term.Cannot("remove rule "+args[0], err), "hostler alert rule ls")
			}
			a.Say("Rule %s is removed; hosts that are away judge by it until they come back.", args[0])
			return nil
		}),
	}
}
