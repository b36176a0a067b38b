//go:build integration && hostlertest

package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/hostler-io/hostler/internal/builttest"
)

// fencePoints sets a fence device and has it switch a host off and on, and kills the
// coordinator where it stores either.
func fencePoints(t *testing.T) {
	c := newWreck(t)
	mkdir(t, c.path("agents"))
	if err := builttest.Write(c.path("agents/fence_power"), powerSwitch); err != nil {
		t.Fatal(err)
	}
	power := c.path("power")
	write(t, power+".pids", "")
	write(t, c.path("coordinator.toml"), read(t, c.path("coordinator.toml"))+fmt.Sprintf("[fence]\nagents_dir = %q\nreconnect_seconds = 1\n", c.path("agents")))
	c.head.restart(t)
	c.addLimb(t, "edge-01", false)
	cycle := func(t *testing.T) {
		write(t, power, "on")
		for _, args := range [][]string{
			{"fence", "device", "add", "pdu", "--agent", "fence_power", "--host", "edge-01", "-p", "status_file=" + power},
			{"fence", "device", "test", "pdu"},
			{"host", "fence", "edge-01", "--yes", "--tolerance", "1m"},
		} {
			c.insist(t, args[1], func(context.Context) error {
				if x := c.cli(t, args...); x.code != 0 {
					return fmt.Errorf("%v: %s", args, x.stderr)
				}
				return nil
			})
		}
	}
	c.strikes(t, strike{"C46", c.head, cycle}, strike{"C47", c.head, cycle})
}
