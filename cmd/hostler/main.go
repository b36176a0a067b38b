// Hostler is the program of the operators: it makes the keys of a fleet, lets
// hosts in, runs commands on hosts and in containers, and shows what there is.
// It speaks to a coordinator over HTTPS, or to the agent of this host over its
// unix socket.
//
// Data goes to standard output, everything else to standard error. The exit
// codes are those of [exitFailed] and its neighbours; run and exec pass on the
// code of the command that they ran.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/hostler-io/hostler/internal/clock"
)

func main() { os.Exit(run()) }

func run() int {
	terminated, stopTerm := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stopTerm()
	ctx, stopInt := signal.NotifyContext(terminated, os.Interrupt)
	defer stopInt()
	// What is asked for a second time is done at once.
	context.AfterFunc(ctx, func() {
		stopInt()
		stopTerm()
	})
	a := &app{
		in:    os.Stdin,
		out:   os.Stdout,
		err:   &lockedWriter{w: os.Stderr},
		inTTY: term.IsTerminal(int(os.Stdin.Fd())), outTTY: term.IsTerminal(int(os.Stdout.Fd())), errTTY: term.IsTerminal(int(os.Stderr.Fd())),
		env:    os.Getenv,
		now:    clock.Now,
		random: func(b []byte) { _, _ = rand.Read(b) }, // it never fails
		every:  2 * time.Second,
		look:   daemonLook,
		tail:   tail,
		secret: readSecret,
	}
	if a.inTTY {
		a.console = tty{os.Stdin}
	}
	code := a.main(ctx, os.Args[1:])
	// stopTerm ends it too, with another cause than a signal.
	if code == exitInterrupted && terminated.Err() != nil && context.Cause(terminated) != context.Canceled {
		return exitTerminated
	}
	return code
}

// readSecret reads a line of the terminal, which shows again what is typed
// afterwards, however it ends.
func readSecret(done <-chan struct{}) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	line, err := answered(done, func() ([]byte, error) { return term.ReadPassword(fd) })
	if errors.Is(err, errInterrupted) {
		err = errors.Join(err, term.Restore(fd, before))
	}
	return line, err
}
