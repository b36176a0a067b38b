package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// service is the unit of the agent. Its package leaves it disabled: a host that is in no
// fleet needs no agent, unless root starts one for the host alone.
const service = "hostler-agent.service"

// ofService reports whether a configuration is the one that the service has, which reads
// the usual file and no environment of a shell.
func ofService(configPath string, c config) bool {
	if configPath != "" {
		return false
	}
	own, _, err := load("", nil)
	return err == nil && own.StateDir == c.StateDir
}

// startService has systemd start the agent now and at each boot, if runs is there and the
// service is known to it.
func startService(ctx context.Context, runs string, out io.Writer) error {
	if _, err := os.Stat(runs); err != nil {
		return nil
	}
	if found, err := exec.CommandContext(ctx, "systemctl", "show", "--property", "LoadState", "--value", service).Output(); err != nil || strings.TrimSpace(string(found)) == "not-found" {
		return nil // another supervisor looks after the agent
	}
	if isOn(ctx, "is-enabled") && isOn(ctx, "is-active") {
		return nil
	}
	said, err := exec.CommandContext(ctx, "systemctl", "enable", "--now", service).CombinedOutput()
	if err != nil {
		return fmt.Errorf("the host has joined, but its agent does not start: systemctl enable --now %s: %w: %s\nTo see why: journalctl -u hostler-agent", service, err, strings.TrimSpace(string(said)))
	}
	fmt.Fprintln(out, "the agent runs now, and from each boot on")
	return nil
}

// isOn asks systemd about the service.
func isOn(ctx context.Context, question string) bool {
	return exec.CommandContext(ctx, "systemctl", "--quiet", question, service).Run() == nil
}
