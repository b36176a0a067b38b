package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// watch keeps the command's limits until nothing of it is left.
func (r *run) watch(pid int) {
	oom := newOOMCounter(pid, r.leaf)
	ended := r.await(pid)
	var limit <-chan struct{}
	cancel := r.ctl.cancel
	if r.spec.TimeoutMS > 0 {
		alarm, stop, err := r.Clock.After(time.Duration(r.spec.TimeoutMS) * time.Millisecond)
		if err != nil {
			// A limit that nobody keeps is worse than a command that failed.
			r.detail(wrap("setting the time limit", err))
			r.kill(pid)
		} else {
			defer stop()
			limit = alarm
		}
	}
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
			r.signal(pid, append(signals, unix.SIGCONT)...) // a stopped process cannot heed TERM
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
			r.kill(pid)
			grace = soon(killAgain)
		}
	}
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
		_, _ = r.leaf.WaitEmptyFor(-1) // sweep asks again
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
		_, _ = r.leaf.WaitEmptyFor(max(0, time.Until(killAt)))
	}
	err := r.leaf.EndFully()
	r.detail(wrap("emptying the leaf", err))
	r.exit.Emptied = err == nil
}

// signal sends signals to the leaf; without one, to the process group of the main
// process, which a daemon will have left. The main process is not reaped yet.
func (r *run) signal(pid int, signals ...unix.Signal) {
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

func (r *run) kill(pid int) {
	if r.leaf == "" {
		r.signal(pid, unix.SIGKILL)
		return
	}
	r.detail(wrap("killing the leaf", r.leaf.Kill()))
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
