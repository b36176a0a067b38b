package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// supervisePodman is the mode in which this program is the supervisor of one command in
// a container of podman: its argument is a run directory, or - as of hostler-run. It is
// for the agent alone, reads no configuration, and its exit codes are those of
// hostler-run.
const supervisePodman = "supervise-podman"

// epochPodman is the mode in which this program tells podman the epoch under which a unique
// container may be started now: its argument is the file of a permit. Podman runs it.
const epochPodman = "epoch-podman"

func epochForPodman(args []string) int {
	if len(args) != 1 || !strings.HasPrefix(args[0], "/") {
		fmt.Fprintln(os.Stderr, "usage: hostler-agent", epochPodman, "/file/of/a/permit")
		return 2
	}
	epoch, err := podman.PrintedEpoch(args[0])
	if err == nil {
		_, err = fmt.Print(epoch)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostler-agent:", err)
		return 1
	}
	return 0
}

func superviseInPodman(args []string) int {
	if len(args) != 1 || args[0] != rundir.Later && !strings.HasPrefix(args[0], "/") {
		fmt.Fprintln(os.Stderr, "usage: hostler-agent", supervisePodman, "/run/directory | -")
		return 2
	}
	runtime.GOMAXPROCS(1) // it waits most of the time, see hostler-run
	// A stray signal must not orphan the command. Caught and not ignored, because what
	// is ignored stays so in the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	dir, self, err := rundir.Dir(args[0]), (*supervise.Self)(nil), error(nil)
	if dir == rundir.Later {
		dir, self, err = supervise.Await()
	}
	if err == nil && dir != "" {
		err = podman.Supervise(dir, self)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, supervise.ErrTaken):
		return 3
	}
	fmt.Fprintln(os.Stderr, "hostler-agent "+supervisePodman+":", dir, err)
	return 1
}
