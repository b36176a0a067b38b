package supervise

import (
	"cmp"
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// Host launches commands of the machine itself. The leaf is made below the
// cgroup that the supervisor is in, so the service manager counts the command
// to the agent's service (whose unit must delegate its cgroup).
type Host struct {
	user *User
}

// Prepare finds the user and the supervisor's own cgroup. It looks at nothing that
// may lie on a file system that does not answer.
func (h *Host) Prepare(spec *rundir.Spec) (parent string, err error) {
	if h.user, err = LookupUser("/", spec.User); err != nil {
		return "", err
	}
	Login(spec, "/", h.user)
	return FindCgroup2(os.Getpid())
}

// OpenTerminal makes a pseudoterminal of the machine.
func (h *Host) OpenTerminal() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	return Terminal(fd, h.user.UID)
}

// Fork executes the program, inside the leaf from its first instruction on.
func (h *Host) Fork(c Child) (int, error) {
	env, dir := Environ(c.Spec, h.user), cmp.Or(c.Spec.Dir, "/")
	program, err := findProgram(c.Spec.Argv[0], env)
	if err != nil {
		return 0, refuse(dir, c.Spec.Argv[0], err)
	}
	attr := &syscall.ProcAttr{
		Dir:   dir,
		Env:   env,
		Files: []uintptr{c.Stdin.Fd(), c.Stdout.Fd(), c.Stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: c.Spec.Terminal != nil, Ctty: 0},
	}
	if c.Spec.User != "" {
		attr.Sys.Credential = &syscall.Credential{Uid: h.user.UID, Gid: h.user.GID, Groups: h.user.Groups}
	}
	if c.Leaf != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(c.Leaf.Fd())
	}
	if err := c.Commit(); err != nil {
		return 0, err
	}
	// Until the child has executed the program, no other goroutine runs on this
	// one's processor, not even the one that would kill the child.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	pid, err := syscall.ForkExec(program, c.Spec.Argv, attr)
	if err != nil {
		return 0, refuse(dir, program, err)
	}
	return pid, nil
}

// refuse tells a bad directory from a program that cannot be executed.
func refuse(dir, program string, err error) error {
	mode, e := rundir.Mode(dir)
	if e == nil && !rundir.IsDir(mode) {
		e = &os.PathError{Op: "chdir", Path: dir, Err: unix.ENOTDIR}
	}
	if e != nil {
		return Refuse(rundir.ReasonDirectory, e)
	}
	return refuseExec(program, err)
}

// refuseExec tells the two answers of every shell apart: there is no such
// program, and the kernel refuses to execute it.
func refuseExec(program string, err error) error {
	err = &os.PathError{Op: "exec", Path: program, Err: err}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return Refuse(rundir.ReasonNotFound, err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR),
		errors.Is(err, unix.E2BIG), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EPERM):
		return Refuse(rundir.ReasonNotExecutable, err)
	}
	return err
}

// findProgram looks for name in the PATH of env, as execvp does: the first file
// that may be executed, or EACCES when there were only others. Entries that are
// not absolute are passed over.
func findProgram(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	var path string
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	failure := error(unix.ENOENT)
	for dir := range strings.SplitSeq(path, ":") {
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		file := dir + "/" + name
		mode, err := rundir.Mode(file)
		switch {
		case err != nil || rundir.IsDir(mode):
		case mode&0o111 == 0:
			failure = unix.EACCES
		default:
			return file, nil
		}
	}
	return "", failure
}
