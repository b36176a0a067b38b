package rundir

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Leaf is the absolute path of a leaf: the directory of the cgroup2 tree that
// holds every process of one command. It works the same on hybrid machines.
// The methods treat a leaf that is gone as one that is empty: the kernel
// removes no cgroup in which a process lives.
type Leaf string

// maxDepth bounds how deep the command's own cgroups below its leaf are followed.
const maxDepth = 16

// Populated reports whether any process lives in the leaf or below it. Zombies
// do not count.
func (l Leaf) Populated() (bool, error) {
	f, err := os.Open(string(l) + "/cgroup.events")
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	return populated(f)
}

func populated(events *os.File) (bool, error) {
	b := make([]byte, 4096)
	n, err := events.ReadAt(b, 0)
	if gone(err) {
		return false, nil
	}
	if err != nil && err != io.EOF {
		return false, err
	}
	return !bytes.Contains(b[:n], []byte("populated 0")), nil
}

// End kills everything in the leaf and below, and returns nil when nothing lives
// there any more, or the cause of ctx.
func (l Leaf) End(ctx context.Context) error {
	return l.end(func() error { return context.Cause(ctx) })
}

// EndFully is End without a context: it takes as long as it takes.
func (l Leaf) EndFully() error { return l.end(func() error { return nil }) }

func (l Leaf) end(stop func() error) error {
	for {
		if left, err := l.Populated(); err != nil || !left {
			return err
		}
		if err := l.Kill(); err != nil {
			return err
		}
		if empty, err := l.WaitEmpty(killAgain); err != nil || empty {
			return err
		}
		if err := stop(); err != nil {
			return err
		}
	}
}

// killAgain is after how long a leaf that was killed and is not empty is killed
// once more. What has the signal ends within a few milliseconds, unless it waits for
// a disk.
const killAgain = 50 * time.Millisecond

// Kill sends SIGKILL to everything in the leaf and below (cgroup.kill, Linux 5.14).
// It is no end: kernels (6.18 is one) may miss a process that is being forked.
func (l Leaf) Kill() error {
	f, err := os.OpenFile(string(l)+"/cgroup.kill", os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("1")
		f.Close()
	}
	if gone(err) {
		return nil
	}
	return err
}

// Signal sends signals, in this order, to every process that is in the leaf or
// below. The leaf is frozen meanwhile, so that none is missed because it is being
// forked; what the processes make once they have the signals gets none. A leaf that
// does not freeze in freezeTime is signalled as it is.
func (l Leaf) Signal(signals ...unix.Signal) error { return l.signal(freezeTime, signals...) }

// signal is Signal with another freezeTime, for tests on busy machines.
func (l Leaf) signal(within time.Duration, signals ...unix.Signal) error {
	defer l.freeze(within)()
	return signalTree(string(l), signals, maxDepth)
}

// freezeTime is how long a leaf is waited for to be frozen: a process that waits for
// a disk freezes when it has got it.
const freezeTime = 50 * time.Millisecond

// freeze keeps the processes of the leaf from going on until thaw is called. It is
// best effort.
func (l Leaf) freeze(within time.Duration) (thaw func()) {
	f, err := os.OpenFile(string(l)+"/cgroup.freeze", os.O_WRONLY, 0)
	if err != nil {
		return func() {}
	}
	thaw = func() {
		_, _ = f.WriteString("0") // ENODEV: it is gone
		f.Close()
	}
	events, err := os.Open(string(l) + "/cgroup.events")
	if err != nil {
		return thaw
	}
	defer events.Close()
	if _, err := f.WriteString("1"); err != nil {
		return thaw
	}
	b := make([]byte, 4096)
	fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
	var look glance
	for until := time.Now().Add(within); ; {
		n, err := events.ReadAt(b, 0)
		left := time.Until(until)
		if err != nil && err != io.EOF || left <= 0 || bytes.Contains(b[:n], []byte("frozen 1")) {
			return thaw
		}
		_ = poll(fds, look.next(left))
	}
}

func signalTree(path string, signals []unix.Signal, depth int) error {
	pids, err := processes(path)
	if err != nil {
		return err
	}
	fds := make(map[int]int, len(pids))
	for pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
		}
	}
	// A pid may have changed its owner before its pidfd was opened. The second
	// look proves that it names a process of the leaf.
	pids, err = processes(path)
	for pid, fd := range fds {
		for _, sig := range signals {
			if pids[pid] {
				// ESRCH: it has ended meanwhile.
				_ = unix.PidfdSendSignal(fd, sig, nil, 0)
			}
		}
		unix.Close(fd)
	}
	return errors.Join(err, eachChild(path, depth, func(child string) error {
		return signalTree(child, signals, depth-1)
	}))
}

// Processes returns the pids of the leaf and below, of this PID namespace.
func (l Leaf) Processes() ([]int, error) {
	all := map[int]bool{}
	err := collect(string(l), maxDepth, all)
	return slices.Sorted(maps.Keys(all)), err
}

func collect(path string, depth int, all map[int]bool) error {
	pids, err := processes(path)
	maps.Copy(all, pids)
	return errors.Join(err, eachChild(path, depth, func(child string) error { return collect(child, depth-1, all) }))
}

// processes returns the pids in one cgroup directory.
func processes(path string) (map[int]bool, error) {
	pids := map[int]bool{}
	b, err := ReadCapped(path+"/cgroup.procs", 4<<20)
	if gone(err) {
		return pids, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		// 0 stands for a process outside of our PID namespace.
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil && pid > 0 {
			pids[pid] = true
		}
	}
	return pids, nil
}

// Remove removes the leaf and the cgroups below. EBUSY means that it is populated.
func (l Leaf) Remove() error { return removeTree(string(l), maxDepth) }

func removeTree(path string, depth int) error {
	err := unix.Rmdir(path)
	if err == nil || gone(err) {
		return nil
	}
	// Populated or not, children make the kernel say EBUSY.
	if cause := eachChild(path, depth, func(child string) error { return removeTree(child, depth-1) }); cause != nil {
		return cause
	}
	if err = unix.Rmdir(path); err == nil || gone(err) {
		return nil
	}
	return &fs.PathError{Op: "rmdir", Path: path, Err: err}
}

func eachChild(path string, depth int, do func(string) error) error {
	if depth == 0 {
		return nil
	}
	entries, err := Names(path)
	if gone(err) {
		return nil
	}
	for _, name := range entries {
		if mode, e := Mode(path + "/" + name); e == nil && IsDir(mode) {
			err = errors.Join(err, do(path+"/"+name))
		}
	}
	return err
}

// forEver is a wait without an end.
const forEver time.Duration = -1

// WaitEmpty waits until nothing lives in the leaf, for so long, or for ever if that is
// below zero. It sleeps in the kernel until cgroup.events changes, but for a few looks
// at the beginning.
func (l Leaf) WaitEmpty(within time.Duration) (empty bool, err error) {
	f, err := os.Open(string(l) + "/cgroup.events")
	if gone(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
	var look glance
	for begun := time.Now(); ; {
		// Reading this very file rearms the poll, so it comes first.
		if left, err := populated(f); err != nil || !left {
			return err == nil, err
		}
		rest := forEver
		if within >= 0 {
			if rest = within - time.Since(begun); rest <= 0 {
				return false, nil
			}
		}
		if err := poll(fds, look.next(rest)); err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
	}
}

// A glance is for how long an event of cgroup.events was waited for before a caller
// looked without one. The kernel tells of changes at most every ten milliseconds: who
// waits soon after another change hears of the next that much later. So one looks a few
// times, and then relies on being told.
type glance time.Duration

const (
	firstGlance = glance(200 * time.Microsecond)
	lastGlance  = glance(13 * time.Millisecond)
)

// next is for how long to wait for an event now, if left is left in all; forEver is
// for either without an end.
func (g *glance) next(left time.Duration) time.Duration {
	if *g > lastGlance {
		return left
	}
	now := max(*g, firstGlance)
	*g = 2 * now
	if left == forEver {
		return time.Duration(now)
	}
	return min(time.Duration(now), left)
}

// poll waits for events.
func poll(fds []unix.PollFd, within time.Duration) error {
	if within == forEver {
		_, err := unix.Ppoll(fds, nil, nil)
		return err
	}
	t := unix.NsecToTimespec(within.Nanoseconds())
	_, err := unix.Ppoll(fds, &t, nil)
	return err
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
