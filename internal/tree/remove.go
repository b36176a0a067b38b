package tree

import (
	"cmp"
	"context"
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of the flags of subvolumes, of linux/btrfs.h.
const (
	subvolGetFlags = 0x80089419 // BTRFS_IOC_SUBVOL_GETFLAGS
	subvolSetFlags = 0x4008941a // BTRFS_IOC_SUBVOL_SETFLAGS
	subvolReadOnly = 2          // BTRFS_SUBVOL_RDONLY
)

// Remove removes a tree, and is no error if there is none. On btrfs the root of a container
// may have made subvolumes in it that nothing can be removed from: Remove makes them
// writable first. What is mounted in the tree is the caller's concern.
func Remove(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	if err := Walk(context.Background(), dir, unlock); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// Unlock makes the root directory of a tree writable if it is a read-only subvolume, which the
// kernel would not move to another directory.
func Unlock(dir string) error {
	done := errors.New("the root is enough")
	err := Walk(context.Background(), dir, func(e *Entry) error { return cmp.Or(unlock(e), done) })
	if err == done {
		return nil
	}
	return err
}

// unlock makes a subvolume writable. What is none stays as it is.
func unlock(e *Entry) error {
	if !e.IsDir() || e.Stat.Ino != subvolRoot {
		return nil
	}
	fd, err := unix.Open(e.proc(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	if !onBtrfs(fd) {
		return nil
	}
	var flags uint64
	if err := control(fd, subvolGetFlags, unsafe.Pointer(&flags)); err != nil || flags&subvolReadOnly == 0 {
		return err
	}
	flags &^= subvolReadOnly
	return control(fd, subvolSetFlags, unsafe.Pointer(&flags))
}
