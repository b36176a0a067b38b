package runner

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Sealed is a program that is executed from a copy in memory that no process can
// change. A process of ours that enters a container can be seen there until it
// executes the command, and its /proc/PID/exe leads to the file of its program: a
// privileged container could write to it (CVE-2019-5736). The methods may be called
// concurrently.
type Sealed struct {
	// Path is the program's file.
	Path string

	mu sync.Mutex
	of os.FileInfo // what the newest copy was made of
	// copies stay open: what was told of one may be used at any time.
	copies []*os.File
}

// File returns the path by which the copy is executed, for as long as this process
// lives. A file that was replaced is copied again.
func (s *Sealed) File() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.Open(s.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return "", err
	}
	if s.of == nil || !os.SameFile(s.of, now) || s.of.Size() != now.Size() || !s.of.ModTime().Equal(now.ModTime()) {
		c, err := seal(f)
		if err != nil {
			return "", fmt.Errorf("copying %s into memory: %w", s.Path, err)
		}
		s.of, s.copies = now, append(s.copies, c)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.copies[len(s.copies)-1].Fd()), nil
}

// memoryFile begins what the kernel calls a file in memory; the name that it was
// given follows.
const memoryFile = "/memfd:"

// maxMemoryName is how long that name may be.
const maxMemoryName = 249

func seal(f *os.File) (*os.File, error) {
	name := f.Name()
	name = name[max(0, len(name)-maxMemoryName):]
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	c := os.NewFile(uintptr(fd), memoryFile+name)
	if _, err = io.Copy(c, f); err == nil {
		_, err = unix.FcntlInt(c.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Title is what a program calls itself that is executed by a path: of a copy in
// memory, the path of its file.
func Title(path string) string {
	at, err := os.Readlink(path)
	if err != nil || !strings.HasPrefix(at, memoryFile) {
		return path
	}
	return strings.TrimSuffix(strings.TrimPrefix(at, memoryFile), " (deleted)")
}
