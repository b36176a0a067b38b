package tree

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// Reown gives what users and groups own in a tree to others, each by the first shift that
// is about it. Done again after an interruption it goes on, as long as no shift leads to
// ids that another one takes. Nothing is synced.
func Reown(ctx context.Context, root string, shifts ...Shift) error {
	of := func(id uint32) (Shift, bool) {
		for _, s := range shifts {
			if id >= s.From && id-s.From < s.Count {
				return s, true
			}
		}
		return Shift{}, false
	}
	return Walk(ctx, root, func(e *Entry) error {
		user, moves := of(e.Stat.Uid)
		group, too := of(e.Stat.Gid)
		if !moves && !too {
			return nil
		}
		all, err := e.Attributes()
		if err != nil {
			return err
		}
		if err := unix.Fchownat(e.dir, e.name, int(user.of(e.Stat.Uid)), int(group.of(e.Stat.Gid)), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if e.Stat.Mode&unix.S_IFMT == unix.S_IFLNK {
			return nil
		}
		// The change of the owner has taken bits and capabilities away.
		if err := unix.Fchmodat(e.dir, e.name, e.Stat.Mode&0o7777, 0); err != nil {
			return err
		}
		if !moves {
			user = group
		}
		for name, value := range all {
			if err := unix.Lsetxattr(e.proc(), name, user.attribute(name, value), 0); err != nil && err != unix.EOPNOTSUPP {
				return fmt.Errorf("attribute %.80q: %w", name, err)
			}
		}
		return nil
	})
}
