package rootfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// ErrLayer says that a layer cannot be laid: it is damaged, it names what no layer may
// name, or it is larger than Limits allow.
var ErrLayer = errors.New("the layer cannot be used")

// Limits bound what all layers of an image may come to.
type Limits struct {
	// Entries is how many files, directories and links there may be.
	Entries int
	// Bytes is how long all files together may be.
	Bytes int64
	// Free is how many bytes the file system keeps.
	Free uint64
}

// DefaultLimits are far above those of any honest image, and below what fills a host.
var DefaultLimits = Limits{Entries: 4 << 20, Bytes: 256 << 30, Free: 256 << 20}

// Tree is a root directory that is being made. It belongs to one goroutine.
type Tree struct {
	root    int // descriptor
	ids     container.IDRange
	limits  Limits
	entries int
	bytes   int64
	checked int64 // of bytes, when the free space was looked at
	seed    maphash.Seed
	plain   bool                // nothing of the layer hides anything
	delta   bool                // entries of the layer may stand for what is gone
	laid    map[uint64]struct{} // paths of the layer that is being laid
	parent  struct {            // the one that was used last
		name string
		fd   int // -1 for none
	}
	buffer []byte
}

// New opens a directory that exists and is empty. ids are those of the container's
// users; none of a privileged one, whose users are those of the host. Close must follow.
func New(dir string, ids container.IDRange, limits Limits) (*Tree, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	t := &Tree{root: fd, ids: ids, limits: limits, seed: maphash.MakeSeed(), buffer: make([]byte, 1<<20)}
	t.parent.fd = -1
	return t, t.attributes(fd, ".", &tar.Header{Typeflag: tar.TypeDir, Mode: 0o755})
}

// Close lets go of the directory.
func (t *Tree) Close() error {
	t.forget()
	return unix.Close(t.root)
}

// Lay lays a layer, an uncompressed tar archive, over those before it. It reads to the
// end of r.
func (t *Tree) Lay(r io.Reader) error {
	t.laid = make(map[uint64]struct{})
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			_, err := io.Copy(io.Discard, r) // what pads it belongs to its digest
			return err
		case err != nil:
			return fmt.Errorf("%w: %w", ErrLayer, err)
		}
		if err := t.put(h, archive); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
}

// put makes one entry.
func (t *Tree) put(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if t.entries++; t.entries > t.limits.Entries {
		return fmt.Errorf("%w: the image has more than %d files", ErrLayer, t.limits.Entries)
	}
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if t.delta && h.PAXRecords[gone] != "" {
		return t.drop(name)
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return fmt.Errorf("%w: the root is no directory", ErrLayer)
		}
		return t.attributes(t.root, ".", h)
	}
	dir, base := path.Split(name)
	dir = path.Clean("./" + dir)
	if hidden, ok := strings.CutPrefix(base, whiteout); ok && !t.plain {
		return t.hide(dir, hidden)
	}
	t.note(name)
	switch h.Typeflag {
	case tar.TypeChar, tar.TypeBlock:
		return nil // the runtime makes those that a container may have
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeGNUSparse:
	default:
		return fmt.Errorf("%w: an entry of type %q", ErrLayer, h.Typeflag)
	}
	parent, err := t.open(dir)
	if err != nil {
		return err
	}
	stale, err := t.clear(parent, base, h.Typeflag)
	if err == nil {
		err = t.create(parent, base, h, content)
	}
	if stale {
		t.forget()
	}
	return err
}

// clean returns the path of an entry, relative to the root.
func clean(name string) (string, error) {
	if len(name) > unix.PathMax || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%w: its name is none", ErrLayer)
	}
	if slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("%w: its name leads upwards", ErrLayer)
	}
	return path.Clean("./" + name), nil
}

// create makes an entry of which nothing is there, or a directory of which all is.
func (t *Tree) create(parent int, base string, h *tar.Header, content io.Reader) error {
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		if err = unix.Mkdirat(parent, base, 0o700); err == unix.EEXIST {
			err = nil
		}
	case tar.TypeSymlink:
		if len(h.Linkname) >= unix.PathMax || h.Linkname == "" {
			return fmt.Errorf("%w: a link to nothing", ErrLayer)
		}
		err = unix.Symlinkat(h.Linkname, parent, base)
	case tar.TypeFifo:
		err = unix.Mknodat(parent, base, unix.S_IFIFO|0o600, 0)
	case tar.TypeLink:
		return t.link(parent, base, h.Linkname) // its owner is that of the file
	default:
		return t.write(parent, base, h, content)
	}
	if err != nil {
		return err
	}
	return t.attributes(parent, base, h)
}

// link gives a file another name.
func (t *Tree) link(parent int, base, to string) error {
	to, err := clean(to)
	if err != nil {
		return err
	}
	dir, name := path.Split(to)
	from, err := t.find(path.Clean("./" + dir))
	if err != nil {
		return fmt.Errorf("%w: a link to %.200q: %w", ErrLayer, to, err)
	}
	defer unix.Close(from)
	var st unix.Stat_t
	if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("%w: a link to %.200q: %w", ErrLayer, to, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Errorf("%w: a hard link to the directory %.200q", ErrLayer, to)
	}
	return unix.Linkat(from, name, parent, base, 0)
}

// write makes a regular file.
func (t *Tree) write(parent int, base string, h *tar.Header, content io.Reader) error {
	if h.Size < 0 || h.Size > t.limits.Bytes-t.bytes {
		return fmt.Errorf("%w: the image is larger than %d bytes", ErrLayer, t.limits.Bytes)
	}
	t.bytes += h.Size
	if err := t.room(h.Size); err != nil {
		return err
	}
	fd, err := unix.Openat(parent, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	// Neither side may copy by itself: the buffer is there for all files.
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{content}, t.buffer)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrHeader) {
		err = fmt.Errorf("%w: %w", ErrLayer, err)
	}
	if err == nil {
		err = t.fileAttributes(fd, h)
	}
	return errors.Join(err, f.Close())
}

// look is after how many bytes the free space is looked at again.
const look = 16 << 20

// room refuses what would fill the file system.
func (t *Tree) room(size int64) error {
	if size < look && t.bytes-t.checked < look && t.checked > 0 {
		return nil
	}
	t.checked = t.bytes
	var st unix.Statfs_t
	if err := unix.Fstatfs(t.root, &st); err != nil {
		return err
	}
	if free := st.Bavail * uint64(st.Bsize); free < t.limits.Free || free-t.limits.Free < uint64(size) {
		return fmt.Errorf("unpacking: %w: %d bytes are free, and %d of these are kept", unix.ENOSPC, free, t.limits.Free)
	}
	return nil
}

// The prefix of the names that hide what layers below have, and what hides all of a
// directory.
const (
	whiteout = ".wh."
	opaque   = ".wh..opq" // behind the prefix
)

// hide removes what the layers below have under a name.
func (t *Tree) hide(dir, name string) error {
	if name == opaque {
		return t.hideAll(dir)
	}
	if strings.HasPrefix(name, whiteout) {
		return nil // what aufs writes down for itself
	}
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("%w: it hides nothing that can be", ErrLayer)
	}
	parent, err := t.find(dir)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return nil // hidden already
	}
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if t.isLaid(path.Join(dir, name)) {
		return nil
	}
	t.forget()
	return remove(parent, name)
}

// drop removes a path that is no more. A link on the way was laid in place of a directory, so
// nothing is there any more.
func (t *Tree) drop(name string) error {
	if name == "." {
		return fmt.Errorf("%w: it removes the root", ErrLayer)
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS}
	parent, err := unix.Openat2(t.root, path.Dir(name), &how)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
		return nil
	}
	if err != nil {
		return err
	}
	t.forget()
	return errors.Join(remove(parent, path.Base(name)), unix.Close(parent))
}

// hideAll removes what the layers below have in a directory.
func (t *Tree) hideAll(dir string) error {
	fd, err := t.find(dir)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	names, err := children(fd)
	if err != nil {
		return err
	}
	t.forget()
	for _, name := range names {
		if !t.isLaid(path.Join(dir, name)) {
			err = errors.Join(err, remove(fd, name))
		}
	}
	return err
}

// note remembers that a path, and those above it, are of the layer that is being laid.
func (t *Tree) note(name string) {
	for name != "." {
		sum := maphash.String(t.seed, name)
		if _, ok := t.laid[sum]; ok {
			return
		}
		t.laid[sum] = struct{}{}
		name = path.Dir(name)
	}
}

func (t *Tree) isLaid(name string) bool {
	_, ok := t.laid[maphash.String(t.seed, path.Clean(name))]
	return ok
}

// clear removes what is in the way of a new entry. stale tells that what it removed may
// have led to the parent.
func (t *Tree) clear(parent int, base string, kind byte) (stale bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
		return false, nil
	case err != nil:
		return false, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if kind == tar.TypeDir {
			return false, nil
		}
		return true, remove(parent, base)
	case unix.S_IFLNK:
		return true, unix.Unlinkat(parent, base, 0)
	}
	return false, unix.Unlinkat(parent, base, 0)
}

// remove removes a name with all below it, and follows nothing.
func remove(parent int, name string) error {
	dir, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", parent))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.RemoveAll(name)
}

// children are the names in a directory.
func children(fd int) ([]string, error) {
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// open returns a directory, which is made if it is not there. It stays the tree's own.
func (t *Tree) open(dir string) (int, error) {
	if t.parent.fd >= 0 && t.parent.name == dir {
		return t.parent.fd, nil
	}
	fd, err := t.find(dir)
	if err == unix.ENOENT && dir != "." {
		if fd, err = t.make(dir); err != nil {
			return -1, err
		}
	}
	if err != nil {
		return -1, fmt.Errorf("%w: directory %.200q: %w", ErrLayer, dir, err)
	}
	t.forget()
	t.parent.name, t.parent.fd = dir, fd
	return fd, nil
}

// make makes a directory that no layer has, and those above it.
func (t *Tree) make(dir string) (int, error) {
	up, base := path.Dir(dir), path.Base(dir)
	parent, err := t.find(up)
	if err == unix.ENOENT && up != "." {
		parent, err = t.make(up)
	}
	if err != nil {
		return -1, fmt.Errorf("%w: directory %.200q: %w", ErrLayer, up, err)
	}
	defer unix.Close(parent)
	if t.entries++; t.entries > t.limits.Entries {
		return -1, fmt.Errorf("%w: the image has more than %d files", ErrLayer, t.limits.Entries)
	}
	// A link that leads nowhere is in the way, too.
	if err := unix.Mkdirat(parent, base, 0o755); err != nil {
		return -1, fmt.Errorf("%w: directory %.200q: %w", ErrLayer, dir, err)
	}
	if err := t.attributes(parent, base, &tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
		return -1, err
	}
	return t.find(dir)
}

// find opens a directory below the root. Links on the way lead where they would lead
// if the root were that of the machine.
func (t *Tree) find(dir string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	return unix.Openat2(t.root, dir, &how)
}

// forget lets go of the parent that was used last: it may be another one now.
func (t *Tree) forget() {
	if t.parent.fd >= 0 {
		_ = unix.Close(t.parent.fd) // nothing was written to it
	}
	t.parent.fd = -1
}

// owner returns the users of the host that an entry belongs to.
func (t *Tree) owner(h *tar.Header) (uid, gid int, err error) {
	if t.ids.Count == 0 {
		if h.Uid < 0 || h.Gid < 0 || h.Uid >= math.MaxUint32 || h.Gid >= math.MaxUint32 {
			return 0, 0, fmt.Errorf("%w: it belongs to %d:%d", ErrLayer, h.Uid, h.Gid)
		}
		return h.Uid, h.Gid, nil
	}
	if h.Uid < 0 || h.Gid < 0 || h.Uid >= int(t.ids.Count) || h.Gid >= int(t.ids.Count) {
		return 0, 0, fmt.Errorf("%w: it belongs to %d:%d, and the container has %d ids", ErrLayer, h.Uid, h.Gid, t.ids.Count)
	}
	return int(t.ids.First) + h.Uid, int(t.ids.First) + h.Gid, nil
}
