package supervise

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// watch starts the command and keeps its limits until nothing of it is left.
func (r *run) watch() {
	var limit <-chan struct{}
	if r.spec.TimeoutMS > 0 {
		alarm, stop, err := r.Clock.After(time.Duration(r.spec.TimeoutMS) * time.Millisecond)
		if err != nil {
			// A limit that nobody keeps is worse than a command that failed.
			r.giveUp(wrap("setting the time limit", err))
			return
		}
		defer stop()
		limit = alarm
	}
	forked := make(chan forking, 1)
	go func() { // it may outlive this function, which is then the last of this process
		pid, err := r.fork()
		forked <- forking{pid, err}
	}()
	cancel := r.ctl.cancel
	var pid int // 0 until it was forked
	var oom oomCounter
	var ended <-chan waited
	var first []unix.Signal // for a command that was not forked yet when it was to end
	var stopping bool
	var grace <-chan struct{}
	var killAt time.Time
	var hungUp, unrecorded <-chan struct{}
	if r.tty != nil {
		hungUp = r.tty.lost
	}
	if r.rec != nil && r.spec.Terminal.RecordOrEnd {
		unrecorded = r.rec.lost
	}
	terminate := func(signals ...unix.Signal) {
		limit, cancel, hungUp, unrecorded = nil, nil, nil, nil
		stopping = true
		after := time.Duration(r.spec.Grace()) * time.Millisecond
		killAt = time.Now().Add(after)
		grace = soon(after)
		if after > 0 {
			first = append(signals, unix.SIGCONT) // a stopped process cannot heed TERM
		}
		if pid != 0 {
			r.signal(pid, first...)
		}
	}
	end := []unix.Signal{unix.SIGTERM}
	if r.tty != nil {
		end = append(end, unix.SIGHUP) // interactive shells ignore TERM
	}
	over := func() {
		r.exit.EndedMS = r.Clock.Now().Milliseconds()
		r.exit.OOM = oom.struck(r.exit.Signal == int(unix.SIGKILL) && !stopping)
		r.sweep(stopping, killAt)
		r.closeStreams()
	}
	var emptied <-chan struct{}
	for {
		select {
		case f := <-forked:
			if f.err != nil {
				r.unforked(f.err, stopping)
				return
			}
			pid, oom, ended = f.pid, newOOMCounter(f.pid, r.leaf), r.await(f.pid)
			r.signal(pid, first...)
		case status := <-ended:
			r.mainEnded(pid, status)
			if r.spec.Daemon && !stopping {
				ended, emptied = nil, r.emptied()
				continue
			}
			over()
			return
		case <-emptied:
			over()
			return
		case <-limit:
			r.exit.TimedOut = true
			terminate(end...)
		case <-cancel:
			r.exit.Cancelled = true
			terminate(end...)
		case <-hungUp:
			r.exit.HungUp = true
			terminate(unix.SIGHUP)
		case <-unrecorded:
			r.exit.Unrecorded = true
			terminate(unix.SIGHUP)
		case <-grace:
			if pid == 0 && r.gate.abandon() {
				r.unforked(errAbandoned, true)
				return
			}
			r.kill(pid)
			grace = soon(killAgain)
		}
	}
}

// forking is what has become of the fork.
type forking struct {
	pid int
	err error
}

// unforked records a command that was not forked. One that was to end meanwhile was
// killed, unless it was refused.
func (r *run) unforked(err error, stopping bool) {
	r.giveUp(err)
	if _, refused := errors.AsType[*Refusal](err); !stopping || refused {
		return
	}
	r.exit.NeverBegan, r.exit.Reason = false, ""
	r.exit.Signal = int(unix.SIGKILL)
	r.exit.Code, r.exit.WaitStatus = 128+r.exit.Signal, uint32(unix.SIGKILL)
	r.sweep(false, time.Time{})
}

// A gate is passed by a fork, or shut before it by the end of what it was for.
type gate struct {
	mu           sync.Mutex
	passed, shut bool
}

var errAbandoned = errors.New("it was to end before it had begun")

// commit passes the gate: from now on there may be a process.
func (g *gate) commit() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return errAbandoned
	}
	g.passed = true
	return nil
}

// abandon shuts the gate. It reports false if the fork has passed it.
func (g *gate) abandon() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = !g.passed
	return g.shut
}

// soon returns what is closed after a while. Channels of times would bring along how
// dates are written; see package rundir.
func soon(d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(d, func() { close(over) })
	return over
}

// emptied returns what is closed when nothing of the command is left.
func (r *run) emptied() <-chan struct{} {
	left := make(chan struct{})
	go func() { // it ends with the command, and so does this process
		_, _ = r.leaf.WaitEmpty(-1) // sweep asks again
		close(left)
	}()
	return left
}

// mainEnded takes over the status of the main process. Without a leaf, what is
// left of its process group is killed while its pid is still taken.
func (r *run) mainEnded(pid int, status waited) {
	if r.leaf == "" && status.err == nil {
		r.signal(pid, unix.SIGKILL)
		_, status.err = unix.Wait4(pid, &status.status, 0, nil)
	}
	if status.err != nil {
		r.exit.Code = rundir.CodeNeverBegan
		r.exit.Reason = rundir.ReasonSetup
		r.detail(wrap("waiting for the command", status.err))
		return
	}
	r.exit.WaitStatus = uint32(status.status)
	r.exit.Code = status.status.ExitStatus()
	if status.status.Signaled() {
		r.exit.Signal = int(status.status.Signal())
		r.exit.Code = 128 + r.exit.Signal
	}
}

// sweep ends what the main process has left behind: at once, or, when it was
// asked to end, with what remains of the grace.
func (r *run) sweep(stopping bool, killAt time.Time) {
	if r.leaf == "" {
		return
	}
	if stopping {
		// The answer is asked for below.
		_, _ = r.leaf.WaitEmpty(max(0, time.Until(killAt)))
	}
	err := r.leaf.EndFully()
	r.detail(wrap("emptying the leaf", err))
	r.exit.Emptied = err == nil
}

// signal sends signals to the leaf; without one, to the process group of the main
// process, which a daemon will have left. The main process is not reaped yet.
func (r *run) signal(pid int, signals ...unix.Signal) {
	if len(signals) == 0 {
		return
	}
	if r.leaf != "" {
		r.detail(wrap("signalling the leaf", r.leaf.Signal(signals...)))
		return
	}
	for _, sig := range signals {
		if unix.Kill(-pid, sig) != nil {
			_ = unix.Kill(pid, sig) // ESRCH: it has ended
		}
	}
}

// kill kills the command. While it is being forked, pid is 0, and what forks it is
// killed, too.
func (r *run) kill(pid int) {
	if pid == 0 {
		killChildren()
	} else if r.leaf == "" {
		r.signal(pid, unix.SIGKILL)
	}
	if r.leaf != "" {
		r.detail(wrap("killing the leaf", r.leaf.Kill()))
	}
}

// killChildren kills every child of this process. Their own children become ours by
// that, for the next time.
func killChildren() {
	self := strconv.Itoa(os.Getpid())
	tasks, err := rundir.Names("/proc/self/task")
	if err != nil {
		return
	}
	for _, task := range tasks {
		b, err := rundir.ReadCapped("/proc/self/task/"+task+"/children", rundir.MaxRecord)
		if err != nil {
			continue
		}
		for child := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				continue
			}
			pidfd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			// It may have been waited for meanwhile, and its number be another's.
			if status, err := rundir.ReadCapped("/proc/"+child+"/status", rundir.MaxRecord); err == nil && strings.Contains(string(status), "\nPPid:\t"+self+"\n") {
				_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // it may have ended
			}
			unix.Close(pidfd)
		}
	}
}

func (r *run) closeStreams() {
	if r.tty != nil {
		r.tty.end()
	}
	deadline := time.Now().Add(drainTime)
	for _, s := range r.out {
		s.endBy(deadline)
	}
	for i, s := range r.out {
		r.detail(wrap("keeping "+rundir.StreamFile(i+1), s.close()))
	}
	if err := r.rec.close(); err != nil {
		r.exit.RecordingEnded = cut(err.Error(), rundir.MaxDetail)
	}
	r.exit.Stdout, r.exit.Stderr = r.out[0].result(), r.out[1].result()
}
