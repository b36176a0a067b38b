// Package actions looks at actions and decides on them: hostler action and why.
package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/keyring"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

type commands struct {
	*dispatch.Dispatcher
	keys *keyring.Store
}

// Command returns hostler action; more are commands of it from other areas.
func Command(d *dispatch.Dispatcher, keys *keyring.Store, more ...*cobra.Command) *cobra.Command {
	a := &commands{d, keys}
	cmd := term.Group("action", "Actions: requests to hosts, and their results",
		a.actionListCommand(), a.actionShowCommand(), a.actionWaitCommand(), a.actionLogsCommand(), a.approveCommand(), a.denyCommand(), a.actionCancelCommand(), a.actionReissueCommand(), a.nudgeCommand())
	cmd.AddCommand(more...)
	return cmd
}

func (a *commands) actionListCommand() *cobra.Command {
	var open, pending bool
	var batch string
	var labels conn.Selector
	var states []string
	var since term.DurationFlag
	cmd := &cobra.Command{
		Use: "ls [HOST]", Short: "List actions, the newest first", Args: term.AtMost(1),
		Example: "  hostler action ls\n  hostler action ls edge-01 --open --watch\n  hostler action ls --pending -o wide\n  hostler action ls -l site=lab --state FAILED,LOST --since 8h", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.LimitedFlags(cmd, 50)
	cmd.Flags().BoolVar(&open, "open", false, "only those that have not ended")
	cmd.Flags().BoolVar(&pending, "pending", false, "only those that wait for approval")
	cmd.Flags().StringVar(&batch, "batch", "", "only those of this batch")
	cmd.Flags().VarP(&labels, "selector", "l", "only those on hosts selected by labels")
	cmd.Flags().StringSliceVar(&states, "state", nil, "only those in this state, such as RUNNING or FAILED; may be repeated")
	cmd.Flags().Var(&since, "since", "only those requested no longer ago than this")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(conn.Each(protocol.States(), func(s protocol.State) string { return string(s) }), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		host := strings.Join(args, "")
		if host != "" {
			if _, err := conn.ParseHost(host); err != nil {
				return term.Usage("hostler host ls", "%s", err)
			}
		}
		if open && pending || len(states) > 0 && (open || pending) {
			return term.Usage("", "--open, --pending and --state cannot be combined")
		}
		if r.Local && (len(labels.Terms) > 0 || since.Value > 0) {
			return term.Usage("hostler action ls --state STATE", "-l and --since need a coordinator; the agent of a host cannot answer them")
		}
		var err error
		query := conn.ActionQuery{Host: host, Batch: batch, Labels: labels.String(), Limit: v.Limit}
		switch {
		case pending:
			query.States = []string{string(protocol.StatePendingApprove)}
		case open:
			query.States = conn.OpenStates()
		default:
			if query.States, err = parseStates(states); err != nil {
				return err
			}
		}
		return show.Items(cmd.Context(), a.UI, v, dispatch.ActionNoun(), func(ctx context.Context) ([]api.Action, error) {
			if since.Value > 0 {
				query.Since = a.Now().Add(-since.Value)
			}
			all, err := r.Actions(ctx, query)
			if err == nil && len(all) == 0 && host != "" && !r.Local {
				_, err = r.Member(ctx, protocol.HostID(host)) // none, or no such host?
			}
			return all, term.Cannot("list the actions", err)
		})
	})
	return cmd
}

// parseStates reads the names of states, in letters of either case.
func parseStates(texts []string) ([]string, error) {
	var all []string
	for _, text := range texts {
		s := protocol.State(strings.ToUpper(text))
		if !slices.Contains(protocol.States(), s) {
			return nil, term.Usage("hostler action ls --state failed", "%q is not a state of an action: use one of %s", text, strings.Join(conn.Each(protocol.States(), func(s protocol.State) string { return string(s) }), ", "))
		}
		all = append(all, string(s))
	}
	return all, nil
}

func (a *commands) actionWaitCommand() *cobra.Command {
	var states []string
	var timeout term.DurationFlag
	cmd := &cobra.Command{
		Use: "wait ID", Short: "Wait until an action has ended, or is in a state", Args: term.Exactly(1),
		Long: `Waits until an action has ended, and exits with 0 if it ended as wanted. With --for
it waits for a state, and exits with 0 when the action is in it or has been; with 1 if
the action ends otherwise. With --timeout it waits no longer, and exits with 5.`,
		Example: "  hostler action wait 0199f3\n  hostler action wait 0199f3 --for RUNNING --timeout 5m", ValidArgsFunction: a.Completing(conn.OpenIDs),
	}
	cmd.Flags().StringSliceVar(&states, "for", nil, "wait for this state, such as RUNNING; may be repeated: any of them")
	cmd.Flags().Var(&timeout, "timeout", "wait no longer than this (default: for ever)")
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		what := "wait for action " + args[0]
		wanted, err := parseStates(states)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(cmd.Context())
		if timeout.Value > 0 {
			ctx, cancel = context.WithTimeout(cmd.Context(), timeout.Value)
		}
		defer cancel()
		reached := func(act api.Action) bool {
			ran := act.HostStartedAt != nil || act.State == string(protocol.StateDone)
			return slices.Contains(wanted, act.State) || ran && slices.Contains(wanted, string(protocol.StateRunning))
		}
		act, err := r.Action(ctx, args[0], 0)
		if err == nil && !reached(act) {
			f := &dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: act.ID}
			if len(wanted) > 0 {
				f.Enough = reached
			}
			act, err = f.Await(ctx, act)
		}
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return &term.Failure{Code: term.ExitTimeout, What: "cannot " + what, Why: fmt.Sprintf("after %s: %s", timeout.Value, cmp.Or(act.Shown, act.State, "no answer")), Next: "hostler why " + args[0]}
		case err != nil:
			return term.Cannot(what, err)
		case len(wanted) == 0:
			return dispatch.Ended(what, act)
		case !reached(act):
			return &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Why: "it ended as " + strings.TrimSpace(act.State+" "+act.Reason), Next: "hostler action show " + act.ID}
		}
		return nil
	})
	return cmd
}

func (a *commands) actionShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show an action", Args: term.Exactly(1),
		Long:    "Shows an action. The first or the last characters of its id are enough, if they are at least 4 and those of no other.",
		Example: "  hostler action show 0199f3\n  hostler action show 0199f3 -o json | jq .state", ValidArgsFunction: a.Completing(conn.ActionIDs),
	}
	v := show.ShowFlags(cmd)
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		return show.Item(cmd.Context(), a.UI, v, dispatch.ActionNoun(), func(ctx context.Context) (api.Action, error) {
			act, err := r.ActionWhy(ctx, args[0])
			return act, term.Cannot("show action "+args[0], err)
		})
	})
	return cmd
}

func (a *commands) actionLogsCommand() *cobra.Command {
	l := &logs{app: a}
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print the output of a command", Args: term.Exactly(1),
		Long: `Prints what a command has written: its standard output and error, each to that of
this program. With --offset it begins at that byte of one stream, to continue an
interrupted read. A command does not wait for slow readers: they are told how much
was left out.`,
		Example: "  hostler action logs 0199f3\n  hostler action logs 0199f3 --follow\n  hostler action logs 0199f3 -f --stderr --offset 4096", ValidArgsFunction: a.Completing(conn.ActionIDs),
	}
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "follow the output until the command ends")
	cmd.Flags().StringVar(&l.only, "stream", "", "only stdout or stderr, to standard output")
	cmd.Flags().BoolVar(&l.stderr, "stderr", false, "the same as --stream stderr")
	cmd.Flags().Int64Var(&l.offset, "offset", 0, "begin at this byte of the stream (default stream: stdout)")
	_ = cmd.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions([]string{"stdout", "stderr"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case l.stderr && l.only == string(protocol.Stdout):
			return term.Usage("", "--stderr and --stream stdout cannot be combined")
		case l.stderr:
			l.only = string(protocol.Stderr)
		case l.only == "" && cmd.Flags().Changed("offset"):
			l.only = string(protocol.Stdout)
		}
		if l.only != "" && l.only != string(protocol.Stdout) && l.only != string(protocol.Stderr) {
			return term.Usage("", "%q is not a stream: use stdout or stderr", l.only)
		}
		if l.offset < 0 {
			return term.Usage("", "--offset %d: use a number of bytes from 0", l.offset)
		}
		return l.print(cmd.Context(), args[0])
	}
	return cmd
}

// logs prints the output of a command.
type logs struct {
	app            *commands
	follow, stderr bool
	only           string // one stream
	offset         int64
}

func (l *logs) print(ctx context.Context, id string) error {
	a := l.app
	r, err := a.Connect()
	if err != nil {
		return err
	}
	act, err := r.Action(ctx, id, 0)
	if err != nil {
		return term.Cannot("show action "+id, err)
	}
	if !l.follow && slices.Contains([]protocol.State{protocol.StatePendingApprove, protocol.StatePendingSchedule, protocol.StateNew}, protocol.State(act.State)) {
		a.Say("hostler: it has not started: %s; to wait for its output: hostler action logs %s --follow", term.Printable(cmp.Or(act.Shown, act.State)), act.ID)
	}
	f := &dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: act.ID, Stdout: a.Out, Stderr: a.Err}
	if l.follow && l.only == "" {
		final, err := f.Wait(ctx, act)
		if err != nil && ctx.Err() != nil && !protocol.State(final.State).Final() {
			a.Leave(act.ID)
		}
		return term.Cannot("follow action "+act.ID, err)
	}
	for _, s := range []*dispatch.Stream{{Fd: protocol.Stdout, W: a.Out}, {Fd: protocol.Stderr, W: a.Err}} {
		if l.only == string(s.Fd) {
			s.W, s.From = a.Out, l.offset
		}
		if l.only != "" && l.only != string(s.Fd) {
			continue
		}
		if err := f.Copy(ctx, act.ID, s, l.follow, new(atomic.Int64)); err != nil {
			return term.Cannot("read the output of action "+act.ID, err)
		}
		if l.follow { // it has ended meanwhile
			if act, err = r.Action(ctx, act.ID, 0); err != nil {
				return term.Cannot("show action "+id, err)
			}
		}
		a.sayMissing(act, s)
	}
	a.SayCutShort(act)
	return nil
}

// sayMissing tells of output that an ended command has written and that is not
// here: its host sends it yet, or is away.
func (a *commands) sayMissing(act api.Action, s *dispatch.Stream) {
	for _, o := range act.Output {
		switch {
		case o.FD != string(s.Fd):
		case s.From > o.Bytes:
			a.Say("hostler: %s has %d bytes, none after byte %d", s.Fd, o.Bytes, s.From)
		case s.End < o.Bytes:
			a.Say("hostler: the last %d bytes of %s are not here yet; to wait for them: hostler action logs %s --follow", o.Bytes-s.End, s.Fd, act.ID)
		}
	}
}

func (a *commands) actionReissueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reissue ID", Short: "Request again what a conflict prevented", Args: term.Exactly(1),
		Long: `A host that has a different action under the same id keeps its own, and the
coordinator shows both: spec is the host's, intent is the original request. This
requests the intent under a new id.`,
		Example: "  hostler action show 0199f3 -o json | jq .conflict\n  hostler action reissue 0199f3", ValidArgsFunction: a.Completing(conn.ActionIDs),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		ctx, what := cmd.Context(), "issue action "+args[0]+" again"
		old, err := r.Action(ctx, args[0], 0)
		switch {
		case err != nil:
			return term.Cannot(what, err)
		case !old.Conflict:
			return &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Why: "its host has no different action under that id", Next: "hostler action show " + old.ID}
		}
		if c.DryRun {
			return a.DryRun(ctx, r, c.View, dispatch.OnHosts(old.Intent, protocol.HostID(old.Host))...)
		}
		var act api.Action
		if err := r.Post(ctx, "/v1/actions/"+url.PathEscape(old.ID)+"/reissue", nil, api.Reissue{ID: a.NewActionID().String()}, &act); err != nil {
			return term.Cannot(what, err)
		}
		if c.NoWait {
			return a.PrintID(c.View, act)
		}
		a.Say("action %s", term.Printable(act.ID))
		final, err := (&dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: act.ID}).Await(ctx, act)
		if err != nil {
			a.Leave(act.ID)
			return term.Cannot(what, err)
		}
		return dispatch.Ended(what, final)
	})
	return cmd
}

func (a *commands) actionCancelCommand() *cobra.Command {
	var noWait, wait bool
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "End an action", Args: term.Exactly(1),
		Long: `Ends an action: an action that has not started never does, and a command is
terminated. It counts as cancelled when all its processes have ended. An action that
ended before does not change.`,
		Example: "  hostler action cancel 0199f3", ValidArgsFunction: a.Completing(conn.OpenIDs),
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it has ended")
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until it has ended")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if noWait && cmd.Flags().Changed("wait") {
			return term.Usage("", "--wait and --no-wait cannot be combined")
		}
		r, err := a.Connect()
		if err != nil {
			return err
		}
		ctx, what := cmd.Context(), "cancel action "+args[0]
		var act api.Action
		if err := r.Post(ctx, "/v1/actions/"+url.PathEscape(args[0])+"/cancel", nil, nil, &act); err != nil {
			return term.Cannot(what, err)
		}
		a.Say("%s", term.Printable(act.ID))
		if noWait || !wait {
			return nil
		}
		act, err = (&dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: act.ID, Enough: func(act api.Action) bool { return act.CancelRefused }}).Await(ctx, act)
		switch {
		case err != nil:
			return term.Cannot(what, err)
		case act.CancelRefused:
			return &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Why: act.Detail + "; it continues", Next: "hostler action show " + act.ID}
		case act.State != string(protocol.StateCancelled):
			return &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Why: "it ended before: " + strings.TrimSpace(act.State+" "+act.Reason), Next: "hostler action show " + act.ID}
		}
		a.Say("Action %s is cancelled.", act.ID)
		return nil
	}
	return cmd
}
