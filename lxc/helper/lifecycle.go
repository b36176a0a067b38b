//go:build linux && cgo

package helper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	golxc "github.com/lxc/go-lxc"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
)

// logFile is liblxc's log of the last start, in the container's directory.
const logFile = "lxc.log"

// maxLogTail is how much of the log an error message carries.
const maxLogTail = 1 << 10

func (h *host) startContainer(name string, terms container.Terms) (err error) {
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

	switch c.State() {
	case golxc.RUNNING, golxc.THAWED:
		return nil
	case golxc.FREEZING, golxc.FROZEN:
		return c.Unfreeze()
	case golxc.STARTING:
		if c.Wait(golxc.RUNNING, h.left()) {
			return nil
		}
		return fmt.Errorf("%w: another start of it does not end", container.ErrBusy)
	case golxc.STOPPING, golxc.ABORTING:
		if !c.Wait(golxc.STOPPED, h.left()) {
			return fmt.Errorf("%w: it does not finish stopping", container.ErrBusy)
		}
	}
	// The monitor, which liblxc forks, has this mounted as well, for as long as it lives.
	unmerge, err := sharing{h}.merge(h.dir(name), t.record)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unmerge())
		}
	}()
	if err := mountpoints(h, name, t.record); err != nil {
		return err
	}
	settings, end, err := starts{h}.admit(name, t.record, terms)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return h.launch(c, t.record.Argv, slices.Concat(groupSettings(terms.Groups), settings, optional(h, name, t.record)))
}

// launch starts a stopped container. liblxc moves the caller into the monitor's
// cgroup while it starts it. We leave it before the lock is given back, and a
// start that failed ends when its monitor has, so that no cgroup outlives the
// operation. argv is the command of the image that it was made from; nil is what its
// configuration says. The settings hold for this start alone.
func (h *host) launch(c *golxc.Container, argv []string, settings []setting) error {
	home, err := findHome()
	if err != nil {
		return err
	}
	log := filepath.Join(h.dir(c.Name()), logFile)
	if err := os.Remove(log); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := c.SetLogFile(log); err != nil {
		return err
	}
	if err := c.SetLogLevel(golxc.ERROR); err != nil {
		return err
	}
	if err := keepConsole(c, h.dir(c.Name())); err != nil {
		return err
	}
	// The monitor must not keep our pipes, nor the lock.
	if err := c.WantCloseAllFds(true); err != nil {
		return err
	}
	sweep(c.Name(), time.Now())
	failpoint.Before(failpoint.ContainerStarted)
	if len(argv) > 0 {
		err = startCommand(c.Name(), h.path, append(settings, setting{"lxc.log.file", log}, setting{"lxc.log.level", "ERROR"}), argv)
	} else if err = apply(c, settings); err == nil {
		err = c.Start()
	}
	failpoint.After(failpoint.ContainerStarted)
	// It runs, whether we come home or not; at worst an empty cgroup stays.
	h.astray = home.comeBack() != nil
	if err != nil {
		c.Wait(golxc.STOPPED, h.half())
		return fmt.Errorf("%w%s", err, logTail(log))
	}
	return nil
}

// groupSettings are the settings that have liblxc write files of control groups before the
// first process of a container begins.
func groupSettings(files []container.GroupFile) (all []setting) {
	for _, f := range files {
		family := "lxc.cgroup."
		if f.V2 {
			family = "lxc.cgroup2."
		}
		all = append(all, setting{family + f.Name, f.Value})
	}
	return all
}

// logTail returns the end of liblxc's log for an error message.
func logTail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) == 0 {
		return ""
	}
	if len(raw) > maxLogTail {
		raw = raw[len(raw)-maxLogTail:]
	}
	return " (liblxc: " + strings.ToValidUTF8(strings.Join(strings.Fields(string(raw)), " "), "?") + ")"
}

func (h *host) stopContainer(name string, grace time.Duration) error {
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
	failpoint.Before(failpoint.ContainerStopped)
	if err := h.unhang(c, grace); err != nil {
		return err
	}
	if err := h.halt(c, grace); err != nil {
		return err
	}
	failpoint.After(failpoint.ContainerStopped)
	sweep(name, time.Now())
	return nil
}

// halt asks the container to shut down, waits for grace and kills.
func (h *host) halt(c *golxc.Container, grace time.Duration) error {
	switch c.State() {
	case golxc.STOPPED:
		return nil
	case golxc.STOPPING, golxc.ABORTING:
		if c.Wait(golxc.STOPPED, h.half()) {
			return nil
		}
	case golxc.STARTING, golxc.RUNNING, golxc.THAWED, golxc.FREEZING:
		if grace > 0 && askToHalt(c, grace) && c.Wait(golxc.STOPPED, h.half()) {
			return nil
		}
	}
	if err := c.Stop(); err != nil && c.State() != golxc.STOPPED {
		return fmt.Errorf("killing: %w", err)
	}
	if !c.Wait(golxc.STOPPED, h.left()) {
		return fmt.Errorf("%w: it was killed and is still %s", container.ErrTimeout, stateOf(c.State()))
	}
	return nil
}

// askToHalt sends the container's halt signal and reports whether its init
// ended within grace. liblxc would wait in whole seconds only, so the waiting is
// done on a pidfd.
func askToHalt(c *golxc.Container, grace time.Duration) bool {
	pid := c.InitPid()
	if pid <= 0 {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err == unix.ESRCH
	}
	defer unix.Close(fd)
	// With no timeout it only sends the signal. It may fail because the
	// container ended just now, and then the pidfd tells.
	_ = c.Shutdown(0)
	return pollUntil(fd, time.Now().Add(grace))
}

// pollUntil waits until fd is readable; for a pidfd, until its process ended.
func pollUntil(fd int, end time.Time) bool {
	for {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Ppoll(fds, new(unix.NsecToTimespec(int64(left))), nil)
		if n > 0 {
			return true
		}
		if err != nil && err != unix.EINTR {
			return false
		}
	}
}
