// Package devfleet has the commands of hostler dev, a whole fleet on one machine.
package devfleet

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/term"
)

type commands struct{ *term.UI }

// Commands returns hostler dev and what goes with it; none where hosts cannot run.
func Commands(ui *term.UI) []*cobra.Command { return (&commands{ui}).devCommands() }
