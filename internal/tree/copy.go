package tree

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Copied is what a copy came to.
type Copied struct {
	Entries int
	Bytes   int64 // of regular files
	Shared  bool  // the file system shares the data of all files, until either side changes
}

// Shift gives what the users and groups from From on own in a tree to those from To on in
// its copy, of which there are Count. The zero value changes no owner.
type Shift struct{ From, To, Count uint32 }

// of is the owner in the copy. What is outside of the range stays.
func (s Shift) of(id uint32) uint32 {
	if id >= s.From && id-s.From < s.Count {
		return id - s.From + s.To
	}
	return id
}

// Attributes of the kernel that name users or groups.
const (
	capability = "security.capability"
	aclFirst   = "system.posix_acl_"
)

// attribute is the value of an attribute in the copy.
func (s Shift) attribute(name string, value []byte) []byte {
	move := func(at int) {
		if at+4 <= len(value) {
			binary.LittleEndian.PutUint32(value[at:], s.of(binary.LittleEndian.Uint32(value[at:])))
		}
	}
	switch {
	case name == capability && len(value) == 24: // version 3, whose last word is its root
		move(20)
	case strings.HasPrefix(name, aclFirst): // a version, and entries of a tag, permissions and an id
		for at := 4; at+8 <= len(value); at += 8 {
			if tag := binary.LittleEndian.Uint16(value[at:]); tag == 2 || tag == 8 { // one user, one group
				move(at + 4)
			}
		}
	}
	return value
}

// Copy makes a copy of a tree in a directory that does not exist: with owners, modes,
// times, attributes, holes, devices and hard links. Where the file system can share data
// between files, it does; a tree that [Make] has made is copied as it is at one moment
// where the file system can. free is how many bytes of the file system stay free. Nothing
// is synced; what an error leaves has to be removed.
func Copy(ctx context.Context, from, to string, free uint64, shift Shift) (Copied, error) {
	if made, done, err := snapshot(ctx, from, to, shift); done || err != nil {
		return made, err
	}
	if err := Make(to, 0o700); err != nil {
		return Copied{}, err
	}
	fd, err := unix.Open(to, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Copied{}, &os.PathError{Op: "open", Path: to, Err: err}
	}
	c := &copying{ctx: ctx, root: fd, free: free, shift: shift, links: make(map[[2]uint64]string), parentFD: -1, Copied: Copied{Shared: true}}
	err = walk(ctx, from, copiers, c.put)
	if err == nil {
		err = c.finish()
	}
	c.forget()
	return c.Copied, errors.Join(err, unix.Close(fd))
}

// Tally tells what a copy of a tree would come to that shares nothing.
func Tally(ctx context.Context, dir string) (Copied, error) { return count(ctx, dir, func(*Entry) {}) }

// copiers is how many workers make the entries of a directory. One of them can wait for the
// disk, or for the lock that the kernel has on the directory.
const copiers = 2

// copying is a copy under way. Its target lies in a directory that no other process
// enters.
type copying struct {
	ctx   context.Context // of the copy
	root  int
	shift Shift
	free  uint64

	named sync.Mutex           // held while a file with several names is made
	links map[[2]uint64]string // these, by device and number
	large sync.Mutex           // held while a large file is copied, so that no other takes its room

	mu sync.Mutex
	Copied
	checked  int64   // of Bytes, when the free space was looked at
	dirs     []stamp // whose times are set at the end
	parent   string  // which all workers are in
	parentFD int
}

// stamp is the times of a directory.
type stamp struct {
	path  string
	times []unix.Timespec
}

func timesOf(e *Entry) []unix.Timespec { return []unix.Timespec{e.Stat.Atim, e.Stat.Mtim} }

// put makes one entry.
func (c *copying) put(e *Entry) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	made := &Entry{Path: e.Path, dir: c.root, name: "."}
	if e.Path != "." {
		fd, err := c.open(path.Dir(e.Path))
		if err != nil {
			return err
		}
		made.dir, made.name = fd, path.Base(e.Path)
		again, err := c.create(e, made)
		if err != nil || again {
			return err
		}
	}
	c.count(e)
	if err := c.attributes(e, made); err != nil {
		return err
	}
	if e.IsDir() {
		return nil
	}
	return unix.UtimesNanoAt(made.dir, made.name, timesOf(e), unix.AT_SYMLINK_NOFOLLOW)
}

// count counts what was made.
func (c *copying) count(e *Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Entries++
	if e.IsDir() {
		c.dirs = append(c.dirs, stamp{e.Path, timesOf(e)})
	}
}

// open returns a directory of the copy, which stays the copy's own.
func (c *copying) open(dir string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parentFD >= 0 && c.parent == dir {
		return c.parentFD, nil
	}
	fd, err := below(c.root, dir, unix.O_RDONLY)
	if err != nil {
		return -1, err
	}
	c.forget()
	c.parent, c.parentFD = dir, fd
	return fd, nil
}

func (c *copying) forget() {
	if c.parentFD >= 0 {
		_ = unix.Close(c.parentFD) // nothing was written to it
	}
	c.parentFD = -1
}

// create makes an entry of the right type, with its content. again tells that it is
// another name of a file that is there already.
func (c *copying) create(e, made *Entry) (again bool, err error) {
	id := [2]uint64{e.Stat.Dev, e.Stat.Ino}
	several := e.Stat.Nlink > 1 && !e.IsDir() // as it was seen: its opening looks again
	if several {
		c.named.Lock()
		defer c.named.Unlock()
		if first, ok := c.links[id]; ok {
			return true, unix.Linkat(c.root, first, made.dir, made.name, 0)
		}
	}
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		err = unix.Mkdirat(made.dir, made.name, 0o700)
	case unix.S_IFREG:
		err = c.file(e, made)
	case unix.S_IFLNK:
		var to string
		if to, err = e.Readlink(); err == nil {
			err = unix.Symlinkat(to, made.dir, made.name)
		}
	default:
		err = unix.Mknodat(made.dir, made.name, e.Stat.Mode&unix.S_IFMT|0o600, int(e.Stat.Rdev))
	}
	if err == nil && several {
		c.links[id] = e.Path
	}
	return false, err
}

// attributes gives what was made the owner, mode and attributes of its original.
func (c *copying) attributes(e, made *Entry) error {
	if err := unix.Fchownat(made.dir, made.name, int(c.shift.of(e.Stat.Uid)), int(c.shift.of(e.Stat.Gid)), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if e.Stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		// It was made here, so it is no link. After the owner, whose change takes bits away.
		if err := unix.Fchmodat(made.dir, made.name, e.Stat.Mode&0o7777, 0); err != nil {
			return err
		}
	}
	all, err := e.Attributes()
	if err != nil {
		return err
	}
	for name, value := range all {
		if err := unix.Lsetxattr(made.proc(), name, c.shift.attribute(name, value), 0); err != nil && err != unix.EOPNOTSUPP {
			return fmt.Errorf("attribute %.80q: %w", name, err)
		}
	}
	return nil
}

// look is after how many bytes the free space is looked at again.
const look = 64 << 20

// room refuses what would fill the file system.
func (c *copying) room(size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size < look && c.Bytes-c.checked < look && c.checked > 0 {
		return nil
	}
	c.checked = c.Bytes
	var st unix.Statfs_t
	if err := unix.Fstatfs(c.root, &st); err != nil {
		return err
	}
	if left := st.Bavail * uint64(st.Bsize); left < c.free || left-c.free < uint64(size) {
		return fmt.Errorf("copying: %w: %d bytes are free, and %d of these are kept", unix.ENOSPC, left, c.free)
	}
	return nil
}

// file copies the content of a regular file, which it may share with its original.
func (c *copying) file(e, made *Entry) error {
	from, err := e.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	fd, err := unix.Openat(made.dir, made.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), e.Path)
	clone := unix.IoctlFileClone(fd, int(from.Fd()))
	c.mu.Lock()
	c.Bytes += e.Stat.Size
	c.Shared = c.Shared && (clone == nil || e.Stat.Size == 0)
	c.mu.Unlock()
	if clone != nil {
		err = c.content(e, to, from)
	}
	return errors.Join(err, to.Close())
}

// content copies the data of a file for which there is room.
func (c *copying) content(e *Entry, to, from *os.File) error {
	size := e.Stat.Blocks * 512
	if size >= look {
		c.large.Lock()
		defer c.large.Unlock()
	}
	if err := c.room(size); err != nil {
		return err
	}
	return c.data(to, from, e.Stat.Size)
}

// data copies what a file holds, and leaves holes where it has holes.
func (c *copying) data(to, from *os.File, size int64) error {
	if err := to.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		start, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO || err == nil && start >= size {
			return nil // the rest is a hole, or was cut off
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(from.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if at, err = c.part(to, from, start, min(end, size)); err != nil || at < min(end, size) {
			return err
		}
	}
	return nil
}

// most is how much of a file is copied between two checks for cancellation.
const most = 16 << 20

// part copies a range, and returns where it came to: not to its end if the file was cut
// short meanwhile.
func (c *copying) part(to, from *os.File, start, end int64) (int64, error) {
	for start < end {
		if c.ctx.Err() != nil {
			return start, context.Cause(c.ctx)
		}
		in, out := start, start
		n, err := unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), &out, int(min(end-start, most)), 0)
		if err != nil {
			return start, err
		}
		if n == 0 {
			return start, nil
		}
		start += int64(n)
	}
	return start, nil
}

// finish sets the times of directories, which nothing is made in any more.
func (c *copying) finish() error {
	for _, d := range c.dirs {
		fd, err := below(c.root, d.path, unix.O_RDONLY)
		if err != nil {
			return err
		}
		err = unix.UtimesNanoAt(fd, ".", d.times, 0)
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			return err
		}
	}
	return nil
}
