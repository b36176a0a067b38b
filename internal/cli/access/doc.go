// Package access says who may speak to a coordinator, and which one this user speaks
// to: hostler login, context, token and viewer.
package access

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
)

type commands struct{ *conn.Env }

// Commands returns hostler login, context, token and viewer.
func Commands(e *conn.Env) []*cobra.Command {
	a := &commands{e}
	return []*cobra.Command{a.loginCommand(), a.contextCommand(), a.tokenCommand(), a.viewerCommand()}
}
