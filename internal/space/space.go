// Package space says how much of a file system may be taken by what can be spared,
// such as the output of commands, so that what must be written always finds room:
// databases, the records of what has ended, and the start of the programs.
package space

import "golang.org/x/sys/unix"

// Space is how large a file system is, and what is free of it, both for its users: as in
// df, what is reserved belongs to neither, so their ratio is the share that is free. One
// that does not tell its size has none: nothing is bounded by it.
type Space struct {
	Total, Free      int64 // bytes
	Files, FreeFiles int64 // inodes; a file system without a limit has 0 Files
}

// Of looks at the file system of a path.
func Of(path string) (Space, error) {
	var st unix.Statfs_t
	for {
		if err := unix.Statfs(path, &st); err != unix.EINTR {
			return of(&st), err
		}
	}
}

// OfFile looks at the file system of an open file.
func OfFile(fd uintptr) (Space, error) {
	var st unix.Statfs_t
	for {
		if err := unix.Fstatfs(int(fd), &st); err != unix.EINTR {
			return of(&st), err
		}
	}
}

func of(st *unix.Statfs_t) Space {
	return Space{
		Total: int64(st.Blocks-st.Bfree+st.Bavail) * st.Bsize, Free: int64(st.Bavail) * st.Bsize,
		Files: int64(st.Files), FreeFiles: int64(st.Ffree),
	}
}

// Kept is how much stays free for what must be written: an eighth, and never more
// than 64 MiB.
func (s Space) Kept() int64 { return min(s.Total/8, 64<<20) }

// keptFiles is Kept in inodes: an eighth, and never more than 256.
func (s Space) keptFiles() int64 { return min(s.Files/8, 256) }

// Spare reports whether what can be spared may grow.
func (s Space) Spare() bool { return s.Total == 0 || s.Free > s.Kept() }

// Low reports whether nothing new should begin that will have an end to be written:
// half of what is kept is gone, by what others have written.
func (s Space) Low() bool { return s.Free < s.Kept()/2 || s.FreeFiles < s.keptFiles() }

// Tight reports whether it is time to look whether something can be removed.
func (s Space) Tight() bool { return s.Free < 2*s.Kept() || s.FreeFiles < 2*s.keptFiles() }

// Budget is how many bytes may be taken by what can be spared and takes used of them
// now: no more than most, than half of the file system, and than leaves twice as much
// free as is kept. Where files are scarce it is half of what is used.
func (s Space) Budget(used, most int64) int64 {
	if s.Total == 0 {
		return most
	}
	b := min(most, s.Total/2, used+s.Free-2*s.Kept())
	if s.FreeFiles < 2*s.keptFiles() {
		b = min(b, used/2)
	}
	return max(0, b)
}
