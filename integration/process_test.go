//go:build integration

package integration

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take before a test gives up on it. Nothing
// here takes more than seconds on an idle machine; this one may be busy with many.
const patience = 4 * time.Minute

// change tells any number of waiters that there is something new to look at.
// The zero value is ready.
type change struct {
	mu sync.Mutex
	c  chan struct{}
}

// next is closed at the next change.
func (c *change) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c == nil {
		c.c = make(chan struct{})
	}
	return c.c
}

func (c *change) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c != nil {
		close(c.c)
		c.c = nil
	}
}

// until returns when ok is true. It looks at the beginning and after each
// change.
func until(t testing.TB, c *change, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		changed := c.next()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("waited %s in vain: %s", patience, what)
		}
	}
}

// transcript is what a program has written so far.
type transcript struct {
	change
	mu   sync.Mutex
	b    []byte
	copy io.Writer // of everything, for the artifacts; may be nil
}

// Write implements io.Writer.
func (o *transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	o.b = append(o.b, p...)
	if o.copy != nil {
		if _, err := o.copy.Write(p); err != nil {
			o.b = fmt.Appendf(o.b, "\n[the log file: %v]\n", err)
		}
	}
	o.mu.Unlock()
	o.fire()
	return len(p), nil
}

func (o *transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.b)
}

// lines are those that have ended.
func (o *transcript) lines() []string {
	s := o.String()
	end := strings.LastIndexByte(s, '\n')
	if end < 0 {
		return nil
	}
	return strings.Split(s[:end], "\n")
}

// tail is the end of it, for a report.
func (o *transcript) tail() string {
	s := o.String()
	if cut := len(s) - 4000; cut > 0 {
		s = "…" + s[cut:]
	}
	return s
}

// process is a program that runs.
type process struct {
	name string
	cmd  *exec.Cmd
	out  *transcript // standard output
	talk *transcript // standard error
	done chan struct{}
	err  error // of Wait, once done is closed
}

// spawn starts a program whose two outputs are kept apart and go to the logs
// of the world as well.
func (w *world) spawn(t testing.TB, name string, env []string, argv ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	log, err := os.OpenFile(filepath.Join(w.logs, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.talk = &transcript{copy: log}, &transcript{copy: log}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env, p.cmd.Dir = p.out, p.talk, env, w.dir
	// A group of its own keeps a Ctrl-C at the terminal from ending the
	// programs before the test has cleaned up.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Whoever inherits the outputs does not hold up the end.
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() { // ends with the process, which close ends
		p.err = p.cmd.Wait()
		log.Close()
		close(p.done)
		p.out.fire()
		p.talk.fire()
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, p)
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// connects waits until the process has a connection, or has ended.
func (p *process) connects(t testing.TB) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", p.pid())
	for deadline := time.Now().Add(patience); !p.ended(); elapse(t, 5*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s connects with nobody", p.name)
		}
		fds, _ := filepath.Glob(proc + "fd/*")
		for _, table := range []string{"net/tcp", "net/tcp6"} {
			b, _ := os.ReadFile(proc + table) // it may have ended
			for line := range strings.Lines(string(b)) {
				// The state of a connection is the fourth field, its inode the tenth.
				if f := strings.Fields(line); len(f) > 9 && f[3] == "01" && slices.ContainsFunc(fds, func(fd string) bool {
					to, _ := os.Readlink(fd)
					return to == "socket:["+f[9]+"]"
				}) {
					return
				}
			}
		}
	}
}

// code waits for the end and returns the exit code, 128 and the number for a
// signal.
func (p *process) code(t testing.TB) int {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case <-p.done:
	case <-deadline.C:
		t.Fatalf("waited %s in vain for the end of %s, which said:\n%s%s", patience, p.name, p.out.tail(), p.talk.tail())
	}
	state := p.cmd.ProcessState
	if state == nil {
		t.Fatalf("%s: %v", p.name, p.err)
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// signal sends a signal; to a process that has ended it is nothing.
func (p *process) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("sending %s to %s: %v", sig, p.name, err)
	}
}

// end ends the process by a signal and waits until it is gone.
func (p *process) end(t testing.TB, sig syscall.Signal) {
	t.Helper()
	p.signal(t, sig)
	p.code(t)
}

// says waits until one of the outputs holds a text. It fails when the process
// ends without it.
func (p *process) says(t testing.TB, o *transcript, text string) {
	t.Helper()
	until(t, &o.change, fmt.Sprintf("%s says %q", p.name, text), func() bool {
		if strings.Contains(o.String(), text) {
			return true
		}
		if p.ended() && !strings.Contains(o.String(), text) {
			t.Fatalf("%s ended (%v) without saying %q:\n%s%s", p.name, p.err, text, p.out.tail(), p.talk.tail())
		}
		return false
	})
}
