package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
)

const (
	enrolmentPending  = "pending"
	enrolmentApproved = "approved"
)

// hostView is a host with the one word that people ask for: pending, denied,
// replacing or revoked, else how it can be reached.
type hostView struct {
	api.Host
	State string `json:"state"` // instead of the host's own
}

func shownState(h api.Host) string {
	if h.State != enrolmentApproved {
		return h.State
	}
	return h.Connectivity
}

func hostNoun() noun[hostView] {
	bytesOf := func(n int64) string {
		if n == 0 {
			return ""
		}
		return size(n)
	}
	return noun[hostView]{
		name: func(h hostView) string { return h.ID },
		columns: []column[hostView]{
			{"host", inTable, func(h hostView) any { return h.ID }},
			{"state", inTable, func(h hostView) any { return h.State }},
			{"seen_at", inTable, func(h hostView) any { return h.SeenAt }},
			{"containers", inTable, func(h hostView) any { return fmt.Sprintf("%d/%d", h.Running, h.Containers) }},
			{"alerts", inTable, func(h hostView) any { return len(h.ActiveAlerts) }},
			{"labels", inTable, func(h hostView) any { return h.Labels }},
			{"version", inWide, func(h hostView) any { return h.Version }},
			{"arch", inWide, func(h hostView) any { return h.Arch }},
			{"kernel", inWide, func(h hostView) any { return h.Kernel }},
			{"uptime", inWide, func(h hostView) any { return h.Uptime }},
			{"load1", inWide, func(h hostView) any { return h.Load1 }},
			{"queue", inWide, func(h hostView) any { return h.QueueDepth }},
			{"cpus", inWide, func(h hostView) any { return h.CPUs }},
			{"memory", inWide, func(h hostView) any { return bytesOf(h.MemoryBytes) }},
			{"memory_free", inWide, func(h hostView) any { return bytesOf(h.MemoryFree) }},
			{"disk_free", inWide, func(h hostView) any { return bytesOf(h.DiskFree) }},
			{"hostname", inShow, func(h hostView) any { return h.Hostname }},
			{"key", inShow, func(h hostView) any { return h.Key }},
			{"disk", inShow, func(h hostView) any { return bytesOf(h.DiskBytes) }},
			{"interfaces", inShow, func(h hostView) any { return interfaces(h.Interfaces) }},
			{"unsupported", inShow, func(h hostView) any { return h.Unsupported }},
			{"quarantined", inShow, func(h hostView) any { return h.Quarantined }},
			{"raised", inShow, func(h hostView) any { return names(h.ActiveAlerts, func(a api.Alert) string { return a.Text }) }},
			{"told_at", inShow, func(h hostView) any { return h.InventoryAt }},
			{"approved_at", inShow, func(h hostView) any { return h.ApprovedAt }},
			{"approved_by", inShow, func(h hostView) any { return h.ApprovedBy }},
			{"revoked_at", inShow, func(h hostView) any { return h.RevokedAt }},
			{"reason", inShow, func(h hostView) any { return h.Reason }},
		},
	}
}

func interfaces(all []api.Interface) []string {
	var texts []string
	for _, i := range all {
		texts = append(texts, strings.TrimSpace(i.Name+" "+strings.Join(i.Addresses, " ")))
	}
	return texts
}

func (a *app) hostCommand() *cobra.Command {
	return group("host", "Hosts: let them in, look at them, shut them out",
		a.hostListCommand(), a.hostShowCommand(), a.hostInviteCommand(), a.hostPendingCommand(),
		a.hostApproveCommand(), a.hostDenyCommand(), a.hostSetCommand(), a.hostRevokeCommand(), a.hostReplaceCommand(), a.hostReadmitCommand())
}

func (a *app) hostListCommand() *cobra.Command {
	var labels selector
	cmd := &cobra.Command{
		Use: "ls", Short: "List the hosts", Args: noArgs,
		Long:    "Lists the approved, the revoked, and those that wait for another machine (replacing). CONTAINERS are those that run and all there are. Hosts that wait for approval: hostler host pending.",
		Example: "  hostler host ls\n  hostler host ls -l site=lab,tier!=db -o wide\n  hostler host ls --watch",
	}
	v := listFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "only those with these labels")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		return show(cmd.Context(), a, v, hostNoun(), func(ctx context.Context) ([]hostView, error) {
			all, err := r.hosts(ctx)
			var found []hostView
			for _, h := range all {
				if labels.match(h.Labels) {
					found = append(found, hostView{h, shownState(h)})
				}
			}
			return found, cannot("list the hosts", err)
		})
	}
	return cmd
}

func (a *app) hostShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show HOST", Short: "Show a host, or one that waits for approval", Args: exactly(1),
		Example: "  hostler host show edge-01\n  hostler host show edge-01 -o json | jq .state", ValidArgsFunction: a.completing(hostNames),
	}
	v := showFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := parseHost(args[0])
		if err != nil {
			return usage("hostler host ls", "%s", err)
		}
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		return showOne(cmd.Context(), a, v, hostNoun(), func(ctx context.Context) (hostView, error) {
			h, err := r.host(ctx, id)
			return h, cannot("show host "+args[0], err)
		})
	}
	return cmd
}

func (a *app) hostInviteCommand() *cobra.Command {
	ttl := durationFlag{}
	var labels []string
	cmd := &cobra.Command{
		Use: "invite", Short: "Make a join code for a new host", Args: noArgs,
		Long: `Prints the one line to type on the new host. The code is good for one host, and
for as long as --ttl says. The host then waits until it is approved.`,
		Example: "  hostler host invite\n  hostler host invite --ttl 8h --label site=lab",
	}
	v := formatFlags(cmd)
	cmd.Flags().Var(&ttl, "ttl", "how long the code is good (default 1h)")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "label that the host gets, k=v; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkPairs("label", labels); err != nil {
			return usage("", "%s", err)
		}
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		ask := api.NewInvite{TTL: "1h", Labels: labels}
		if ttl.d > 0 {
			ask.TTL = ttl.d.String()
		}
		var made api.Invite
		if err := r.Post(cmd.Context(), "/v1/invites", nil, ask, &made); err != nil {
			return cannot("make an invite", err)
		}
		if v.format.word != "table" && v.format.word != "wide" {
			return printAll(a, v, inviteNoun(), []api.Invite{made})
		}
		fmt.Fprintf(a.out, "hostler-agent join %s\n", printable(made.Code))
		a.say("Type that on the new host, as root. It is good for %s. Then: hostler host pending", roughly(made.ExpiresAt.Sub(a.now()).Round(time.Minute)))
		return nil
	}
	return cmd
}

func inviteNoun() noun[api.Invite] {
	return noun[api.Invite]{
		name: func(i api.Invite) string { return i.ID },
		columns: []column[api.Invite]{
			{"id", inTable, func(i api.Invite) any { return i.ID }},
			{"code", inTable, func(i api.Invite) any { return i.Code }},
			{"labels", inTable, func(i api.Invite) any { return i.Labels }},
			{"expires_at", inTable, func(i api.Invite) any { return i.ExpiresAt }},
		},
	}
}

func enrolmentNoun() noun[api.Enrolment] {
	return noun[api.Enrolment]{
		name: func(e api.Enrolment) string { return e.ID },
		columns: []column[api.Enrolment]{
			{"id", inTable, func(e api.Enrolment) any { return e.ID }},
			{"host", inTable, func(e api.Enrolment) any { return e.Host }},
			{"words", inTable, func(e api.Enrolment) any { return e.Words }},
			{"state", inTable, func(e api.Enrolment) any { return e.State }},
			{"created_at", inTable, func(e api.Enrolment) any { return e.CreatedAt }},
			{"labels", inTable, func(e api.Enrolment) any { return e.Labels }},
			{"hostname", inWide, func(e api.Enrolment) any { return e.Hostname }},
			{"arch", inWide, func(e api.Enrolment) any { return e.Arch }},
			{"version", inWide, func(e api.Enrolment) any { return e.Version }},
			{"key", inWide, func(e api.Enrolment) any { return e.Key }},
			{"decided_at", inWide, func(e api.Enrolment) any { return e.DecidedAt }},
			{"decided_by", inWide, func(e api.Enrolment) any { return e.DecidedBy }},
			{"reason", inWide, func(e api.Enrolment) any { return e.Reason }},
		},
	}
}

func (a *app) hostPendingCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "pending", Short: "List the hosts that wait for approval", Args: noArgs,
		Long:    "Lists the hosts that wait, with the four words that must be the same on the host's own screen.",
		Example: "  hostler host pending\n  hostler host pending --all",
	}
	v := listFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "list those that were decided about, too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		return show(cmd.Context(), a, v, enrolmentNoun(), func(ctx context.Context) ([]api.Enrolment, error) {
			found, err := r.enrolments(ctx)
			return slices.DeleteFunc(found, func(e api.Enrolment) bool { return !all && e.State != enrolmentPending }), cannot("list the enrolments", err)
		})
	}
	return cmd
}

func pendingNames(ctx context.Context, r *remote) ([]string, error) {
	all, err := r.enrolments(ctx)
	var found []string
	for _, e := range all {
		if e.State == enrolmentPending {
			found = append(found, e.Host)
		}
	}
	return found, err
}

// pendingEnrolment returns the one enrolment that waits and is named: by the id of its
// host, or by the beginning of its own.
func pendingEnrolment(ctx context.Context, r *remote, name string) (api.Enrolment, error) {
	all, err := r.enrolments(ctx)
	if err != nil {
		return api.Enrolment{}, err
	}
	var found, decided []api.Enrolment
	for _, e := range all {
		if e.Host != name && e.ID != name && (len(name) < 4 || !strings.HasPrefix(e.ID, name)) {
			continue
		}
		if e.State == enrolmentPending {
			found = append(found, e)
		} else {
			decided = append(decided, e)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return api.Enrolment{}, usage("hostler host pending", "%q is ambiguous: want one of the ids %q", name, names(found, enrolmentNoun().name))
	case len(decided) > 0:
		e := decided[len(decided)-1]
		return api.Enrolment{}, &failure{
			code: exitFailed, what: fmt.Sprintf("host %s does not wait", e.Host),
			why: "it was " + e.State + " already by " + e.DecidedBy, next: "hostler host show " + e.Host,
		}
	}
	return api.Enrolment{}, &failure{code: exitNotFound, what: fmt.Sprintf("no host %q waits for approval", name), next: "hostler host pending"}
}

func (a *app) hostApproveCommand() *cobra.Command {
	var yes bool
	var words string
	cmd := &cobra.Command{
		Use: "approve HOST|ID", Short: "Let a host in that waits", Args: exactly(1),
		Long: `Lets a host in. Its four words must be the same as on its own screen: if they
are not, somebody stands between. On a terminal the words are shown and asked
about; elsewhere --words says what the host shows, or --yes that somebody has
looked.`,
		Example:           `  hostler host approve edge-01` + "\n" + `  hostler host approve edge-01 --words "able brick canoe dwarf"`,
		ValidArgsFunction: a.completing(pendingNames),
	}
	cmd.Flags().StringVar(&words, "words", "", "the four words that the host shows")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask: the words were compared")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		what := "approve host " + args[0]
		e, err := pendingEnrolment(cmd.Context(), r, args[0])
		if err != nil {
			return cannot(what, err)
		}
		if cmd.Flags().Changed("words") {
			if given := strings.Join(strings.Fields(words), " "); given != e.Words {
				return &failure{code: exitRefused, what: "cannot " + what, why: fmt.Sprintf("its words are not %q: another host, or somebody stands between", printable(given)), next: "hostler host deny " + e.ID}
			}
			yes = true
		}
		a.say("host:  %s\nkey:   %s\nwords: %s", printable(e.Host), printable(e.Key), printable(e.Words))
		if err := a.confirm(yes, "Does the screen of "+e.Host+" show the same four words?"); err != nil {
			if f, ok := errors.AsType[*failure](err); ok {
				f.next = `the same with --words "…", the four words on its screen`
			}
			return err
		}
		// The words go along, so that no other enrolment is approved than the
		// one that was looked at.
		err = r.Post(cmd.Context(), "/v1/enrolments/"+url.PathEscape(e.ID)+"/approve", nil, api.Decision{Words: e.Words}, nil)
		if err == nil {
			a.say("Host %s is approved.", e.Host)
		}
		return cannot(what, err)
	}
	return cmd
}

func (a *app) hostDenyCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "deny HOST|ID", Short: "Refuse a host that waits", Args: exactly(1),
		Example: `  hostler host deny edge-01 --reason "unknown machine"`, ValidArgsFunction: a.completing(pendingNames),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "what the host is told")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		e, err := pendingEnrolment(cmd.Context(), r, args[0])
		if err == nil {
			err = r.Post(cmd.Context(), "/v1/enrolments/"+url.PathEscape(e.ID)+"/deny", nil, api.Decision{Reason: reason}, nil)
		}
		if err == nil {
			a.say("Host %s is denied.", e.Host)
		}
		return cannot("deny host "+args[0], err)
	}
	return cmd
}

func (a *app) hostRevokeCommand() *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke HOST", Short: "Shut a host out for ever", Args: exactly(1),
		Long:    "Revokes the key of a host and cuts its connections. What runs there goes on: the host is shut out, not stopped.",
		Example: `  hostler host revoke edge-01 --reason stolen --yes`, ValidArgsFunction: a.completing(hostNames),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit log and the host")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.confirm(yes, "Shut host "+args[0]+" out for ever?"); err != nil {
			return err
		}
		return a.changeHost(cmd.Context(), args[0], "revoke", "revoked", api.Reason{Reason: reason})
	}
	return cmd
}

func (a *app) hostReadmitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "readmit HOST", Short: "Trust a quarantined host again", Args: exactly(1),
		Long: `Ends the quarantine of a host. A host is quarantined when two machines speak
with its key, or when it comes back from before what it had confirmed. Look first
which of the two is the one.`,
		Example: "  hostler host readmit edge-01", ValidArgsFunction: a.completing(hostNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeHost(cmd.Context(), args[0], "readmit", "readmitted", nil)
		},
	}
}

func (a *app) hostSetCommand() *cobra.Command {
	var labels []string
	cmd := &cobra.Command{
		Use: "set HOST --label k=v|k-", Short: "Change the labels of a host", Args: exactly(1),
		Long: `Gives a host labels, or takes them away again: k=v sets one, k- removes it. Those
that are not named stay. What -l selects is decided when it is asked for, so nothing
that was asked before is changed.`,
		Example: "  hostler host set edge-01 --label site=lab --label tier=web\n  hostler host set edge-01 --label tier-", ValidArgsFunction: a.completing(hostNames),
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
			return ask, usage("", "--label %q: want k=v to set a label, or k- to remove it", l)
		}
	}
	if len(labels) == 0 {
		return ask, usage("hostler host set HOST --label k=v", "no label is named")
	}
	return ask, nil
}

// changeHost decides about a host.
func (a *app) changeHost(ctx context.Context, name, verb, done string, body any) error {
	id, err := parseHost(name)
	if err != nil {
		return usage("hostler host ls", "%s", err)
	}
	r, err := a.coordinator()
	if err != nil {
		return err
	}
	if err := r.Post(ctx, "/v1/hosts/"+url.PathEscape(string(id))+"/"+verb, nil, body, nil); err != nil {
		return cannot(verb+" host "+name, err)
	}
	a.say("Host %s is %s.", name, done)
	return nil
}
