package lxc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/lxc/internal/wire"
)

// Bounds of one helper process.
const (
	// maxStderr is how much of its last words are kept for an error message.
	maxStderr = 4 << 10
	// pipeGrace is how long, after its end, something that it left behind may
	// keep its pipes open before they are closed.
	pipeGrace = 2 * time.Second
)

// errUnread: a helper that waited has ended before it read a request.
var errUnread = errors.New("it has ended")

// errUnasked: a helper has said more than it was asked.
var errUnasked = errors.New("it answers what it was not asked")

// child is a helper that runs. One goroutine at a time uses it.
type child struct {
	file, path, op string // what is executed, what it is called and what it does
	cmd            *exec.Cmd
	kill           context.CancelFunc
	in             io.WriteCloser
	out            answers
	stderr         tail
	late           *time.Timer   // while it waits: it is dismissed then
	kept           bool          // it has answered before
	ended          chan struct{} // closed when nothing of it runs any more
	err            error         // how it ended; read after ended
}

// launch starts a helper.
func (p *process) launch(file, op string) (*child, error) {
	ctx, kill := context.WithCancel(context.Background())
	c := &child{file: file, path: p.program.Path, op: op, kill: kill, ended: make(chan struct{})}
	c.out.lines = make(chan []byte, 1)
	c.stderr.limit = maxStderr
	cmd := exec.CommandContext(ctx, file, op)
	cmd.Args[0] = c.path
	cmd.Env = []string{"LC_ALL=C"}
	if op != wire.OpStart {
		// Templates are shell scripts: they need a PATH and must inherit nothing else.
		// At a start, liblxc would look there for newuidmap, which knows the ids of
		// /etc/subuid alone; the shell of a hook has a PATH of its own.
		cmd.Env = append(cmd.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	cmd.Env = append(append(cmd.Env, failpoint.Environ()...), clock.Environ()...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = &c.out, &c.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = pipeGrace
	c.cmd = cmd
	var err error
	if c.in, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		kill()
		if e := unusable(c.path, err, ""); e != nil {
			return nil, e
		}
		return nil, fmt.Errorf("running %s: %w", c.path, err)
	}
	go func() {
		c.err = cmd.Wait()
		kill()
		close(c.ended)
	}()
	return c, nil
}

// ask returns the answer to a request, whatever its code. Unless that says that the helper
// waits for more, nothing of it is left running then, and so if ctx ends.
func (c *child) ask(ctx context.Context, request []byte) (wire.Answer, error) {
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	// A helper that does not read its first request ends without an answer, or with one that
	// says why.
	if _, err := c.in.Write(append(request, '\n')); err != nil && c.kept && ctx.Err() == nil {
		c.dismiss()
		return wire.Answer{}, errUnread
	}
	if c.op != wire.OpStart {
		c.dismiss()
	}
	var answer []byte
	select {
	case answer = <-c.out.lines:
		if a, err := wire.DecodeAnswer(answer); err == nil && a.More && stop() {
			return a, nil
		}
		c.dismiss()
		<-c.ended
	case <-c.ended:
		select {
		case answer = <-c.out.lines:
		default:
			answer = c.out.part
		}
	}
	return c.last(answer)
}

// last is what an answer comes to after which the helper has ended.
func (c *child) last(answer []byte) (wire.Answer, error) {
	if err := unusable(c.path, c.err, c.stderr.String()); err != nil {
		return wire.Answer{}, err
	}
	if c.out.full {
		return wire.Answer{}, fmt.Errorf("running %s: its answer exceeds %d bytes", c.path, wire.MaxSize)
	}
	if killed(c.err) {
		return wire.Answer{}, fmt.Errorf("%w: running %s: %w%s", container.ErrInterrupted, c.path, c.err, said(c.stderr.String()))
	}
	if c.err != nil {
		return wire.Answer{}, fmt.Errorf("running %s: %w%s", c.path, c.err, said(c.stderr.String()))
	}
	a, err := wire.DecodeAnswer(answer)
	if err != nil {
		return wire.Answer{}, fmt.Errorf("%w%s", err, said(c.stderr.String()))
	}
	if a.Code != "" && c.op == wire.OpCreate {
		a.Reason += said(c.stderr.String()) // the last words of a template say why
	}
	return a, nil
}

// dismiss tells the helper that there are no more requests.
func (c *child) dismiss() { _ = c.in.Close() } // it may have ended

// over reports whether it has ended.
func (c *child) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// killed reports whether a signal ended the helper.
func killed(runErr error) bool {
	exit, ok := errors.AsType[*exec.ExitError](runErr)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// killGroup ends the helper and all it started. The helper leads its group, and
// the number cannot belong to another one while any member lives.
func killGroup(leader *os.Process) error {
	if err := leader.Kill(); err != nil { // os.ErrProcessDone once it was waited for
		return err
	}
	if err := syscall.Kill(-leader.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// said appends what the helper wrote to its standard error, if anything.
func said(stderr string) string {
	if s := strings.TrimSpace(stderr); s != "" {
		return fmt.Sprintf(" (it said %q)", s)
	}
	return ""
}

// answers takes the answers of a helper apart, which are lines. It fails at one that is too
// long or was not asked for, which ends the writer by a broken pipe.
type answers struct {
	lines chan []byte // with room for one
	part  []byte      // of the next line
	full  bool
}

func (a *answers) Write(p []byte) (int, error) {
	a.part = append(a.part, p...)
	line, rest, whole := bytes.Cut(a.part, []byte{'\n'})
	if a.full = len(line) > wire.MaxSize; a.full {
		return 0, io.ErrShortWrite
	}
	if whole {
		select {
		case a.lines <- line:
		default:
			return 0, errUnasked
		}
		a.part = bytes.Clone(rest)
	}
	return len(p), nil
}

// tail keeps the end of what is written.
type tail struct {
	limit int
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.buf), "�") }
