// Package hosts looks at hosts and decides which belong to the fleet: hostler host,
// status and events.
package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

type commands struct{ *conn.Env }

// Commands returns hostler status, host, alert, lease and events. more are commands of
// hostler host.
func Commands(e *conn.Env, more ...*cobra.Command) []*cobra.Command {
	a := &commands{e}
	host := a.hostCommand()
	host.AddCommand(a.availability()...)
	host.AddCommand(more...)
	return []*cobra.Command{a.statusCommand(), host, a.alertCommand(), a.leaseCommand(), a.eventsCommand()}
}

func hostNoun() show.Noun[conn.HostView] {
	bytesOf := func(n int64) string {
		if n == 0 {
			return ""
		}
		return term.Size(n)
	}
	n := show.NounOf("id", "host:id state presence seen_at containers alerts~ labels~ version+ arch+ kernel+ uptime+ load1+ queue:queue_depth+ cpus+ memory+ "+
		"memory_free+ disk_free+ hostname++ key++ disk++ interfaces++ connectivity_since++ asleep_until++ unsupported++ features++ availability++ degraded++ quarantined++ raised++ told_at:inventory_at++ "+
		"self_fence++ lease_left++ pausable++ fencing++ approved_at++ approved_by++ revoked_at++ reason++", show.Cells[conn.HostView]{
		"lease_left": func(h conn.HostView) any {
			if h.LeaseLeftMS == 0 {
				return ""
			}
			return (time.Duration(h.LeaseLeftMS) * time.Millisecond).Round(time.Second).String()
		},
		"availability": func(h conn.HostView) any { return sayAvailability(h.Availability) },
		"containers":   func(h conn.HostView) any { return fmt.Sprintf("%d/%d", h.Running, h.Containers) },
		"alerts":       func(h conn.HostView) any { return len(h.ActiveAlerts) },
		"memory":       func(h conn.HostView) any { return bytesOf(h.MemoryBytes) },
		"memory_free":  func(h conn.HostView) any { return bytesOf(h.MemoryFree) },
		"disk_free":    func(h conn.HostView) any { return bytesOf(h.DiskFree) },
		"disk":         func(h conn.HostView) any { return bytesOf(h.DiskBytes) },
		"interfaces":   func(h conn.HostView) any { return interfaces(h.Interfaces) },
		"raised": func(h conn.HostView) any {
			return conn.Each(h.ActiveAlerts, func(a api.Alert) string { return a.Text })
		},
	})
	n.Note = func(h conn.HostView) string {
		return cmp.Or(h.Quarantined, h.Degraded, sayAvailability(h.Availability))
	}
	return n
}

func interfaces(all []api.Interface) []string {
	var texts []string
	for _, i := range all {
		texts = append(texts, strings.TrimSpace(i.Name+" "+strings.Join(i.Addresses, " ")))
	}
	return texts
}

func (a *commands) hostCommand() *cobra.Command {
	return term.Group("host", "Hosts: admit them, look at them, revoke them",
		a.hostListCommand(), a.hostShowCommand(), a.hostInviteCommand(), a.invitesCommand(), a.hostPendingCommand(), a.autoApproveCommand(),
		a.hostApproveCommand(), a.hostDenyCommand(), a.hostSetCommand(), a.hostRevokeCommand(), a.hostReplaceCommand(), a.hostReadmitCommand(), a.hostSleepCommand(), a.hostEventsCommand())
}

func (a *commands) hostListCommand() *cobra.Command {
	var labels conn.Selector
	cmd := &cobra.Command{
		Use: "ls", Short: "List the hosts", Args: term.NoArgs,
		Long:    "Lists approved and revoked hosts, and hosts that wait for a replacement machine (replacing). CONTAINERS are running/all. A quarantined host gets no orders: hostler host show says why. For hosts that wait for approval see hostler host pending.",
		Example: "  hostler host ls\n  hostler host ls -l site=lab,tier!=db -o wide\n  hostler host ls --filter state=offline --filter arch=arm64\n  hostler host ls --watch",
	}
	v := show.ListFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "only those selected by labels")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, hostNoun(), func(ctx context.Context) ([]conn.HostView, error) {
			all, err := r.Hosts(ctx)
			var found []conn.HostView
			for _, h := range all {
				if labels.Match(h.Labels) {
					found = append(found, conn.HostView{Host: h, State: conn.ShownState(h)})
				}
			}
			return found, term.Cannot("list the hosts", err)
		})
	})
	return cmd
}

func (a *commands) hostShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show HOST", Short: "Show a host, also if it waits for approval", Args: term.Exactly(1),
		Example: "  hostler host show edge-01\n  hostler host show edge-01 -o json | jq .state", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ShowFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.showHost(cmd.Context(), v, args[0]) }
	return cmd
}

func (a *commands) showHost(ctx context.Context, v *show.View, name string) error {
	id, err := conn.ParseHost(name)
	if err != nil {
		return term.Usage("hostler host ls", "%s", err)
	}
	r, err := a.Coordinator()
	if err != nil {
		return err
	}
	return show.Item(ctx, a.UI, v, hostNoun(), func(ctx context.Context) (conn.HostView, error) {
		h, err := r.Host(ctx, id)
		return h, term.Cannot("show host "+name, err)
	})
}

func (a *commands) hostSleepCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sleep DURATION", Short: "On a host: tell that it will be silent for a time", Args: term.Exactly(1),
		Long: `Has the agent of this host tell the coordinator that the host will be silent for
that long, because it sleeps or is switched off. While it is away it is then shown as
asleep, and until the time is over no alert says that it is offline. It stays online
as long as it is heard. 0s takes it back.`,
		Example: "  hostler --local host sleep 8h\n  hostler --local host sleep 0s",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.Connect()
			if err != nil {
				return err
			}
			if !r.Local {
				return term.Usage("run it on the host, with --local", "only a host itself can tell for how long it sleeps")
			}
			err = r.Post(cmd.Context(), "/sleep", url.Values{"for": {args[0]}}, nil, nil)
			return term.Cannot("tell that the host sleeps", err)
		},
	}
}

func (a *commands) hostInviteCommand() *cobra.Command {
	ttl := term.DurationFlag{}
	var labels []string
	cmd := &cobra.Command{
		Use: "invite", Short: "Make a join code for a new host", Args: term.NoArgs,
		Long: `Prints the command to run on the new host. The code works for one host and for
the time of --ttl. The host then waits until it is approved.`,
		Example: "  hostler host invite\n  hostler host invite --ttl 8h --label site=lab",
	}
	v := show.FormatFlags(cmd)
	cmd.Flags().Var(&ttl, "ttl", "how long the code is valid (default 1h)")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "label that the host gets, k=v; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := conn.CheckLabels(labels); err != nil {
			return term.Usage("", "%s", err)
		}
		r, err := a.Coordinator()
		if err != nil {
			return err
		}
		ask := api.NewInvite{TTL: "1h", Labels: labels}
		if ttl.Value > 0 {
			ask.TTL = ttl.Value.String()
		}
		var made api.Invite
		if err := r.Post(cmd.Context(), "/v1/invites", nil, ask, &made); err != nil {
			return term.Cannot("make an invite", err)
		}
		if v.Format.Word != "table" && v.Format.Word != "wide" {
			return show.Print(a.UI, v, inviteNoun(), []api.Invite{made})
		}
		fmt.Fprintf(a.Out, "hostler-agent join %s\n", term.Printable(made.Code))
		a.Say("Run that on the new host, as root. It is valid for %s. Then: hostler host pending", term.Roughly(made.ExpiresAt.Sub(a.Now()).Round(time.Minute)))
		return nil
	}
	return cmd
}

func (a *commands) invitesCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "ls", Short: "List the join codes that are valid, without the codes", Args: term.NoArgs,
		Long:    "Lists the invites whose codes are valid. A code works for one host; USED_BY is the key of the host that has used it.",
		Example: "  hostler host invites ls",
	}
	v := show.ListFlags(list)
	list.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, inviteNoun(), func(ctx context.Context) ([]api.Invite, error) {
			all, err := invites(ctx, r)
			return all, term.Cannot("list the invites", err)
		})
	})
	var yes bool
	end := &cobra.Command{
		Use: "rm ID", Short: "End a join code", Args: term.Exactly(1), Example: "  hostler host invites rm 6f3e0b9ac4d15e72 --yes",
		Long: "Ends a join code: it admits no host any more. A host that waits for approval goes on waiting; see hostler host deny.",
		ValidArgsFunction: a.Completing(func(ctx context.Context, r *conn.Remote) ([]string, error) {
			all, err := invites(ctx, r)
			return conn.Each(all, inviteNoun().Name), err
		}),
	}
	end.Flags().BoolVar(&yes, "yes", false, "do not ask")
	end.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.Confirm(yes, "End invite "+args[0]+"?"); err != nil {
			return err
		}
		r, err := a.Coordinator()
		if err != nil {
			return err
		}
		if err := r.Delete(cmd.Context(), "/v1/invites/"+url.PathEscape(args[0]), nil); err != nil {
			return term.Cannot("end invite "+args[0], err)
		}
		a.Say("Invite %s has ended: its code admits no host.", args[0])
		return nil
	}
	return term.Group("invites", "Join codes that are valid: list and end them", list, end)
}

func invites(ctx context.Context, r *conn.Remote) (all []api.Invite, err error) {
	err = r.Get(ctx, "/v1/invites", nil, &all)
	return all, err
}

func inviteNoun() show.Noun[api.Invite] {
	return show.NounOf[api.Invite]("id", "id code++ host labels~ created_by created_at+ expires_at used_by wrong+", nil)
}

func enrolmentNoun() show.Noun[api.Enrolment] {
	return show.NounOf[api.Enrolment]("id", "id host words state created_at labels~ hostname+ arch+ version+ key+ decided_at+ decided_by+ reason+", nil)
}

func (a *commands) hostPendingCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "pending", Short: "List the hosts that wait for approval", Args: term.NoArgs,
		Long:    "Lists the hosts that wait for approval, with the four words that the screen of each must show too.",
		Example: "  hostler host pending\n  hostler host pending --all",
	}
	v := show.ListFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also list decided ones")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, enrolmentNoun(), func(ctx context.Context) ([]api.Enrolment, error) {
			found, err := r.Enrolments(ctx)
			return slices.DeleteFunc(found, func(e api.Enrolment) bool { return !all && e.State != conn.EnrolmentPending }), term.Cannot("list the enrolments", err)
		})
	})
	return cmd
}

func pendingNames(ctx context.Context, r *conn.Remote) ([]string, error) {
	all, err := r.Enrolments(ctx)
	var found []string
	for _, e := range all {
		if e.State == conn.EnrolmentPending {
			found = append(found, e.Host)
		}
	}
	return found, err
}

// pendingEnrolment returns the one enrolment that waits and is named: by the id of its
// host, or by the beginning of its own.
func pendingEnrolment(ctx context.Context, r *conn.Remote, name string) (api.Enrolment, error) {
	all, err := r.Enrolments(ctx)
	if err != nil {
		return api.Enrolment{}, err
	}
	var found, decided []api.Enrolment
	for _, e := range all {
		if e.Host != name && e.ID != name && (len(name) < 4 || !strings.HasPrefix(e.ID, name)) {
			continue
		}
		if e.State == conn.EnrolmentPending {
			found = append(found, e)
		} else {
			decided = append(decided, e)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return api.Enrolment{}, term.Usage("hostler host pending", "%q is ambiguous: use one of the ids %q", name, conn.Each(found, enrolmentNoun().Name))
	case len(decided) > 0:
		e := decided[len(decided)-1]
		return api.Enrolment{}, &term.Failure{
			Code: term.ExitFailed, What: fmt.Sprintf("host %s does not wait for approval", e.Host),
			Why: "it was " + e.State + " already by " + e.DecidedBy, Next: "hostler host show " + e.Host,
		}
	}
	return api.Enrolment{}, &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("no host %q waits for approval", name), Next: "hostler host pending"}
}

func (a *commands) hostApproveCommand() *cobra.Command {
	var yes bool
	var words string
	cmd := &cobra.Command{
		Use: "approve HOST|ID", Short: "Admit a host that waits for approval", Args: term.Exactly(1),
		Long: `Admits a host to the fleet. Its four words must be the same as on its own screen:
if they differ, someone is intercepting the connection. On a terminal it shows the
words and asks; elsewhere give the words of the host with --words, or --yes if you
have compared them.`,
		Example:           `  hostler host approve edge-01` + "\n" + `  hostler host approve edge-01 --words "able brick canoe dwarf"`,
		ValidArgsFunction: a.Completing(pendingNames),
	}
	cmd.Flags().StringVar(&words, "words", "", "the four words that the host shows")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask: the words were compared")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		what := "approve host " + args[0]
		e, err := pendingEnrolment(cmd.Context(), r, args[0])
		if err != nil {
			return term.Cannot(what, err)
		}
		if cmd.Flags().Changed("words") {
			if given := strings.Join(strings.Fields(words), " "); given != e.Words {
				return &term.Failure{Code: term.ExitRefused, What: "cannot " + what, Why: fmt.Sprintf("its words are not %q: it is another host, or someone is intercepting the connection", term.Printable(given)), Next: "hostler host deny " + e.ID}
			}
			yes = true
		}
		a.Say("host:  %s\nkey:   %s\nwords: %s", term.Printable(e.Host), term.Printable(e.Key), term.Printable(e.Words))
		if err := a.Confirm(yes, "Does the screen of "+e.Host+" show the same four words?"); err != nil {
			if f, ok := errors.AsType[*term.Failure](err); ok {
				f.Next = `add --words "…", the four words on its screen`
			}
			return err
		}
		// The words go along, so that no other enrolment is approved than the
		// one that was looked at.
		err = r.Post(cmd.Context(), "/v1/enrolments/"+url.PathEscape(e.ID)+"/approve", nil, api.Decision{Words: e.Words}, nil)
		if err == nil {
			a.Say("Host %s is approved.", e.Host)
		}
		return term.Cannot(what, err)
	})
	return cmd
}

func (a *commands) hostDenyCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "deny HOST|ID", Short: "Refuse a host that waits for approval", Args: term.Exactly(1),
		Example: `  hostler host deny edge-01 --reason "unknown machine"`, ValidArgsFunction: a.Completing(pendingNames),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, which the host shows")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		e, err := pendingEnrolment(cmd.Context(), r, args[0])
		if err == nil {
			err = r.Post(cmd.Context(), "/v1/enrolments/"+url.PathEscape(e.ID)+"/deny", nil, api.Decision{Reason: reason}, nil)
		}
		if err == nil {
			a.Say("Host %s is denied.", e.Host)
		}
		return term.Cannot("deny host "+args[0], err)
	})
	return cmd
}

func (a *commands) hostRevokeCommand() *cobra.Command {
	var reason string
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use: "revoke HOST", Short: "Revoke a host for good", Args: term.Exactly(1),
		Long:    "Revokes the key of a host and cuts its connections. Programs and containers on it keep running.",
		Example: `  hostler host revoke edge-01 --reason stolen --yes`, ValidArgsFunction: a.Completing(conn.HostNames),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the audit log and the host")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the host that would be revoked, and revoke nothing")
	v := show.FormatFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dryRun {
			return a.showHost(cmd.Context(), v, args[0])
		}
		if err := a.Confirm(yes, "Shut host "+args[0]+" out for good?"); err != nil {
			return err
		}
		return a.changeHost(cmd.Context(), args[0], "revoke", "revoked", api.Reason{Reason: reason})
	}
	return cmd
}

func (a *commands) hostReadmitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "readmit HOST", Short: "Trust a quarantined host again", Args: term.Exactly(1),
		Long: `Ends the quarantine of a host. A host is quarantined when two machines use its
key, or when it returns with an older state than it had confirmed. Find out first
which of the two it is.`,
		Example: "  hostler host readmit edge-01", ValidArgsFunction: a.Completing(conn.HostNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeHost(cmd.Context(), args[0], "readmit", "readmitted", nil)
		},
	}
}

func (a *commands) hostSetCommand() *cobra.Command {
	var labels []string
	cmd := &cobra.Command{
		Use: "set HOST --label k=v|k-", Short: "Change the labels of a host", Args: term.Exactly(1),
		Long: `Sets labels of a host with k=v, and removes them with k-. Other labels stay. -l
selects hosts when an action is requested, so earlier requests do not change.`,
		Example: "  hostler host set edge-01 --label site=lab --label tier=web\n  hostler host set edge-01 --label tier-", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	cmd.Flags().StringArrayVar(&labels, "label", nil, "label to set, k=v, or to remove, k-; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ask, err := parseRelabel(labels)
		if err != nil {
			return err
		}
		return a.changeHost(cmd.Context(), args[0], "label", "labelled", ask)
	}
	return cmd
}

// parseRelabel reads k=v and k-.
func parseRelabel(labels []string) (api.Relabel, error) {
	var ask api.Relabel
	for _, l := range labels {
		name, removed := strings.CutSuffix(l, "-")
		switch {
		case strings.IndexByte(l, '=') > 0:
			ask.Set = append(ask.Set, l)
		case removed && name != "" && !strings.Contains(name, "="):
			ask.Remove = append(ask.Remove, name)
		default:
			return ask, term.Usage("", "--label %q: use k=v to set a label, or k- to remove it", l)
		}
	}
	if err := conn.CheckLabels(ask.Set); err != nil {
		return ask, term.Usage("", "%s", err)
	}
	if len(labels) == 0 {
		return ask, term.Usage("hostler host set HOST --label k=v", "no label is named")
	}
	return ask, nil
}

// changeHost decides about a host.
func (a *commands) changeHost(ctx context.Context, name, verb, done string, body any) error {
	id, err := conn.ParseHost(name)
	if err != nil {
		return term.Usage("hostler host ls", "%s", err)
	}
	r, err := a.Coordinator()
	if err != nil {
		return err
	}
	if err := r.Post(ctx, "/v1/hosts/"+url.PathEscape(string(id))+"/"+verb, nil, body, nil); err != nil {
		return term.Cannot(verb+" host "+name, err)
	}
	a.Say("Host %s is %s.", name, done)
	return nil
}
