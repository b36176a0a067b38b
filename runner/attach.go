package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hostler-io/hostler/runner/rundir"
)

// ErrNoTerminal: the command has no terminal to attach to.
var ErrNoTerminal = errors.New("the command has no terminal")

// Attach opens the way to the terminal of a run: Write gives one packet of package
// terminal to the supervisor, Read waits for acknowledgements. It waits until the
// supervisor listens. ErrNoTerminal: there is none. When the run is over it gives what
// Wait gives, or ErrNoTerminal.
func (run *Run) Attach(ctx context.Context) (at io.ReadWriteCloser, err error) {
	err = run.ask(ctx, func() (answered bool, err error) {
		at, err = run.attach()
		return err == nil || errors.Is(err, ErrNoTerminal), err
	})
	if err == nil && at == nil {
		err = ErrNoTerminal
	}
	return at, err
}

// attachTimeout bounds how long a supervisor may take to answer.
const attachTimeout = 5 * time.Second

// attach tries once.
func (run *Run) attach() (io.ReadWriteCloser, error) {
	conn, err := run.dial()
	if err != nil {
		return nil, err
	}
	result := ""
	if err = conn.SetDeadline(time.Now().Add(attachTimeout)); err == nil {
		result, err = exchange(conn, rundir.Request{Op: rundir.OpAttach})
	}
	switch {
	case err != nil:
	case result == rundir.ResultUnsupported, result == rundir.ResultRefused:
		err = ErrNoTerminal // an older supervisor does not know what is asked
	case result != rundir.ResultAttached:
		err = fmt.Errorf("attaching: supervisor answered %q", result)
	default:
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
