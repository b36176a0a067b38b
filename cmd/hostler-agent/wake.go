package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/guard"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/daemon"
)

const (
	// wakers is how many processes wake the agent: each alone is enough, so that the agent
	// does not stay stopped if one is killed.
	wakers = 2
	// wakeAgain is how often each does it, a second apart: the agent may come to stop
	// itself only after the end, on a machine that is very slow.
	wakeAgain = 10
)

// stopUntil stops this process. It goes on when the boot clock reads until, by processes
// that were started before and need nothing of it.
func stopUntil(ctx context.Context, until int64, log *slog.Logger) error {
	self, err := thisProgram()
	if err != nil {
		return err
	}
	for range wakers {
		if err := startWaker(ctx, []string{self, "wake", "--pid", strconv.Itoa(os.Getpid()), "--until-ms", strconv.FormatInt(until, 10)}); err != nil {
			return fmt.Errorf("start the process that wakes the agent: %w", err)
		}
	}
	log.Warn("the agent stops itself for a drill", "until_boot_ms", until)
	return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// startWaker returns when the waker waits for the end. Before that nothing is stopped.
func startWaker(ctx context.Context, argv []string) error {
	ready, said, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(argv[0], argv[1:]...) // it outlives the agent, if that is killed
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

// wakeCommand is the process that ends a drill of a stopped agent. The agent starts it;
// people need not.
func wakeCommand(logger func(*cobra.Command) *slog.Logger) *cobra.Command {
	var pid int
	var until int64
	cmd := &cobra.Command{
		Use: "wake", Short: "Wake an agent that a drill has stopped; the agent starts it", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := guard.Settle(); err != nil {
				logger(cmd).Warn("the process that ends the drill is easier to kill than it should be", "error", err)
			}
			// The agent is the parent as long as it lives: no other process has its number then.
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil || os.Getppid() != pid {
				return daemon.Usage(errors.Join(fmt.Errorf("process %d is not the agent that has started this", pid), err))
			}
			over, stop, err := clock.After(time.Duration(until-clock.BootMS()) * time.Millisecond)
			if err != nil {
				return err
			}
			defer stop()
			if _, err := fmt.Fprintln(cmd.OutOrStdout()); err != nil { // it waits
				return err
			}
			return wake(fd, over)
		},
	}
	cmd.Flags().IntVar(&pid, "pid", 0, "the agent")
	cmd.Flags().Int64Var(&until, "until-ms", 0, "when it goes on, by the boot clock")
	return cmd
}

// wake lets a process go on when the time is over, or ends before with the process. A
// signal to the agent's group does not end it.
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
