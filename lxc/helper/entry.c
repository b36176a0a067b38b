//go:build linux && cgo

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <lxc/lxccontainer.h>

#include "entry.h"

// The limit on open files as this process was given it. Go raises the soft limit
// for itself before any line of Go runs; what we start shall not inherit that.
static struct rlimit files;
static int files_known;

void restore_files(void) {
	if (files_known)
		setrlimit(RLIMIT_NOFILE, &files);
}

// What the attached process needs between liblxc's work and exec.
struct entry {
	int files[3]; // what becomes standard input, output and error
	int report;   // where a failure goes; closed by a successful exec
	const char *dir;
	char **argv;
	char **env;
};

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

// close_from closes every descriptor from first on.
static void close_from(int first) {
	struct rlimit open_files;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0)
		return;
#endif
	// A lowered limit closes nothing that is above it: the hard one comes closest.
	if (getrlimit(RLIMIT_NOFILE, &open_files) != 0 || open_files.rlim_max > 1 << 20)
		open_files.rlim_max = 1 << 20;
	for (int fd = first; fd < (int)open_files.rlim_max; fd++)
		close(fd);
}

// keep_files leaves the command its three files, and a place for the report. All
// others go before the command's directory and program are looked up: through
// /proc/self/fd, any open directory of the host would be a way out of the container.
static void keep_files(struct entry *e) {
	enum { REPORT = 3 };

	for (int fd = 0; fd < 3; fd++)
		if (dup2(e->files[fd], fd) != fd)
			fail(e, STEP_FILES);
	if (e->report != REPORT && dup3(e->report, REPORT, O_CLOEXEC) != REPORT)
		fail(e, STEP_FILES);
	e->report = REPORT;
	close_from(REPORT + 1);
}

// enter runs in the container as the command's user.
static int enter(void *payload) {
	struct entry e = *(const struct entry *)payload;
	char at[PATH_MAX];
	sigset_t none;
	struct sigaction def;

	keep_files(&e);
	// A directory outside of the container's root has no path in it.
	if (chdir(e.dir) != 0 || !getcwd(at, sizeof at))
		fail(&e, STEP_DIR);
	setsid(); // fails only if liblxc has done it for a terminal
	if (isatty(0) && ioctl(0, TIOCSCTTY, 0) != 0)
		fail(&e, STEP_TERMINAL);
	memset(&def, 0, sizeof def);
	def.sa_handler = SIG_DFL;
	for (int s = 1; s < NSIG; s++)
		sigaction(s, &def, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	exec_in_path(&e);
	return fail(&e, STEP_EXEC);
}

// read_all reads exactly n bytes.
static int read_all(int fd, void *to, size_t n) {
	for (char *p = to; n > 0;) {
		ssize_t got = read(fd, p, n);
		if (got > 0) {
			p += got;
			n -= got;
		} else if (got == 0 || errno != EINTR) {
			return -1;
		}
	}
	return 0;
}

// receive reads the fixed part of an order and the files that come with it.
static int receive(int sock, struct order *o, int fds[MAX_FILES]) {
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(MAX_FILES * sizeof(int))];
	} control;
	struct iovec io = { o, sizeof *o };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	struct cmsghdr *c;
	size_t n;

	for (int i = 0; i < MAX_FILES; i++)
		fds[i] = -1;
	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof *o)
		return -1; // the supervisor has ended without an order
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return -1;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	return n > FILE_REPORT ? 0 : -1;
}

// strings takes count strings from *at as a list that ends with NULL.
static char **strings(char **at, uint32_t count) {
	char **list = calloc((size_t)count + 1, sizeof *list);
	for (uint32_t i = 0; list && i < count; i++) {
		list[i] = *at;
		*at += strlen(*at) + 1;
	}
	return list;
}

// join brings this process into the control group whose file tasks is named.
// Writing there and 0 is what makes it cheap: of a single thread that moves itself
// the kernel is sure, while for cgroup.procs it holds up every fork and exit of the
// machine and waits for all processors (an RCU grace period) first.
static int join(const char *tasks) {
	int fd = open(tasks, O_WRONLY | O_CLOEXEC);
	int ok = fd >= 0 && write(fd, "0", 1) == 1, err = errno;
	if (fd >= 0)
		close(fd);
	errno = err;
	return ok ? 0 : -1;
}

// attach joins the container's control groups and has liblxc enter the rest of
// it. What liblxc starts inherits the groups, the leaf among them.
static struct answer attach(const struct order *o, char *body, const int fds[MAX_FILES]) {
	lxc_attach_options_t options = LXC_ATTACH_OPTIONS_DEFAULT;
	struct answer a = { STEM_ORDER, 0, 0 };
	gid_t *groups = (gid_t *)body;
	char *at = body + o->groups * sizeof(gid_t);
	const char *name = at, *path = name + strlen(name) + 1, *dir = path + strlen(path) + 1;
	struct entry e = { { fds[FILE_STDIN], fds[FILE_STDOUT], fds[FILE_STDERR] }, fds[FILE_REPORT], dir, NULL, NULL };
	struct lxc_container *c;
	char **joins;
	pid_t pid;

	at = (char *)dir + strlen(dir) + 1;
	joins = strings(&at, o->joins);
	e.argv = strings(&at, o->argc);
	e.env = strings(&at, o->envc);
	if (!joins || !e.argv || !e.env || !(c = lxc_container_new(name, path))) {
		a.err = errno;
		return a;
	}
	if (fds[FILE_LEAF] >= 0) {
		for (; *joins; joins++)
			if (join(*joins) != 0)
				return (struct answer){ STEM_JOIN, errno, 0 };
		options.attach_flags &= ~LXC_ATTACH_MOVE_TO_CGROUP;
		close(fds[FILE_LEAF]); // liblxc's process in the container must not have it
	}
	options.attach_flags |= LXC_ATTACH_SETGROUPS;
	options.env_policy = LXC_ATTACH_CLEAR_ENV;
	options.initial_cwd = "/";
	options.uid = o->uid;
	options.gid = o->gid;
	options.groups.size = o->groups;
	options.groups.list = groups;
	// liblxc gives the files that it is to pass on away to the command's user, so
	// it is given nothing but the null device.
	options.stdin_fd = options.stdout_fd = options.stderr_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	a.result = c->attach(c, enter, &e, &options, &pid);
	a.err = errno;
	a.pid = pid;
	return a;
}

// clone_into forks a process that is in the leaf from its first instruction on.
static pid_t clone_into(int leaf) {
	struct clone_args args = { .exit_signal = SIGCHLD };

	if (leaf < 0)
		return fork();
	args.flags = CLONE_INTO_CGROUP;
	args.cgroup = leaf;
	return syscall(SYS_clone3, &args, sizeof args);
}

// stem waits for one order and carries it out in a process of the leaf. It ends
// after that one, which orphans the command: it becomes the supervisor's child.
static void stem(int sock) {
	struct answer a = { STEM_ORDER, 0, 0 };
	struct order o;
	int fds[MAX_FILES];
	char *body;
	pid_t pid;

	if (receive(sock, &o, fds) != 0)
		return;
	umask(022);
	body = calloc(1, (size_t)o.size + 1);
	if (body && read_all(sock, body, o.size) == 0) {
		pid = clone_into(fds[FILE_LEAF]);
		if (pid > 0) {
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
			return;
		}
		a = pid == 0 ? attach(&o, body, fds) : (struct answer){ STEM_CLONE, errno, 0 };
	}
	if (write(sock, &a, sizeof a) != sizeof a)
		_exit(1);
}

static pid_t stem_process = -1;
static int stem_end = -1;

pid_t stem_pid(void) { return stem_process; }

int stem_socket(void) { return stem_end; }

// begin runs before Go does, when this process still has one thread: only then
// may a copy of it go on to call the C library. It makes the stem if a command is
// to be supervised, as main will see, too.
__attribute__((constructor)) static void begin(int argc, char **argv) {
	int pair[2];
	pid_t pid;

	files_known = getrlimit(RLIMIT_NOFILE, &files) == 0;
	prctl(PR_SET_NAME, "hostler-lxc"); // it was executed by the number of a descriptor
	if (argc != 3 || strcmp(argv[1], "supervise") != 0)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return;
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		stem(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return;
	}
	stem_process = pid;
	stem_end = pair[0];
}
