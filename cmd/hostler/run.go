package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

// command is what run and exec have in common: how to run, apart from where.
type command struct {
	user, cwd string
	env       []string
	secretEnv []string
	timeout   durationFlag
	exclusive bool
	daemon    bool
	noWait    bool
	many      bool // on many hosts, whose output is not all followed at once
	tty       bool
	session   sessionFlags
	record    bool // the session
	dryRun    bool
	view      *view
	stdin     stdinFlags
	input     *payload // of stdin, once it was opened
}

func (a *app) commandFlags(cmd *cobra.Command) *command {
	c := &command{timeout: limitFlag(), view: formatFlags(cmd)}
	f := cmd.Flags()
	f.StringVar(&c.user, "as", "", "user to run as, a name or UID[:GID] (default root)")
	f.StringVar(&c.cwd, "cwd", "", "directory to run in, absolute (default /)")
	f.StringArrayVar(&c.env, "env", nil, "variable of the environment, NAME=VALUE; may be repeated")
	f.StringArrayVar(&c.secretEnv, "secret-env", nil, "variable that only the host can read, NAME=VALUE, or NAME to take it from here; may be repeated")
	f.Var(&c.timeout, "timeout", "end the command after this time, or none (default 60s)")
	c.stdin.add(cmd)
	f.BoolVar(&c.exclusive, "exclusive", false, "wait until no action on a container of the host runs, and keep those that come behind waiting")
	f.BoolVar(&c.daemon, "daemon", false, "leave when the command has begun, with several hosts at once; it runs, without a limit of its own, until nothing of it is left")
	f.BoolVarP(&c.tty, "tty", "t", false, "run it as a session on this terminal, without a time limit of its own")
	c.session.add(cmd)
	recordFlag(cmd, c)
	f.BoolVar(&c.noWait, "no-wait", false, "print the action's id and leave")
	f.BoolVar(&c.dryRun, "dry-run", false, "print what would be asked, and ask nothing")
	// Everything that goes wrong before a command has run has one code, so that
	// it is never taken for the command's own.
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if !slices.Contains(a.args, "--") { // the option is most likely one of the command to run
			return asHostler(noDash(cmd))
		}
		return asHostler(flagError(cmd, err))
	})
	return c
}

// asHostler gives an error of ours the code that no command is taken to have.
func asHostler(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		g := *f
		g.code = exitHostler
		return &g
	}
	if _, ok := errors.AsType[exit](err); ok || err == nil || errors.Is(err, errInterrupted) {
		return err
	}
	return &failure{code: exitHostler, what: err.Error()}
}

// spec returns what is to be done.
func (c *command) spec(kind protocol.Kind, target protocol.CTID, name protocol.ContainerName, argv []string) ([]byte, error) {
	s := protocol.Spec{Kind: kind, Target: target, Name: name, Argv: argv, Exclusive: c.exclusive, Daemon: c.daemon}
	if !c.noWait && !c.many && !c.daemon {
		s.Output = protocol.OutputStream // we follow all of it
	}
	return c.encode(s)
}

// encode fills in how to run.
func (c *command) encode(s protocol.Spec) ([]byte, error) {
	if err := checkPairs("env", c.env); err != nil {
		return nil, usage("", "%s", err)
	}
	if c.record && !c.tty && s.TTY == nil {
		return nil, usage("", "--record is for sessions: it goes with -t")
	}
	s.User, s.Cwd, s.Env = c.user, c.cwd, c.env
	switch {
	case c.timeout.none:
		s.TimeoutMS = protocol.NoTimeout
	case c.timeout.d > 0:
		s.TimeoutMS = max(c.timeout.d.Milliseconds(), 1)
	}
	c.input.describe(&s)
	return encodeSpec(s)
}

// sessionFits refuses options that a session cannot have.
func (c *command) sessionFits() error {
	switch {
	case c.exclusive:
		return usage("", "-t and --exclusive do not go together: a session excludes nothing")
	case c.noWait:
		return usage("", "-t and --no-wait do not go together: a session is with who waits")
	case c.daemon:
		return usage("", "-t and --daemon do not go together: a session is with who is there")
	case c.stdin.path != "":
		return usage("", "-t and --stdin do not go together: a session reads the keyboard")
	}
	c.stdin.interactive = false // as -it is said elsewhere
	return nil
}

// splitArgs cuts the arguments at the "--" that must stand before a command:
// without it nobody could tell whose options are whose.
func splitArgs(cmd *cobra.Command, args []string) (where, argv []string, err error) {
	at := cmd.ArgsLenAtDash()
	if at < 0 {
		return nil, nil, noDash(cmd)
	}
	if at == len(args) {
		return nil, nil, usage(cmd.UseLine(), "there is no command after the --")
	}
	return args[:at], args[at:], nil
}

func noDash(cmd *cobra.Command) error {
	return usage(cmd.UseLine(), "a -- must stand before the command to run")
}

const commandHelp = `

The command is no shell: it gets its arguments as they are. It reads nothing,
or with --stdin a file, or with -i the standard input of this program: that is
read to its end and sent whole before the command begins. Its standard output and error come out
here, byte for byte, while it runs, and its exit code becomes that of this program
(128 and the number for a signal); 125 means that Hostler itself failed. Ctrl-C
leaves the command running and says how to follow or cancel it.`

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run {HOST… | -l SELECTOR | -A} [flags] -- COMMAND [ARG…]", Short: "Run a command on a host, or on many",
		Long: `Runs a command on a host, and passes its output and exit code on.` + commandHelp + `

On several hosts it runs on all at once, and each line of output begins with the
host's name. Hosts that are away are waited for, unless --no-wait-offline or
--wait says otherwise: the command runs there when they are back. The exit code
is 1 if it failed anywhere, 5 if the time to wait was over before, 6 if only
hosts that are away are left. With -o json and the like, on one host too, it
prints what became of the command on each, with its output, when all is over.`,
		Example: `  hostler run edge-01 -- uname -a
  hostler run edge-01 --as nobody --timeout 5m -- sh -c 'echo $HOME; id'
  hostler run -l site=lab,tier!=db -- systemctl is-system-running
  hostler run -A --parallel 20 --no-wait-offline -o json -- uname -r
  id=$(hostler run edge-01 --no-wait -- apt-get update)
  hostler action logs $id --follow`,
		DisableFlagsInUseLine: true, ValidArgsFunction: a.completingAll(hostNames),
	}
	c := a.commandFlags(cmd)
	s := selectionFlags(cmd, "approved hosts")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return asHostler(a.runHosts(cmd, c, args, s))
	}
	return cmd
}

func (a *app) runHosts(cmd *cobra.Command, c *command, args []string, sel *selection) error {
	where, argv, err := splitArgs(cmd, args)
	if err != nil {
		return err
	}
	if c.tty {
		if err := errors.Join(c.sessionFits(), a.needTerminal(false)); err != nil {
			return err
		}
	}
	if c.input, err = c.stdin.open(a); err != nil {
		return err
	}
	defer c.input.close()
	c.many = sel.given() || len(where) > 1 || !sel.single(1, c.view)
	spec, err := c.spec(protocol.KindRun, protocol.CTID{}, "", argv)
	if err != nil {
		return err
	}
	r, err := a.connect()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if err := sel.check(len(where)); err != nil {
		return err
	}
	if err := sel.fits(r.local, c.tty); err != nil {
		return err
	}
	targets, err := a.chooseHosts(ctx, r, where, sel, c.noWait)
	if err != nil {
		return err
	}
	if c.tty && len(targets) > 1 {
		return usage("hostler run -t HOST -- COMMAND", "a session is with one host, here are %d", len(targets))
	}
	if c.tty {
		return a.sessionOn(ctx, r, c, &c.session, targets[0], argv)
	}
	if c.dryRun {
		return a.dryRun(ctx, r, c.view, targets, protocol.KindRun, spec)
	}
	places := make([]place, len(targets))
	for i, host := range targets {
		places[i] = place{label: string(host), host: host, spec: spec}
	}
	if err := a.sendInput(ctx, r, c, places); err != nil {
		return err
	}
	// An id, or a daemon, is printed in any form by itself.
	if sel.single(len(targets), c.view) || r.local || len(targets) == 1 && (c.noWait || c.daemon) {
		return a.runOne(ctx, r, c, targets[0], cmp.Or(string(targets[0]), "this host"), spec)
	}
	sel.many.own = len(where) == 1
	return a.runMany(ctx, r, c, sel, places)
}

// maxAsked is how many places are asked one by one whether they refuse a command.
const maxAsked = 64

// sendInput sends what a command reads, unless it is refused for every place: then
// nothing is sent in vain, and who asks in earnest is told why.
func (a *app) sendInput(ctx context.Context, r *remote, c *command, places []place) error {
	refused := func(p place) bool { return refused(ctx, r, c.input, p.host, p.spec) != nil }
	if len(places) <= maxAsked && !slices.ContainsFunc(places, func(p place) bool { return !refused(p) }) {
		return nil
	}
	return c.input.send(ctx, a, r, "send what the command reads")
}

// chooseHosts returns the hosts that are meant; on the host itself that is one
// without a name.
func (a *app) chooseHosts(ctx context.Context, r *remote, where []string, sel *selection, sayAway bool) ([]protocol.HostID, error) {
	many := sel.given()
	switch {
	case r.local && (many || len(where) > 0):
		return nil, usage("hostler run -- COMMAND", "no host can be named: this is about the host itself")
	case r.local:
		return []protocol.HostID{""}, nil
	case !many && len(where) == 0:
		return nil, usage("hostler run HOST -- COMMAND", "no host is named")
	}
	var ids []protocol.HostID
	for _, s := range where {
		id, err := parseHost(s)
		if err != nil {
			next := "hostler host ls"
			if _, e := parseRef(s, false); e == nil {
				next = "hostler exec " + s + " -- COMMAND"
			}
			return nil, usage(next, "%s", err)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if !many {
		return ids, nil
	}
	found, err := r.hosts(ctx)
	if err != nil {
		return nil, cannot("list the hosts", err)
	}
	for _, h := range found {
		if h.State == enrolmentApproved && sel.labels.match(h.Labels) {
			ids = append(ids, protocol.HostID(h.ID))
			if h.Connectivity != "online" && sayAway {
				a.say("hostler: %s is %s: its command waits until it is back", printable(h.ID), printable(h.Connectivity))
			}
		}
	}
	if len(ids) == 0 {
		return nil, &failure{code: exitNotFound, what: "no host is selected", next: "hostler host ls"}
	}
	return ids, nil
}

// dryRun prints what would be asked.
func (a *app) dryRun(ctx context.Context, r *remote, v *view, hosts []protocol.HostID, kind protocol.Kind, spec []byte) error {
	var plans []plan
	for _, h := range hosts {
		p, err := planOf(ctx, r, h, kind, spec)
		if err != nil {
			return cannot("tell what would be done on "+cmp.Or(string(h), "this host"), err)
		}
		plans = append(plans, p)
	}
	return printAll(a, v, planNoun(), plans)
}

// runOne runs a command in one place and becomes it.
func (a *app) runOne(ctx context.Context, r *remote, c *command, host protocol.HostID, label string, spec []byte) error {
	what := "run the command on " + label
	id := a.newActionID()
	spec, err := a.sealEnv(ctx, r, c, host, id, spec)
	if err != nil {
		return cannot(what, err)
	}
	act, err := a.submitAs(ctx, r, id, host, spec)
	if err != nil {
		return cannot(what, err)
	}
	if c.noWait {
		return a.printID(c.view, act)
	}
	if c.daemon {
		return a.leaveDaemon(ctx, r, c, label, act, what)
	}
	if a.errTTY {
		a.say("action %s", act.ID)
	}
	f := &follower{app: a, remote: r, label: label, stdout: a.out, stderr: a.err, hold: true}
	final, err := f.wait(ctx, act)
	switch {
	case err == nil:
		return a.commandEnded(what, final)
	case protocol.State(final.State).Final():
		return a.outputFailed(label, final, err, a.commandEnded(what, final))
	case ctx.Err() != nil:
		a.leave(act.ID)
		return errInterrupted
	}
	a.leave(act.ID)
	return cannot(what, err)
}

// outputFailed tells of a command that has ended while its output could not be read.
// end is how it ended, which goes before, unless all was well with that.
func (a *app) outputFailed(label string, act api.Action, err, end error) error {
	what, next := "the output of the command on "+label+" could not be read to its end", "hostler action logs "+act.ID
	f, known := errors.AsType[*failure](cannot("read it", err))
	if end == nil && known {
		return &failure{code: f.code, what: "the command has ended with exit code 0; " + what, why: f.why, next: next, more: f.more, err: err}
	}
	a.say("hostler: the command has ended; %s: %s; later: %s", what, printable(err.Error()), next)
	return cmp.Or(end, errInterrupted)
}

// daemonLook is how long a daemon is looked at before it is left alone: what
// cannot begin is found out by then.
const daemonLook = time.Second

// leaveDaemon tells how a daemon has ended that ended at once, and leaves it alone
// otherwise, when it has begun.
func (a *app) leaveDaemon(ctx context.Context, r *remote, c *command, label string, act api.Action, what string) error {
	now, err := r.action(ctx, act.ID, a.look)
	if err == nil && !begun(now) {
		f := &follower{app: a, remote: r, label: label, enough: begun}
		if now, err = f.await(ctx, now); err == nil && !protocol.State(now.State).Final() {
			now, err = r.action(ctx, act.ID, a.look)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		a.leave(act.ID)
		return errInterrupted
	case err != nil:
		a.leave(act.ID)
		return cannot(what, err)
	case protocol.State(now.State).Final():
		return a.commandEnded(what, now)
	}
	return a.printID(c.view, now)
}

// begun reports whether the host has begun with the action, or never will.
func begun(act api.Action) bool {
	return act.State == string(protocol.StateRunning) || protocol.State(act.State).Final()
}

// printID prints the id of an action that goes on without us.
func (a *app) printID(v *view, act api.Action) error {
	if v.format.word == "table" || v.format.word == "wide" {
		fmt.Fprintln(a.out, printable(act.ID))
		return nil
	}
	return printAll(a, v, actionNoun(), []api.Action{act})
}

// commandEnded turns the end of a command into the exit code.
func (a *app) commandEnded(what string, act api.Action) error {
	e := act.Exit
	if e == nil {
		if err := ended(what, act); err != nil {
			return err
		}
		return nil
	}
	a.sayExit(e)
	if e.Code == 0 && act.State != string(protocol.StateDone) {
		return ended(what, act)
	}
	if e.Code != 0 {
		return exit(e.Code)
	}
	return nil
}

// sayExit tells what an exit code does not.
func (a *app) sayExit(e *api.Exit) {
	switch {
	case e.Error != "":
		a.say("hostler: the command could not begin: %s", printable(e.Error))
	case e.TimedOut:
		a.say("hostler: the command was ended after %s, its time limit", printable(e.Run))
	case e.OOM:
		a.say("hostler: the command was killed because memory was short")
	case e.Cancelled:
		a.say("hostler: the command was cancelled")
	case e.Unrecorded:
		a.say("hostler: the session was ended, because its recording could not go on (sessions.unrecorded of its host)")
	case e.HungUp:
		a.say("hostler: the session was hung up: nobody was attached for %s", terminal.HangUpAfter)
	}
}

func (a *app) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec {HOST/NAME | -l SELECTOR} [flags] -- COMMAND [ARG…]", Short: "Run a command in a container, or in many",
		Long: `Runs a command in a container that runs, and passes its output and exit code on.` + commandHelp + `

In several containers, selected by their labels, it goes as with run.`,
		Example: `  hostler exec edge-01/web -- ps
  hostler exec edge-01/web --env DEBUG=1 -- sh -c 'echo $DEBUG'
  hostler exec -l app=web -- nginx -t
  hostler exec --local web -- ps`,
		DisableFlagsInUseLine: true, ValidArgsFunction: a.completing(containerNames),
	}
	c := a.commandFlags(cmd)
	s := selectionFlags(cmd, "containers of Hostler")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		where, argv, err := splitArgs(cmd, args)
		if err == nil && s.given() && len(where) == 0 {
			return asHostler(a.execMany(cmd.Context(), c, s, argv))
		}
		if err == nil {
			err = s.check(len(where))
		}
		if err == nil && len(where) != 1 {
			err = usage(cmd.UseLine(), "exec takes one container, here are %d", len(where))
		}
		if err != nil {
			return asHostler(err)
		}
		return asHostler(a.execOne(cmd.Context(), c, s, where[0], argv))
	}
	return cmd
}

func (a *app) execOne(ctx context.Context, c *command, sel *selection, where string, argv []string) error {
	if c.tty {
		if err := errors.Join(c.sessionFits(), sel.fits(false, true)); err != nil {
			return err
		}
		return a.sessionIn(ctx, c, &c.session, where, argv)
	}
	r, name, ct, err := a.findContainer(ctx, where)
	if err != nil {
		return cannot("find container "+where, err)
	}
	if err := sel.fits(r.local, false); err != nil {
		return err
	}
	if c.input, err = c.stdin.open(a); err != nil {
		return err
	}
	defer c.input.close()
	c.many = !sel.single(1, c.view)
	spec, err := c.spec(protocol.KindExec, ct, protocol.ContainerName(name.name), argv)
	if err != nil {
		return err
	}
	if c.dryRun {
		return a.dryRun(ctx, r, c.view, []protocol.HostID{name.host}, protocol.KindExec, spec)
	}
	places := []place{{label: name.String(), host: name.host, spec: spec}}
	if err := a.sendInput(ctx, r, c, places); err != nil {
		return err
	}
	if sel.single(1, c.view) || r.local || c.noWait || c.daemon {
		return a.runOne(ctx, r, c, name.host, name.String(), spec)
	}
	sel.many.own = true
	return a.runMany(ctx, r, c, sel, places)
}

// execMany runs a command in the containers that are selected.
func (a *app) execMany(ctx context.Context, c *command, s *selection, argv []string) error {
	r, names, all, err := a.selectContainers(ctx, s)
	if err != nil {
		return err
	}
	if c.input, err = c.stdin.open(a); err != nil {
		return err
	}
	defer c.input.close()
	c.many = true
	places, err := onContainers(names, all, func(ct protocol.CTID, name protocol.ContainerName) ([]byte, error) {
		return c.spec(protocol.KindExec, ct, name, argv)
	})
	if err != nil {
		return err
	}
	if c.dryRun {
		return a.dryRunMany(ctx, r, c.view, places, protocol.KindExec)
	}
	if err := a.sendInput(ctx, r, c, places); err != nil {
		return err
	}
	if s.single(len(places), c.view) || r.local {
		return a.runOne(ctx, r, c, places[0].host, places[0].label, places[0].spec)
	}
	return a.runMany(ctx, r, c, s, places)
}

// runMany runs a command in many places.
func (a *app) runMany(ctx context.Context, r *remote, c *command, s *selection, places []place) error {
	if len(c.secretEnv) > 0 {
		return usage("hostler run HOST --secret-env NAME -- COMMAND", "--secret-env is sealed to one host, and here are many")
	}
	m := s.many
	m.output, m.view, m.noWait, m.verb = true, c.view, c.noWait || c.daemon, "run the command"
	return a.doMany(ctx, r, &m, places)
}

// findContainer returns the id of the container that is named. Foreign ones
// have none: Hostler looks at them and leaves them alone.
func (a *app) findContainer(ctx context.Context, where string) (*remote, ref, protocol.CTID, error) {
	r, err := a.connect()
	if err != nil {
		return nil, ref{}, protocol.CTID{}, err
	}
	name, err := parseRef(where, r.local)
	if err != nil {
		return r, name, protocol.CTID{}, usage("hostler ct ls", "%s", err)
	}
	ct, err := r.container(ctx, name)
	if err != nil {
		return r, name, protocol.CTID{}, err
	}
	if ct.CTID == "" {
		return r, name, protocol.CTID{}, &failure{code: exitRefused, what: fmt.Sprintf("nothing can be done with %s", name), why: "it is foreign: Hostler did not make it"}
	}
	id, err := protocol.ParseCTID(ct.CTID)
	if err != nil {
		return r, name, id, fmt.Errorf("id of %s: %w", name, err)
	}
	name.name = ct.Name
	return r, name, id, nil
}

// shellWords writes a command as it could be typed.
func shellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = w
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@%+-") != "" {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
