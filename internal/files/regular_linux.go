package files

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openRegular opens a file of a tree for reading. It looks at what has the name before
// it opens that very thing: to open a device may have effects, and somebody may put one
// in the place of a file at any time. [ErrChanged] if it is no file.
func openRegular(root *os.Root, name string) (*os.File, error) {
	look, err := root.OpenFile(name, unix.O_PATH|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer look.Close()
	i, err := look.Stat()
	if err != nil {
		return nil, err
	}
	if !i.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrChanged}
	}
	fd, err := unix.Open(self(look), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openDir opens a directory of a tree for reading. The kernel opens nothing else that
// may have come into its place.
func openDir(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}

// walked is a tree as [fs.WalkDir] goes through it: it opens directories alone.
type walked struct{ root *os.Root }

// Open implements [fs.FS].
func (w walked) Open(name string) (fs.File, error) { return openDir(w.root, name) }

// Stat implements [fs.StatFS].
func (w walked) Stat(name string) (fs.FileInfo, error) { return w.root.Lstat(name) }

// ReadDir implements [fs.ReadDirFS].
func (w walked) ReadDir(name string) ([]fs.DirEntry, error) {
	d, err := openDir(w.root, name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.ReadDir(-1)
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, err
}
