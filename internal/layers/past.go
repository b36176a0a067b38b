package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// Past is the root directory that a container had: a copy of what it had changed, above the
// files of its image.
type Past struct {
	// Changes is the copy. Its files belong to the users of the host.
	Changes string
	// Lower are the directories of the image, the topmost first.
	Lower []string
	// The files of the image are shown as those of Count users of the host, from First on. With
	// a Count of 0 they are shown as those of their owners.
	First, Count uint32
}

// Open returns the directory, which cannot be written to. It is mounted nowhere, and is there
// for as long as the file is open.
func (p Past) Open() (*os.File, error) {
	f, err := apart(p.Changes, p.open)
	if err != nil {
		return nil, fmt.Errorf("putting %s over the files of its image: %w", p.Changes, err)
	}
	return f, nil
}

// Stopped is the root directory of a stopped container whose layers are those of another
// program, which does not mount them meanwhile.
type Stopped struct {
	// Past is what it has changed, which is written to, above the files of its image.
	Past
	// Work is the directory of the kernel's own beside the changes.
	Work string
}

// OfStored is the root directory of a container.
func OfStored(s *container.StoredFiles) Stopped {
	return Stopped{Past{Changes: s.Changes, Lower: s.Lower, First: s.Shown.First, Count: s.Shown.Count}, s.Work}
}

// Open returns the directory. It is mounted nowhere, and is there for as long as the file is
// open.
func (s Stopped) Open() (*os.File, error) {
	f, err := apart(s.Changes, func() (int, error) {
		changes, err := directory(s.Changes)
		if err != nil {
			return -1, err
		}
		defer unix.Close(changes)
		work, err := directory(s.Work)
		if err != nil {
			return -1, err
		}
		defer unix.Close(work)
		return s.mount(nil, unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC, ",upperdir="+proc(changes)+",workdir="+proc(work))
	})
	if err != nil {
		return nil, fmt.Errorf("putting %s over the files of its image: %w", s.Changes, err)
	}
	return f, nil
}

// open makes the mount. The thread has a table of mounts of its own, which ends with it.
func (p Past) open() (fd int, err error) {
	changes, err := directory(p.Changes)
	if err != nil {
		return -1, err
	}
	defer unix.Close(changes)
	return p.mount([]string{proc(changes)}, unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC, "")
}

// mount mounts the layers of all and those of the image, beside the changes: what is below there
// is covered, in this table of mounts alone, and has to be open already.
func (p Past) mount(all []string, flags uintptr, more string) (fd int, err error) {
	at := filepath.Dir(p.Changes)
	for _, dir := range p.Lower {
		lower, err := mapped(dir, at, p.First, p.Count)
		if err != nil {
			return -1, err
		}
		defer unix.Close(lower)
		all = append(all, proc(lower))
	}
	// The newer call of the kernel takes no list of this length. What the container has changed
	// of files may lie in the changes without their content, and renamed directories without
	// what is in them. Files that are put there and replaced are always whole.
	options := "index=off,metacopy=on,redirect_dir=on,lowerdir=" + strings.Join(all, ":") + more
	if len(options) >= os.Getpagesize() {
		return -1, fmt.Errorf("the image has %d layers, which are more than the kernel reads", len(p.Lower))
	}
	if err := unix.Mount("hostler", at, "overlay", flags, options); err != nil {
		return -1, os.NewSyscallError("mount", err)
	}
	if fd, err = directory(at); err != nil {
		return -1, errors.Join(err, unmount(at))
	}
	return fd, nil
}
