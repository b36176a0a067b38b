package hosts

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/warnings"
)

func alertNoun() show.Noun[api.RaisedAlert] {
	n := show.NounOf("id", "severity host since text~ acked_by muted_until id+ acked_at+ note+", show.Cells[api.RaisedAlert]{})
	n.Name = func(a api.RaisedAlert) string { return a.Host + " " + a.ID }
	return n
}

func (a *commands) alertCommand() *cobra.Command {
	return term.Group("alert", "Alerts: what is wrong on hosts", a.alertListCommand(), a.alertShowCommand(), a.alertAckCommand(), a.alertMuteCommand(), a.alertMutesCommand(), a.alertUnmuteCommand(), a.alertRuleCommand())
}

func (a *commands) alertListCommand() *cobra.Command {
	var labels conn.Selector
	severity := ""
	cmd := &cobra.Command{
		Use: "ls", Short: "List what is wrong now, the worst first", Args: term.NoArgs,
		Long: `Lists the alerts that hosts have raised and not cleared: of containers that cannot
be kept as intended, of hosts that accept nothing new, and of rules for what hosts
measure (alerts.rules in the configuration of an agent). A host that is away is
listed with the alerts that it told last.`,
		Example: "  hostler alert ls\n  hostler alert ls --watch\n  hostler alert ls -l site=lab --severity critical",
	}
	v := show.ListFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "only those of hosts selected by labels")
	cmd.Flags().StringVar(&severity, "severity", "", "only those of this severity: critical or warning")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, alertNoun(), func(ctx context.Context) ([]api.RaisedAlert, error) {
			all, err := raisedAlerts(ctx, r, labels.String(), severity)
			slices.SortStableFunc(all, func(x, y api.RaisedAlert) int {
				if bad := x.Severity == "critical"; bad != (y.Severity == "critical") {
					if bad {
						return -1
					}
					return 1
				}
				return x.Since.Compare(y.Since)
			})
			return all, err
		})
	})
	return cmd
}

// explained is a declared warning, as it is shown.
type explained struct {
	Code     string   `json:"code"`
	Title    string   `json:"title"`
	Severity string   `json:"severity"`
	Text     string   `json:"text"`
	Runbook  []string `json:"runbook"`
}

func (a *commands) alertShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show what an alert means and what to do about it", Args: term.Exactly(1),
		Long: `Shows what an alert means and the steps of a person who looks after it. ID is the id
of an alert as hostler alert ls -o wide has it, or a code such as container.broken.
It needs no connection. doc/alerts.md has the same for all alerts.`,
		Example: "  hostler alert show container.broken\n  hostler alert show measured.disk.critical//srv",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return conn.Each(warnings.All(), func(w warnings.Warning) string { return string(w.Code) }), cobra.ShellCompDirectiveNoFileComp
		},
	}
	v := show.ShowFlags(cmd)
	n := show.NounOf("code", "code title~ severity text~ runbook", show.Cells[explained]{
		"runbook": func(e explained) any {
			steps := make(show.Sentences, len(e.Runbook))
			for i, s := range e.Runbook {
				steps[i] = strconv.Itoa(i+1) + ". " + strings.ReplaceAll(s, "`", "")
			}
			return steps
		},
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, ok := warnings.Of(args[0])
		if !ok {
			return &term.Failure{Code: term.ExitNotFound, What: "there is no alert " + args[0], Next: "list the alerts with hostler alert ls -o wide, or read doc/alerts.md"}
		}
		return show.Item(cmd.Context(), a.UI, v, n, func(context.Context) (explained, error) {
			return explained{string(w.Code), w.Title, w.Severity, w.Text, w.Runbook}, nil
		})
	}
	return cmd
}

func raisedAlerts(ctx context.Context, r *conn.Remote, labels, severity string) ([]api.RaisedAlert, error) {
	q := url.Values{}
	if labels != "" {
		q.Set("label", labels)
	}
	if severity != "" {
		q.Set("state", severity)
	}
	return r.Alerts(ctx, q)
}

func (a *commands) alertAckCommand() *cobra.Command {
	note := ""
	cmd := &cobra.Command{
		Use: "ack HOST ALERT", Short: "Acknowledge an alert", Args: term.Exactly(2),
		Long: `Acknowledges an alert of a host. The list then shows your name beside it, and no
more notifications are sent while it lasts. An alert that is cleared and raised again
is notified again. ALERT is its id, or a unique beginning of it, as shown by
hostler alert ls -o wide.`,
		Example: "  hostler alert ack edge-07 measured.disk.critical --note 'disk is ordered'",
	}
	v := show.FormatFlags(cmd)
	cmd.Flags().StringVar(&note, "note", "", "a note for others")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		return show.Item(cmd.Context(), a.UI, v, alertNoun(), func(ctx context.Context) (done api.RaisedAlert, err error) {
			err = r.Post(ctx, "/v1/hosts/"+url.PathEscape(args[0])+"/alerts/ack", nil, api.NewAck{Alert: args[1], Note: note}, &done)
			if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeAmbiguous {
				p.Hint = "hostler alert ls -o wide    # shows whole ids"
			}
			return done, term.Cannot("acknowledge alert "+args[1]+" of "+args[0], err)
		})
	})
	return cmd
}

func muteNoun() show.Noun[api.Mute] {
	return show.NounOf("id", "id hosts~ alert until muted_by muted_at+ reason+", show.Cells[api.Mute]{
		"hosts": func(k api.Mute) any { return whichHosts(k.Host, k.Selector) },
	})
}

func (a *commands) alertMuteCommand() *cobra.Command {
	var labels conn.Selector
	var life term.DurationFlag
	every, alert, reason := false, "", ""
	cmd := &cobra.Command{
		Use: "mute [HOST]", Short: "Mute alerts for a time", Args: term.AtMost(1),
		Long: `Sends no notifications for alerts of a host, of hosts with some labels, or of all
hosts, until the time is over or hostler alert unmute. Alerts are raised and listed
as usual. An alert that is still raised at the end is notified with the next
repetition.`,
		Example: "  hostler alert mute edge-07 --for 2h --reason 'new disk'\n  hostler alert mute -l site=lab --alert measured.disk. --for 7d",
	}
	v := show.FormatFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "of the hosts that have these labels")
	cmd.Flags().BoolVarP(&every, "all", "A", false, "of all hosts")
	cmd.Flags().StringVar(&alert, "alert", "", "only alerts whose ids begin so")
	cmd.Flags().Var(&life, "for", "for how long, 90 days at most")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		ask := api.NewMute{Selector: labels.String(), Alert: alert, For: life.Value.String(), Reason: reason}
		chosen := len(args)
		for _, by := range []bool{ask.Selector != "", every} {
			if by {
				chosen++
			}
		}
		switch {
		case chosen != 1:
			return term.Usage("add HOST, -l SELECTOR or -A", "name the hosts in exactly one way")
		case life.Value <= 0:
			return term.Usage("add --for 2h", "the time is missing")
		case len(args) == 1:
			ask.Host = args[0]
		}
		return show.Item(cmd.Context(), a.UI, v, muteNoun(), func(ctx context.Context) (k api.Mute, err error) {
			err = r.Post(ctx, "/v1/alert-mutes", nil, ask, &k)
			return k, term.Cannot("mute alerts", err)
		})
	})
	return cmd
}

func mutes(ctx context.Context, r *conn.Remote) (all []api.Mute, err error) {
	err = r.Get(ctx, "/v1/alert-mutes", nil, &all)
	return all, err
}

func (a *commands) alertMutesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "mutes", Short: "List the mutes that have not ended", Args: term.NoArgs, Example: "  hostler alert mutes"}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, muteNoun(), func(ctx context.Context) ([]api.Mute, error) {
			all, err := mutes(ctx, r)
			return all, term.Cannot("list the mutes", err)
		})
	})
	return cmd
}

func (a *commands) alertUnmuteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unmute ID", Short: "End a mute", Args: term.Exactly(1), Example: "  hostler alert unmute mute-7",
		ValidArgsFunction: a.Completing(func(ctx context.Context, r *conn.Remote) ([]string, error) {
			all, err := mutes(ctx, r)
			return conn.Each(all, muteNoun().Name), err
		}),
		RunE: a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
			if err := r.Delete(cmd.Context(), "/v1/alert-mutes/"+url.PathEscape(args[0]), nil); err != nil {
				return term.Cannot("end mute "+args[0], err)
			}
			a.Say("Mute %s is over.", args[0])
			return nil
		}),
	}
}
