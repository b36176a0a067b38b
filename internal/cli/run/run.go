// Package run runs commands on hosts and in containers, as sessions on this terminal
// or without one: hostler run, exec and attach, and the replay of recorded sessions.
package run

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

type commands struct{ *batch.Batcher }

// Commands returns hostler run, exec and attach.
func Commands(b *batch.Batcher) []*cobra.Command {
	a := &commands{b}
	return []*cobra.Command{a.runCommand(), a.execCommand(), a.attachCommand()}
}

// OfActions returns the commands of hostler action that are about sessions: attach
// and replay.
func OfActions(b *batch.Batcher) []*cobra.Command {
	a := &commands{b}
	return []*cobra.Command{a.actionAttachCommand(), a.replayCommand()}
}

// command is what run and exec have in common: how to run, apart from where.
type command struct {
	user, cwd string
	env       []string
	secretEnv []string
	timeout   term.DurationFlag
	exclusive bool
	daemon    bool
	noWait    bool
	many      bool // on many hosts, whose output is not all followed at once
	tty       bool
	session   sessionFlags
	record    bool // the session
	shared    bool // the session, of this host
	dryRun    bool
	view      *show.View
	stdin     dispatch.StdinFlags
	input     *dispatch.Payload // of stdin, once it was opened
}

func (a *commands) commandFlags(cmd *cobra.Command) *command {
	c := &command{timeout: term.LimitFlag(), view: show.FormatFlags(cmd)}
	f := cmd.Flags()
	f.StringVar(&c.user, "as", "", "user to run as, a name or UID[:GID] (default root)")
	f.StringVar(&c.cwd, "cwd", "", "directory to run in, absolute (default /)")
	f.StringArrayVar(&c.env, "env", nil, "variable of the environment, NAME=VALUE; may be repeated")
	f.StringArrayVar(&c.secretEnv, "secret-env", nil, "variable encrypted for the host, NAME to take it from this environment, or NAME=VALUE, which ps shows to other users; may be repeated")
	f.Var(&c.timeout, "timeout", "time limit of the command, or none (default 60s)")
	c.stdin.Add(cmd)
	f.BoolVar(&c.exclusive, "exclusive", false, "run alone: wait for the actions on containers of the host, and hold back later ones")
	f.BoolVar(&c.daemon, "daemon", false, "do not wait for the end; the command runs, without a default time limit, until all its processes have ended")
	f.BoolVarP(&c.tty, "tty", "t", false, "run it as a session on this terminal, without a default time limit")
	c.session.add(cmd)
	recordFlag(cmd, c)
	sharedFlag(cmd, c)
	f.BoolVar(&c.noWait, "no-wait", false, "print the action's id and do not wait")
	f.BoolVar(&c.dryRun, "dry-run", false, "print what would be requested, and request nothing")
	// Everything that goes wrong before a command has run has one code, so that
	// it is never taken for the command's own.
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if !slices.Contains(a.Args, "--") { // the option is most likely one of the command to run
			return asHostler(noDash(cmd))
		}
		return asHostler(term.FlagError(cmd, err))
	})
	return c
}

// asHostler gives an error of ours the code that no command is taken to have.
func asHostler(err error) error {
	if f, ok := errors.AsType[*term.Failure](err); ok {
		g := *f
		g.Code = term.ExitHostler
		return &g
	}
	if _, ok := errors.AsType[term.Exit](err); ok || err == nil || errors.Is(err, term.ErrInterrupted) {
		return err
	}
	return &term.Failure{Code: term.ExitHostler, What: err.Error()}
}

// spec returns what is to be done.
func (c *command) spec(kind protocol.Kind, target protocol.CTID, name protocol.ContainerName, argv []string) ([]byte, error) {
	args := protocol.Command(argv...)
	args.Exclusive, args.Daemon = c.exclusive, c.daemon
	if !c.noWait && !c.many && !c.daemon {
		args.Output = protocol.OutputStream // we follow all of it
	}
	return c.encode(protocol.Spec{Kind: kind, Target: target, Name: name, Args: args})
}

// encode fills in how to run.
func (c *command) encode(s protocol.Spec) ([]byte, error) {
	if err := conn.CheckPairs("env", c.env); err != nil {
		return nil, term.Usage("", "%s", err)
	}
	if c.record && !c.tty && !s.Kind.Interactive() {
		return nil, term.Usage("", "--record is for sessions: add -t")
	}
	if c.shared && !c.tty && !s.Kind.Interactive() {
		return nil, term.Usage("", "--shared is for sessions: add -t")
	}
	s.SetProcess(protocol.Process{Argv: s.Process().Argv, User: c.user, Cwd: c.cwd, Env: c.env})
	switch {
	case c.timeout.None:
		s.SetTimeLimit(protocol.NoTimeout)
	case c.timeout.Value > 0:
		s.SetTimeLimit(max(c.timeout.Value.Milliseconds(), 1))
	}
	c.input.Describe(&s)
	return dispatch.EncodeSpec(s)
}

// sessionFits refuses options that a session cannot have.
func (c *command) sessionFits() error {
	switch {
	case c.exclusive:
		return term.Usage("", "-t and --exclusive cannot be combined")
	case c.noWait:
		return term.Usage("", "-t and --no-wait cannot be combined")
	case c.daemon:
		return term.Usage("", "-t and --daemon cannot be combined")
	case c.stdin.Path != "":
		return term.Usage("", "-t and --stdin cannot be combined: a session reads the keyboard")
	}
	c.stdin.Interactive = false // as -it is said elsewhere
	return nil
}

// splitArgs cuts the arguments at the "--" that must stand before a command:
// without it options could not be told apart.
func splitArgs(cmd *cobra.Command, args []string) (where, argv []string, err error) {
	at := cmd.ArgsLenAtDash()
	if at < 0 {
		return nil, nil, noDash(cmd)
	}
	if at == len(args) {
		return nil, nil, term.Usage(cmd.UseLine(), "no command follows the --")
	}
	if args[at] == "" {
		return nil, nil, term.Usage(cmd.UseLine(), "the command behind the -- is empty; was a variable of your shell never set?")
	}
	return args[:at], args[at:], nil
}

func noDash(cmd *cobra.Command) error {
	return term.Usage(cmd.UseLine(), "put a -- before the command to run")
}

const commandHelp = `

The command does not run in a shell: it gets its arguments unchanged. Its input is
empty, or with --stdin a file, or with -i the standard input of this program, which
is read to its end and sent before the command begins. Its output and errors are
printed here while it runs, byte for byte, and its exit code becomes the one of this
program (128 plus the number for a signal); 125 means that Hostler itself failed.
Ctrl-C leaves the command running and says how to follow or cancel it.`

func (a *commands) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run {HOST… | -l SELECTOR | -A} [flags] -- COMMAND [ARG…]", Short: "Run a command on a host, or on many",
		Long: `Runs a command on a host, and passes its output and exit code on.` + commandHelp + `

With several hosts it runs on all at once, and each line of output begins with the
host's name. It waits for offline hosts, unless --no-wait-offline or --wait says
otherwise; the command runs there when they are back. The exit code is 1 if it
failed anywhere, 5 if the time to wait has passed, 6 if only offline hosts are
left. With -o json and the like, on one host too, it prints the result and the
output of each host at the end.`,
		Example: `  hostler run edge-01 -- uname -a
  hostler run edge-01 --as nobody --timeout 5m -- sh -c 'echo $HOME; id'
  hostler run -l site=lab,tier!=db -- systemctl is-system-running
  hostler run -A --parallel 20 --no-wait-offline -o json -- uname -r
  id=$(hostler run edge-01 --no-wait -- apt-get update)
  hostler action logs $id --follow`,
		DisableFlagsInUseLine: true, ValidArgsFunction: a.CompletingAll(conn.HostNames),
	}
	c := a.commandFlags(cmd)
	s := batch.SelectionFlags(cmd, "approved hosts")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return asHostler(a.runHosts(cmd, c, args, s))
	}
	return cmd
}

func (a *commands) runHosts(cmd *cobra.Command, c *command, args []string, sel *batch.Selection) error {
	where, argv, err := splitArgs(cmd, args)
	if err != nil {
		return err
	}
	if c.tty {
		if err := errors.Join(c.sessionFits(), a.needTerminal(false)); err != nil {
			return err
		}
	}
	if c.input, err = c.stdin.Open(a.Dispatcher); err != nil {
		return err
	}
	defer c.input.Close()
	c.many = sel.Given() || len(where) > 1 || !sel.Single(1, c.view)
	spec, err := c.spec(protocol.KindRun, protocol.CTID{}, "", argv)
	if err != nil {
		return err
	}
	if err := sel.Check(len(where)); err != nil {
		return err
	}
	r, err := a.Connect()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if err := sel.Fits(r.Local, c.tty); err != nil {
		return err
	}
	targets, err := a.ChooseHosts(ctx, r, where, sel, c.noWait)
	if err != nil {
		return err
	}
	if c.tty && len(targets) > 1 {
		return term.Usage("hostler run -t HOST -- COMMAND", "a session needs exactly one host, got %d", len(targets))
	}
	if c.tty {
		return a.sessionOn(ctx, r, c, &c.session, targets[0], argv)
	}
	return a.runAt(ctx, r, c, sel, dispatch.OnHosts(spec, targets...), len(targets) == 1, len(where) == 1)
}

// runAt runs a command in places. alone is one that need not be told as one of many,
// own one that was named: its output and exit code are ours.
func (a *commands) runAt(ctx context.Context, r *conn.Remote, c *command, sel *batch.Selection, places []dispatch.Target, alone, own bool) error {
	if c.dryRun {
		return a.DryRun(ctx, r, c.view, places...)
	}
	if err := a.sendInput(ctx, r, c, places); err != nil {
		return err
	}
	// An id, or a daemon, is printed in any form by itself.
	if sel.Single(len(places), c.view) || r.Local || alone && (c.noWait || c.daemon) {
		return a.runOne(ctx, r, c, places[0].Host, places[0].Label, places[0].Spec)
	}
	if len(c.secretEnv) > 0 {
		return term.Usage("hostler run HOST --secret-env NAME -- COMMAND", "--secret-env is encrypted for one host; use one host")
	}
	m := sel.Many
	m.Output, m.View, m.NoWait, m.Verb, m.Own = true, c.view, c.noWait || c.daemon, "run the command", own
	return a.DoMany(ctx, r, &m, places)
}

// maxAsked is how many places are asked one by one whether they refuse a command.
const maxAsked = 64

// sendInput sends what a command reads, unless it is refused for every place: then
// nothing is sent in vain, and who asks in earnest is told why.
func (a *commands) sendInput(ctx context.Context, r *conn.Remote, c *command, places []dispatch.Target) error {
	refused := func(p dispatch.Target) bool { return dispatch.Refused(ctx, r, c.input, p.Host, p.Spec) != nil }
	if len(places) <= maxAsked && !slices.ContainsFunc(places, func(p dispatch.Target) bool { return !refused(p) }) {
		return nil
	}
	return c.input.Send(ctx, a.Dispatcher, r, "send what the command reads")
}

// runOne runs a command in one place and becomes it.
func (a *commands) runOne(ctx context.Context, r *conn.Remote, c *command, host protocol.HostID, label string, spec []byte) error {
	what := "run the command on " + label
	id := a.NewActionID()
	spec, err := a.sealEnv(ctx, r, c, host, id, spec)
	if err != nil {
		return term.Cannot(what, err)
	}
	act, err := a.SubmitAs(ctx, r, id, host, spec)
	if err != nil {
		return term.Cannot(what, err)
	}
	if c.noWait {
		return a.PrintID(c.view, act)
	}
	if c.daemon {
		return a.leaveDaemon(ctx, r, c, label, act, what)
	}
	if a.ErrTTY {
		a.Say("action %s", act.ID)
	}
	f := &dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: label, Stdout: a.Out, Stderr: a.Err, Hold: true}
	final, err := f.Wait(ctx, act)
	switch {
	case err == nil:
		return a.commandEnded(what, final)
	case protocol.State(final.State).Final():
		return a.outputFailed(label, final, err, a.commandEnded(what, final))
	case ctx.Err() != nil:
		a.Leave(act.ID)
		return term.ErrInterrupted
	}
	a.Leave(act.ID)
	return term.Cannot(what, err)
}

// outputFailed tells of a command that has ended while its output could not be read.
// end is how it ended, which goes before, unless all was well with that.
func (a *commands) outputFailed(label string, act api.Action, err, end error) error {
	what, next := "the output of the command on "+label+" could not be read completely", "hostler action logs "+act.ID
	f, known := errors.AsType[*term.Failure](term.Cannot("read it", err))
	if end == nil && known {
		return &term.Failure{Code: f.Code, What: "the command has ended with exit code 0; " + what, Why: f.Why, Next: next, More: f.More, Err: err}
	}
	a.Say("hostler: the command has ended; %s: %s; later: %s", what, term.Printable(err.Error()), next)
	return cmp.Or(end, term.ErrInterrupted)
}

// leaveDaemon tells how a daemon has ended that ended at once, and leaves it alone
// otherwise, when it has begun.
func (a *commands) leaveDaemon(ctx context.Context, r *conn.Remote, c *command, label string, act api.Action, what string) error {
	now, err := r.Action(ctx, act.ID, a.Look)
	if err == nil && !begun(now) {
		f := &dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: label, Enough: begun}
		if now, err = f.Await(ctx, now); err == nil && !protocol.State(now.State).Final() {
			now, err = r.Action(ctx, act.ID, a.Look)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		a.Leave(act.ID)
		return term.ErrInterrupted
	case err != nil:
		a.Leave(act.ID)
		return term.Cannot(what, err)
	case protocol.State(now.State).Final():
		return a.commandEnded(what, now)
	}
	return a.PrintID(c.view, now)
}

// begun reports whether the host has begun with the action, or never will.
func begun(act api.Action) bool {
	return act.State == string(protocol.StateRunning) || protocol.State(act.State).Final()
}

// commandEnded turns the end of a command into the exit code.
func (a *commands) commandEnded(what string, act api.Action) error {
	e := act.Exit
	if e == nil {
		if err := dispatch.Ended(what, act); err != nil {
			return err
		}
		return nil
	}
	a.SayExit(e)
	if e.Code == 0 && act.State != string(protocol.StateDone) {
		return dispatch.Ended(what, act)
	}
	if e.Code != 0 {
		return term.Exit(e.Code)
	}
	return nil
}

func (a *commands) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec {HOST/NAME | -l SELECTOR} [flags] -- COMMAND [ARG…]", Short: "Run a command in a container, or in many",
		Long: `Runs a command in a container that runs, and passes its output and exit code on.` + commandHelp + `

For several containers, selected by their labels, see hostler run.`,
		Example: `  hostler exec edge-01/web -- ps
  hostler exec edge-01/web --env DEBUG=1 -- sh -c 'echo $DEBUG'
  hostler exec -l app=web -- nginx -t
  hostler exec --local web -- ps`,
		DisableFlagsInUseLine: true, ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := a.commandFlags(cmd)
	s := batch.SelectionFlags(cmd, "containers of Hostler")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		where, argv, err := splitArgs(cmd, args)
		if err == nil {
			err = s.Check(len(where))
		}
		if err == nil && len(where) != 1 && !s.Given() {
			err = term.Usage(cmd.UseLine(), "exec takes one container, got %d", len(where))
		}
		if err == nil {
			err = a.exec(cmd.Context(), c, s, strings.Join(where, ""), argv)
		}
		return asHostler(err)
	}
	return cmd
}

// exec runs a command in the container that is named, or in those that are selected.
func (a *commands) exec(ctx context.Context, c *command, sel *batch.Selection, where string, argv []string) error {
	named := where != ""
	if named && c.tty {
		if err := errors.Join(c.sessionFits(), sel.Fits(false, true)); err != nil {
			return err
		}
		return a.sessionIn(ctx, c, &c.session, where, argv)
	}
	r, found, err := a.FindContainers(ctx, sel, where)
	if err != nil {
		return term.Cannot("find container "+where, err)
	}
	if c.input, err = c.stdin.Open(a.Dispatcher); err != nil {
		return err
	}
	defer c.input.Close()
	c.many = !named || !sel.Single(1, c.view)
	places, err := batch.OnContainers(found, func(f batch.Found) ([]byte, error) {
		return c.spec(protocol.KindExec, f.ID, protocol.ContainerName(f.Name), argv)
	})
	if err != nil {
		return err
	}
	return a.runAt(ctx, r, c, sel, places, named, named)
}
