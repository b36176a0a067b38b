//go:build linux && cgo

package helper

/*
#cgo pkg-config: lxc
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <lxc/lxccontainer.h>

// The limit on open files as this process was given it. Go raises the soft limit
// for itself before any line of Go runs; what we start shall not inherit that.
static struct rlimit files;
static bool files_known;

__attribute__((constructor)) static void remember_files(void) {
	files_known = getrlimit(RLIMIT_NOFILE, &files) == 0;
}

static void restore_files(void) {
	if (files_known)
		setrlimit(RLIMIT_NOFILE, &files);
}

// What the attached process needs between liblxc's work and exec.
struct entry {
	int leaf;   // cgroup.procs of the leaf, or -1
	int files[3]; // what becomes standard input, output and error
	int report; // where a failure goes; closed by a successful exec
	const char *dir;
	char **argv;
	char **env;
};

// A failure as it is reported: at which step, and errno.
struct failure {
	int step;
	int err;
};

enum { STEP_LEAF = 1, STEP_DIR = 2, STEP_EXEC = 3, STEP_FILES = 4 };

static int fail(const struct entry *e, int step) {
	struct failure f = { step, errno };
	if (write(e->report, &f, sizeof f) != sizeof f)
		_exit(126);
	_exit(127);
}

// exec_in_path looks for the program in the PATH of its own environment, in
// absolute directories only. execvp would ask the shell to run whatever the kernel
// refuses. It returns only on failure, with errno set.
static void exec_in_path(const struct entry *e) {
	const char *name = e->argv[0], *path = "";
	char file[PATH_MAX];
	size_t length = strlen(name);
	int failure = ENOENT;

	if (strchr(name, '/')) {
		execve(name, e->argv, e->env);
		return;
	}
	for (char **v = e->env; *v; v++)
		if (strncmp(*v, "PATH=", 5) == 0)
			path = *v + 5;
	while (*path) {
		size_t n = strcspn(path, ":");
		if (*path == '/' && n + 1 + length + 1 <= sizeof file) {
			memcpy(file, path, n);
			file[n] = '/';
			memcpy(file + n + 1, name, length + 1);
			execve(file, e->argv, e->env);
			if (errno == EACCES)
				failure = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return;
		}
		path += n + (path[n] == ':');
	}
	errno = failure;
}

// enter runs in the container as the command's user. It is the child of a
// process with many threads: it calls nothing that takes a lock.
static int enter(void *payload) {
	const struct entry *e = payload;
	sigset_t none;
	struct sigaction def;

	if (e->leaf >= 0 && write(e->leaf, "0", 1) != 1)
		fail(e, STEP_LEAF);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(e->files[fd], fd) != fd)
			fail(e, STEP_FILES);
	if (chdir(e->dir) != 0)
		fail(e, STEP_DIR);
	setsid(); // fails only if liblxc has done it for a terminal
	restore_files();
	memset(&def, 0, sizeof def);
	def.sa_handler = SIG_DFL;
	for (int s = 1; s < NSIG; s++)
		sigaction(s, &def, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
#ifdef SYS_close_range
	syscall(SYS_close_range, 3u, ~0u, 4u); // CLOSE_RANGE_CLOEXEC
#endif
	exec_in_path(e);
	return fail(e, STEP_EXEC);
}

// attach enters the container; it returns liblxc's result and sets pid. liblxc
// gives the files that it is to pass on away to the command's user, so it is given
// nothing but null, the device.
static int attach(const char *name, const char *path, struct entry *e, uid_t uid, gid_t gid,
		size_t ngroups, gid_t *groups, int null, pid_t *pid) {
	lxc_attach_options_t o = LXC_ATTACH_OPTIONS_DEFAULT;
	struct lxc_container *c = lxc_container_new(name, path);
	int r;

	if (!c)
		return -1;
	o.env_policy = LXC_ATTACH_CLEAR_ENV;
	o.initial_cwd = "/";
	o.uid = uid;
	o.gid = gid;
	o.attach_flags |= LXC_ATTACH_SETGROUPS;
	o.groups.size = ngroups;
	o.groups.list = groups;
	o.stdin_fd = o.stdout_fd = o.stderr_fd = null;
	r = c->attach(c, enter, e, &o, pid);
	lxc_container_put(c);
	return r;
}
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// restoreFileLimit undoes what the Go runtime did to the limit on open files,
// so that containers begin with the one that this process was given.
func restoreFileLimit() { C.restore_files() }

// command is what attach starts.
type command struct {
	path, name            string // of the container
	argv, env             []string
	dir                   string
	uid, gid              uint32
	groups                []uint32
	stdin, stdout, stderr *os.File
	leaf                  string // directory in the cgroup2 tree; empty for none
}

// step tells how far a command came that could not be executed.
type step int32

const (
	stepLeaf  step = C.STEP_LEAF
	stepDir   step = C.STEP_DIR
	stepExec  step = C.STEP_EXEC
	stepFiles step = C.STEP_FILES
)

// entryError is why a command could not be executed after it had entered its
// container.
type entryError struct {
	step  step
	errno syscall.Errno
}

func (e *entryError) Error() string {
	switch e.step {
	case stepLeaf:
		return "entering the leaf: " + e.errno.Error()
	case stepFiles:
		return "passing the standard files: " + e.errno.Error()
	case stepDir:
		return "changing to the directory: " + e.errno.Error()
	}
	return e.errno.Error()
}

func (e *entryError) Unwrap() error { return e.errno }

// attach starts the command and returns its pid, a child of this process that
// is in its leaf and has been executed. After an error there is no process.
func attach(c command) (int, error) {
	leaf := -1
	if c.leaf != "" {
		f, err := os.OpenFile(c.leaf+"/cgroup.procs", os.O_WRONLY, 0)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		leaf = int(f.Fd())
	}
	report, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer report.Close()
	pid, err := c.enter(leaf, int(write.Fd()))
	if err := errors.Join(err, write.Close()); err != nil {
		return 0, err
	}
	// The report ends without a word when exec closed its writing end.
	raw, err := io.ReadAll(io.LimitReader(report, 8))
	if err == nil && len(raw) == 0 {
		return pid, nil
	}
	if err := reap(pid); err != nil {
		return 0, err
	}
	if len(raw) != 8 {
		return 0, fmt.Errorf("entering the container: report of %d bytes: %w", len(raw), errors.Join(err, io.ErrUnexpectedEOF))
	}
	return 0, &entryError{step(binary.NativeEndian.Uint32(raw)), syscall.Errno(binary.NativeEndian.Uint32(raw[4:]))}
}

// enter is the call into C.
func (c command) enter(leaf, report int) (int, error) {
	name, path, dir := C.CString(c.name), C.CString(c.path), C.CString(c.dir)
	argv, env := stringList(c.argv), stringList(c.env)
	entry := (*C.struct_entry)(C.calloc(1, C.sizeof_struct_entry))
	defer func() {
		for _, p := range []unsafe.Pointer{unsafe.Pointer(name), unsafe.Pointer(path), unsafe.Pointer(dir), unsafe.Pointer(entry)} {
			C.free(p)
		}
		freeList(argv, len(c.argv))
		freeList(env, len(c.env))
	}()
	*entry = C.struct_entry{leaf: C.int(leaf), report: C.int(report), dir: dir, argv: argv, env: env}
	for i, f := range []*os.File{c.stdin, c.stdout, c.stderr} {
		entry.files[i] = C.int(f.Fd())
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()

	// liblxc wants at least one group: the command's own.
	groups := []C.gid_t{C.gid_t(c.gid)}
	for _, g := range c.groups {
		if g != c.gid {
			groups = append(groups, C.gid_t(g))
		}
	}
	var pid C.pid_t
	r, err := C.attach(name, path, entry, C.uid_t(c.uid), C.gid_t(c.gid), C.size_t(len(groups)), unsafe.SliceData(groups),
		C.int(null.Fd()), &pid)
	if r != 0 {
		return 0, fmt.Errorf("attaching to %q: liblxc answered %d (%w)", c.name, int(r), err)
	}
	return int(pid), nil
}

// reap waits for a child that is about to end.
func reap(pid int) error {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return err
		}
	}
}

// stringList makes a C array of the strings, ended by NULL.
func stringList(s []string) **C.char {
	list := (**C.char)(C.calloc(C.size_t(len(s)+1), C.size_t(unsafe.Sizeof((*C.char)(nil)))))
	slots := unsafe.Slice(list, len(s))
	for i := range s {
		slots[i] = C.CString(s[i])
	}
	return list
}

func freeList(list **C.char, n int) {
	for _, p := range unsafe.Slice(list, n) {
		C.free(unsafe.Pointer(p))
	}
	C.free(unsafe.Pointer(list))
}
