package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

func actionNoun() noun[api.Action] {
	return noun[api.Action]{
		name: func(a api.Action) string { return a.ID },
		columns: []column[api.Action]{
			{"id", inTable, func(a api.Action) any { return a.ID }},
			{"host", inTable, func(a api.Action) any { return a.Host }},
			{"kind", inTable, func(a api.Action) any { return a.Kind }},
			{"name", inTable, func(a api.Action) any { return a.Name }},
			{"state", inTable, func(a api.Action) any { return words{a.State, cmp.Or(a.Shown, a.State)} }},
			{"reason", inTable, func(a api.Action) any { return a.Reason }},
			{"exit", inTable, func(a api.Action) any { return exitWord(a.Exit) }},
			{"created_at", inTable, func(a api.Action) any { return a.CreatedAt }},
			{"requester", inWide, func(a api.Action) any { return a.Requester }},
			{"command", inWide, func(a api.Action) any { return shellWords(a.Argv) }},
			{"ended_at", inWide, func(a api.Action) any { return a.EndedAt }},
			{"needs", inWide, func(a api.Action) any { return approvalsWord(a) }},
			{"approvals", inShow, func(a api.Action) any { return listed(names(a.Approvals, approvedWord)) }},
			{"detail", inShow, func(a api.Action) any { return a.Detail }},
			{"target", inShow, func(a api.Action) any { return a.Target }},
			{"attempt", inShow, func(a api.Action) any { return a.Attempt }},
			{"ran", inShow, func(a api.Action) any {
				if a.Exit == nil {
					return ""
				}
				return a.Exit.Run
			}},
			{"error", inShow, func(a api.Action) any {
				if a.Exit == nil {
					return ""
				}
				return a.Exit.Error
			}},
			{"output", inShow, func(a api.Action) any { return listed(names(a.Output, outputWord)) }},
			{"waits", inShow, func(a api.Action) any { return waitsWord(a.Waits) }},
			{"batch", inShow, func(a api.Action) any { return a.Batch }},
			{"sent_at", inShow, func(a api.Action) any { return a.SentAt }},
			{"receipted_at", inShow, func(a api.Action) any { return a.ReceiptedAt }},
			{"host_accepted_at", inShow, func(a api.Action) any { return a.HostAcceptedAt }},
			{"host_started_at", inShow, func(a api.Action) any { return a.HostStartedAt }},
			{"host_ended_at", inShow, func(a api.Action) any { return a.HostEndedAt }},
			{"expires_at", inShow, func(a api.Action) any { return a.ExpiresAt }},
			{"spec", inShow, func(a api.Action) any { return string(a.Spec) }},
			{"conflict", inShow, func(a api.Action) any {
				if !a.Conflict {
					return ""
				}
				return "its host has another action of this id, which is the one shown; to ask for the intent anew: hostler action reissue " + a.ID
			}},
			{"intent", inShow, func(a api.Action) any { return string(a.Intent) }},
			{"digest", inShow, func(a api.Action) any { return a.Digest }},
		},
	}
}

// waitsWord is why an action waits, and whether its host said so.
func waitsWord(w *api.Waits) string {
	switch {
	case w == nil:
		return ""
	case w.HostAt != nil:
		return w.Text + " (so its host said)"
	}
	return w.Text
}

func exitWord(e *api.Exit) string {
	switch {
	case e == nil:
		return ""
	case e.OOM:
		return fmt.Sprintf("%d (oom)", e.Code)
	case e.TimedOut:
		return fmt.Sprintf("%d (timeout)", e.Code)
	case e.Unrecorded:
		return fmt.Sprintf("%d (not recorded any more)", e.Code)
	case e.HungUp:
		return fmt.Sprintf("%d (hung up)", e.Code)
	}
	return fmt.Sprint(e.Code)
}

// listed writes texts that may hold commas.
func listed(all []string) string { return strings.Join(all, "; ") }

func outputWord(o api.Output) string {
	s := fmt.Sprintf("%s %d bytes", o.FD, o.Bytes)
	if o.Dropped > 0 {
		s += fmt.Sprintf(", %d left out", o.Dropped)
	}
	if o.Ended != "" {
		s += ", ended early: " + o.Ended
	}
	return s
}

func (a *app) actionCommand() *cobra.Command {
	return group("action", "What was asked for, and what became of it",
		a.actionListCommand(), a.actionShowCommand(), a.actionLogsCommand(), a.actionAttachCommand(), a.replayCommand(), a.approveCommand(), a.denyCommand(), a.actionCancelCommand(), a.actionReissueCommand(), a.nudgeCommand())
}

func (a *app) actionListCommand() *cobra.Command {
	var open, pending bool
	var batch string
	cmd := &cobra.Command{
		Use: "ls [HOST]", Short: "List actions, the newest first", Args: atMost(1),
		Example: "  hostler action ls\n  hostler action ls edge-01 --open --watch\n  hostler action ls --pending -o wide", ValidArgsFunction: a.completing(hostNames),
	}
	v := limitedFlags(cmd, 50)
	cmd.Flags().BoolVar(&open, "open", false, "only those that have not ended")
	cmd.Flags().BoolVar(&pending, "pending", false, "only those that wait for approval")
	cmd.Flags().StringVar(&batch, "batch", "", "only those of this batch")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.connect()
		if err != nil {
			return err
		}
		host := strings.Join(args, "")
		if host != "" {
			if _, err := parseHost(host); err != nil {
				return usage("hostler host ls", "%s", err)
			}
		}
		return show(cmd.Context(), a, v, actionNoun(), func(ctx context.Context) ([]api.Action, error) {
			var states []string
			switch {
			case pending:
				states = []string{string(protocol.StatePendingApprove)}
			case open:
				states = openStates()
			}
			all, err := r.actionsIn(ctx, actionQuery{host: host, batch: batch, states: states, limit: v.limit})
			if err == nil && len(all) == 0 && host != "" && !r.local {
				_, err = r.member(ctx, protocol.HostID(host)) // none, or no such host?
			}
			return all, cannot("list the actions", err)
		})
	}
	return cmd
}

func (a *app) actionShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show an action", Args: exactly(1),
		Long:    "Shows an action. Of the id the first characters are enough (at least 4), if no other begins with them.",
		Example: "  hostler action show 0199f3\n  hostler action show 0199f3 -o json | jq .state", ValidArgsFunction: a.completing(actionIDs),
	}
	v := showFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.connect()
		if err != nil {
			return err
		}
		return showOne(cmd.Context(), a, v, actionNoun(), func(ctx context.Context) (api.Action, error) {
			act, err := r.actionWhy(ctx, args[0])
			return act, cannot("show action "+args[0], err)
		})
	}
	return cmd
}

func (a *app) actionLogsCommand() *cobra.Command {
	l := &logs{app: a}
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print the output of a command", Args: exactly(1),
		Long: `Prints what a command has written: its standard output and error, each to that of
this program. With --offset it begins at that byte of one stream, as one that
broke off there goes on. A command does not wait for those who only look on: who
is too slow is told what was left out.`,
		Example: "  hostler action logs 0199f3\n  hostler action logs 0199f3 --follow\n  hostler action logs 0199f3 -f --stderr --offset 4096", ValidArgsFunction: a.completing(actionIDs),
	}
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "go on until the command ends")
	cmd.Flags().StringVar(&l.only, "stream", "", "only stdout or stderr, to standard output")
	cmd.Flags().BoolVar(&l.stderr, "stderr", false, "the same as --stream stderr")
	cmd.Flags().Int64Var(&l.offset, "offset", 0, "begin at this byte of the stream (default stream: stdout)")
	_ = cmd.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions([]string{"stdout", "stderr"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case l.stderr && l.only == string(protocol.Stdout):
			return usage("", "--stderr and --stream stdout exclude each other")
		case l.stderr:
			l.only = string(protocol.Stderr)
		case l.only == "" && cmd.Flags().Changed("offset"):
			l.only = string(protocol.Stdout)
		}
		if l.only != "" && l.only != string(protocol.Stdout) && l.only != string(protocol.Stderr) {
			return usage("", "%q is no stream: want stdout or stderr", l.only)
		}
		if l.offset < 0 {
			return usage("", "--offset %d: want a number of bytes", l.offset)
		}
		return l.print(cmd.Context(), args[0])
	}
	return cmd
}

// logs prints the output of a command.
type logs struct {
	app            *app
	follow, stderr bool
	only           string // one stream
	offset         int64
}

func (l *logs) print(ctx context.Context, id string) error {
	a := l.app
	r, err := a.connect()
	if err != nil {
		return err
	}
	act, err := r.action(ctx, id, 0)
	if err != nil {
		return cannot("show action "+id, err)
	}
	if !l.follow && slices.Contains([]protocol.State{protocol.StatePendingApprove, protocol.StatePendingSchedule, protocol.StateNew}, protocol.State(act.State)) {
		a.say("hostler: it has not begun: %s; to wait for what it writes: hostler action logs %s --follow", printable(cmp.Or(act.Shown, act.State)), act.ID)
	}
	f := &follower{app: a, remote: r, label: act.ID, stdout: a.out, stderr: a.err}
	if l.follow && l.only == "" {
		final, err := f.wait(ctx, act)
		if err != nil && ctx.Err() != nil && !protocol.State(final.State).Final() {
			a.leave(act.ID)
		}
		return cannot("follow action "+act.ID, err)
	}
	for _, s := range []*stream{{fd: protocol.Stdout, w: a.out}, {fd: protocol.Stderr, w: a.err}} {
		if l.only == string(s.fd) {
			s.w, s.from = a.out, l.offset
		}
		if l.only != "" && l.only != string(s.fd) {
			continue
		}
		if err := f.copy(ctx, act.ID, s, l.follow, new(atomic.Int64)); err != nil {
			return cannot("read the output of action "+act.ID, err)
		}
		if l.follow { // it has ended meanwhile
			if act, err = r.action(ctx, act.ID, 0); err != nil {
				return cannot("show action "+id, err)
			}
		}
		a.sayMissing(act, s)
	}
	a.sayCutShort(act)
	return nil
}

// sayMissing tells of output that an ended command has written and that is not
// here: its host sends it yet, or is away.
func (a *app) sayMissing(act api.Action, s *stream) {
	for _, o := range act.Output {
		switch {
		case o.FD != string(s.fd):
		case s.from > o.Bytes:
			a.say("hostler: %s has %d bytes, none of them behind %d", s.fd, o.Bytes, s.from)
		case s.end < o.Bytes:
			a.say("hostler: the last %d bytes of %s are not here yet; to wait for them: hostler action logs %s --follow", o.Bytes-s.end, s.fd, act.ID)
		}
	}
}

func (a *app) actionReissueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reissue ID", Short: "Ask anew for what a conflict kept from being done", Args: exactly(1),
		Long: `A host that has another action of the same id keeps its own, and the coordinator
shows both: spec is the host's, intent is what was asked for here. This asks for
the intent under a new id.`,
		Example: "  hostler action show 0199f3 -o json | jq .conflict\n  hostler action reissue 0199f3", ValidArgsFunction: a.completing(actionIDs),
	}
	c := changeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.connect()
		if err != nil {
			return err
		}
		ctx, what := cmd.Context(), "issue action "+args[0]+" again"
		old, err := r.action(ctx, args[0], 0)
		switch {
		case err != nil:
			return cannot(what, err)
		case !old.Conflict:
			return &failure{code: exitFailed, what: "cannot " + what, why: "its host has no other action of that id", next: "hostler action show " + old.ID}
		}
		if c.dryRun {
			spec, err := protocol.DecodeSpec(old.Intent)
			if err != nil {
				return cannot(what, err)
			}
			return a.dryRun(ctx, r, c.view, []protocol.HostID{protocol.HostID(old.Host)}, spec.Kind, old.Intent)
		}
		var act api.Action
		if err := r.Post(ctx, "/v1/actions/"+url.PathEscape(old.ID)+"/reissue", nil, api.Reissue{ID: a.newActionID().String()}, &act); err != nil {
			return cannot(what, err)
		}
		if c.noWait {
			return a.printID(c.view, act)
		}
		a.say("action %s", printable(act.ID))
		final, err := (&follower{app: a, remote: r, label: act.ID}).await(ctx, act)
		if err != nil {
			a.leave(act.ID)
			return cannot(what, err)
		}
		return ended(what, final)
	}
	return cmd
}

// goesOn reports whether the host has said that it cannot cancel the action.
func goesOn(act api.Action) bool {
	return !protocol.State(act.State).Final() && !act.Cancelling && strings.HasPrefix(act.Detail, protocol.NotCancelled)
}

func (a *app) actionCancelCommand() *cobra.Command {
	var noWait, wait bool
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "End an action", Args: exactly(1),
		Long: `Ends an action: one that has not begun never does, and a command is terminated.
It is cancelled when nothing of it is left. An action that ended before stays as
it ended.`,
		Example: "  hostler action cancel 0199f3", ValidArgsFunction: a.completing(openIDs),
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it has ended")
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until it has ended")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.connect()
		if err != nil {
			return err
		}
		ctx, what := cmd.Context(), "cancel action "+args[0]
		var act api.Action
		if err := r.Post(ctx, "/v1/actions/"+url.PathEscape(args[0])+"/cancel", nil, nil, &act); err != nil {
			return cannot(what, err)
		}
		a.say("%s", printable(act.ID))
		if noWait || !wait {
			return nil
		}
		act, err = (&follower{app: a, remote: r, label: act.ID, enough: goesOn}).await(ctx, act)
		switch {
		case err != nil:
			return cannot(what, err)
		case goesOn(act):
			return &failure{code: exitFailed, what: "cannot " + what, why: act.Detail + "; it goes on", next: "hostler action show " + act.ID}
		case act.State != string(protocol.StateCancelled):
			return &failure{code: exitFailed, what: "cannot " + what, why: "it ended before: " + strings.TrimSpace(act.State+" "+act.Reason), next: "hostler action show " + act.ID}
		}
		a.say("Action %s is cancelled.", act.ID)
		return nil
	}
	return cmd
}
