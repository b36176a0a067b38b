//go:build linux && cgo

#ifndef HOSTLER_ENTRY_H
#define HOSTLER_ENTRY_H

#include <stdint.h>
#include <sys/types.h>

// The files that accompany an order, in this order. The last may be missing.
enum { FILE_STDIN, FILE_STDOUT, FILE_STDERR, FILE_REPORT, FILE_LEAF, MAX_FILES };

// What is asked of the stem. Size bytes follow: the group ids, then NUL-ended
// strings: name and path of the container, the directory, the files by which
// control groups are joined, the arguments, the environment.
struct order {
	uint32_t size, uid, gid;
	uint32_t groups, joins, argc, envc; // how many of each
};

// What became of it.
struct answer {
	int32_t result; // liblxc's, or STEM_…
	int32_t err;    // errno
	int32_t pid;    // the command's
};

// Results beside those of liblxc, which are small.
enum { STEM_ORDER = -1001, STEM_CLONE, STEM_JOIN };

// A failure of the command's process as it is reported: at which step, and errno.
struct failure {
	int32_t step, err;
};

enum { STEP_DIR = 1, STEP_EXEC, STEP_FILES, STEP_TERMINAL };

// stem_pid and stem_socket tell of the stem; -1 when there is none.
pid_t stem_pid(void);
int stem_socket(void);

// restore_files gives back the limit on open files that this process began with.
void restore_files(void);

#endif
