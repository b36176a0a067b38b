// Pulse runs in a unique container of a test and writes every 10 ms, into a file that all
// copies of the container share, that it lives: its host, the epoch that it was told, when
// it began, and the time, both in nanoseconds since the boot of the machine.
//
// The host it reads from where its root directory is on the machine:
// …/HOST/lxc/CONTAINER/rootfs.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pulse:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("%d arguments: give the file to write to", len(os.Args)-1)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	host, err := hostOf(string(mounts))
	if err != nil {
		return err
	}
	epoch := os.Getenv("HOSTLER_EPOCH")
	if epoch == "" {
		return fmt.Errorf("HOSTLER_EPOCH is not set: this container is not unique")
	}
	// The test makes the file: copies on two hosts are two users, and neither could open
	// what the other has made.
	f, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	born, err := sinceBoot()
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGPWR, syscall.SIGINT)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := sinceBoot()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(f, "%s %s %d %d\n", host, epoch, born, now); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-stop:
			return nil
		}
	}
}

// sinceBoot is the time since the boot of the machine, in nanoseconds.
func sinceBoot() (int64, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return t.Nano(), err
}

// hostOf finds the host in the list of mounts: its name is before lxc in the path of the
// root directory.
func hostOf(mounts string) (string, error) {
	for line := range strings.Lines(mounts) {
		if f := strings.Fields(line); len(f) < 5 || f[4] != "/" {
			continue
		}
		if before, _, ok := strings.Cut(line, "/lxc/"); ok {
			return path.Base(before), nil
		}
	}
	return "", fmt.Errorf("no root directory …/HOST/lxc/CONTAINER is mounted: %s", mounts)
}
