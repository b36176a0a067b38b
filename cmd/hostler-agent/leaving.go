package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// systemdRuns is there where systemd is the first process.
const systemdRuns = "/run/systemd/system"

// leavingAnswer is how long systemd may take to say how it is.
const leavingAnswer = 2 * time.Second

// leaving reports whether the host goes down, as systemd says, if runs is there. Without
// systemd, no more is known than that the agent is asked to end.
func leaving(runs string) func(context.Context) bool {
	if _, err := os.Stat(runs); err != nil {
		return nil
	}
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, leavingAnswer)
		defer cancel()
		// Its exit code is 0 for a host that is well alone.
		out, _ := exec.CommandContext(ctx, "systemctl", "is-system-running").Output()
		return strings.TrimSpace(string(out)) == "stopping"
	}
}
