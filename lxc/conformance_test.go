//go:build linux && cgo

package lxc_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/runnertest"
)

// TestExecConformance: a command in a container keeps what a command on the host
// promises. Only a reboot cannot be played: another boot is there a PID namespace
// of its own, in which the container's processes are not.
func TestExecConformance(t *testing.T) {
	m, info, supervisor := running(t)
	runnertest.Run(t, runnertest.Harness{
		Supervisor: supervisor.Argv, Target: supervisor.Target, Without: []string{"reboot"},
		Root: filepath.Join(m.cfg.LXCPath, info.Name, "rootfs"),
	})
}

// TestManyTerminals: a container has a terminal for each of several sessions,
// although its template gave it a single one.
func TestManyTerminals(t *testing.T) {
	_, _, supervisor := running(t)
	c := newCommands(t, supervisor)
	for range 4 {
		c.attempt++
		run, err := c.runner.Start(runner.Spec{
			Spec: rundir.Spec{
				Action: action(), Attempt: c.attempt, Target: supervisor.Target, GraceMS: -1,
				Argv:     []string{"/bin/sh", "-c", "echo ready; exec sleep 1000"},
				Terminal: &rundir.Terminal{Rows: 24, Cols: 80, HangUpMS: time.Hour.Milliseconds()},
			},
			Supervisor: supervisor.Argv,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := run.Cancel(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		c.says(t, run)
	}
}
