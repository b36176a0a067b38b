package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

// defaultDetachKeys leave a session, as they do in podman.
const defaultDetachKeys = "ctrl-p,ctrl-q"

// lookBack is how much of what was printed before is shown to who comes later, in
// bytes: about a screen.
const lookBack = 8 << 10

// keys is the option --detach-keys.
type keys struct {
	text  string
	bytes []byte
}

func (k *keys) String() string { return k.text }

func (k *keys) Type() string { return "KEYS" }

func (k *keys) Set(s string) error {
	k.text, k.bytes = s, nil
	if s == "" {
		return nil
	}
	for key := range strings.SplitSeq(s, ",") {
		c, isCtrl := strings.CutPrefix(key, "ctrl-")
		switch {
		case len(c) != 1:
			return fmt.Errorf("%q is not a key: use a character, or ctrl- and one of a-z @ [ \\ ] ^ _", key)
		case !isCtrl:
			k.bytes = append(k.bytes, c[0])
		case c[0] >= 'a' && c[0] <= 'z':
			k.bytes = append(k.bytes, c[0]-'a'+1)
		case strings.Contains(`@[\]^_`, c):
			k.bytes = append(k.bytes, c[0]-'@')
		default:
			return fmt.Errorf("%q is not a key: use a character, or ctrl- and one of a-z @ [ \\ ] ^ _", key)
		}
	}
	return nil
}

// A finder looks for a sequence of keys in what is typed. What may be its beginning
// is held back until the next key tells.
type finder struct {
	keys []byte
	held int // bytes of keys that were typed last
}

// next takes what is typed and returns what of it is to be passed on, and whether
// the whole sequence was found; then the rest is not passed on.
func (f *finder) next(p []byte) (pass []byte, found bool) {
	if len(f.keys) == 0 {
		return p, false
	}
	for _, c := range p {
		pass = append(append(pass, f.keys[:f.held]...), c)
		// The longest beginning of the keys that ends here.
		n := min(f.held+1, len(f.keys))
		for n > 0 && !bytes.HasSuffix(pass, f.keys[:n]) {
			n--
		}
		if n == len(f.keys) {
			return pass[:len(pass)-n], true
		}
		pass, f.held = pass[:len(pass)-n], n
	}
	return pass, false
}

// sessionFlags are how to take part in a session.
type sessionFlags struct {
	detach   keys
	readOnly bool
}

func (s *sessionFlags) add(cmd *cobra.Command) {
	if err := s.detach.Set(defaultDetachKeys); err != nil {
		panic(err) // a constant of ours
	}
	cmd.Flags().Var(&s.detach, "detach-keys", "keys that leave the session, separated by commas; empty for none")
}

// sharedFlag adds the option of commands that start a session on the host itself.
func sharedFlag(cmd *cobra.Command, c *command) {
	cmd.Flags().BoolVar(&c.shared, "shared", false, "for a session on this host (--local): others may take part, if the policy lets them start one")
}

// recordFlag adds the option of commands that start a session.
func recordFlag(cmd *cobra.Command, c *command) {
	cmd.Flags().BoolVar(&c.record, "record", false, "record the output of the session (never the input), for hostler action replay")
}

const sessionHelp = `

The keys ctrl-p ctrl-q leave the session, which ends 30 s later unless a terminal
attaches again: hostler action attach ID. A lost connection is made again within
that time, and no input or output is lost. The exit
code is that of the command; 125 means that Hostler itself failed.`

func (a *commands) attachCommand() *cobra.Command {
	c := &command{timeout: term.LimitFlag()}
	s := new(sessionFlags)
	var clear, regular bool
	cmd := &cobra.Command{
		Use: "attach {HOST | HOST/NAME | ACTION-ID}", Short: "Open a shell on a host or in a container", Args: term.AtMost(1),
		Long: `Opens a login shell on a host or in a container and connects this terminal to it.
The shell gets the type and the language of this terminal (TERM, COLORTERM, LANG, LC_*, LS_COLORS),
and otherwise the environment of a login shell of its user. With the full id of
a running session it joins that session.` + sessionHelp,
		Example: `  hostler attach edge-01
  hostler attach edge-01 --as nobody
  hostler attach edge-01/web --regular
  hostler run -t edge-01 -- top`,
		DisableFlagsInUseLine: true, ValidArgsFunction: a.Completing(conn.AnyOf(conn.HostNames, conn.ContainerNames)),
	}
	f := cmd.Flags()
	recordFlag(cmd, c)
	sharedFlag(cmd, c)
	f.StringVar(&c.user, "as", "", "user to run as, a name or UID[:GID] (default root)")
	f.StringVar(&c.cwd, "cwd", "", "directory to start in, absolute (default the user's home)")
	f.StringArrayVar(&c.env, "env", nil, "variable of the environment, NAME=VALUE; may be repeated")
	f.Var(&c.timeout, "timeout", "end the session after this time (default none)")
	f.BoolVarP(&clear, "clear", "c", false, "pass on nothing of this terminal's environment but TERM")
	f.BoolVarP(&regular, "regular", "r", false, "be the regular user, 1000:1000")
	f.BoolVar(&s.readOnly, "read-only", false, "watch a running session without typing")
	s.add(cmd)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return asHostler(term.FlagError(cmd, err))
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		where := strings.Join(args, "")
		if _, err := protocol.ParseActionID(where); err == nil {
			if c.shared {
				return asHostler(term.Usage(cmd.CommandPath()+" --help", "--shared is for a new session; this one runs already"))
			}
			if c.record {
				return asHostler(term.Usage(cmd.CommandPath()+" --help", "--record is for a new session; this one runs already"))
			}
			return asHostler(a.attachAgain(cmd.Context(), s, where))
		}
		if s.readOnly {
			return asHostler(term.Usage("hostler action attach ID --read-only", "--read-only is for a running session, named by its id"))
		}
		if regular && c.user != "" {
			return asHostler(term.Usage(cmd.CommandPath()+" --help", "--as and --regular cannot be combined"))
		}
		if regular {
			c.user = "1000:1000"
		}
		if !clear {
			c.env = append(a.language(), c.env...)
		}
		return asHostler(a.attachTo(cmd.Context(), c, s, where))
	}
	return cmd
}

// language is what tells programs how to speak to this terminal.
func (a *commands) language() []string {
	var env []string
	for _, name := range []string{
		"LANG", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME", "COLORTERM", "LS_COLORS",
	} {
		if v := a.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func (a *commands) actionAttachCommand() *cobra.Command {
	s := new(sessionFlags)
	cmd := &cobra.Command{
		Use: "attach ID", Short: "Join a running interactive session", Args: term.Exactly(1),
		Long:    "Attaches this terminal to a running interactive session. Other terminals stay attached." + sessionHelp,
		Example: "  hostler action attach 0199f3\n  hostler action attach 0199f3 --read-only", ValidArgsFunction: a.Completing(conn.OpenIDs),
	}
	cmd.Flags().BoolVar(&s.readOnly, "read-only", false, "watch without typing")
	s.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return asHostler(a.attachAgain(cmd.Context(), s, args[0]))
	}
	return cmd
}

// attachAgain takes part in a session that was begun before.
func (a *commands) attachAgain(ctx context.Context, s *sessionFlags, id string) error {
	if err := a.needTerminal(s.readOnly); err != nil {
		return err
	}
	r, err := a.Connect()
	if err != nil {
		return err
	}
	act, err := r.Action(ctx, id, 0)
	if err != nil {
		return term.Cannot("attach to action "+id, err)
	}
	return a.takePart(ctx, r, s, act, "action "+act.ID, -lookBack)
}

// attachTo begins a session with a login shell.
func (a *commands) attachTo(ctx context.Context, c *command, s *sessionFlags, where string) error {
	if err := a.needTerminal(false); err != nil {
		return err
	}
	r, err := a.Connect()
	if err != nil {
		return err
	}
	if strings.Contains(where, "/") || r.Local && where != "" {
		return a.sessionIn(ctx, c, s, where, nil)
	}
	var names []string
	if where != "" {
		names = []string{where}
	}
	hosts, err := a.ChooseHosts(ctx, r, names, new(batch.Selection), true)
	if err != nil {
		return err
	}
	return a.sessionOn(ctx, r, c, s, hosts[0], nil)
}

// sessionOn begins a session on a host.
func (a *commands) sessionOn(ctx context.Context, r *conn.Remote, c *command, s *sessionFlags, host protocol.HostID, argv []string) error {
	spec, err := a.sessionSpec(c, protocol.KindAttach, protocol.CTID{}, "", argv)
	if err != nil {
		return err
	}
	return a.session(ctx, r, c, s, host, cmp.Or(string(host), "this host"), spec)
}

// sessionIn begins a session in a container.
func (a *commands) sessionIn(ctx context.Context, c *command, s *sessionFlags, where string, argv []string) error {
	if err := a.needTerminal(false); err != nil {
		return err
	}
	r, name, ct, err := a.FindContainer(ctx, where)
	if err != nil {
		return term.Cannot("find container "+where, err)
	}
	spec, err := a.sessionSpec(c, protocol.KindContainerAttach, ct, protocol.ContainerName(name.Name), argv)
	if err != nil {
		return err
	}
	return a.session(ctx, r, c, s, name.Host, name.String(), spec)
}

// needTerminal refuses to begin without one.
func (a *commands) needTerminal(readOnly bool) error {
	if a.Console != nil && (a.InTTY && a.OutTTY || readOnly) {
		return nil
	}
	return term.Usage("hostler run HOST -- COMMAND, or hostler exec HOST/NAME -- COMMAND", "a session needs a terminal, but stdin or stdout is not one")
}

func (a *commands) sessionSpec(c *command, kind protocol.Kind, target protocol.CTID, name protocol.ContainerName, argv []string) ([]byte, error) {
	size, err := a.Console.Size()
	if err != nil {
		return nil, fmt.Errorf("the size of the terminal: %w", err)
	}
	t := &protocol.TTY{Rows: max(1, int(size.Rows)), Cols: max(1, int(size.Cols)), Term: a.Getenv("TERM"), Record: c.record, Shared: c.shared}
	return c.encode(protocol.Spec{Kind: kind, Target: target, Name: name, Args: &protocol.SessionArgs{Process: protocol.Process{Argv: argv}, TTY: t}})
}

// session begins a session and takes part in it.
func (a *commands) session(ctx context.Context, r *conn.Remote, c *command, s *sessionFlags, host protocol.HostID, label string, spec []byte) error {
	if c.shared && !r.Local {
		return term.Usage("hostler --local attach --shared", "--shared is for sessions that are started on their own host; in others, the policy decides")
	}
	if c.dryRun {
		return a.DryRun(ctx, r, c.view, dispatch.OnHosts(spec, host)...)
	}
	id := a.NewActionID()
	spec, err := a.sealEnv(ctx, r, c, host, id, spec)
	if err != nil {
		return term.Cannot("attach to "+label, err)
	}
	act, err := a.SubmitAs(ctx, r, id, host, spec)
	if err != nil {
		return term.Cannot("attach to "+label, err)
	}
	return a.takePart(ctx, r, s, act, label, 0)
}

// takePart connects the terminal to a session until it ends or is left.
func (a *commands) takePart(outer context.Context, r *conn.Remote, f *sessionFlags, act api.Action, label string, offset int64) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	p := &player{app: a, flags: f, label: label, id: act.ID, restore: func() {}}
	defer func() { p.restore() }()
	cfg := client.SessionConfig{
		Action: act.ID, ReadOnly: f.readOnly, Offset: offset, Output: a.Out,
		Begun: func() { p.begin(ctx, stop) },
		Lost:  func(error) { p.lost() },
		Back:  p.back,
		Silent: func(since time.Duration) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.told = true
			p.app.Say("\r\nhostler: the host of %s has not answered for %s; what you type waits\r", p.label, since.Round(time.Second))
		},
	}
	a.Random(cfg.Peer[:])
	p.session = r.NewSession(cfg)
	if !f.readOnly {
		if size, err := a.Console.Size(); err == nil {
			if err := p.session.Resize(ctx, size); err != nil {
				return err
			}
		}
	}
	p.waiting = time.AfterFunc(slowStart, func() { p.slow(ctx, r) })
	defer p.waiting.Stop()
	final, err := p.session.Run(ctx)
	p.waiting.Stop()
	p.leave()
	p.restore()
	return p.ended(final, err, outer.Err() != nil)
}

// slowStart is how long a session may take to begin until the user is told.
const slowStart = 2 * time.Second

// player plays a session on the console.
type player struct {
	app     *commands
	flags   *sessionFlags
	label   string
	id      string
	session *client.Session
	waiting *time.Timer

	mu      sync.Mutex
	began   bool
	away    *time.Timer // tells that there is no connection, if none comes back before; or nil
	told    bool        // that there is none
	restore func()
}

// slow tells what a session waits for that has not begun.
func (p *player) slow(ctx context.Context, r *conn.Remote) {
	why := ""
	if act, err := r.ActionWhy(ctx, p.id); err == nil && act.Waits != nil {
		why = ": " + term.Printable(dispatch.WaitsWord(act.Waits))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.began && ctx.Err() == nil {
		p.app.Say("hostler: waiting for %s to begin the session%s", p.label, why)
	}
}

// lost tells that the connection is lost. Before the session has begun nothing is
// lost by that, so only an end that stays away is told of.
func (p *player) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began {
		p.told = true
		p.app.Say("\r\nhostler: the connection to %s is lost, trying again for up to %s\r", p.label, terminal.SilentAfter)
		return
	}
	var away *time.Timer
	away = time.AfterFunc(slowStart, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.away == away {
			p.told = true
			p.app.Say("hostler: no answer, trying again")
		}
	})
	p.away = away
}

// leave has nothing more told of the connection, and returns whether it was told
// that there is none.
func (p *player) leave() (told bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	told, p.told = p.told, false
	if p.away != nil {
		p.away.Stop()
		p.away = nil
	}
	return told
}

// back tells that there is a connection again, if it was told that there is none.
func (p *player) back() {
	if p.leave() {
		p.app.Say("\rhostler: connected again\r")
	}
}

// begin gives the keyboard to the session: until it runs, Ctrl-C is the user's.
func (p *player) begin(ctx context.Context, stop context.CancelCauseFunc) {
	p.waiting.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = true
	if p.flags.readOnly && !p.app.InTTY {
		return
	}
	restore, err := p.app.Console.Raw()
	if err != nil {
		stop(fmt.Errorf("the terminal cannot pass on keys: %w", err))
		return
	}
	p.restore = restore
	go p.keyboard(ctx, stop) // a read of a terminal cannot be ended; it ends with the program
	if !p.flags.readOnly {
		go p.window(ctx) // ends with ctx
	}
}

func (p *player) keyboard(ctx context.Context, stop context.CancelCauseFunc) {
	f := finder{keys: p.flags.detach.bytes}
	buf := make([]byte, 32<<10)
	for {
		n, err := p.app.In.Read(buf)
		pass, found := f.next(buf[:n])
		if p.flags.readOnly { // nothing is typed, and Ctrl-C leaves too
			pass, found = nil, found || bytes.IndexByte(pass, 3) >= 0
		}
		if len(pass) > 0 {
			if p.session.Type(ctx, pass) != nil {
				return
			}
		}
		switch {
		case found, errors.Is(err, io.EOF):
			p.session.Detach()
			return
		case err != nil:
			stop(fmt.Errorf("reading the keyboard: %w", err))
			return
		}
	}
}

func (p *player) window(ctx context.Context) {
	changed, stop := p.app.Console.Resized()
	defer stop()
	for {
		if size, err := p.app.Console.Size(); err == nil {
			if p.session.Resize(ctx, size) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// ended tells how the session ended, or how to come back.
func (p *player) ended(final api.Action, err error, interrupted bool) error {
	a := p.app
	what := "attach to " + p.label
	p.mu.Lock()
	began := p.began
	p.mu.Unlock()
	switch {
	case err == nil:
		return a.commandEnded(what, final)
	case p.flags.readOnly && (interrupted || errors.Is(err, client.ErrDetached)):
		return nil // a watcher is missed by no other
	case errors.Is(err, client.ErrDetached):
		a.Say("\nhostler: detached; the session ends in %s unless a terminal attaches", terminal.HangUpAfter)
		a.Say("to come back: hostler action attach %s\nto end it:    hostler action cancel %s", p.id, p.id)
		return nil
	case interrupted && began:
		a.Say("hostler: interrupted; the session ends in %s", terminal.HangUpAfter)
		return term.ErrInterrupted
	case interrupted:
		a.Say("hostler: it has not started; to end it: hostler action cancel %s", p.id)
		return term.ErrInterrupted
	case errors.Is(err, client.ErrUnreachable):
		return &term.Failure{Code: term.ExitHostler, What: "the session with " + p.label + " is lost", Why: err.Error(),
			Next: "hostler action show " + p.id}
	}
	return term.Cannot(what, err)
}
