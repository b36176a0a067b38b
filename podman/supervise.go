package podman

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// Supervise runs the command of a run directory inside the container that its target
// names, from start to end. The target must be that of a container.Supervisor of this
// package. self may be nil, as for package supervise.
func Supervise(dir rundir.Dir, self *supervise.Self) error {
	return supervise.Run(supervise.Config{Dir: dir, Launcher: &launcher{dir: dir}, Self: self})
}

// launcher puts a command into a container by the runtime below podman.
type launcher struct {
	dir    rundir.Dir
	target target
	init   int    // pidfd of the container's first process: its number may become another's
	inside string // the PID namespace of that process
	user   *supervise.User
	config process // as podman has configured the container's first process
	state  []byte  // what runc remembers of the container; nil for another runtime
}

// Prepare implements supervise.Launcher: it finds the user in the container's own files,
// and the container's place in the cgroup2 tree.
func (l *launcher) Prepare(spec *rundir.Spec) (parent string, err error) {
	if l.target, err = parseTarget(spec.Target); err != nil {
		return "", supervise.Refuse(rundir.ReasonTarget, err)
	}
	if err := l.hold(); err != nil {
		return "", supervise.Refuse(rundir.ReasonTarget, err)
	}
	root := fmt.Sprintf("/proc/%d/root", l.target.InitPID)
	if l.user, err = supervise.LookupUser(root, cmp.Or(spec.User, "0:0")); err != nil {
		return "", err
	}
	supervise.Login(spec, root, l.user)
	if l.config, err = readConfig(l.target.Config); err != nil {
		return "", err
	}
	spec.Env = append(l.config.imageEnv(), spec.Env...)
	if parent, err = l.group(); err != nil {
		return "", err
	}
	l.inside = namespaceOf(l.target.InitPID)
	return parent, l.alive()
}

// hold opens the container's first process, if it is the one that was meant.
func (l *launcher) hold() (err error) {
	if l.init, err = unix.PidfdOpen(l.target.InitPID, 0); err != nil {
		return fmt.Errorf("%s was stopped or restarted: its init %d has ended", l.target.Name, l.target.InitPID)
	}
	if ticks, err := rundir.StartTicks(l.target.InitPID); err != nil || ticks != l.target.InitTicks {
		return fmt.Errorf("%s was restarted: process %d is another one now", l.target.Name, l.target.InitPID)
	}
	return nil
}

// alive refuses if the container's first process has ended. If it lives, all that was
// found by its number is its own.
func (l *launcher) alive() error {
	poll := []unix.PollFd{{Fd: int32(l.init), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 0); err == nil && n > 0 {
		return supervise.Refuse(rundir.ReasonTarget, fmt.Errorf("%s was stopped or restarted: its init %d has ended", l.target.Name, l.target.InitPID))
	}
	return nil
}

// namespaceOf tells the PID namespace of a process.
func namespaceOf(pid int) string {
	name, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid") // "" is none, and equals no other
	return name
}

// What is read of the runtime's files at most, in bytes.
const maxState = 4 << 20

// runc is the runtime whose memory of a container is known.
const runc = "runc"

// stateFile is where a runtime of root remembers a container.
func stateFile(dir, id string) string { return filepath.Join(dir, id, "state.json") }

// groups is the part of runc's state that says where a container's processes go, by
// controllers; "" is the cgroup2 tree.
type groups struct {
	Paths map[string]string `json:"cgroup_paths"`
}

// group is the container's own directory of the cgroup2 tree; "" if it has none.
func (l *launcher) group() (string, error) {
	if filepath.Base(l.target.Program) != runc {
		dir, err := supervise.FindCgroup2(l.target.InitPID)
		return strings.TrimSuffix(dir, "/init.scope"), err
	}
	b, err := rundir.ReadCapped(stateFile("/run/"+runc, l.target.ID), maxState)
	if err != nil {
		return "", supervise.Refuse(rundir.ReasonTarget, fmt.Errorf("%s was stopped: %w", l.target.Name, err))
	}
	var g groups
	if err := json.Unmarshal(b, &g); err != nil {
		return "", fmt.Errorf("runc's state of %s: %w", l.target.Name, err)
	}
	l.state = b
	return g.Paths[""], nil
}

// redirected is runc's state with another directory of the cgroup2 tree. An option of
// runc does so for all hierarchies alike, and a leaf is in this one alone.
func (l *launcher) redirected(leaf string) ([]byte, error) {
	var all map[string]json.RawMessage
	var g groups
	if err := errors.Join(json.Unmarshal(l.state, &all), json.Unmarshal(l.state, &g)); err != nil {
		return nil, err
	}
	g.Paths[""] = leaf
	paths, err := json.Marshal(g.Paths)
	if err != nil {
		return nil, err
	}
	all["cgroup_paths"] = paths
	return json.Marshal(all)
}

// OpenTerminal implements supervise.Launcher: the runtime makes the terminal.
func (l *launcher) OpenTerminal() (master, slave *os.File, err error) { return nil, nil, nil }

// workDir holds what the runtime is told and tells, in the run directory.
const workDir = "runtime"

// Fork implements supervise.Launcher. The runtime detaches, so the command becomes a
// child of this process, a subreaper.
func (l *launcher) Fork(c supervise.Child) (pid int, err error) {
	work := l.dir.Path(workDir)
	if err := os.Mkdir(work, 0o700); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if c.Leaf == nil {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return 0, fmt.Errorf("becoming subreaper: %w", err)
		}
		defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	}
	if err := tooLong(c.Spec); err != nil {
		return 0, err
	}
	spec, err := l.process(c.Spec)
	if err != nil {
		return 0, err
	}
	defer spec.Close()
	args := []string{"--log", filepath.Join(work, "log"), "--log-format", "json"}
	var into []string
	switch {
	case c.Leaf != nil && l.state != nil:
		state, err := l.redirected(c.Leaf.Name())
		if err == nil {
			err = os.Mkdir(filepath.Join(work, l.target.ID), 0o700)
		}
		if err == nil {
			var f *os.File
			if f, err = rundir.WriteCapped(stateFile(work, l.target.ID), state, os.O_EXCL, maxState); err == nil {
				err = f.Close()
			}
		}
		if err != nil {
			return 0, err
		}
		args = append(args, "--root", work)
	case c.Leaf != nil:
		into = []string{"--cgroup", filepath.Base(c.Leaf.Name())}
	}
	// It is descriptor 3 of the runtime, and of nothing after it.
	args = append(append(args, "exec", "--detach", "--process", "/proc/self/fd/3", "--pid-file", filepath.Join(work, "pid")), into...)
	var tty *console
	if c.Took != nil {
		if tty, err = listenConsole(work); err != nil {
			return 0, err
		}
		defer tty.close()
		args = append(args, "--console-socket", tty.path)
	}
	cmd := &exec.Cmd{
		Path: l.target.Program, Args: append(append([]string{l.target.Program}, args...), l.target.ID),
		Env: []string{"PATH=" + supervise.DefaultPath, "LC_ALL=C"}, Dir: "/",
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, ExtraFiles: []*os.File{spec},
	}
	if tty != nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, nil, nil
	}
	if err := errors.Join(l.alive(), c.Commit()); err != nil {
		return 0, err
	}
	if err := cmd.Run(); err != nil {
		return 0, l.refuse(c.Spec, err, filepath.Join(work, "log"))
	}
	if pid, err = l.entered(c, filepath.Join(work, "pid")); err != nil || tty == nil {
		return pid, err
	}
	master, err := tty.master()
	if err != nil {
		return 0, errors.Join(err, l.leave(c, pid))
	}
	c.Took(master)
	return pid, nil
}

// maxString is how long the kernel lets one argument or variable be, in bytes.
const maxString = 128 << 10

// tooLong refuses what the kernel would: the runtime finds it out when it has no one
// left to tell.
func tooLong(spec *rundir.Spec) error {
	for _, s := range slices.Concat(spec.Argv, spec.Env) {
		if len(s) >= maxString {
			return supervise.Refuse(rundir.ReasonNotExecutable, &os.PathError{Op: "exec", Path: spec.Argv[0], Err: unix.E2BIG})
		}
	}
	return nil
}

// entered returns the command's process. The runtime goes by the container's id, which
// it keeps over a restart.
func (l *launcher) entered(c supervise.Child, pidFile string) (int, error) {
	b, err := rundir.ReadCapped(pidFile, 64)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("the runtime's file of the process: %w", err)
	}
	if namespaceOf(pid) != l.inside {
		return 0, supervise.Refuse(rundir.ReasonTarget, errors.Join(fmt.Errorf("%s was restarted meanwhile", l.target.Name), l.leave(c, pid)))
	}
	return pid, nil
}

// leave ends a command that must not run.
func (l *launcher) leave(c supervise.Child, pid int) error {
	err := unix.Kill(pid, unix.SIGKILL)
	_, wait := unix.Wait4(pid, nil, 0, nil)
	if err = errors.Join(err, wait); c.Leaf != nil {
		err = errors.Join(err, rundir.Leaf(c.Leaf.Name()).EndFully())
	}
	return err
}

// refuse tells apart why the runtime could not execute the command, as every shell does.
func (l *launcher) refuse(spec *rundir.Spec, err error, log string) error {
	said := lastError(log)
	if said == "" {
		return errors.Join(fmt.Errorf("entering %s by %s: %w", l.target.Name, l.target.Program, err), l.alive())
	}
	err = fmt.Errorf("executing %q: %s", spec.Argv[0], said)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(said, w) })
	}
	switch {
	case has("paused"):
		return supervise.Refuse(rundir.ReasonTarget, fmt.Errorf("%s is frozen", l.target.Name))
	case has("has stopped", "is not running", "does not exist"):
		return supervise.Refuse(rundir.ReasonTarget, err)
	case has("chdir to cwd", "chdir to ", "cwd"):
		return supervise.Refuse(rundir.ReasonDirectory, err)
	case has("executable file not found", "no such file or directory", "not a directory"):
		return supervise.Refuse(rundir.ReasonNotFound, err)
	case has("permission denied", "exec format error", "is a directory", "argument list too long", "too many levels of symbolic links"):
		return supervise.Refuse(rundir.ReasonNotExecutable, err)
	}
	return err
}

// lastError is what the runtime has logged last.
func lastError(log string) (said string) {
	b, err := rundir.ReadCapped(log, maxState)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		var entry struct{ Msg string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg != "" {
			said = entry.Msg
		}
	}
	return said
}
