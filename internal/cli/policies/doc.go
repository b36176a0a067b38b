// Package policies checks, signs and sets the policies of hosts: hostler policy.
package policies

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/keyring"
)

type commands struct {
	*batch.Batcher
	keys *keyring.Store
}

// Command returns hostler policy.
func Command(b *batch.Batcher, keys *keyring.Store) *cobra.Command {
	return (&commands{b, keys}).policyCommand()
}
