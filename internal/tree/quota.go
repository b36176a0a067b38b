package tree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoSubvolume: the tree is none that btrfs can limit.
var ErrNoSubvolume = errors.New("the files are no subvolume of btrfs")

// Numbers of the quotas of btrfs, of linux/btrfs.h and linux/btrfs_tree.h.
const (
	quotaCtl    = 0xc0109428 // BTRFS_IOC_QUOTA_CTL
	quotaWait   = 0x942e     // BTRFS_IOC_QUOTA_RESCAN_WAIT
	groupLimit  = 0x8030942b // BTRFS_IOC_QGROUP_LIMIT
	treeSearch  = 0xd0009411 // BTRFS_IOC_TREE_SEARCH
	inoLookup   = 0xd0009412 // BTRFS_IOC_INO_LOOKUP
	quotaEnable = 1          // BTRFS_QUOTA_CTL_ENABLE
	quotaTree   = 8          // BTRFS_QUOTA_TREE_OBJECTID
	groupInfo   = 242        // BTRFS_QGROUP_INFO_KEY
	groupMax    = 244        // BTRFS_QGROUP_LIMIT_KEY
	maxRefers   = 1          // BTRFS_QGROUP_LIMIT_MAX_RFER
)

// lookupArgs is struct btrfs_ioctl_ino_lookup_args.
type lookupArgs struct {
	tree, object uint64
	_            [4080]byte
}

// ctlArgs is struct btrfs_ioctl_quota_ctl_args.
type ctlArgs struct{ cmd, _ uint64 }

// limitArgs is struct btrfs_ioctl_qgroup_limit_args.
type limitArgs struct {
	group, flags, refers uint64
	_                    [3]uint64
}

// searchArgs is struct btrfs_ioctl_search_args.
type searchArgs struct {
	tree                 uint64
	minObject, maxObject uint64
	minOffset, maxOffset uint64
	minTrans, maxTrans   uint64
	minType, maxType     uint32
	items, _             uint32
	_                    [4]uint64
	found                [3992]byte
}

// itemHeader is the size of struct btrfs_ioctl_search_header in bytes.
const itemHeader = 32

// subvolumeOf opens the root directory of a tree, and returns the number of its subvolume. The
// path must be one that only the host can change; a link at its end is not followed.
func subvolumeOf(dir string) (fd int, id uint64, err error) {
	fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
		return -1, 0, ErrNoSubvolume
	}
	if err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	args := lookupArgs{object: subvolRoot}
	err = unix.Fstat(fd, &st)
	switch {
	case err != nil:
	case st.Ino != subvolRoot || !onBtrfs(fd):
		err = ErrNoSubvolume
	default:
		err = control(fd, inoLookup, unsafe.Pointer(&args))
	}
	if err != nil {
		return -1, 0, errors.Join(err, unix.Close(fd))
	}
	return fd, args.tree, nil
}

// Used returns how many bytes the files of a tree have, as the quotas of its file system
// count them, and how many they may have; 0 is no limit. Without quotas both are 0. The
// error matches [ErrNoSubvolume] for a tree that has none.
func Used(dir string) (used, most int64, err error) { return counted(dir, true) }

// Counted is [Used] without the wait for what is not written yet: it is counted within a minute.
func Counted(dir string) (used, most int64, err error) { return counted(dir, false) }

func counted(dir string, all bool) (used, most int64, err error) {
	fd, id, err := subvolumeOf(dir)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	if all {
		if err := unix.Syncfs(fd); err != nil { // what was written is counted then
			return 0, 0, err
		}
	}
	_, held, err := numbers(fd, groupInfo, id) // behind the generation
	if err == nil {
		most, err = limitOf(fd, id)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading the quotas of btrfs: %w", err)
	}
	return held, most, nil
}

// Most is how many bytes the files of a tree may have, as of [Used], without the wait for what
// is not written yet.
func Most(dir string) (int64, error) {
	fd, id, err := subvolumeOf(dir)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	most, err := limitOf(fd, id)
	if err != nil {
		return 0, fmt.Errorf("reading the quotas of btrfs: %w", err)
	}
	return most, nil
}

func limitOf(fd int, id uint64) (int64, error) {
	flags, most, err := numbers(fd, groupMax, id)
	if flags&maxRefers == 0 {
		most = 0
	}
	return most, err
}

// numbers are the first two of an item about a subvolume among the quotas; 0 and 0 if there
// is none.
func numbers(fd int, kind uint32, id uint64) (first uint64, second int64, err error) {
	args := searchArgs{tree: quotaTree, minOffset: id, maxOffset: id, maxTrans: 1<<64 - 1, minType: kind, maxType: kind, items: 1}
	err = control(fd, treeSearch, unsafe.Pointer(&args))
	if err == unix.ENOENT || err == nil && args.items == 0 {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	item := args.found[itemHeader:]
	return binary.LittleEndian.Uint64(item), int64(binary.LittleEndian.Uint64(item[8:])), nil
}

// Count has the file system of a tree count what its subvolumes hold, if it does not yet,
// and waits until that is known. The error matches [ErrNoSubvolume] for a tree that has none.
func Count(dir string) error {
	fd, _, err := subvolumeOf(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	begin := ctlArgs{cmd: quotaEnable}
	if err = control(fd, quotaCtl, unsafe.Pointer(&begin)); err == nil {
		err = control(fd, quotaWait, nil)
	}
	if err != nil {
		return fmt.Errorf("counting what subvolumes of btrfs hold: %w", err)
	}
	return nil
}

// Limit limits how many bytes the files of a tree may have, those that are shared with
// others included; 0 is no limit. For any other limit [Count] must have been called. The error
// matches [ErrNoSubvolume] for a tree that cannot be limited.
func Limit(dir string, most int64) error {
	fd, id, err := subvolumeOf(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	args := limitArgs{group: id, flags: maxRefers, refers: uint64(most)}
	if most == 0 {
		args.refers = 1<<64 - 1 // takes the limit away
	}
	err = control(fd, groupLimit, unsafe.Pointer(&args))
	if err == unix.ENOTCONN && most == 0 {
		return nil // nothing is counted, so nothing is limited
	}
	if err != nil {
		return fmt.Errorf("limiting a subvolume of btrfs: %w", err)
	}
	return nil
}
