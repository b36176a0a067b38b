package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

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
	every                 time.Duration          // how often --watch looks
	secret                func() ([]byte, error) // reads a line of the terminal without showing it

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
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	return report(a.err, root.ExecuteContext(ctx))
}

// say tells the user something that is no data.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

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
		return usage(cmd.CommandPath()+" --help", "%s: %s", cmd.CommandPath(), err)
	})
	root.CompletionOptions.HiddenDefaultCmd = false
	f := root.PersistentFlags()
	f.StringVar(&a.contextName, "context", "", "use this context of the configuration")
	f.StringVar(&a.address, "address", "", "speak to this coordinator, https://HOST:PORT")
	f.StringVar(&a.tokenFile, "token-file", "", "read the API token from this file")
	f.StringVar(&a.caFile, "ca", "", "certificate of the fleet's authority, PEM")
	f.BoolVar(&a.local, "local", false, "speak to the agent of this host")
	f.StringVar(&a.socket, "socket", "", "the agent's socket (default "+defaultSocket+")")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print data and errors, and nothing else")
	root.AddCommand(
		a.fleetCommand(), a.keyCommand(), a.policyCommand(), a.loginCommand(), a.contextCommand(), a.tokenCommand(), a.viewerCommand(),
		a.statusCommand(), a.hostCommand(), a.containerCommand(), a.runCommand(), a.execCommand(), a.attachCommand(), a.batchCommand(), a.whyCommand(), a.pushCommand(), a.pullCommand(),
		a.actionCommand(), a.eventsCommand(), a.auditCommand(), a.verifyCommand(), versionCommand(),
	)
	root.AddCommand(a.devCommands()...)
	return root
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
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			next := cmd.CommandPath() + " --help"
			if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
				next = cmd.CommandPath() + " " + s[0]
			}
			return usage(next, "%s has no command %q", cmd.CommandPath(), args[0])
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(below...)
	return cmd
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
		return nil
	}
}

// exactly asks for as many arguments as the use line names.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(cmd.CommandPath()+" --help", "%s takes %d argument(s), here are %d: want %s", cmd.CommandPath(), n, len(args), cmd.UseLine())
		}
		return nil
	}
}

// atMost allows up to n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage(cmd.CommandPath()+" --help", "%s takes at most %d argument(s), here are %d: want %s", cmd.CommandPath(), n, len(args), cmd.UseLine())
		}
		return nil
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
	var line strings.Builder
	for b := make([]byte, 1); line.Len() < 1000; {
		n, err := a.in.Read(b)
		if n == 1 && b[0] == '\n' || errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		line.Write(b[:n])
	}
	return strings.TrimSpace(line.String()), nil
}
