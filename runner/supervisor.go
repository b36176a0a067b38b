package runner

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/runner/rundir"
)

// maxLogged is how much of a failed supervisor's stderr is logged, in bytes.
const maxLogged = 1024

// A supervisor is a process of a supervisor program that we have started.
type supervisor struct {
	*process
	cmd *exec.Cmd
	// order takes the run directory of one that was started before there was
	// one. Closing it without a word ends the process, also when it is us who
	// have ended.
	order *os.File
}

// oneProcessor spares a supervisor, which waits nearly all of its life, the
// threads that the Go runtime makes for more processors while it starts.
const oneProcessor = "GOMAXPROCS=1"

// launch starts a program so that nothing ties it to us: its own session, nothing
// of our environment, the root as working directory, no fd but what is given.
func launch(argv []string, dir string, stdin, stderr *os.File) (*supervisor, error) {
	pidfd := -1
	cmd := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], dir)...)
	cmd.Args[0] = Title(argv[0])
	cmd.Env = append(append([]string{oneProcessor}, failpoint.Environ()...), clock.Environ()...)
	cmd.Dir = "/"
	if stdin != nil { // a nil *os.File would be no nil Reader
		cmd.Stdin = stdin
	}
	if stderr != nil {
		cmd.Stderr = stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	p, err := newProcess(pidfd)
	if err != nil {
		// A run that nobody watches would seem to last for ever.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("watching the supervisor (needs Linux 5.4): %w", err)
	}
	return &supervisor{process: p, cmd: cmd}, nil
}

// startSupervisor gives a run its supervisor: the spare one, if there is one.
func (r *Runner) startSupervisor(run *Run, argv []string) error {
	s := r.spares.take(argv)
	if s == nil || !s.serve(run.dir) {
		log, err := os.OpenFile(run.dir.Path(rundir.LogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer log.Close()
		if s, err = launch(argv, string(run.dir), nil, log); err != nil {
			return err
		}
	}
	r.follow(run, s.process, func() {
		if err := s.cmd.Wait(); err != nil && !run.recorded() {
			said, _ := rundir.ReadCapped(run.dir.Path(rundir.LogFile), rundir.MaxRecord)
			r.cfg.Log.Warn("supervisor failed", "action", run.Action, "attempt", run.Attempt, "err", err,
				"stderr", string(said[:min(len(said), maxLogged)]))
		}
		r.spares.refill(argv)
	})
	return nil
}

// follow owns the goroutine that waits for the end of the supervisor.
func (r *Runner) follow(run *Run, supervisor *process, reap func()) {
	r.wg.Go(func() {
		defer supervisor.close()
		if !supervisor.wait(r.closed) {
			return
		}
		run.settle(true)
		reap()
	})
}

// spares keeps one supervisor of each program started in advance, from the end of
// the first run on: the start of a process is a good part of what a short command
// takes, and it is for the next one then. The methods may be called concurrently.
type spares struct {
	mu     sync.Mutex
	closed bool
	// idle is by argv. A nil says that there is none and none is to be started:
	// one is about to, or one has died, as those do that know no Later.
	idle map[string]*supervisor
}

func spareKey(argv []string) string { return strings.Join(argv, "\x00") }

// take returns the spare supervisor of a program, nil if there is none.
func (m *spares) take(argv []string) *supervisor {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := spareKey(argv)
	s := m.idle[key]
	if s == nil {
		return nil
	}
	if s.ended() {
		s.dismiss()
		m.idle[key] = nil
		return nil
	}
	delete(m.idle, key)
	return s
}

// refill starts the spare supervisor of a program if it has none. That it cannot be
// started is no failure: the next run tries for itself, and tells.
func (m *spares) refill(argv []string) {
	key := spareKey(argv)
	m.mu.Lock()
	_, has := m.idle[key]
	if m.closed || has {
		m.mu.Unlock()
		return
	}
	if m.idle == nil {
		m.idle = make(map[string]*supervisor)
	}
	m.idle[key] = nil
	m.mu.Unlock()
	s := newSpare(argv)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case s == nil:
		delete(m.idle, key)
	case m.closed:
		s.dismiss()
	default:
		m.idle[key] = s
	}
}

// close ends the spare supervisors, and keeps new ones from being started.
func (m *spares) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, s := range m.idle {
		if s != nil {
			s.dismiss()
		}
	}
	m.idle = nil
}

// newSpare starts a supervisor that waits for its order; nil if it cannot.
func newSpare(argv []string) *supervisor {
	read, write, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer read.Close()
	s, err := launch(argv, rundir.Later, read, nil)
	if err != nil {
		write.Close()
		return nil
	}
	s.order = write
	return s
}

// serve gives a spare supervisor its run directory. If it returns false, the
// supervisor has died without one, and has been waited for.
func (s *supervisor) serve(dir rundir.Dir) bool {
	// A pipe takes a path as a whole.
	if _, err := s.order.WriteString(string(dir)); err != nil {
		s.dismiss()
		return false
	}
	s.order.Close()
	return true
}

// dismiss ends a spare supervisor that has no order, and waits for it.
func (s *supervisor) dismiss() {
	s.order.Close()
	_ = s.cmd.Process.Kill() // it may have ended
	s.wait(nil)
	_ = s.cmd.Wait() // "signal: killed"
	s.close()
}

// A process is a pidfd that can be waited for without a thread.
type process struct{ file *os.File }

func newProcess(pidfd int) (*process, error) {
	if pidfd < 0 {
		return nil, unix.ENOSYS
	}
	if err := unix.SetNonblock(pidfd, true); err != nil {
		unix.Close(pidfd)
		return nil, err
	}
	return &process{os.NewFile(uintptr(pidfd), "pidfd")}, nil
}

// wait returns true when the process has ended, false when stop was closed first.
func (p *process) wait(stop <-chan struct{}) bool {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return false
	}
	ended := make(chan bool, 1)
	go func() {
		ended <- raw.Read(readable) == nil
	}()
	select {
	case ok := <-ended:
		return ok
	case <-stop:
		p.close()
		return <-ended
	}
}

// ended reports whether the process has ended by now.
func (p *process) ended() (yes bool) {
	raw, err := p.file.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { yes = readable(fd) })
	}
	return yes || err != nil
}

// readable reports whether a pidfd tells of the end of its process.
func readable(pidfd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}

func (p *process) close() { p.file.Close() }
