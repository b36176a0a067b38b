package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/clock"
)

const (
	// wakers is how many processes wake the stopped one. Each of them alone is enough.
	wakers = 2
	// wakeAgain is how often each does it, a second apart: the process may come to stop
	// itself only after the end, on a machine that is very slow.
	wakeAgain = 10
)

// StopUntil stops this process. It goes on when the boot clock reads until, in
// milliseconds, by processes that were started before and need nothing of it: each calls
// [Wake]. waker is their program with leading arguments; the process that they wake and
// the time follow, as decimal numbers.
func StopUntil(ctx context.Context, until int64, waker ...string) error {
	argv := append(waker, strconv.Itoa(os.Getpid()), strconv.FormatInt(until, 10))
	for range wakers {
		if err := startWaker(ctx, argv); err != nil {
			return fmt.Errorf("start the process that wakes the agent: %w", err)
		}
	}
	return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// startWaker returns when the waker waits for the end. Before that nothing is stopped.
func startWaker(ctx context.Context, argv []string) error {
	ready, said, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(argv[0], argv[1:]...) // it outlives this process, if that is killed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = said, os.Stderr
	err = cmd.Start()
	said.Close()
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it ends with the child, or with this process
	if err := ready.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Now()) })() // only a wait ends early
	_, err = bufio.NewReader(ready).ReadByte()
	return err
}

// Wake lets the parent of this process go on when the boot clock reads until, in
// milliseconds, and tells ready by a line that it waits for that. It ends before if the
// parent does.
func Wake(ready io.Writer, parent int, until int64) error {
	fd, err := unix.PidfdOpen(parent, 0)
	// As long as the parent lives, no other process has its number.
	if err != nil || os.Getppid() != parent {
		return errors.Join(fmt.Errorf("process %d has not started this one, so it is not woken", parent), err)
	}
	over, stop, err := clock.After(time.Duration(until-clock.BootMS()) * time.Millisecond)
	if err != nil {
		return err
	}
	defer stop()
	if _, err := fmt.Fprintln(ready); err != nil {
		return err
	}
	return wake(fd, over)
}

// wake lets a process go on when the time is over.
func wake(pidfd int, over <-chan struct{}) error {
	ended := make(chan struct{})
	go func() { // it ends with the process that is watched, or with this one
		defer close(ended)
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				return
			}
		}
	}()
	for range wakeAgain {
		select {
		case <-ended:
			return nil
		case <-over:
		}
		if err := unix.PidfdSendSignal(pidfd, unix.SIGCONT, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-time.After(time.Second):
		}
	}
	return nil
}
