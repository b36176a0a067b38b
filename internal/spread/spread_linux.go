package spread

import (
	"os"

	"golang.org/x/sys/unix"
)

// topDir is FS_TOPDIR_FL of linux/fs.h, which chattr calls T: each directory that is
// made in one with this flag gets a group of its own choice.
const topDir = 0x00020000

// Children asks the file system to keep the directories that will be made in dir apart
// from one another. It is best effort: only ext4 and its elders know the wish, and
// nothing is promised but speed. What is there stays where it is.
func Children(dir string) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil || flags&topDir != 0 {
		return
	}
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|topDir))
}
