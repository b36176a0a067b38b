package lxc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// Times of the monitor.
const (
	// handshake is how long a fresh monitor may take to repeat our mark.
	handshake = 5 * time.Second
	// firstMark and lastMark bound the interval at which the mark is repeated
	// until it is seen; all but the first are needed only while the monitor connects.
	firstMark = 5 * time.Millisecond
	lastMark  = 200 * time.Millisecond
	// firstRestart and lastRestart bound the delay before a monitor that ended
	// is started again.
	firstRestart = 100 * time.Millisecond
	lastRestart  = 30 * time.Second
	// quitTimeout bounds the farewell to liblxc's daemon: asking it to quit and
	// waiting until it has, which takes some milliseconds.
	quitTimeout = 5 * time.Second
)

// maxHandshakes is how many monitors in a row may fail to repeat our mark
// before the host is told to be one that cannot be watched.
const maxHandshakes = 3

// errQuit: the monitor ended without an error of its own.
var errQuit = errors.New("its daemon is gone")

// errNoMark: the monitor runs, but our mark did not come back.
var errNoMark = errors.New("lxc-monitor did not repeat our mark")

// Watch implements container.Watcher. It runs liblxc's own monitor, which
// hears of every container of the directory, however it starts or stops, within a
// millisecond. When the monitor ends it is started again, with growing delay,
// and an Event without a name says that something may have been missed.
//
// The monitor ends with this process. liblxc's daemon behind it, which may serve
// others as well, is told to quit when Watch ends and has let go of the directory
// when Watch returns. After a Watch that was killed it ends by itself, half a
// minute after its last client.
func (r *Runtime) Watch(ctx context.Context, ready func(), handle func(container.Event)) error {
	if _, err := os.Stat(r.cfg.Monitor); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("lxc watch: %w: %s is not installed", container.ErrUnsupported, r.cfg.Monitor)
	}
	if err := os.MkdirAll(r.cfg.LXCPath, 0o711); err != nil {
		return fmt.Errorf("lxc watch: %w", err)
	}
	defer r.quitDaemon()

	connected := ready
	failures, delay := 0, firstRestart
	for {
		seen, err := r.monitor(ctx, connected, handle)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if seen {
			failures, delay = 0, firstRestart
			connected = func() { handle(container.Event{}) }
		} else if failures++; errors.Is(err, errNoMark) && failures >= maxHandshakes {
			return fmt.Errorf("lxc watch: %w: %w", container.ErrUnsupported, err)
		}
		r.cfg.Log.WarnContext(ctx, "lxc monitor ended, starting it again", "delay", delay, "err", err)
		select {
		case <-time.After(delay/2 + mathrand.N(delay/2)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		delay = min(2*delay, lastRestart)
	}
}

// monitor runs one monitor until it ends. It calls connected when the monitor
// is known to hear everything, and reports whether it came to that.
func (r *Runtime) monitor(ctx context.Context, connected func(), handle func(container.Event)) (seen bool, err error) {
	// The kernel kills the child when the thread that made it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// Not a name that any container can have.
	mark := ".hostler-" + rand.Text()
	marked := make(chan struct{})
	var stderr = tail{limit: maxStderr}
	cmd := exec.CommandContext(ctx, r.cfg.Monitor, "-P", r.cfg.LXCPath, "-n", ".*")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = pipeGrace
	cmd.Stderr = &stderr
	cmd.Stdout = &eventReader{emit: func(name string, state container.State) {
		switch {
		case name == mark && !seen:
			seen = true
			close(marked)
			connected()
		case seen && container.CheckReference(name) == nil:
			handle(container.Event{Name: name, State: state})
		}
	}}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	marker := make(chan struct{})
	go func() {
		defer close(marker)
		if err := r.markUntil(ctx, mark, marked); err != nil {
			cancel(err)
		}
	}()
	err = cmd.Wait() // also ends the copying that emit runs in
	cancel(nil)
	<-marker
	if cause := context.Cause(ctx); errors.Is(cause, errNoMark) {
		return seen, fmt.Errorf("%w%s", cause, said(stderr.String()))
	}
	return seen, fmt.Errorf("lxc-monitor ended: %w%s", cmp.Or(err, errQuit), said(stderr.String()))
}

// markUntil sends the mark until it was seen. The monitor does not say when it
// has connected to liblxc's daemon; a message that came back through it does.
func (r *Runtime) markUntil(ctx context.Context, mark string, seen <-chan struct{}) error {
	end := time.After(handshake)
	for interval := firstMark; ; interval = min(2*interval, lastMark) {
		select {
		case <-time.After(interval):
		case <-seen:
			return nil
		case <-ctx.Done():
			return nil
		case <-end:
			return errNoMark
		}
		// It fails while the daemon is not up; then the next one will do.
		_ = sendMark(r.cfg.LXCPath, mark)
	}
}

// Layout of liblxc's struct lxc_msg: an enumeration, a name, an integer.
const (
	messageName = 256
	messageSize = 4 + messageName + 4
)

// openPipe opens the pipe that all containers' monitors write to. It fails
// unless liblxc's daemon is there to read it.
func openPipe(lxcPath string) (*os.File, error) {
	return os.OpenFile(filepath.Join("/run/lxc", lxcPath, "monitor-fifo"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
}

// sendMark puts a change of state of a container that does not exist into that
// pipe, in liblxc's own form.
func sendMark(lxcPath, mark string) error {
	f, err := openPipe(lxcPath)
	if err != nil {
		return err
	}
	defer f.Close()
	message := make([]byte, 4, messageSize) // lxc_msg_state
	message = append(message, mark...)
	message = append(message, make([]byte, 4+messageName-len(message))...)
	message = binary.NativeEndian.AppendUint32(message, 0) // STOPPED
	_, err = f.Write(message)
	return err
}

// quitDaemon asks liblxc's daemon to end, which otherwise lingers for a while,
// and waits until it has.
func (r *Runtime) quitDaemon() {
	ctx, cancel := context.WithTimeout(context.Background(), quitTimeout)
	defer cancel()
	pipe, unread := openPipe(r.cfg.LXCPath)
	cmd := exec.CommandContext(ctx, r.cfg.Monitor, "-P", r.cfg.LXCPath, "-Q")
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C"}
	cmd.WaitDelay = pipeGrace
	// It fails if the daemon is gone, which is what we want.
	asked := cmd.Run()
	if unread != nil {
		return // it is gone, or so young that there is nothing to wait on
	}
	defer pipe.Close()
	if err := awaitUnread(ctx, pipe); err != nil {
		r.cfg.Log.WarnContext(ctx, "lxc-monitord does not quit", "err", errors.Join(err, asked))
	}
}

// awaitUnread waits until nobody reads the pipe any more.
func awaitUnread(ctx context.Context, pipe *os.File) error {
	deadline, _ := ctx.Deadline()
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return context.DeadlineExceeded
		}
		// An error is always reported, and this is one: it need not be asked for.
		fds := []unix.PollFd{{Fd: int32(pipe.Fd())}}
		n, err := unix.Poll(fds, int(left.Milliseconds())+1)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for the end of lxc-monitord: %w", err)
		}
	}
}

// maxEventLine is longer than any line of the monitor with a name that
// container.CheckReference allows.
const maxEventLine = 512

// eventReader finds changes of state in the monitor's output, which is written
// to it in pieces of any size:
//
//	'web' changed state to [RUNNING]
//
// Other lines, and those that are too long, say nothing to us.
type eventReader struct {
	emit func(name string, state container.State)
	line []byte
	skip bool // the rest of a line that was too long
}

func (e *eventReader) Write(p []byte) (int, error) {
	for piece := range bytes.Lines(p) {
		rest, ended := bytes.CutSuffix(piece, []byte("\n"))
		if len(e.line)+len(rest) > maxEventLine {
			e.skip = true
		}
		if !e.skip {
			e.line = append(e.line, rest...)
		}
		if !ended {
			break
		}
		if name, state, ok := parseEvent(string(e.line)); ok && !e.skip {
			e.emit(name, state)
		}
		e.line, e.skip = e.line[:0], false
	}
	return len(p), nil
}

func parseEvent(line string) (name string, state container.State, ok bool) {
	rest, ok := strings.CutPrefix(line, "'")
	if !ok {
		return "", "", false
	}
	name, word, ok := strings.Cut(rest, "' changed state to [")
	if !ok || name == "" {
		return "", "", false
	}
	switch word {
	case "STOPPED]":
		return name, container.StateStopped, true
	case "STARTING]":
		return name, container.StateStarting, true
	case "RUNNING]", "THAWED]":
		return name, container.StateRunning, true
	case "STOPPING]", "ABORTING]":
		return name, container.StateStopping, true
	case "FROZEN]":
		return name, container.StateFrozen, true
	}
	return "", "", false
}
