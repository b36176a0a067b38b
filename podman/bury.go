package podman

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hostler-io/hostler/container"
)

// exits is where the monitors of containers of root leave how these have ended, by their ids: a
// file with the exit code of each.
const exits = "/run/libpod/exits"

// killed is the exit code of a first process that was killed.
const killed = "137"

// bury tells podman that a container has ended, in place of its monitor. Until then, podman takes
// a container for running whose first process and monitor are dead, and neither stops it nor
// starts it again. bury reports whether it has told podman.
func (l listed) bury(ctx context.Context, r *Runtime) bool {
	if s := stateOf(l.State); s != container.StateRunning && s != container.StateStopping || l.PID == 0 || lives(l.PID) {
		return false
	}
	// What podman tells is of a later moment than the death of both: a monitor that has left its
	// word before it ended is believed.
	d, err := r.inspect(ctx, l.ID)
	if err != nil || d.State.ConmonPID == 0 || lives(d.State.ConmonPID) {
		return false
	}
	if d, err = r.inspect(ctx, l.ID); err != nil || d.State.PID != l.PID || d.info().State == container.StateStopped {
		return false
	}
	f, err := os.OpenFile(filepath.Join(exits, d.ID), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.WriteString(killed)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		if !errors.Is(err, fs.ErrExist) {
			r.cfg.Log.WarnContext(ctx, "podman cannot be told that a container has ended whose monitor is dead, and does not start it again", "container", l.name(), "err", err)
		}
		return false
	}
	r.cfg.Log.WarnContext(ctx, "the monitor of a container has died, and its first process; podman is told that it has ended", "container", l.name())
	return true
}

// lives reports whether a process runs. A zombie does not.
func lives(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
	return !bytes.HasPrefix(rest, []byte("Z")) && !bytes.HasPrefix(rest, []byte("X"))
}
