package devfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/dev"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// devCommands bring up a fleet on this machine.
func (a *commands) devCommands() []*cobra.Command {
	name := "dev"
	cmd := term.Group("dev", "A whole fleet on this machine, to try things out on",
		a.devUpCommand(&name), a.devDownCommand(&name),
		a.devKillCommand(&name), a.devPartitionCommand(&name), a.devHealCommand(&name), a.devInitCommand())
	cmd.Long = `Runs a coordinator and some hosts on this machine, to try Hostler. Each has its own
processes, network and LXC containers, and shares the files of this machine. They
behave as machines on a network do: kill one, cut one off, and see what happens.

It needs root. hostler dev down removes everything again.`
	cmd.PersistentFlags().StringVar(&name, "name", name, "which fleet: there may be several")
	return []*cobra.Command{cmd}
}

// devFleet is the fleet that the command line means.
func (a *commands) devFleet(name string) (*dev.Fleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, term.Cannot("find the programs beside this one", err)
	}
	f, err := dev.New(dev.Config{
		Name: name, Bin: filepath.Dir(self), Environ: a.Environ(),
		Progress: func(step string) { a.Say("%s", step) },
	})
	if err != nil {
		return nil, term.Usage("hostler dev --help", "%s", err)
	}
	return f, nil
}

// devFlag is the option that names a fleet, if it takes one.
func devFlag(name string) string {
	if name == "dev" {
		return ""
	}
	return " --name " + name
}

// devError says what to type next.
func devError(ctx context.Context, what, name string, err error) error {
	f := &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Err: err}
	flag := devFlag(name)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, dev.ErrRoot):
		f.Code, f.Next = term.ExitRefused, "run it as root: sudo hostler dev …"
	case errors.Is(err, dev.ErrUp):
		f.Next = "hostler dev down" + flag + ", or another with --name"
	case errors.Is(err, dev.ErrNotUp):
		f.Code, f.Next = term.ExitNotFound, "hostler dev up"+flag
	case errors.Is(err, dev.ErrBusy):
		f.Next = "try again when it has ended; Ctrl-C ends it"
	case errors.Is(err, dev.ErrNoNode):
		f.Code, f.Next = term.ExitNotFound, "hostler host ls --context "+name
	case errors.Is(err, dev.ErrTaken):
		f.Next = "add --name NAME"
	case ctx.Err() != nil:
		return term.ErrInterrupted
	}
	f.Why = err.Error()
	return f
}

func devNoun() show.Noun[dev.Node] {
	return show.NounOf[dev.Node]("name", "host:name state address pid log socket+ cable+", nil)
}

func (a *commands) devUpCommand(name *string) *cobra.Command {
	var hosts int
	cmd := &cobra.Command{
		Use: "up", Short: "Bring up a coordinator and hosts", Args: term.NoArgs,
		Long: `Starts a coordinator and hosts on this machine, approves the hosts after comparing
the four words, and returns when all of them are online. It then uses the context of
this fleet; hostler dev down switches back to the context before.

PID is process 1 of the host: nsenter -a -t PID bash is a shell there.`,
		Example: "  sudo hostler dev up\n  sudo hostler dev up --hosts 5 -o json\n  hostler host ls",
	}
	v := show.FormatFlags(cmd)
	v.One = false
	cmd.Flags().IntVar(&hosts, "hosts", 3, "how many hosts")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f, err := a.devFleet(*name)
		if err != nil {
			return err
		}
		s, err := f.Up(cmd.Context(), hosts)
		if err != nil {
			return devError(cmd.Context(), "bring up fleet "+*name, *name, err)
		}
		if err := a.printDev(v, s); err != nil {
			return err
		}
		a.Say("Context %s is in use. Next:\n"+
			"  hostler host ls\n  hostler run edge-01 -- hostname\n  hostler ct create edge-01/web --template busybox\n"+
			"  hostler dev kill%[2]s edge-01    # and heal; partition cuts it off\n  hostler dev down%[2]s", *name, devFlag(*name))
		return nil
	}
	return cmd
}

// printDev prints a fleet: for programs the whole, for people its nodes.
func (a *commands) printDev(v *show.View, s dev.Status) error {
	if word := v.Format.Word; word == "json" || word == "yaml" || word == "template" || word == "jsonpath" {
		whole := *v
		whole.One = true
		return show.Print(a.UI, &whole, show.Noun[dev.Status]{Name: func(s dev.Status) string { return s.Name }}, []dev.Status{s})
	}
	return show.Print(a.UI, v, devNoun(), s.Nodes)
}

func (a *commands) devDownCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Take it down, and leave nothing behind", Args: term.NoArgs,
		Long: `Takes the fleet down with its processes, containers, links, files, its context and
its owner's key. It works whatever state the fleet is in. Other contexts are left
alone; the one that was in use before is in use again.`,
		Example: "  sudo hostler dev down",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := a.devFleet(*name)
			if err != nil {
				return err
			}
			if err := f.Down(cmd.Context()); errors.Is(err, dev.ErrNotUp) {
				a.Say("There is no fleet %s on this machine.", *name)
			} else if err != nil {
				return devError(cmd.Context(), "take down fleet "+*name, *name, err)
			} else {
				a.Say("Fleet %s is gone.", *name)
			}
			return nil
		},
	}
}

func (a *commands) devKillCommand(name *string) *cobra.Command {
	return a.devVerb(name, &cobra.Command{
		Use: "kill HOST", Short: "Let the power of a host fail",
		Long: `Kills everything on the host at once: agent, commands, containers. It stays dead
until hostler dev heal. The word coordinator stands for the coordinator's host.`,
		Example: "  sudo hostler dev kill edge-01",
	}, "kill", "%s is dead. To boot it: hostler dev heal%[2]s %[1]s", (*dev.Fleet).Kill)
}

func (a *commands) devPartitionCommand(name *string) *cobra.Command {
	return a.devVerb(name, &cobra.Command{
		Use: "partition HOST", Short: "Cut a host off from the others",
		Long: `Takes the host's cable out. Data sent over it is lost without an error:
connections stay open until they time out.`,
		Example: "  sudo hostler dev partition edge-01",
	}, "cut off", "%s is cut off. To connect it: hostler dev heal%[2]s %[1]s", (*dev.Fleet).Partition)
}

func (a *commands) devHealCommand(name *string) *cobra.Command {
	return a.devVerb(name, &cobra.Command{
		Use: "heal HOST", Short: "Boot a host that is dead, connect one that is cut off",
		Example: "  sudo hostler dev heal edge-01",
	}, "heal", "%[1]s runs and is connected.", (*dev.Fleet).Heal)
}

// devVerb completes a command that does something to one host.
func (a *commands) devVerb(name *string, cmd *cobra.Command, what, did string, do func(*dev.Fleet, context.Context, string) error) *cobra.Command {
	cmd.Args = term.Exactly(1)
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		f, err := a.devFleet(*name)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, _ := f.Status() // completion can tell of no error
		return conn.Each(s.Nodes, devNoun().Name), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := a.devFleet(*name)
		if err != nil {
			return err
		}
		if err := do(f, cmd.Context(), args[0]); err != nil {
			return devError(cmd.Context(), what+" "+args[0], *name, err)
		}
		a.Say(did, args[0], devFlag(*name))
		return nil
	}
	return cmd
}

// devInitCommand is process 1 of a host that dev up has made.
func (a *commands) devInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init FLEET HOST", Hidden: true, Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return fmt.Errorf("process 1: %w", dev.Init(args, a.Environ()))
		},
	}
}
