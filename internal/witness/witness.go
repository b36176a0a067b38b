// Package witness tells how processes end that are not our children: the first
// processes of containers. The kernel says it to a process that has had a pidfd of the other,
// since version 6.15; before that, only the moment is told.
package witness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// End is how a process ended.
type End struct {
	// Known tells that Status is what its parent was told.
	Known  bool
	Status syscall.WaitStatus
	// OOM tells that the kernel has killed a process of its memory cgroup for want of
	// memory since it was watched.
	OOM bool
}

// reapTime is how long the parent of a process that has ended may take to hear of it.
// Only then does the kernel tell others.
const reapTime = 2 * time.Second

// Process is one that is watched. It is used by one goroutine, and closed by Wait.
type Process struct {
	file  *os.File
	group string
	since time.Duration
}

// Watch begins to watch a process. It fails if it is gone already.
func Watch(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &Process{os.NewFile(uintptr(fd), "pidfd"), memoryGroup(pid), boot()}, nil
}

// Wait waits until the process ends, and holds no thread meanwhile. It calls gone when the
// process has ended, before it finds out how. The error is that of ctx.
func (p *Process) Wait(ctx context.Context, gone func()) (End, error) {
	defer p.file.Close()
	if err := readable(ctx, p.file); err != nil {
		return End{}, err
	}
	gone()
	end := End{}
	end.Status, end.Known = status(p.file)
	if killed := end.Known && end.Status.Signaled() && end.Status.Signal() == syscall.SIGKILL; killed || !end.Known {
		end.OOM = p.group != "" && starved(p.group, p.since)
	}
	return end, nil
}

// readable waits until a file can be read, which of a pidfd is the end of its process.
func readable(ctx context.Context, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Layout of the kernel's struct pidfd_info, as of its first version, and what asks for it.
const (
	infoSize   = 64
	infoExit   = 1 << 3                              // PIDFD_INFO_EXIT
	getInfo    = 3<<30 | infoSize<<16 | 0xff<<8 | 11 // PIDFD_GET_INFO
	exitOffset = 60
)

// status asks the kernel how the process of a pidfd has ended.
func status(f *os.File) (s syscall.WaitStatus, known bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}} // its hang-up is the end of its parent's waiting
		_, _ = unix.Poll(fds, int(reapTime.Milliseconds()))
		var info [infoSize / 8]uint64
		info[0] = infoExit
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, getInfo, uintptr(unsafe.Pointer(&info)))
		if errno == 0 && info[0]&infoExit != 0 {
			b := unsafe.Slice((*byte)(unsafe.Pointer(&info)), infoSize)
			s, known = syscall.WaitStatus(*(*uint32)(unsafe.Pointer(&b[exitOffset]))), true
		}
	})
	return s, known && err == nil
}

// memoryGroup is the cgroup that bounds the memory of a process; empty if it has none.
func memoryGroup(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return ""
	}
	unified := ""
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			if c == "memory" {
				return f[2]
			}
		}
		if f[0] == "0" {
			unified = f[2]
		}
	}
	return unified
}

// maxRecords bounds what is read of the kernel's log.
const maxRecords = 100_000

// starved reports whether the kernel's log says that it has killed a process for want of
// memory of a cgroup since some time of its life.
func starved(group string, since time.Duration) bool {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	b := make([]byte, 8<<10)
	for range maxRecords {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EPIPE): // a record went while we read
			continue
		case err != nil || n <= 0:
			return false
		}
		if at, victim, ok := parse(b[:n]); ok && at >= since && (victim == group || strings.HasPrefix(victim, group+"/")) {
			return true
		}
	}
	return false
}

// parse reads a record of the kernel's log, "priority,number,microseconds,flags;text",
// if it tells of a kill for want of memory of a cgroup.
func parse(record []byte) (at time.Duration, group string, ok bool) {
	head, text, found := bytes.Cut(record, []byte(";"))
	if !found || !bytes.HasPrefix(text, []byte("oom-kill:constraint=CONSTRAINT_MEMCG")) {
		return 0, "", false
	}
	f := strings.SplitN(string(head), ",", 4)
	if len(f) < 3 {
		return 0, "", false
	}
	us, err := strconv.ParseInt(f[2], 10, 64)
	_, rest, found := strings.Cut(string(text), ",oom_memcg=")
	group, _, _ = strings.Cut(rest, ",")
	return time.Duration(us) * time.Microsecond, strings.TrimSpace(group), err == nil && found
}

// boot is the clock that the kernel's log has.
func boot() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
