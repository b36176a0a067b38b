// Package files puts files into a tree that other processes may be changing at
// the same time, and takes files out of one: the tree of a host, of a container, or of
// an operator who asked a host that may lie.
//
// A tree is entered once, by a descriptor of its root, and no name ever leads out
// of it again: symbolic links and ".." are resolved inside it, whatever is moved
// or replaced meanwhile. A file appears under its name by a rename, with its
// bytes, mode and owner durable before, so a reader sees the old one or the new
// one. Devices, pipes and sockets are neither made, nor opened, nor replaced.
//
// Several files, and directories, travel as a tar archive.
package files

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

var (
	// ErrSpecial says that something is a device, a pipe or a socket.
	ErrSpecial = errors.New("not a file or a directory")
	// ErrName says that an archive names something outside of where it goes.
	ErrName = errors.New("the name leads out of the directory")
	// ErrChanged says that a file changed while it was read.
	ErrChanged = errors.New("it changed while it was read")
	// ErrPolicy says that a place is not among those that are allowed.
	ErrPolicy = errors.New("this place is not allowed")
)

// Owner is to whom something belongs, as the tree's own system counts them.
type Owner struct{ UID, GID uint32 }

// Tree is a directory into which files are put, or out of which they are taken.
// It belongs to one goroutine.
type Tree struct {
	root *os.Root
	// Chown gives what is written its owner. nil leaves it to the user of this process.
	Chown func(f *os.File, o Owner) error
	// Plain takes files from a source that is not trusted with more: they get the
	// bits of permissions alone, and their owner can write to directories.
	Plain bool
	// Temp is the name, in each directory, of what is not complete yet. Two who
	// write into one tree need two.
	Temp string
	// As is what the first part of the names in an archive becomes; empty leaves
	// them as they are.
	As   string
	made map[string]bool // temporary files that are there

	staged   []staged        // files that are there, and not under their names yet
	unsynced map[string]bool // directories in which names may not be durable yet
}

// NewTree returns the tree below a directory that is open. Close must follow.
func NewTree(root *os.Root, temp string) *Tree {
	return &Tree{root: root, Temp: temp, made: make(map[string]bool), unsynced: make(map[string]bool)}
}

// Close removes what is not complete and lets go of the tree.
func (t *Tree) Close() error {
	var err error
	for _, s := range t.staged {
		err = errors.Join(err, s.f.Close())
	}
	t.staged = nil
	for name := range t.made {
		if e := t.root.Remove(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, t.root.Close())
}

// ordinary are the bits of a mode that are kept.
const ordinary = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// mode is what is kept of a mode.
func (t *Tree) mode(m fs.FileMode, dir bool) fs.FileMode {
	switch {
	case t.Plain && dir:
		return m&fs.ModePerm | 0o700
	case t.Plain:
		return m & fs.ModePerm
	}
	return m & ordinary
}

// Put writes a file of exactly size bytes under a name, replacing a file or a
// symbolic link, and nothing else. size −1 takes all of r.
func (t *Tree) Put(ctx context.Context, name string, mode fs.FileMode, o Owner, size int64, r io.Reader) error {
	if err := t.stage(ctx, name, mode, o, size, r); err != nil {
		return err
	}
	return t.settle()
}

// named tells what went wrong under the name that was given, and not under
// that of the incomplete file.
func (t *Tree) named(name string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok && strings.HasPrefix(path.Base(p.Path), t.Temp) {
		return &fs.PathError{Op: p.Op, Path: name, Err: p.Err}
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok && strings.HasPrefix(path.Base(l.Old), t.Temp) {
		return &fs.PathError{Op: l.Op, Path: name, Err: l.Err}
	}
	return err
}

// replaceable refuses to replace what is no file.
func (t *Tree) replaceable(name string) error {
	i, err := t.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case i.IsDir():
		return &fs.PathError{Op: "replace", Path: name, Err: syscall.EISDIR}
	case !i.Mode().IsRegular() && i.Mode()&fs.ModeSymlink == 0:
		return &fs.PathError{Op: "replace", Path: name, Err: ErrSpecial}
	}
	return nil
}

// Mkdir makes a directory, or gives one that is there its mode and owner.
func (t *Tree) Mkdir(name string, mode fs.FileMode, o Owner) error {
	err := t.root.Mkdir(name, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// A link to a directory is none: what is in it does not belong to this tree.
	d, err := openDir(t.root, name)
	if err != nil {
		return err
	}
	defer d.Close()
	if t.Chown != nil {
		if err := t.Chown(d, o); err != nil {
			return err
		}
	}
	if err := d.Chmod(t.mode(mode, true)); err != nil {
		return err
	}
	return t.renamed(name)
}

// block is the unit in which zeros are left out.
const block = 64 << 10

// ModeOf translates a mode of Unix, as four octal digits have it.
func ModeOf(unix uint32) fs.FileMode {
	m := fs.FileMode(unix) & fs.ModePerm
	for bit, mode := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if unix&bit != 0 {
			m |= mode
		}
	}
	return m
}

// UnixOf is the other way.
func UnixOf(m fs.FileMode) uint32 {
	unix := uint32(m & fs.ModePerm)
	for bit, mode := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if m&mode != 0 {
			unix |= bit
		}
	}
	return unix
}

// copySparse copies r to a new file. Blocks of zeros become holes.
func copySparse(ctx context.Context, f *os.File, r io.Reader) (n int64, err error) {
	buf := make([]byte, block)
	for ctx.Err() == nil {
		m, err := io.ReadFull(r, buf)
		if m == block && isZero(buf) {
			_, e := f.Seek(block, io.SeekCurrent)
			err = errors.Join(err, e)
		} else if m > 0 {
			if _, e := f.Write(buf[:m]); e != nil {
				return n, e
			}
		}
		n += int64(m)
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF:
			return n, f.Truncate(n)
		case err != nil:
			return n, err
		}
	}
	return n, context.Cause(ctx)
}

// clean checks a name of an archive. It may not be absolute, nor lead upwards.
func clean(name string) (string, error) {
	c := path.Clean(name)
	if name == "" || strings.HasPrefix(name, "/") || c == ".." || strings.HasPrefix(c, "../") || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%.200q: %w", name, ErrName)
	}
	return c, nil
}

// within reports whether a symbolic link at a name of an archive leads to
// somewhere in it. ".." stands at the beginning of its target alone: behind the name
// of another link it would lead up from wherever that one leads to, and that one may
// be made later.
func within(name, target string) bool {
	if target == "" || strings.HasPrefix(target, "/") {
		return false
	}
	up, down := 0, false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if up++; down {
				return false
			}
		default:
			down = true
		}
	}
	return up <= strings.Count(name, "/")
}

// split takes a name of an archive apart: what was copied, and the name below it.
func split(name string) (top, below string) {
	if top, below, ok := strings.Cut(name, "/"); ok {
		return top, below
	}
	return ".", name
}

// Unpack puts what an archive holds into the tree. Names that lead out of it, and
// what is no file, directory or link, end it before anything of that is written.
func (t *Tree) Unpack(ctx context.Context, r io.Reader) error {
	err := t.unpackAll(ctx, r)
	return errors.Join(err, t.settle()) // what came before a mistake is whole
}

func (t *Tree) unpackAll(ctx context.Context, r io.Reader) error {
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if err == io.EOF {
			// Behind the end of the archive there is nothing but its padding.
			_, err = io.Copy(io.Discard, io.LimitReader(r, maxPadding))
			return err
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if err := t.unpack(ctx, h, in); err != nil {
			return err
		}
	}
}

// Hostile reports whether what ended [Tree.Unpack] is the archive, and not the
// system of files that it goes to: with the same archive it would end so again.
func Hostile(err error) bool {
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	_, number := errors.AsType[syscall.Errno](err)
	return err != nil && !path && !link && !number
}

// maxPadding is how much padding follows an archive at the most.
const maxPadding = 64 << 10

func (t *Tree) unpack(ctx context.Context, h *tar.Header, r io.Reader) error {
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if t.As != "" && name != "." {
		_, below, _ := strings.Cut(name, "/")
		name = path.Join(t.As, below)
	}
	mode, owner := h.FileInfo().Mode(), Owner{uint32(h.Uid), uint32(h.Gid)}
	switch h.Typeflag {
	case tar.TypeReg:
		return t.stage(ctx, name, mode, owner, h.Size, r)
	case tar.TypeDir:
		if name == "." {
			return nil
		}
		return t.Mkdir(name, mode, owner)
	case tar.TypeSymlink:
		if _, below := split(name); !within(below, h.Linkname) {
			return fmt.Errorf("link %.200q to %.200q: %w", h.Name, h.Linkname, ErrName)
		}
		if err := t.show(); err != nil {
			return err // it may be in the place of one of them
		}
		return t.link(name, h.Linkname)
	}
	return fmt.Errorf("%.200q: %w", h.Name, ErrSpecial)
}

// link makes a symbolic link, replacing one or a file.
func (t *Tree) link(name, target string) error {
	if err := t.replaceable(name); err != nil {
		return err
	}
	temp := path.Join(path.Dir(name), t.Temp)
	if err := t.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.root.Symlink(target, temp); err != nil {
		return t.named(name, err)
	}
	t.made[temp] = true
	if err := t.resolve(temp); err != nil {
		return fmt.Errorf("link %.200q to %.200q: %w", name, target, err)
	}
	if err := t.root.Rename(temp, name); err != nil {
		return t.named(name, err)
	}
	delete(t.made, temp)
	return t.renamed(name)
}

// resolve follows a new link. Its name alone does not tell where it leads: the
// directory that it is in may have been reached through another link.
func (t *Tree) resolve(name string) error {
	top, below := split(name)
	root, err := t.root.OpenRoot(top)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = root.Stat(below)
	if _, number := errors.AsType[syscall.Errno](err); err != nil && !number {
		return ErrName // os.Root refuses it; what the system refuses leads nowhere
	}
	return nil
}
