package rootfs

import (
	"archive/tar"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// capability is where the kernel keeps what a program may do.
const capability = "security.capability"

// fileAttributes gives an open file its owner, mode, attributes and time.
func (t *Tree) fileAttributes(fd int, h *tar.Header) error {
	uid, gid, err := t.owner(h)
	if err != nil {
		return err
	}
	if err := unix.Fchown(fd, uid, gid); err != nil {
		return err
	}
	// After the owner, whose change takes set-user-id bits away.
	if err := unix.Fchmod(fd, uint32(h.Mode)&0o7777); err != nil {
		return err
	}
	for name, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(name, "SCHILY.xattr.")
		if !ok || name != capability && !strings.HasPrefix(name, "user.") {
			continue // those of the machine that made the image say nothing here
		}
		b := []byte(value)
		if name == capability {
			if b, err = t.capability(b); err != nil {
				return err
			}
		}
		if err := unix.Fsetxattr(fd, name, b, 0); err != nil && err != unix.EOPNOTSUPP {
			return fmt.Errorf("attribute %.80q: %w", name, err)
		}
	}
	return unix.Futimes(fd, times(h))
}

// attributes gives what is no regular file its owner and mode, and its time unless it is
// a directory, which has the time of what is made in it.
func (t *Tree) attributes(parent int, base string, h *tar.Header) error {
	uid, gid, err := t.owner(h)
	if err != nil {
		return err
	}
	if err := unix.Fchownat(parent, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		at := unix.NsecToTimespec(clamp(h.ModTime).UnixNano())
		return unix.UtimesNanoAt(parent, base, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	}
	// What it is was made here just now, or is a directory that was found: no link.
	return unix.Fchmodat(parent, base, uint32(h.Mode)&0o7777, 0)
}

// capability makes of what a program may do on a machine (version 2) the same below the
// user namespace of the container (version 3).
func (t *Tree) capability(v []byte) ([]byte, error) {
	const version2, version3, effective = 0x02000000, 0x03000000, 1
	if len(v) != 20 || binary.LittleEndian.Uint32(v)&^uint32(effective) != version2 {
		return nil, fmt.Errorf("%w: the capabilities of a program are in no form that is known", ErrLayer)
	}
	if t.ids.Count == 0 {
		return v, nil
	}
	b := binary.LittleEndian.AppendUint32(nil, version3|binary.LittleEndian.Uint32(v)&effective)
	b = append(b, v[4:]...)
	return binary.LittleEndian.AppendUint32(b, t.ids.First), nil
}

func times(h *tar.Header) []unix.Timeval {
	at := unix.NsecToTimeval(clamp(h.ModTime).UnixNano())
	return []unix.Timeval{at, at}
}

// clamp brings a time within what can be told in nanoseconds.
func clamp(at time.Time) time.Time {
	if at.Year() < 1970 || at.Year() > 2200 {
		return time.Unix(0, 0)
	}
	return at
}
