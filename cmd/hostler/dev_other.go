//go:build !linux

package main

import "github.com/spf13/cobra"

// devCommands are for Linux alone: hosts are.
func (a *app) devCommands() []*cobra.Command { return nil }
