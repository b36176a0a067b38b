package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// bareLXC returns what liblxc alone takes for a start or an exec of the bench's own
// container, the median of n in milliseconds. The agent is held still meanwhile: it would
// bring back a container that somebody else has stopped.
func (b *bench) bareLXC(what string, n int) func(context.Context) (float64, error) {
	return func(ctx context.Context) (_ float64, err error) {
		if err := syscall.Kill(b.fleet.agent, syscall.SIGSTOP); err != nil {
			return 0, fmt.Errorf("holding the agent still: %w", err)
		}
		defer func() { err = errors.Join(err, syscall.Kill(b.fleet.agent, syscall.SIGCONT)) }()
		path := filepath.Join(b.fleet.dir, hostName, "lxc")
		out, err := exec.CommandContext(ctx, filepath.Join(b.fleet.bin, "barelxc"), what, path, container, strconv.Itoa(n)).Output()
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return 0, fmt.Errorf("barelxc %s: %w: %s", what, err, bytes.TrimSpace(failed.Stderr))
		}
		if err != nil {
			return 0, err
		}
		var all []float64
		for line := range strings.Lines(string(out)) {
			took, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
			if err != nil {
				return 0, fmt.Errorf("barelxc %s: %w", what, err)
			}
			all = append(all, took)
		}
		return percentile(all, 50), nil
	}
}
