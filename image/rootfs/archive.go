package rootfs

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/tree"
)

// nobody owns, in an archive, what belongs to none of a container's users.
const nobody = 65534

// Archive writes a root directory as an uncompressed tar archive that [Tree] can lay:
// owners as the container sees them, names, modes, times, links, capabilities and user
// attributes. Devices and sockets are left out: a runtime makes the devices that a
// container may have. It returns how many entries there are.
func Archive(ctx context.Context, root string, ids container.IDRange, w io.Writer) (entries int, err error) {
	return archive(root, &archiving{ctx: ctx, ids: ids, out: tar.NewWriter(w), links: make(map[inode]string)})
}

// ArchiveAnew is Archive without what copies must not have in common with the container,
// as [Renew] takes it away.
func ArchiveAnew(ctx context.Context, root string, ids container.IDRange, w io.Writer) (entries int, err error) {
	return archive(root, &archiving{ctx: ctx, ids: ids, out: tar.NewWriter(w), links: make(map[inode]string), anew: true})
}

// Delta says which part of a root directory an archive is to hold, so that it is laid over
// the tree that it was compared with.
type Delta struct {
	// Gone are the paths of that tree that are no more, each directory in place of what was
	// below it.
	Gone []string
	// Changed tells whether an entry belongs in the archive. It is asked once about each that
	// an archive can hold, before it is read.
	Changed func(name string, st *unix.Stat_t) bool
	// Entries and Bytes are what the archives below come to, which count, too.
	Entries int
	Bytes   int64
}

// ArchiveDelta is Archive of that part.
func ArchiveDelta(ctx context.Context, root string, ids container.IDRange, w io.Writer, d Delta) (entries int, err error) {
	a := &archiving{ctx: ctx, ids: ids, out: tar.NewWriter(w), links: make(map[inode]string), changed: d.Changed, entries: d.Entries, bytes: d.Bytes}
	for _, name := range d.Gone {
		a.entries++
		if err := a.out.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Format: tar.FormatPAX, PAXRecords: map[string]string{gone: "1"}}); err != nil {
			return 0, err
		}
	}
	entries, err = archive(root, a)
	return entries - d.Entries, err
}

// gone is the record of an entry of a delta that stands for a path that is no more. Names
// that users choose stand in records of other names.
const gone = "HOSTLER.gone"

// Archived reports whether an archive can hold a file of that mode.
func Archived(mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFLNK, unix.S_IFIFO, unix.S_IFREG:
		return true
	}
	return false
}

func archive(root string, a *archiving) (entries int, err error) {
	if a.anew {
		var err error
		if a.keys, a.identities, err = unique(root); err != nil {
			return 0, err
		}
	}
	if err := tree.Walk(a.ctx, root, a.put); err != nil {
		return 0, err
	}
	return a.entries, a.out.Close()
}

// bufferBytes are as many as zstd compresses at a time.
const bufferBytes = 128 << 10

type archiving struct {
	ctx     context.Context // of the archive
	ids     container.IDRange
	out     *tar.Writer
	links   map[inode]string // files with several names
	entries int
	bytes   int64                                   // of all files, holes counted
	anew    bool                                    // what is the container's alone is left out
	changed func(name string, st *unix.Stat_t) bool // nil: all belongs in it
	buffer  []byte                                  // files go through it
	// keys and identities are the files that are the container's alone.
	keys, identities map[inode]bool
}

// owner returns a user as the container sees it.
func (a *archiving) owner(id uint32) int {
	if a.ids.Count == 0 {
		return int(id)
	}
	if id < a.ids.First || id-a.ids.First >= a.ids.Count {
		return nobody
	}
	return int(id - a.ids.First)
}

// put writes one entry.
func (a *archiving) put(e *tree.Entry) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	if a.anew && !e.IsDir() && (isKey(e.Path) || a.keys[inodeOf(&e.Stat)]) {
		return nil
	}
	if a.changed != nil && (!Archived(e.Stat.Mode) || !a.changed(e.Path, &e.Stat)) {
		return nil
	}
	h := &tar.Header{
		Name: e.Path, Mode: int64(e.Stat.Mode & 0o7777), Uid: a.owner(e.Stat.Uid), Gid: a.owner(e.Stat.Gid), ModTime: time.Unix(e.Stat.Mtim.Unix()),
		Format: tar.FormatPAX, PAXRecords: make(map[string]string),
	}
	var content io.Reader
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
	case unix.S_IFLNK:
		to, err := e.Readlink()
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, to
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFREG:
		id := inodeOf(&e.Stat)
		if first, ok := a.links[id]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			break
		}
		f, err := e.Open()
		if err != nil {
			return err
		}
		defer f.Close()
		h.Typeflag, h.Size, content = tar.TypeReg, e.Stat.Size, f
		if a.anew && (slices.Contains(identities, e.Path) || a.identities[id]) {
			h.Size = 0
		}
		if err := a.attributes(e, h); err != nil {
			return err
		}
		if e.Stat.Nlink > 1 {
			a.links[id] = e.Path
		}
	default:
		return nil
	}
	a.entries++
	if a.bytes += h.Size; a.bytes > DefaultLimits.Bytes || int64(a.entries) > int64(DefaultLimits.Entries) {
		return fmt.Errorf("%.200q: the files are more than can be unpacked again: at most %d entries and %d bytes, holes counted", e.Path, DefaultLimits.Entries, DefaultLimits.Bytes)
	}
	if err := a.out.WriteHeader(h); err != nil {
		return err
	}
	if content == nil {
		return nil
	}
	if a.buffer == nil {
		a.buffer = make([]byte, bufferBytes)
	}
	n, err := io.CopyBuffer(a.out, io.LimitReader(content, h.Size), a.buffer)
	if err == nil && n < h.Size { // it was cut short meanwhile: the archive has told its length
		_, err = io.CopyN(a.out, zeros{}, h.Size-n)
	}
	return err
}

// zeros reads as zeros without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// attributes adds what a program may do, and what users have written down about a file.
func (a *archiving) attributes(e *tree.Entry, h *tar.Header) error {
	all, err := e.Attributes()
	if err != nil {
		return err
	}
	for name, value := range all {
		switch {
		case name == capability:
			if value, err = unowned(value); err != nil {
				return fmt.Errorf("%.200q: %w", e.Path, err)
			}
		case !strings.HasPrefix(name, "user.") || strings.ContainsRune(name, '=') || strings.ContainsRune(string(value), 0):
			continue // no archive can hold it
		}
		h.PAXRecords["SCHILY.xattr."+name] = string(value)
	}
	return nil
}

// unowned makes of what a program may do below a user namespace (version 3) the same on a
// machine (version 2).
func unowned(v []byte) ([]byte, error) {
	const version2, version3, mask, effective = 0x02000000, 0x03000000, 0xff000000, 1
	switch {
	case len(v) == 20 && binary.LittleEndian.Uint32(v)&mask == version2:
		return v, nil
	case len(v) == 24 && binary.LittleEndian.Uint32(v)&mask == version3:
		return append(binary.LittleEndian.AppendUint32(nil, version2|binary.LittleEndian.Uint32(v)&effective), v[4:20]...), nil
	}
	return nil, errors.New("the capabilities of a program are in no form that is known")
}

// Compress returns what writes zstd to w, with little memory. Close ends it, and leaves w
// open.
func Compress(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(true))
}
