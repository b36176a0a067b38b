// Package transfer moves files to and from hosts and containers: hostler push and
// hostler pull, and the operations of that kind in a batch.
package transfer

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/dispatch"
)

// Files moves files.
type Files struct{ *dispatch.Dispatcher }

// New returns Files that asks d for what it needs.
func New(d *dispatch.Dispatcher) *Files { return &Files{d} }

// Push returns hostler push.
func (a *Files) Push() *cobra.Command { return a.pushCommand() }

// Pull returns hostler pull.
func (a *Files) Pull() *cobra.Command { return a.pullCommand() }
