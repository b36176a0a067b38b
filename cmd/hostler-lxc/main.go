//go:build linux && cgo

// Hostler-lxc is the only program of Hostler that is linked to liblxc. The agent
// runs it, one short-lived process per operation, or for starts that follow each other;
// people need not.
//
//	hostler-lxc probe|list|inspect|create|destroy|start|stop|debris   request on stdin, answer on stdout, lines of JSON
//	hostler-lxc supervise DIR|-                                       one command inside a container, by its run directory
//	hostler-lxc may-start NAME lxc pre-start                          whether a unique container may be started now; liblxc runs it
//	hostler-lxc version                                               the version of liblxc
//
// It exits with 0 if there is an answer, which may tell of a failure, with 1 if
// there is none, with 2 if it was called wrongly, and with 3 if the run directory
// is or was another supervisor's. Without liblxc it does not
// start at all: the dynamic loader says so and exits with 127.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/lxc/helper"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if err := rundir.SealFiles(); err != nil {
		return report(err)
	}
	switch {
	case len(args) == 1 && args[0] == "version":
		fmt.Println(helper.Version())
		return 0
	case len(args) == 2 && args[0] == "supervise":
		runtime.GOMAXPROCS(1) // it waits most of the time, see hostler-run
		// A stray signal must not orphan the command. Caught and not ignored,
		// because what is ignored stays so in the command.
		signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		dir, self, err := rundir.Dir(args[1]), (*supervise.Self)(nil), error(nil)
		if dir == rundir.Later {
			dir, self, err = supervise.Await()
		}
		if err != nil || dir == "" {
			return report(err)
		}
		return report(helper.Supervise(dir, self))
	case len(args) > 0 && args[0] == helper.MayStart: // liblxc adds arguments of its own
		return report(helper.CheckStart(os.Getenv("LXC_CONFIG_FILE")))
	case len(args) == 1 && args[0] != "supervise" && !strings.HasPrefix(args[0], "-"):
		out, err := takeStdout()
		if err != nil {
			return report(err)
		}
		return report(helper.Run(args[0], os.Stdin, out))
	}
	fmt.Fprintln(os.Stderr, "usage: hostler-lxc OPERATION < request | supervise DIR|- | may-start | version")
	return 2
}

func report(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "hostler-lxc:", err)
	if errors.Is(err, supervise.ErrTaken) {
		return 3
	}
	return 1
}

// takeStdout keeps standard output for the answer and lets everything else, such
// as the words of templates, go to standard error.
func takeStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("keeping standard output: %w", err)
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return nil, fmt.Errorf("redirecting standard output: %w", err)
	}
	return os.NewFile(uintptr(fd), "answer"), nil
}
