package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of btrfs, of linux/btrfs.h and linux/btrfs_tree.h.
const (
	subvolCreate = 0x5000940e // BTRFS_IOC_SUBVOL_CREATE
	snapCreate   = 0x50009417 // BTRFS_IOC_SNAP_CREATE_V2
	subvolRoot   = 256        // BTRFS_FIRST_FREE_OBJECTID, the inode of the root of a subvolume
	subvolStub   = 2          // BTRFS_EMPTY_SUBVOL_DIR_OBJECTID, what a snapshot has in place of a subvolume
)

// volArgs is struct btrfs_ioctl_vol_args.
type volArgs struct {
	_    int64
	name [4088]byte
}

// volArgsV2 is struct btrfs_ioctl_vol_args_v2.
type volArgsV2 struct {
	fd   int64
	_    uint64 // the transaction, in answers
	_    uint64 // flags: none, so that it can be written
	_    [4]uint64
	name [4040]byte
}

// Make makes the root directory of a tree with these permissions. On btrfs it is a
// subvolume, whose copies are snapshots: of one moment, and made at once.
func Make(dir string, mode os.FileMode) error {
	if err := subvolume(dir); err == nil {
		return os.Chmod(dir, mode)
	}
	return os.Mkdir(dir, mode)
}

// Subvolumes reports whether trees that are made in a directory are subvolumes. The
// directory may be missing: it would be made in the one above it.
func Subvolumes(dir string) bool {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for err == unix.ENOENT && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		fd, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return onBtrfs(fd)
}

// subvolume makes one. What it cannot make there is no error of Make: a directory does.
func subvolume(dir string) error {
	var args volArgs
	parent, err := place(dir, args.name[:])
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return control(parent, subvolCreate, unsafe.Pointer(&args))
}

// count counts what a tree has, and has look look at it.
func count(ctx context.Context, dir string, look func(*Entry)) (has Copied, err error) {
	seen := make(map[uint64]bool)
	err = Walk(ctx, dir, func(e *Entry) error {
		look(e)
		if e.Stat.Nlink > 1 && !e.IsDir() {
			if seen[e.Stat.Ino] {
				return nil // another name of a file that was counted
			}
			seen[e.Stat.Ino] = true
		}
		has.Entries++
		if e.IsRegular() {
			has.Bytes += e.Stat.Size
		}
		return nil
	})
	return has, err
}

// place opens the directory of what is to be made, which must be one of btrfs, and copies
// its name to a buffer, which holds a byte of zero behind it.
func place(path string, name []byte) (parent int, err error) {
	base := filepath.Base(path)
	if len(base) >= len(name) {
		return -1, unix.ENAMETOOLONG
	}
	copy(name, base)
	if parent, err = unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if !onBtrfs(parent) {
		return -1, errors.Join(unix.EOPNOTSUPP, unix.Close(parent))
	}
	return parent, nil
}

func onBtrfs(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.BTRFS_SUPER_MAGIC
}

func control(fd int, request uintptr, args unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(args)); errno != 0 {
		return errno
	}
	return nil
}

// snapshot makes a copy of a tree that is a subvolume of btrfs. done tells that the copy
// is there or that an error ends it; without it nothing was made, and the tree is to be
// copied file by file: it is no subvolume, or it holds others, which a snapshot leaves out.
func snapshot(ctx context.Context, from, to string, shift Shift) (made Copied, done bool, err error) {
	fd, err := unix.Open(from, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Copied{}, false, nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Ino != subvolRoot || !onBtrfs(fd) {
		return Copied{}, false, nil
	}
	args := volArgsV2{fd: int64(fd)}
	parent, err := place(to, args.name[:])
	if err != nil {
		return Copied{}, false, nil
	}
	defer unix.Close(parent)
	if control(parent, snapCreate, unsafe.Pointer(&args)) != nil {
		return Copied{}, false, nil
	}
	holes := false
	made, err = count(ctx, to, func(e *Entry) { holes = holes || e.IsDir() && e.Stat.Ino == subvolStub })
	made.Shared = true
	if err == nil && holes {
		return Copied{}, false, os.RemoveAll(to)
	}
	if err == nil {
		err = Limit(to, 0) // it has that of its original, and belongs to another container perhaps
	}
	if err == nil && shift != (Shift{}) {
		err = Reown(ctx, to, shift)
	}
	return made, true, err
}
