// Package batch does one thing in many places, or many things from a file: it
// selects the places, asks in turns, follows all, and tells what became of each. It
// has the commands of hostler batch.
package batch

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/transfer"
)

// Batcher does things in many places.
type Batcher struct {
	*dispatch.Dispatcher
	files *transfer.Files
}

// New returns a Batcher; files moves what a file of operations pushes and pulls.
func New(d *dispatch.Dispatcher, files *transfer.Files) *Batcher { return &Batcher{d, files} }

// Command returns hostler batch.
func (a *Batcher) Command() *cobra.Command { return a.batchCommand() }
