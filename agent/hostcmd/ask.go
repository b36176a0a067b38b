package hostcmd

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/daemon"
)

// ask prints what the agent answers on its socket.
func ask(cmd *cobra.Command, socket, path string) error {
	agent, err := client.New(client.Config{Address: "unix://" + socket})
	if err != nil {
		return err
	}
	return agent.Lines(cmd.Context(), path, nil, cmd.OutOrStdout())
}

// inspectCommand prints what the agent knows of a container, as it tells on its socket.
func inspectCommand() *cobra.Command {
	var socket, runtime, name string
	cmd := &cobra.Command{
		Use: "inspect --socket SOCKET --name NAME", Short: "Print what the agent knows of a container", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ask(cmd, socket, "/v1/containers/"+url.PathEscape(name)); err != nil {
				return fmt.Errorf("ask the agent about container %q: %w", name, err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "the agent's socket")
	cmd.Flags().StringVar(&runtime, "runtime", "", "lxc or podman; names are unique over both")
	cmd.Flags().StringVar(&name, "name", "", "name of the container")
	return cmd
}

func (c Config) auditCommand() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: "export", Short: "Print this host's audit log, signed with the host's key",
		Long: "Print the records of this host's audit log with checkpoints that the host signs. The agent must run.\n" +
			"The output can be verified anywhere with the fleet's list of hosts:\n" +
			"hostler audit verify FILE --roster ROSTER",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				var err error
				if socket, err = c.Socket(); err != nil {
					return err
				}
			}
			if err := ask(cmd, socket, "/v1/audit/export"); err != nil {
				return fmt.Errorf("export the audit log: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "the agent's socket (default: as configured)")
	return daemon.Group("audit", "The audit log of this host", "audit needs export", cmd)
}
