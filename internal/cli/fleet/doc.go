// Package fleet makes fleets and changes their rings: hostler fleet.
package fleet

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/keyring"
)

type commands struct {
	*conn.Env
	keys *keyring.Store
}

// Command returns hostler fleet.
func Command(e *conn.Env, keys *keyring.Store) *cobra.Command {
	return (&commands{e, keys}).fleetCommand()
}
