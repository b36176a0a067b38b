// Hostler-run is the supervisor of one command of the host.
//
//	hostler-run DIR
//	hostler-run -
//
// DIR is a run directory that the agent has prepared (see package
// runner/rundir). hostler-run runs the command that spec.json describes, writes
// its output and its end there, and outlives the agent meanwhile. It reads no
// environment and no configuration. With - in place of DIR it is started in advance
// and waits for the path on standard input; if that ends without one, so does it.
//
// It runs Go code on one processor at a time: nearly all it does is to wait, for
// the disk or for the command, and a second one would only spin meanwhile.
//
// Exit codes: 0, exit.json tells how the command ended; 2, wrong usage; 3, the
// directory is another supervisor's, nothing was done; 1, the end could not be
// recorded, and standard error says why.
package main

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) != 1 || args[0] != rundir.Later && !strings.HasPrefix(args[0], "/") {
		os.Stderr.WriteString("usage: hostler-run /run/directory | -\n")
		return 2
	}
	runtime.GOMAXPROCS(1)
	// A stray signal must not orphan the command. Caught and not ignored,
	// because what is ignored stays so in the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	config := supervise.Config{Dir: rundir.Dir(args[0]), Launcher: &supervise.Host{}}
	var err error
	if config.Dir == rundir.Later {
		if config.Dir, config.Self, err = supervise.Await(); config.Dir == "" && err == nil {
			return 0
		}
	}
	if err == nil {
		err = supervise.Run(config)
	}
	if errors.Is(err, supervise.ErrTaken) {
		return 3
	}
	if err != nil {
		os.Stderr.WriteString("hostler-run: " + string(config.Dir) + ": " + err.Error() + "\n")
		return 1
	}
	return 0
}
