// Package hosts looks at hosts and decides which belong to the fleet: hostler host,
// status and events.
package hosts

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
)

type commands struct{ *conn.Env }

// Commands returns hostler status, host and events.
func Commands(e *conn.Env) []*cobra.Command {
	a := &commands{e}
	return []*cobra.Command{a.statusCommand(), a.hostCommand(), a.eventsCommand()}
}
