//go:build linux && cgo

package helper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	golxc "github.com/lxc/go-lxc"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// leastPatience is how long a monitor has at the least to tell the state of its
// container, which takes a millisecond.
const leastPatience = 2 * time.Second

// unhang ends a container whose monitor does not answer: it hangs in a hook, or is
// stopped, and liblxc would wait for it for ever. That is no way to end one that
// answers, for nothing is told to it.
func (h *host) unhang(c *golxc.Container, patience time.Duration) error {
	told := make(chan struct{})
	go func() { // it cannot be ended, but by the end of the monitor
		c.State()
		close(told)
	}()
	select {
	case <-told:
		return nil
	case <-time.After(max(patience, leastPatience)):
	}
	if err := h.killMonitor(c.Name()); err != nil {
		return err
	}
	select {
	case <-told:
		return nil
	case <-time.After(h.left()):
		return fmt.Errorf("%w: its monitor does not answer and cannot be found", container.ErrTimeout)
	}
}

// victim is a process that was stopped, so that it has no more children.
type victim struct{ pid, fd int }

// killMonitor kills the monitor of a container with all that descends from it: its
// hooks, and the container's init.
func (h *host) killMonitor(name string) error {
	title := []byte("[lxc monitor] " + h.path + " " + name)
	var all []victim
	defer func() {
		for _, v := range all {
			unix.Close(v.fd)
		}
	}()
	ours := namespace("self")
	for _, pid := range processes() {
		// What is inside a container may call itself anything.
		if bytes.Equal(commandLine(pid), title) && namespace(strconv.Itoa(pid)) == ours {
			all = hold(all, pid, func() bool { return bytes.Equal(commandLine(pid), title) })
		}
	}
	for found := 0; found < len(all); {
		parents := make(map[int]bool)
		for ; found < len(all); found++ {
			parents[all[found].pid] = true
		}
		for _, pid := range processes() {
			if parents[parent(pid)] {
				all = hold(all, pid, func() bool { return parents[parent(pid)] })
			}
		}
	}
	var groups []string
	for _, v := range all {
		groups = append(groups, groupsOf(v.pid, name)...)
	}
	for _, v := range all {
		if err := unix.PidfdSendSignal(v.fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
			return fmt.Errorf("killing process %d of a container that hangs: %w", v.pid, err)
		}
	}
	for _, v := range all {
		if !pollUntil(v.fd, time.Now().Add(h.half())) {
			return fmt.Errorf("%w: process %d was killed and does not end", container.ErrTimeout, v.pid)
		}
	}
	for _, dir := range groups {
		removeEmpty(dir)
	}
	return nil
}

// groupsOf are the control groups that liblxc has made for a container of which a
// process is the monitor, or one of its hooks.
func groupsOf(pid int, name string) (dirs []string) {
	place, err := supervise.Cgroups(strconv.Itoa(pid))
	if err != nil {
		return nil
	}
	ours := litterName(name)
	for _, dir := range place {
		for ; len(dir) > 1; dir = filepath.Dir(dir) {
			if at, base := filepath.Split(dir); ours.MatchString(base) {
				_, of, _ := strings.Cut(strings.TrimPrefix(base, "lxc."), ".")
				dirs = append(dirs, at+"lxc.monitor."+of, at+"lxc.payload."+of)
			}
		}
	}
	return dirs
}

// hold stops a process, if it is still the one that it was taken for.
func hold(all []victim, pid int, still func() bool) []victim {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return all
	}
	if !still() || unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
		unix.Close(fd)
		return all
	}
	return append(all, victim{pid, fd})
}

// processes are those of this machine.
func processes() (pids []int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	for _, d := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// commandLine is that of a process, as one text: a title is one too.
func commandLine(pid int) []byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return bytes.TrimRight(b, "\x00")
}

// namespace names the PID namespace of a process.
func namespace(of string) string {
	name, err := os.Readlink("/proc/" + of + "/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// parent is that of a process; 0 if it is gone.
func parent(pid int) int {
	n, err := rundir.Parent(pid)
	if err != nil {
		return 0
	}
	return n
}
