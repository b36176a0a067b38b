// Package actions looks at actions and decides on them: hostler action and why.
package actions

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/keyring"
)

type commands struct {
	*dispatch.Dispatcher
	keys *keyring.Store
}

// Command returns hostler action; more are commands of it from other areas.
func Command(d *dispatch.Dispatcher, keys *keyring.Store, more ...*cobra.Command) *cobra.Command {
	a := &commands{d, keys}
	cmd := a.actionCommand()
	cmd.AddCommand(more...)
	return cmd
}

// Why returns hostler why.
func Why(d *dispatch.Dispatcher) *cobra.Command { return (&commands{Dispatcher: d}).whyCommand() }
