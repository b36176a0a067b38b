package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hostler-io/hostler/internal/buildinfo"
)

// app is one run of the program: the world that it sees, and the options that
// all commands share.
type app struct {
	in                    io.Reader
	out                   io.Writer
	err                   io.Writer // safe for concurrent use
	inTTY, outTTY, errTTY bool
	console               console // of in; nil without one
	env                   func(string) string
	now                   func() time.Time
	random                func([]byte)
	every                 time.Duration // how often --watch looks
	look                  time.Duration // how long a daemon is looked at
	tail                  time.Duration // how long the rest of an output may stand still
	// secret reads a line of the terminal without showing it, until done is closed.
	secret func(done <-chan struct{}) ([]byte, error)
	// Set by main: done is closed when the user has had enough, args are the
	// command line.
	done <-chan struct{}
	args []string

	// Options of all commands.
	contextName, address, tokenFile, caFile, socket string
	local, quiet                                    bool
}

// lockedWriter lets the streams of several hosts share a terminal.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// main runs a command line and returns the exit code.
func (a *app) main(ctx context.Context, args []string) int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := &data{w: a.out, lost: stop}
	a.out, a.done, a.args = out, ctx.Done(), args
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	return report(a.err, out.judge(cmd.Name(), err))
}

// data is the standard output. What it could not write is remembered, so that no
// command has to look at each of its writes, and ends all that goes on: there is
// nobody to tell.
type data struct {
	w    io.Writer
	lost func()

	mu  sync.Mutex
	err error
}

func (d *data) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.w.Write(b)
	if err != nil && d.err == nil {
		d.err = err
		d.lost()
	}
	return n, err
}

// judge makes a failure of what a command has come to, if some of its data is
// lost: whoever reads an exit code of 0 believes to have all of it.
func (d *data) judge(command string, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		return err
	}
	f := &failure{code: exitFailed, what: "not everything could be written to the standard output", why: d.err.Error(), err: d.err}
	if slices.Contains([]string{"run", "exec", "attach"}, command) {
		f.code = exitHostler
	}
	return f
}

// say tells the user something that is no data.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// helpWidth is how wide help may be: it is read in windows of 80 columns, beside
// what is typed after it.
const helpWidth = 80

func (a *app) root() *cobra.Command {
	root := group("hostler", "Run hosts and containers, from anywhere, and know what became of it")
	root.Long = `Hostler runs commands and containers on hosts behind any network.

A HOST is named by its id, a container by HOST/NAME, an action by its id or the
first characters of it (at least 4). On a host, with --local or when there is
only the agent's socket, the HOST part is left out.

Data goes to standard output, everything else to standard error.
Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 refused, 5 timeout,
6 unreachable. run, exec and attach pass on the code of the command (128 and the number
for a signal) and use 125 for whatever else goes wrong.

The environment: HOSTLER_CONTEXT, HOSTLER_ADDRESS, HOSTLER_TOKEN and
HOSTLER_SOCKET stand for the options, which override them. NO_COLOR=1 turns
colours off. The configuration is $XDG_CONFIG_HOME/hostler/config.toml.`
	root.Example = `  hostler fleet init demo
  hostler login https://coordinator:8443 --token-file token
  hostler host ls
  hostler run edge-01 -- uname -a
  hostler ct create edge-01/web --template busybox`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// Of a command that there is none of its options are unknown too.
		if _, rest, _ := root.Find(a.args); cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			return onlyBelow(cmd, rest)
		}
		return flagError(cmd, err)
	})
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth)))
	f := root.PersistentFlags()
	f.StringVar(&a.contextName, "context", "", "use this context of the configuration")
	f.StringVar(&a.address, "address", "", "speak to this coordinator, https://HOST:PORT")
	f.StringVar(&a.tokenFile, "token-file", "", "read the API token from this file")
	f.StringVar(&a.caFile, "ca", "", "certificate of the fleet's authority, PEM")
	_ = root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.completeContexts(nil, nil, "")
	})
	f.BoolVar(&a.local, "local", false, "speak to the agent of this host")
	f.StringVar(&a.socket, "socket", "", "the agent's socket (default "+defaultSocket+")")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print data and errors, and nothing else")
	root.AddCommand(
		a.fleetCommand(), a.keyCommand(), a.policyCommand(), a.loginCommand(), a.contextCommand(), a.tokenCommand(), a.viewerCommand(),
		a.statusCommand(), a.hostCommand(), a.containerCommand(), a.runCommand(), a.execCommand(), a.attachCommand(), a.batchCommand(), a.whyCommand(), a.pushCommand(), a.pullCommand(),
		a.actionCommand(), a.eventsCommand(), a.auditCommand(), a.verifyCommand(), versionCommand(),
	)
	root.AddCommand(a.devCommands()...)
	root.InitDefaultCompletionCmd() // cobra's own prints its help, and 0, whatever shell is named
	root.InitDefaultHelpCmd()       // cobra's own prints the help of something else, and 0
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, onlyBelow
		case "help":
			cmd.Run, cmd.RunE = nil, help
		}
	}
	fitHelp(root)
	return root
}

// fitHelp breaks the paragraphs of a command's help, and of those below it, that are
// wider than they may be; those that are indented stay as they are.
func fitHelp(cmd *cobra.Command) {
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, p := range paragraphs {
		lines := strings.Split(p, "\n")
		if strings.HasPrefix(p, " ") {
			continue
		}
		if slices.ContainsFunc(lines, func(l string) bool { return utf8.RuneCountInString(l) > helpWidth }) {
			paragraphs[i] = fill(p, helpWidth)
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, c := range cmd.Commands() {
		fitHelp(c)
	}
}

// fill breaks a text into lines of at most width characters, between words.
func fill(text string, width int) string {
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case at+1+n > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Example: "  hostler version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), "hostler", buildinfo.String())
			return nil
		},
	}
}

// group returns a command that only has others below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: onlyBelow,
	}
	cmd.AddCommand(below...)
	return cmd
}

// onlyBelow runs a command that only has others below it.
func onlyBelow(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	next := cmd.CommandPath() + " --help"
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= 2; cmd.SuggestionsMinimumDistance++ { // the nearest first
		if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
			next = cmd.CommandPath() + " " + s[0]
			break
		}
	}
	return usage(next, "%s has no command %q", cmd.CommandPath(), args[0])
}

// help prints the help of a command, if there is one.
func help(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	if err != nil {
		return usage("hostler --help", "%s", err)
	}
	if len(rest) > 0 {
		return onlyBelow(found, rest)
	}
	found.InitDefaultHelpFlag() // it says how it is asked for
	return found.Help()
}

// flagError says what is wrong with an option.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		text = bad.Unwrap().Error()
		if num, ok := errors.AsType[*strconv.NumError](bad); ok {
			text = fmt.Sprintf("%q is %s", bad.GetValue(), flagWant(bad.GetFlag().Value.Type(), num))
		}
		text = "--" + bad.GetFlag().Name + ": " + text
	}
	return usage(cmd.CommandPath()+" --help", "%s: %s", cmd.CommandPath(), text)
}

// flagWant says what the value of an option of some type is not.
func flagWant(kind string, err *strconv.NumError) string {
	switch {
	case kind == "bool":
		return "neither true nor false"
	case errors.Is(err, strconv.ErrRange):
		return "no number that there could be"
	case strings.HasPrefix(kind, "uint"):
		return "no number from 0 on"
	}
	return "no whole number"
}

// noneEmpty refuses arguments that hold nothing: such come from variables that
// were never set.
func noneEmpty(cmd *cobra.Command, args []string) error {
	if slices.Contains(args, "") {
		return usage(cmd.CommandPath()+" --help", "an argument of %s is empty: want %s", cmd.CommandPath(), cmd.UseLine())
	}
	return nil
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(cmd.CommandPath()+" --help", "%s takes no arguments, here are %q", cmd.CommandPath(), args)
	}
	return nil
}

// atLeast asks for n arguments or more.
func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usage(cmd.CommandPath()+" --help", "%s takes at least %d argument(s), here are %d: want %s", cmd.CommandPath(), n, len(args), cmd.UseLine())
		}
		return noneEmpty(cmd, args)
	}
}

// exactly asks for as many arguments as the use line names.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(cmd.CommandPath()+" --help", "%s takes %d argument(s), here are %d: want %s", cmd.CommandPath(), n, len(args), cmd.UseLine())
		}
		return noneEmpty(cmd, args)
	}
}

// atMost allows up to n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage(cmd.CommandPath()+" --help", "%s takes at most %d argument(s), here are %d: want %s", cmd.CommandPath(), n, len(args), cmd.UseLine())
		}
		return noneEmpty(cmd, args)
	}
}

// confirm asks before something that cannot be undone. Elsewhere than on a
// terminal nobody can answer, so there it takes --yes.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !a.inTTY || !a.errTTY {
		return &failure{
			code: exitRefused, what: "nobody was asked: " + question,
			why: "this is no terminal, and --yes was not given", next: "the same with --yes",
		}
	}
	answer, err := a.ask(question + " [y/N] ")
	if err != nil {
		return err
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return &failure{code: exitRefused, what: "nothing was done", why: "the answer was no"}
	}
	return nil
}

// ask prints a question and reads one line.
func (a *app) ask(question string) (string, error) {
	fmt.Fprint(a.err, question)
	line, err := answered(a.done, func() ([]byte, error) {
		var line []byte
		for b := make([]byte, 1); len(line) < 1000; {
			n, err := a.in.Read(b)
			if n == 1 && b[0] == '\n' || errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read the answer: %w", err)
			}
			line = append(line, b[:n]...)
		}
		return line, nil
	})
	if errors.Is(err, errInterrupted) {
		fmt.Fprintln(a.err) // behind the question
	}
	return strings.TrimSpace(string(line)), err
}

// answered reads what somebody types, unless done comes first. A read of a
// terminal cannot be broken off: then it goes on until the program has ended, which
// is at once.
func answered(done <-chan struct{}, read func() ([]byte, error)) ([]byte, error) {
	type answer struct {
		line []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		line, err := read()
		got <- answer{line, err}
	}()
	select {
	case x := <-got:
		return x.line, x.err
	case <-done:
		return nil, errInterrupted
	}
}
