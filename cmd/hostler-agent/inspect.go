package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/client"
)

// inspectCommand prints what the agent knows of a container, as it tells on its socket.
func inspectCommand() *cobra.Command {
	var socket, runtime, name string
	cmd := &cobra.Command{
		Use: "inspect --socket SOCKET --name NAME", Short: "Print what the agent knows of a container", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agent, err := client.New(client.Config{Address: "unix://" + socket})
			if err != nil {
				return err
			}
			if err := agent.Lines(cmd.Context(), "/v1/containers/"+url.PathEscape(name), nil, cmd.OutOrStdout()); err != nil {
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
