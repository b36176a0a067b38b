//go:build linux && cgo

package helper

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	golxc "github.com/lxc/go-lxc"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// Version returns the version of liblxc.
func Version() string { return golxc.Version() }

// Supervise runs the command of a run directory inside the container that its
// target names, from start to end. The target must be a Supervisor.Target of
// package lxc. self may be nil, as for package supervise.
func Supervise(dir rundir.Dir, self *supervise.Self) error {
	stem, err := takeStem()
	if err != nil {
		return err
	}
	defer stem.end()
	// One that was started in advance may have waited for days. Without a record the
	// run never began, and gets another supervisor.
	if err := stem.alive(); err != nil {
		return err
	}
	return supervise.Run(supervise.Config{Dir: dir, Launcher: &launcher{stem: stem}, Self: self})
}

// launcher puts a command into a container.
type launcher struct {
	stem   *stem
	target wire.Target
	init   int    // pidfd of the container's first process: its number may become another's
	inside string // the PID namespace of that process
	user   *supervise.User
}

// Prepare implements supervise.Launcher: it finds the user in the container's
// own files, and the container's place in the cgroup2 tree.
func (l *launcher) Prepare(spec *rundir.Spec) (parent string, err error) {
	if l.target, err = wire.ParseTarget(spec.Target); err != nil {
		return "", supervise.Refuse(rundir.ReasonTarget, err)
	}
	if err := l.hold(); err != nil {
		return "", supervise.Refuse(rundir.ReasonTarget, err)
	}
	if err := l.running(); err != nil {
		return "", supervise.Refuse(rundir.ReasonTarget, err)
	}
	root := fmt.Sprintf("/proc/%d/root", l.target.InitPID)
	if l.user, err = supervise.LookupUser(root, cmp.Or(spec.User, "0:0")); err != nil {
		return "", err
	}
	supervise.Login(spec, root, l.user)
	dir, err := supervise.FindCgroup2(l.target.InitPID)
	if err != nil {
		return "", err
	}
	l.inside = namespace(strconv.Itoa(l.target.InitPID))
	return payload(dir), l.alive()
}

// hold opens the container's first process, if it is the one that was meant.
func (l *launcher) hold() (err error) {
	if l.init, err = unix.PidfdOpen(l.target.InitPID, 0); err != nil {
		return fmt.Errorf("%s was stopped or restarted: its init %d has ended", l.target.Name, l.target.InitPID)
	}
	if ticks, err := rundir.StartTicks(l.target.InitPID); l.target.InitTicks != 0 && (err != nil || ticks != l.target.InitTicks) {
		return fmt.Errorf("%s was restarted: process %d is another one now", l.target.Name, l.target.InitPID)
	}
	return nil
}

// alive refuses if the container's first process has ended. If it lives, all that was
// found by its number is its own.
func (l *launcher) alive() error {
	if pollUntil(l.init, time.Now().Add(time.Nanosecond)) {
		return supervise.Refuse(rundir.ReasonTarget, fmt.Errorf("%s was stopped or restarted: its init %d has ended", l.target.Name, l.target.InitPID))
	}
	return nil
}

// running tells whether the container runs, and its first process is the one
// that the command was meant for.
func (l *launcher) running() error {
	c, err := golxc.NewContainer(l.target.Name, l.target.LXCPath)
	if err != nil {
		return err
	}
	defer c.Release()
	if state := stateOf(c.State()); state != container.StateRunning {
		return fmt.Errorf("%w: %s is %s", container.ErrNotRunning, l.target.Name, state)
	}
	if pid := c.InitPid(); pid != l.target.InitPID {
		return fmt.Errorf("%s was restarted: its init is %d and was %d", l.target.Name, pid, l.target.InitPID)
	}
	return nil
}

// payload is the container's own directory of the cgroup2 tree, given the one
// its init is in: an init such as systemd moves itself into one further down.
// On a hybrid machine liblxc makes the directory just the same, although no
// controller of importance is in that tree.
func payload(dir string) string {
	const own = "/lxc.payload."
	at := strings.Index(dir, own)
	if at < 0 {
		return strings.TrimSuffix(dir, "/init.scope")
	}
	if end := strings.IndexByte(dir[at+1:], '/'); end >= 0 {
		return dir[:at+1+end]
	}
	return dir
}

// Fork implements supervise.Launcher. Its command is a child of this process by
// adoption, for which this process is a subreaper at least as long as it lasts.
func (l *launcher) Fork(c supervise.Child) (int, error) {
	cmd := command{
		path: l.target.LXCPath, name: l.target.Name,
		argv: c.Spec.Argv, env: supervise.Environ(c.Spec, l.user), dir: cmp.Or(c.Spec.Dir, "/"),
		uid: l.user.UID, gid: l.user.GID, groups: l.user.Groups,
		stdin: c.Stdin, stdout: c.Stdout, stderr: c.Stderr, leaf: c.Leaf,
	}
	if c.Leaf == nil {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return 0, fmt.Errorf("becoming subreaper: %w", err)
		}
		defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	}
	var err error
	if cmd.joins, err = joins(l.target.InitPID); err != nil {
		return 0, err
	}
	// The stem was forked before this process gave up the protection from the
	// out-of-memory killer that it had inherited.
	if score, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", l.stem.pid), score, 0)
	}
	if err := errors.Join(l.alive(), c.Commit()); err != nil {
		return 0, err
	}
	pid, err := l.stem.attach(cmd)
	if entry, ok := errors.AsType[*entryError](err); ok {
		return 0, refuse(c.Spec.Argv[0], entry)
	}
	if err == nil && namespace(strconv.Itoa(pid)) != l.inside {
		// liblxc goes by the container's name, and another one may have it by now.
		if err := errors.Join(unix.Kill(pid, unix.SIGKILL), reap(pid)); err != nil {
			return 0, err
		}
		if c.Leaf != nil {
			err = rundir.Leaf(c.Leaf.Name()).EndFully()
		}
		return 0, supervise.Refuse(rundir.ReasonTarget, errors.Join(fmt.Errorf("%s was restarted meanwhile", l.target.Name), err))
	}
	return pid, err
}

// refuse tells apart why the command could not be executed, as every shell does.
func refuse(program string, e *entryError) error {
	err := fmt.Errorf("executing %q: %w", program, e)
	switch {
	case e.step == stepDir:
		return supervise.Refuse(rundir.ReasonDirectory, err)
	case e.step != stepExec:
		return err
	case e.errno == unix.ENOENT, e.errno == unix.ENOTDIR:
		return supervise.Refuse(rundir.ReasonNotFound, err)
	}
	return supervise.Refuse(rundir.ReasonNotExecutable, err)
}
