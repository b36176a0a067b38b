package guard

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Podman's containers are in groups that begin with podmans, and each has a monitor of the name
// of monitorName, as whose child its first process begins. That process outlives the monitor, and
// then podman and the agent learn of no end. LXC's containers end with their monitor.
const (
	podmans     = "libpod-"
	monitorName = "conmon"
)

// lookEvery is how often a container is looked for whose monitor is not known.
const lookEvery = time.Second

// sight is what is seen of a container's monitor.
type sight int

const (
	absent   sight = iota // the container has no first process
	attended              // its monitor lives
	orphaned              // its first process lives, and its monitor does not
)

// monitor is that of a held container.
type monitor struct {
	fd   int // pidfd; -1: it is not known
	init int // the first process, when the monitor was seen
	lone int // how often in a row a first process was seen without a monitor
}

// Attend kills containers of podman that are held when their monitor is dead, until ctx ends. It
// needs no other process, so it also works while the agent is stopped.
func (g *Guard) Attend(ctx context.Context) error {
	known := make(map[string]*monitor) // by group
	defer func() {
		for group := range known {
			forget(known, group)
		}
	}()
	for ctx.Err() == nil {
		held := g.podmans()
		if len(held) == 0 {
			select {
			case <-ctx.Done():
			case <-g.tables:
			}
			continue
		}
		for group := range known {
			if _, still := held[group]; !still {
				forget(known, group)
			}
		}
		for group, h := range held {
			if known[group] == nil {
				known[group] = &monitor{fd: -1}
			}
			g.attend(ctx, known[group], h)
		}
		await(known)
	}
	return context.Cause(ctx)
}

// podmans are the holds of podman's containers, by group.
func (g *Guard) podmans() map[string]Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(map[string]Hold)
	for _, h := range g.holds {
		if strings.HasPrefix(h.Group, podmans) {
			held[h.Group] = h
		}
	}
	return held
}

// attend looks at the monitor of one container, unless it is known to live, and kills the
// container without one.
func (g *Guard) attend(ctx context.Context, m *monitor, h Hold) {
	before := m.fd >= 0
	if before && !over(m.fd) {
		return
	}
	m.close()
	fd, init, seen := look(h.Group)
	if m.sees(fd, init, seen, before) {
		g.log.Error("the monitor of a container is dead, so the container is killed", "container", h.ID)
		g.killAll(ctx, []Hold{h}, "its monitor is dead")
	}
}

// sees notes a look, and reports whether the container is to be killed: at once if its monitor
// was seen before with this first process, and otherwise at the second look. The first look at a
// container that has just begun may come between two reads.
func (m *monitor) sees(fd, init int, s sight, before bool) (kill bool) {
	switch s {
	case attended:
		m.fd, m.init, m.lone = fd, init, 0
	case absent:
		m.lone = 0
	case orphaned:
		m.lone++
		return before && init == m.init || m.lone > 1
	}
	return false
}

// look finds the monitor of the container in a group, and its first process.
func look(group string) (fd, init int, s sight) {
	if init = first(group); init == 0 {
		return -1, 0, absent
	}
	for pid := parentOf(init); pid > 1; pid = parentOf(pid) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			break
		}
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(comm)) == monitorName && !over(fd) {
			return fd, init, attended
		}
		unix.Close(fd)
	}
	if first(group) != init { // it ended, and its monitor with it
		return -1, init, absent
	}
	return -1, init, orphaned
}

// first is the first process of the container in a group: number 1 of the outermost namespace
// in which one is; 0 if none lives.
func first(group string) (init int) {
	all, err := members(group)
	if err != nil {
		return 0
	}
	least := math.MaxInt
	for _, pid := range all {
		if numbers := strings.Fields(status(pid, "NSpid:")); len(numbers) > 1 && len(numbers) < least && numbers[len(numbers)-1] == "1" {
			init, least = pid, len(numbers)
		}
	}
	return init
}

// parentOf is the parent of a process; 0 if there is none.
func parentOf(pid int) int {
	n, err := strconv.Atoi(status(pid, "PPid:"))
	if err != nil {
		return 0
	}
	return n
}

// status is a line of what the kernel tells of a process, without its name.
func status(pid int, name string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// over reports whether a process has ended.
func over(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// await waits until a monitor ends, and no longer than until the next look.
func await(known map[string]*monitor) {
	var fds []unix.PollFd
	for _, m := range known {
		if m.fd >= 0 {
			fds = append(fds, unix.PollFd{Fd: int32(m.fd), Events: unix.POLLIN})
		}
	}
	_, _ = unix.Poll(slices.Clip(fds), int(lookEvery.Milliseconds())) // what is interrupted looks sooner
}

func forget(known map[string]*monitor, group string) {
	known[group].close()
	delete(known, group)
}

func (m *monitor) close() {
	if m.fd >= 0 {
		unix.Close(m.fd)
		m.fd = -1
	}
}
