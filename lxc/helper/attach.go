//go:build linux && cgo

package helper

/*
#cgo pkg-config: lxc
#include "entry.h"
*/
import "C"

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/supervise"
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
	leaf                  *os.File // directory in the cgroup2 tree; nil for none
	joins                 []string // the files tasks of the container's other control groups
}

// step tells how far a command came that could not be executed.
type step int32

const (
	stepDir      step = C.STEP_DIR
	stepExec     step = C.STEP_EXEC
	stepFiles    step = C.STEP_FILES
	stepTerminal step = C.STEP_TERMINAL
)

// entryError is why a command could not be executed after it had entered its
// container.
type entryError struct {
	step  step
	errno syscall.Errno
}

func (e *entryError) Error() string {
	switch e.step {
	case stepFiles:
		return "passing the standard files: " + e.errno.Error()
	case stepTerminal:
		return "taking the terminal: " + e.errno.Error()
	case stepDir:
		return "changing to the directory: " + e.errno.Error()
	}
	return e.errno.Error()
}

func (e *entryError) Unwrap() error { return e.errno }

// A stem is the process that was forked before the Go runtime began. It can do
// what a process with threads cannot: have a copy of itself in the leaf from its
// first instruction on, and let it call the C library.
type stem struct {
	pid    int
	socket *os.File
}

// takeStem returns the stem of this process. Its end must be called.
func takeStem() (*stem, error) {
	pid := int(C.stem_pid())
	if pid <= 0 {
		return nil, errors.New("this process has no stem")
	}
	return &stem{pid, os.NewFile(uintptr(C.stem_socket()), "stem")}, nil
}

// alive is an error if the stem has died: nothing else can put a command into a
// container. It waits for an order, so the other end is open.
func (s *stem) alive() error {
	poll := []unix.PollFd{{Fd: int32(s.socket.Fd()), Events: unix.POLLIN}}
	if _, err := unix.Poll(poll, 0); err == nil && poll[0].Revents != 0 {
		return errors.New("the stem of this supervisor has died; nothing began")
	}
	return nil
}

// end lets go of a stem. One that was given no order ends by that.
func (s *stem) end() { s.socket.Close() }

// attach starts the command and returns its pid, a child of this process, a
// subreaper, that is in its leaf and has been executed. After an error there is no
// process. A stem can be used once.
func (s *stem) attach(c command) (int, error) {
	report, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer report.Close()
	err = s.order(c, write)
	if err := errors.Join(err, write.Close()); err != nil {
		return 0, err
	}
	pid, err := s.answer()
	if err != nil {
		return 0, fmt.Errorf("attaching to %q: %w", c.name, err)
	}
	// The report ends without a word when exec closed its writing end.
	raw, err := io.ReadAll(io.LimitReader(report, C.sizeof_struct_failure))
	if err == nil && len(raw) == 0 {
		return pid, nil
	}
	if err := reap(pid); err != nil {
		return 0, err
	}
	if len(raw) != C.sizeof_struct_failure {
		return 0, fmt.Errorf("entering the container: report of %d bytes: %w", len(raw), errors.Join(err, io.ErrUnexpectedEOF))
	}
	return 0, &entryError{step(binary.NativeEndian.Uint32(raw)), syscall.Errno(binary.NativeEndian.Uint32(raw[4:]))}
}

// order sends the command, see struct order.
func (s *stem) order(c command, report *os.File) error {
	// liblxc wants at least one group: the command's own.
	groups := slices.Insert(slices.DeleteFunc(slices.Clone(c.groups), func(g uint32) bool { return g == c.gid }), 0, c.gid)
	var body []byte
	for _, g := range groups {
		body = binary.NativeEndian.AppendUint32(body, g)
	}
	for _, text := range slices.Concat([]string{c.name, c.path, c.dir}, c.joins, c.argv, c.env) {
		body = append(append(body, text...), 0)
	}
	head := C.struct_order{
		size: C.uint32_t(len(body)), uid: C.uint32_t(c.uid), gid: C.uint32_t(c.gid), groups: C.uint32_t(len(groups)),
		joins: C.uint32_t(len(c.joins)), argc: C.uint32_t(len(c.argv)), envc: C.uint32_t(len(c.env)),
	}
	fds := []int{int(c.stdin.Fd()), int(c.stdout.Fd()), int(c.stderr.Fd()), int(report.Fd())}
	if c.leaf != nil {
		fds = append(fds, int(c.leaf.Fd()))
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&head)), unsafe.Sizeof(head))
	if err := unix.Sendmsg(int(s.socket.Fd()), raw, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); err != nil {
		return os.NewSyscallError("sendmsg", err)
	}
	_, err := s.socket.Write(body)
	return err
}

// answer waits until the command has entered its container, and for the end of
// the stem, by which the command becomes a child of this process.
func (s *stem) answer() (pid int, err error) {
	var a C.struct_answer
	_, err = io.ReadFull(s.socket, unsafe.Slice((*byte)(unsafe.Pointer(&a)), unsafe.Sizeof(a)))
	if err := errors.Join(err, reap(s.pid)); err != nil {
		return 0, fmt.Errorf("asking the stem: %w", err)
	}
	cause := syscall.Errno(a.err)
	switch a.result {
	case 0:
		return int(a.pid), nil
	case C.STEM_ORDER:
		return 0, fmt.Errorf("reading the order, or the container's configuration: %w", cause)
	case C.STEM_CLONE:
		return 0, fmt.Errorf("forking into the leaf: %w", cause)
	case C.STEM_JOIN:
		return 0, fmt.Errorf("joining the container's control groups: %w", cause)
	}
	return 0, fmt.Errorf("liblxc answered %d: %w", int(a.result), cause)
}

// joins returns the files by which a thread joins the control groups of the
// container in the version 1 hierarchies, given the pid of its init.
func joins(init int) ([]string, error) {
	place, err := supervise.Cgroups(strconv.Itoa(init))
	if err != nil {
		return nil, err
	}
	var files []string
	for controllers, dir := range place {
		if controllers != "" {
			files = append(files, filepath.Join(payload(dir), "tasks"))
		}
	}
	slices.SortFunc(files, cmp.Compare)
	return files, nil
}

// reap waits for a child that is about to end.
func reap(pid int) error {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return err
		}
	}
}
