package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/agent/faults"
	"github.com/hostler-io/hostler/guard"
	"github.com/hostler-io/hostler/internal/daemon"
)

// stopAgent stops this process for a drill.
func stopAgent(ctx context.Context, until int64) error {
	self, err := thisProgram()
	if err != nil {
		return err
	}
	return faults.StopUntil(ctx, until, self, "wake")
}

// wakeCommand is the process that ends such a drill. The agent starts it; people need not.
func wakeCommand(logger func(*cobra.Command) *slog.Logger) *cobra.Command {
	return &cobra.Command{
		Use: "wake PID BOOT-MS", Short: "Wake an agent that a drill has stopped; the agent starts it", Args: daemon.Args(2, 2), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := guard.Settle(); err != nil {
				logger(cmd).Warn("the process that ends the drill is easier to kill than it should be", "error", err)
			}
			pid, err := strconv.Atoi(args[0])
			if err != nil {
				return daemon.Usage(fmt.Errorf("the agent: %w", err))
			}
			until, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return daemon.Usage(fmt.Errorf("the time: %w", err))
			}
			return faults.Wake(cmd.OutOrStdout(), pid, until)
		},
	}
}
