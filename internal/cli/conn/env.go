// Package conn is the other end of the command line: a coordinator, or the agent of
// this host. It reads the configuration and the rings of fleets that this machine
// keeps, connects, and asks what more than one area needs.
package conn

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// Env is what every command starts from: the user, and the options that name the
// other end.
type Env struct {
	*term.UI

	ContextName, Address, TokenFile, CAFile string

	socket string
	local  bool
	wait   time.Duration // what --wait says, if that was given
}

// Patience is how long a coordinator is waited for that does not listen: as long as the
// user said that all may take, else [RestartTime].
func (a *Env) Patience() time.Duration { return cmp.Or(a.wait, RestartTime) }

// Options adds the options of all commands to the root.
func (a *Env) Options(root *cobra.Command) {
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if f := cmd.Flags().Lookup("wait"); f != nil && f.Changed {
			if d, ok := f.Value.(*term.DurationFlag); ok {
				a.wait = d.Value
			}
		}
	}
	f := root.PersistentFlags()
	f.StringVar(&a.ContextName, "context", "", "use this context")
	f.StringVar(&a.Address, "address", "", "use this coordinator, https://HOST:PORT")
	f.StringVar(&a.TokenFile, "token-file", "", "read the API token from this file")
	f.StringVar(&a.CAFile, "ca", "", "certificate of the fleet's authority, PEM")
	_ = root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.CompleteContexts(nil, nil, "")
	})
	f.BoolVar(&a.local, "local", false, "use the agent of this host")
	f.StringVar(&a.socket, "socket", "", "the agent's socket (default "+defaultSocket+")")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "print only data and errors")
}
