package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// stalls are the triggers of the kernel: in a window of 2 s, tasks waited for so long.
var stalls = map[string]string{
	"/proc/pressure/memory": "some 300000 2000000\x00", // 15 %
	"/proc/pressure/io":     "some 600000 2000000\x00", // 30 %: a disk that works is waited for
}

// Watch calls wake when the kernel tells that something has become worse, until ctx ends:
// tasks begin to wait for memory or disks (PSI), or a process was killed for want of memory
// (the kernel's log). It calls lacks with what cannot be watched on this host, as soon as it
// knows: the rest is watched, and samples are late where nothing tells.
func Watch(ctx context.Context, wake func(), lacks func(error)) {
	watchAll(ctx, lacks,
		func() error { return watchPressure(ctx, stalls, wake) },
		func() error {
			f, err := openLog("/dev/kmsg")
			if err != nil {
				return err
			}
			return watchLog(ctx, f, wake)
		})
}

// watchAll watches until all have ended, and tells which did before ctx.
func watchAll(ctx context.Context, lacks func(error), watches ...func() error) {
	var all sync.WaitGroup
	for _, watch := range watches {
		all.Go(func() {
			if err := watch(); err != nil && ctx.Err() == nil {
				lacks(err)
			}
		})
	}
	all.Wait()
}

// watchPressure arms triggers, and waits for them on a thread of its own: what the kernel
// tells of them is urgent data, for which the runtime cannot wait.
func watchPressure(ctx context.Context, triggers map[string]string, wake func()) error {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watching pressure: %w", err)
	}
	defer unix.Close(stop)
	fds := []unix.PollFd{{Fd: int32(stop), Events: unix.POLLIN}}
	for path, trigger := range triggers {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("watching pressure: %s: %w", path, err)
		}
		defer unix.Close(fd)
		if _, err := unix.Write(fd, []byte(trigger)); err != nil {
			return fmt.Errorf("watching pressure: %s: %w", path, err)
		}
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLPRI})
	}
	var ending sync.WaitGroup
	ending.Add(1)
	undo := context.AfterFunc(ctx, func() {
		defer ending.Done()
		_, _ = unix.Write(stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // a counter of its own takes one
	})
	defer func() {
		if !undo() {
			ending.Wait() // before the descriptor is closed
		}
	}()
	for ctx.Err() == nil {
		_, err := unix.Poll(fds, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("watching pressure: %w", err)
		}
		for _, f := range fds[1:] {
			switch {
			case f.Revents&unix.POLLERR != 0:
				return errors.New("watching pressure: the kernel has dropped the trigger")
			case f.Revents&unix.POLLPRI != 0:
				wake()
			}
		}
	}
	return nil
}

// maxLogRecord is the longest record of the kernel's log.
const maxLogRecord = 8 << 10

// openLog opens the kernel's log at its end.
func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("watching the kernel's log: %w", err)
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("watching the kernel's log: %w", err), f.Close())
	}
	return f, nil
}

// watchLog reads the kernel's log from where it stands, and closes it.
func watchLog(ctx context.Context, f *os.File, wake func()) error {
	defer f.Close()
	undo := context.AfterFunc(ctx, func() { _ = f.Close() }) // it ends the read
	defer undo()
	record := make([]byte, maxLogRecord)
	for {
		n, err := f.Read(record)
		switch {
		case errors.Is(err, unix.EPIPE): // records went before they were read: one may have told of it
			wake()
		case err != nil:
			return fmt.Errorf("watching the kernel's log: %w", err)
		case killed(record[:n]):
			wake()
		}
	}
}

// killed reports whether a record of the kernel's log tells that a process was killed for
// want of memory.
func killed(record []byte) bool {
	_, text, _ := bytes.Cut(record, []byte(";"))
	return bytes.Contains(text, []byte("Out of memory: Killed process")) || bytes.Contains(text, []byte("Memory cgroup out of memory: Killed process")) ||
		bytes.HasPrefix(text, []byte("oom-kill:"))
}
