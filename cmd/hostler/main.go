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
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/hostler-io/hostler/internal/clock"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// What is asked for a second time is done at once.
	context.AfterFunc(ctx, stop)
	a := &app{
		in:    os.Stdin,
		out:   os.Stdout,
		err:   &lockedWriter{w: os.Stderr},
		inTTY: term.IsTerminal(int(os.Stdin.Fd())), outTTY: term.IsTerminal(int(os.Stdout.Fd())), errTTY: term.IsTerminal(int(os.Stderr.Fd())),
		env:    os.Getenv,
		now:    clock.Now,
		random: func(b []byte) { _, _ = rand.Read(b) }, // it never fails
		every:  2 * time.Second,
		secret: func() ([]byte, error) { return term.ReadPassword(int(os.Stdin.Fd())) },
	}
	if a.inTTY {
		a.console = tty{os.Stdin}
	}
	return a.main(ctx, os.Args[1:])
}
