package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/daemon"
)

func auditCommand(configured loader) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: "export", Short: "Print this host's audit log, signed with the host's key",
		Long: "Print the records of this host's audit log with checkpoints that the host signs. The agent must run.\n" +
			"The output can be verified anywhere with the fleet's list of hosts:\n" +
			"hostler audit verify FILE --roster ROSTER",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				c, _, err := configured()
				if err != nil {
					return err
				}
				socket = c.Socket
			}
			agent, err := client.New(client.Config{Address: "unix://" + socket})
			if err != nil {
				return err
			}
			if err := agent.Lines(cmd.Context(), "/v1/audit/export", nil, cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("export the audit log: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "the agent's socket (default: as configured)")
	return daemon.Group("audit", "The audit log of this host", "audit needs export", cmd)
}
