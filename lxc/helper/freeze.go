//go:build linux && cgo

package helper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	golxc "github.com/lxc/go-lxc"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/runner/supervise"
)

// nudgeEvery is how often a freeze is looked at that has not come to its end. Half of
// them take less than that.
const nudgeEvery = 5 * time.Millisecond

// freezing is what is done to the freezer of a container.
type freezing struct{ *host }

// freeze keeps all processes of a container from running.
func (h freezing) freeze(name string) error {
	return h.onRunning(name, func(c *golxc.Container) error {
		if c.State() == golxc.FROZEN {
			return nil
		}
		failpoint.Before(failpoint.ContainerFrozen)
		if err := h.nudged(c); err != nil {
			return err
		}
		failpoint.After(failpoint.ContainerFrozen)
		return nil
	})
}

// thaw lets them run again. liblxc may not know that a container is frozen
// whose freezing was cut short; the kernel knows.
func (h freezing) thaw(name string) error {
	return h.onRunning(name, func(c *golxc.Container) error {
		failpoint.Before(failpoint.ContainerThawed)
		if c.State() == golxc.FROZEN {
			if err := c.Unfreeze(); err != nil {
				return fmt.Errorf("unfreezing: %w", err)
			}
		} else if file := freezer(c.InitPid()); file != "" {
			if err := os.WriteFile(file, []byte("THAWED"), 0); err != nil {
				return fmt.Errorf("unfreezing: %w", err)
			}
		}
		failpoint.After(failpoint.ContainerThawed)
		return nil
	})
}

// onRunning does something to a container that is not stopped, and holds it meanwhile.
func (h freezing) onRunning(name string, do func(*golxc.Container) error) error {
	t, err := h.acquireReady(name)
	if err != nil {
		return err
	}
	defer t.lock.release()
	c, err := h.open(name)
	if err != nil {
		return err
	}
	defer c.Release()
	switch s := c.State(); s {
	case golxc.RUNNING, golxc.THAWED, golxc.FREEZING, golxc.FROZEN:
		return do(c)
	default:
		return fmt.Errorf("%w: it is %s", container.ErrNotRunning, stateOf(s))
	}
}

// nudged freezes a container. On cgroup version 1, liblxc may wait for ever for a
// process that is in vfork. Writing the word once more brings the kernel to look again.
// If it does not come to an end, the container is left as it was: running.
func (h freezing) nudged(c *golxc.Container) error {
	file := freezer(c.InitPid())
	done := make(chan error, 1)
	go func() { done <- c.Freeze() }() // it ends with this process, if nothing else ends it
	tick := time.NewTicker(nudgeEvery)
	defer tick.Stop()
	over := time.After(h.half())
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("freezing: %w", err)
			}
			return nil
		case <-over:
			if file != "" {
				_ = os.WriteFile(file, []byte("THAWED"), 0) // it says so itself, if not
			}
			return fmt.Errorf("%w: it does not freeze and was left running", container.ErrTimeout)
		case <-tick.C:
			if state, err := os.ReadFile(file); err == nil && bytes.Equal(bytes.TrimSpace(state), []byte("FREEZING")) {
				_ = os.WriteFile(file, []byte("FROZEN"), 0) // there is another turn
			}
		}
	}
}

// freezer is the file by which cgroup version 1 freezes the container of that process;
// empty where version 2 does that, or where there is none.
func freezer(init int) string {
	place, err := supervise.Cgroups(strconv.Itoa(init))
	if err != nil {
		return ""
	}
	for _, dir := range place {
		file := filepath.Join(dir, "freezer.state")
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}
