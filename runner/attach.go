package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/runner/rundir"
)

// ErrNoTerminal: the command has no terminal to attach to.
var ErrNoTerminal = errors.New("the command has no terminal")

// An Attachment is the way to the terminal of a run, for packets of package
// terminal. Send and Read may be used at the same time, each by one goroutine.
type Attachment struct{ conn *net.UnixConn }

// Send gives one packet to the supervisor. It waits when the supervisor is slow,
// and fails when the run is over or its supervisor gone.
func (a *Attachment) Send(packet []byte) error {
	_, err := a.conn.Write(packet)
	return err
}

// Read waits for acknowledgements and puts them into buf.
func (a *Attachment) Read(buf []byte) (int, error) { return a.conn.Read(buf) }

// Close ends the attachment, and what waits in its methods. The session goes on.
func (a *Attachment) Close() error { return a.conn.Close() }

// Attach opens the way to the terminal of a run. It waits until the supervisor
// listens. ErrNoTerminal: there is none. When the run is over it gives what Wait
// gives, or ErrNoTerminal.
func (run *Run) Attach(ctx context.Context) (*Attachment, error) {
	for {
		changed := run.Changed()
		select {
		case <-run.done:
			if _, err := run.Wait(ctx); err != nil {
				return nil, err
			}
			return nil, ErrNoTerminal
		default:
		}
		a, err := run.attach()
		if err == nil || errors.Is(err, ErrNoTerminal) {
			return a, err
		}
		// It does not listen yet, has too many peers, or has just ended.
		retry := time.NewTimer(retryCancel)
		select {
		case <-changed:
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return nil, context.Cause(ctx)
		case <-run.runner.closed:
			retry.Stop()
			return nil, ErrClosed
		}
		retry.Stop()
	}
}

// attach tries once.
func (run *Run) attach() (*Attachment, error) {
	dir, err := os.OpenFile(string(run.dir), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: rundir.SocketPath(dir, rundir.CtlFile), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	if err := askAttach(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return &Attachment{conn}, nil
}

// attachTimeout bounds how long a supervisor may take to answer.
const attachTimeout = 5 * time.Second

func askAttach(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(attachTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(rundir.AppendRequest(nil, rundir.Request{Op: rundir.OpAttach})); err != nil {
		return err
	}
	buf := make([]byte, rundir.MaxPacket+1)
	n, err := conn.Read(buf)
	if err != nil {
		return err
	}
	reply, err := rundir.ParseReply(buf[:n])
	switch {
	case err != nil:
		return err
	case reply.Result == rundir.ResultUnsupported, reply.Result == rundir.ResultRefused:
		return ErrNoTerminal // an older supervisor does not know what is asked
	case reply.Result != rundir.ResultAttached:
		return fmt.Errorf("attaching: supervisor answered %q", reply.Result)
	}
	return conn.SetDeadline(time.Time{})
}
