package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// System is a system of files: that of the host, or of a container, running or
// stopped.
type System struct {
	// Root is its root directory as this process sees it.
	Root string `json:"root"`
	// Init is the first process of a container that runs, and Ticks when it
	// started: its root is entered through it, and no other. 0 otherwise.
	Init  int   `json:"init,omitzero"`
	Ticks int64 `json:"ticks,omitzero"`
	// UIDs and GIDs tell which number of the host stands for one of the place.
	// Empty is the same.
	UIDs []IDRange `json:"uids,omitempty"`
	GIDs []IDRange `json:"gids,omitempty"`
	// Allowed are the directories within which everything must lie, wherever links
	// lead. Empty is anywhere.
	Allowed []string `json:"allowed,omitempty"`
}

// IDRange is a line of a map of users or groups.
type IDRange struct {
	Inside uint32 `json:"inside"`
	Host   uint32 `json:"host"`
	Count  uint32 `json:"count"`
}

// ParseIDMap reads /proc/PID/uid_map or gid_map.
func ParseIDMap(text string) ([]IDRange, error) {
	var all []IDRange
	for line := range strings.Lines(text) {
		var r IDRange
		if n, err := fmt.Sscan(line, &r.Inside, &r.Host, &r.Count); n != 3 {
			return nil, fmt.Errorf("map of users: %w", err)
		}
		all = append(all, r)
	}
	return all, nil
}

// ErrNoID says that a user or group of a place has no number on the host.
var ErrNoID = errors.New("it has no place in the container's map of users")

func outside(m []IDRange, id uint32) (uint32, error) {
	if len(m) == 0 {
		return id, nil
	}
	for _, r := range m {
		if id >= r.Inside && id-r.Inside < r.Count {
			return r.Host + (id - r.Inside), nil
		}
	}
	return 0, fmt.Errorf("%d: %w", id, ErrNoID)
}

// inside is the number of the place; the overflow id if there is none.
func inside(m []IDRange, id uint32) uint32 {
	if len(m) == 0 {
		return id
	}
	for _, r := range m {
		if id >= r.Host && id-r.Host < r.Count {
			return r.Inside + (id - r.Host)
		}
	}
	return 65534
}

// Chown gives a file the owner that the place names so.
func (p *System) Chown(f *os.File, o Owner) error {
	uid, err := outside(p.UIDs, o.UID)
	if err != nil {
		return err
	}
	gid, err := outside(p.GIDs, o.GID)
	if err != nil {
		return err
	}
	return f.Chown(int(uid), int(gid))
}

// Enter makes this process write as root of the place, for good: a file system of a
// container that has users of its own takes no file of another. It keeps what root
// may do.
func (p *System) Enter() error {
	uid, err := outside(p.UIDs, 0)
	if err != nil {
		return err
	}
	gid, err := outside(p.GIDs, 0)
	if err != nil || uid == 0 && gid == 0 {
		return err
	}
	const noFixup = 1 << 2 // SECBIT_NO_SETUID_FIXUP: another user, and the same capabilities
	for _, call := range [][2]uintptr{{unix.SYS_PRCTL, unix.PR_SET_SECUREBITS}, {unix.SYS_SETFSGID, uintptr(gid)}, {unix.SYS_SETFSUID, uintptr(uid)}} {
		if _, _, errno := syscall.AllThreadsSyscall(call[0], call[1], noFixup, 0); errno != 0 {
			return os.NewSyscallError("becoming root of the container", errno)
		}
	}
	return nil
}

// OwnerOf tells to whom something belongs, as the place counts.
func (p *System) OwnerOf(i fs.FileInfo) Owner {
	st, ok := i.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{}
	}
	return Owner{inside(p.UIDs, st.Uid), inside(p.GIDs, st.Gid)}
}

// FindOwner returns the owner of a name or UID:GID, as the place's own tables
// have it. Empty is root.
func (p *System) FindOwner(owner string) (Owner, error) {
	if owner == "" {
		return Owner{}, nil
	}
	u, err := supervise.LookupUser(p.Root, owner)
	if err != nil {
		return Owner{}, err
	}
	return Owner{u.UID, u.GID}, nil
}

// open opens a path of the place. Links and ".." never lead out of it, and none
// of the kernel's own links is followed: what a container makes of its names
// while they are looked up stays its own.
func (p *System) open(name string, flags int) (*os.File, error) {
	root, err := unix.Open(p.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p.Root, Err: err}
	}
	defer unix.Close(root)
	if p.Init != 0 {
		// It is the root of that process, if the process is still there.
		if ticks, err := rundir.StartTicks(p.Init); err != nil || ticks != p.Ticks {
			return nil, errors.New("the container was restarted meanwhile")
		}
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, name, &how)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	if err := p.allow(root, f); err != nil {
		_ = f.Close() // nothing was done with it
		return nil, err
	}
	return f, nil
}

// allow holds where a descriptor has led to against what is allowed. The kernel calls
// it as it is called from the root of its own mounts, which of a container that runs
// is not ours: so does it call the place's root.
func (p *System) allow(root int, f *os.File) error {
	if len(p.Allowed) == 0 {
		return nil
	}
	from, err := os.Readlink(fdName(root))
	if err != nil {
		return err
	}
	at, err := os.Readlink(self(f))
	if err != nil {
		return err
	}
	if at, ok := strings.CutPrefix(at, strings.TrimSuffix(from, "/")); ok && slices.ContainsFunc(p.Allowed, func(d string) bool {
		return at == d || strings.HasPrefix(at, strings.TrimSuffix(d, "/")+"/")
	}) {
		return nil
	}
	return fmt.Errorf("%s: %w: it is %s", f.Name(), ErrPolicy, at)
}

// self is the name by which this process reaches what it has open.
func self(f *os.File) string { return fdName(int(f.Fd())) }

func fdName(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Dir opens a directory of the place for everything that is below it.
func (p *System) Dir(name string) (*os.Root, error) {
	d, err := p.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return os.OpenRoot(self(d))
}

// Target finds where a pushed file goes: into the directory at a path, under a
// name, if there is one, else to the path itself.
func (p *System) Target(at, name string) (dir *os.Root, base string, err error) {
	if name != "" {
		dir, err = p.Dir(at)
		if err == nil {
			return dir, name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, "", err
		}
	}
	if at == "/" {
		return nil, "", &fs.PathError{Op: "replace", Path: at, Err: syscall.EISDIR}
	}
	dir, err = p.Dir(path.Dir(at))
	return dir, path.Base(at), err
}

// Source opens what is at a path of the place: a file or a directory. A link there
// is followed.
func (p *System) Source(name string) (*os.File, *os.Root, error) {
	f, err := p.open(name, unix.O_PATH)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	i, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, err
	case i.IsDir():
		root, err := os.OpenRoot(self(f))
		return nil, root, err
	case !i.Mode().IsRegular():
		return nil, nil, &fs.PathError{Op: "read", Path: name, Err: ErrSpecial}
	}
	// What is open already is opened for reading: it cannot be another any more.
	r, err := os.Open(self(f))
	return r, nil, err
}

// openRegular opens a file of a tree for reading. It looks at what has the name before
// it opens that very thing: to open a device may have effects, and a user may put one
// in the place of a file at any time. [ErrChanged] if it is no file.
func openRegular(root *os.Root, name string) (*os.File, error) {
	look, err := root.OpenFile(name, unix.O_PATH|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer look.Close()
	f, _, err := rundir.Reopen(int(look.Fd()), name, unix.O_RDONLY)
	if errors.Is(err, rundir.ErrNotRegular) {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrChanged}
	}
	return f, err
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
