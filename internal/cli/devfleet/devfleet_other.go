//go:build !linux

package devfleet

import "github.com/spf13/cobra"

// devCommands are for Linux alone: hosts are.
func (a *commands) devCommands() []*cobra.Command { return nil }
