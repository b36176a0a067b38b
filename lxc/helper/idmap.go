//go:build linux && cgo

package helper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	golxc "github.com/lxc/go-lxc"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/runner/rundir"
)

// An unprivileged container has a range of ids of the host that no other one has: its
// user 0 is the first of them. Its record holds the range from the moment on at which
// the container's directory appears, so the records are the allocator: nothing can be
// given twice, and nothing is lost with a creation that was cut short.

// idLock is the key of the lock under which a range is chosen and written down. No
// container can be called so.
const idLock = ".ids"

// idsEach is how many ids a container gets: all that programs and templates use.
const idsEach = 1 << 16

// maxConfig bounds what is read of a container's configuration, in bytes.
const maxConfig = 1 << 20

// freeIDs finds a range that no container has. The caller holds idLock.
func (h *host) freeIDs() (container.IDRange, error) {
	entries, err := os.ReadDir(h.path)
	if err != nil {
		return container.IDRange{}, err
	}
	var used []container.IDRange
	for _, e := range entries {
		if r, err := readRecord(h.dir(e.Name())); err == nil {
			used = append(used, r.IDs)
		}
		// That of a foreign container, or of one whose record is damaged.
		if b, err := rundir.ReadCapped(filepath.Join(h.dir(e.Name()), "config"), maxConfig); err == nil {
			used = append(used, mapped(string(b))...)
		}
	}
	end := uint64(h.ids.First) + uint64(h.ids.Count)
next:
	for first := uint64(h.ids.First); first+idsEach <= end; first += idsEach {
		ids := container.IDRange{First: uint32(first), Count: idsEach}
		for _, u := range used {
			if ids.Overlaps(u) {
				continue next
			}
		}
		return ids, nil
	}
	return container.IDRange{}, fmt.Errorf("each range of ids from %d to %d belongs to a container", h.ids.First, end-1)
}

// passable refuses a place for containers that their own users cannot reach: liblxc
// would refuse to start them.
func passable(dir string) error {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		i, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if i.Mode()&0o001 == 0 {
			return fmt.Errorf("%w: the users of unprivileged containers cannot pass through %s: have lxc.path elsewhere, chmod o+x it, or make a privileged container", container.ErrUnsupported, dir)
		}
	}
	return nil
}

// mapped are the ids of the host in a configuration.
func mapped(config string) (all []container.IDRange) {
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); key != "lxc.idmap" && key != "lxc.id_map" {
			continue
		}
		var kind string
		var inside uint32
		var ids container.IDRange
		if n, _ := fmt.Sscan(value, &kind, &inside, &ids.First, &ids.Count); n == 4 {
			all = append(all, ids)
		}
	}
	return all
}

// unprivileged gives a container its ids.
func unprivileged(c *golxc.Container, ids container.IDRange) []setting {
	if ids.Count == 0 {
		return nil
	}
	var settings []setting
	if dir := c.ConfigItem("lxc.tty.dir"); len(dir) > 0 && dir[0] != "" {
		settings = append(settings, setting{"lxc.tty.dir", ""}) // its terminals are bind mounts, which cannot be moved there
	}
	for _, kind := range []string{"u", "g"} {
		settings = append(settings, setting{"lxc.idmap", fmt.Sprintf("%s 0 %d %d", kind, ids.First, ids.Count)})
	}
	return settings
}

// commonSeccomp is liblxc's list of system calls that no container needs.
const commonSeccomp = "/usr/share/lxc/config/common.seccomp"

// profiles gives a container the profiles of seccomp and AppArmor that its template
// leaves out, where there are any.
func profiles(c *golxc.Container) (settings []setting) {
	for _, p := range []struct{ needs, key, value string }{
		{commonSeccomp, "lxc.seccomp.profile", commonSeccomp},
		{"/sys/kernel/security/apparmor", "lxc.apparmor.profile", "generated"},
	} {
		if _, err := os.Stat(p.needs); err != nil || !golxc.IsSupportedConfigItem(p.key) {
			continue
		}
		if has := c.ConfigItem(p.key); len(has) == 0 || has[0] == "" {
			settings = append(settings, setting{p.key, p.value})
		}
	}
	return settings
}

// shift gives the files of a container that has never run to its own users. They must
// be able to reach its directory, and nobody else.
func shift(dir string, ids container.IDRange) error {
	if ids.Count == 0 {
		return nil
	}
	if err := errors.Join(os.Chown(dir, 0, int(ids.First)), os.Chmod(dir, 0o710)); err != nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(dir, "rootfs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := e.Info()
		if err != nil {
			return err
		}
		return shiftOne(path, i, ids)
	})
}

// capability is where the kernel keeps what a program may do.
const capability = "security.capability"

func shiftOne(path string, i fs.FileInfo, ids container.IDRange) error {
	st, ok := i.Sys().(*syscall.Stat_t)
	if !ok || st.Uid >= ids.First && st.Uid < ids.First+ids.Count {
		return nil // another name of a file that was shifted
	}
	if st.Uid >= ids.Count || st.Gid >= ids.Count {
		return fmt.Errorf("%s belongs to %d:%d, and the container has %d ids", path, st.Uid, st.Gid, ids.Count)
	}
	var caps [64]byte
	n, err := unix.Lgetxattr(path, capability, caps[:])
	if err != nil && err != unix.ENODATA && err != unix.EOPNOTSUPP {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.Lchown(path, int(ids.First+st.Uid), int(ids.First+st.Gid)); err != nil {
		return err
	}
	// The change of its owner has taken these away.
	if i.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 && i.Mode()&fs.ModeSymlink == 0 {
		if err := os.Chmod(path, i.Mode()); err != nil {
			return err
		}
	}
	if err == nil && n == 20 {
		return unix.Lsetxattr(path, capability, ownCapability(caps[:n], ids.First), 0)
	}
	return nil
}

// ownCapability makes of what a program may do on the machine (version 2) the same
// below a user namespace whose root is a user of the machine (version 3).
func ownCapability(v2 []byte, root uint32) []byte {
	const version3, effective = 0x03000000, 1
	b := binary.LittleEndian.AppendUint32(nil, version3|binary.LittleEndian.Uint32(v2)&effective)
	b = append(b, v2[4:]...)
	return binary.LittleEndian.AppendUint32(b, root)
}
