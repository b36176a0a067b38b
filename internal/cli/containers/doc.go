// Package containers has the commands of hostler ct.
package containers

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/batch"
)

type commands struct{ *batch.Batcher }

// Command returns hostler ct.
func Command(b *batch.Batcher) *cobra.Command { return (&commands{b}).containerCommand() }
