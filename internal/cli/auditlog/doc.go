// Package auditlog verifies what was signed: hostler audit, the log of a fleet, and
// hostler verify, single messages.
package auditlog

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/dispatch"
)

type commands struct{ *dispatch.Dispatcher }

// Commands returns hostler audit and verify.
func Commands(d *dispatch.Dispatcher) []*cobra.Command {
	a := &commands{d}
	return []*cobra.Command{a.auditCommand(), a.verifyCommand()}
}
