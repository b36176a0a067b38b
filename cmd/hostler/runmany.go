package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/hostler-io/hostler/protocol"
)

const (
	// manyAtOnce bounds how many hosts are spoken for at a time. Each takes a
	// few requests that last as long as its command.
	manyAtOnce = 32
	// maxLine is the longest line of output that is held back, in bytes.
	maxLine = 64 << 10
)

// runMany runs a command on several hosts.
func (a *app) runMany(ctx context.Context, r *remote, c *command, hosts []protocol.HostID, spec []byte) error {
	out := &lockedWriter{w: a.out}
	turns := make(chan struct{}, manyAtOnce)
	results := make([]error, len(hosts))
	var group sync.WaitGroup
	for i, host := range hosts {
		group.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results[i] = a.runAmong(ctx, r, c, host, spec, out)
		})
	}
	group.Wait()
	failed := 0
	for i, err := range results {
		if err == nil {
			continue
		}
		failed++
		if code, ok := err.(exit); ok {
			a.say("hostler: %s: exit code %d", hosts[i], int(code))
		} else if ctx.Err() == nil {
			fmt.Fprintf(a.err, "hostler: %s: %s\n", hosts[i], printable(err.Error()))
		}
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	if failed > 0 {
		a.say("hostler: failed on %d of %d hosts", failed, len(hosts))
		return exit(exitFailed)
	}
	return nil
}

// runAmong runs the command on one host of several.
func (a *app) runAmong(ctx context.Context, r *remote, c *command, host protocol.HostID, spec []byte, out *lockedWriter) error {
	what := "run the command on " + string(host)
	act, err := a.submit(ctx, r, host, spec)
	if err != nil {
		return cannot(what, err)
	}
	if c.noWait {
		fmt.Fprintf(out, "%s %s\n", host, printable(act.ID))
		return nil
	}
	stdout, stderr := &lines{prefix: string(host) + ": ", w: out}, &lines{prefix: string(host) + ": ", w: a.err}
	f := &follower{app: a, remote: r, label: string(host), stdout: stdout, stderr: stderr, hold: true}
	final, err := f.wait(ctx, act)
	stdout.flush()
	stderr.flush()
	if err != nil {
		if ctx.Err() != nil {
			a.leave(act.ID)
		}
		return cannot(what, err)
	}
	return a.commandEnded(what, final)
}

// lines writes whole lines with a prefix, so that those of several hosts do
// not run into one another.
type lines struct {
	prefix string
	w      io.Writer // takes a whole line at a time
	held   []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.held = append(l.held, b...)
	for {
		end := bytes.IndexByte(l.held, '\n') + 1
		if end == 0 && len(l.held) >= maxLine {
			end = maxLine
		}
		if end == 0 {
			return len(b), nil
		}
		if err := l.line(l.held[:end]); err != nil {
			return 0, err
		}
		l.held = l.held[end:]
	}
}

// flush writes what is left without a line end.
func (l *lines) flush() {
	if len(l.held) > 0 {
		_ = l.line(l.held) // whoever read it is gone, and was told so before
		l.held = nil
	}
}

func (l *lines) line(b []byte) error {
	whole := append([]byte(l.prefix), b...)
	if whole[len(whole)-1] != '\n' {
		whole = append(whole, '\n')
	}
	_, err := l.w.Write(whole)
	return err
}
