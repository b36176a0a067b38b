// Package auditlog verifies what was signed: hostler audit, the log of a fleet, and
// hostler verify, single messages.
package auditlog

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
)

type commands struct{ *conn.Env }

// Commands returns hostler audit and verify.
func Commands(e *conn.Env) []*cobra.Command {
	a := &commands{e}
	return []*cobra.Command{a.auditCommand(), a.verifyCommand()}
}
