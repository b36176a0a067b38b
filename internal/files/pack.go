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
	"syscall"
)

// Packer writes an archive. What is neither file, directory nor a link within
// what is packed is left out and told to Skipped.
type Packer struct {
	out *tar.Writer
	// OwnerOf tells to whom something belongs, as the archive is to say; nil is
	// its own numbers.
	OwnerOf func(fs.FileInfo) Owner
	// Skipped is told of what is left out, and why. Required.
	Skipped func(name string, why error)
}

// NewPacker returns a Packer. Close must follow.
func NewPacker(w io.Writer) *Packer { return &Packer{out: tar.NewWriter(w)} }

// Close ends the archive.
func (p *Packer) Close() error { return p.out.Close() }

// File packs one open file under a name.
func (p *Packer) File(ctx context.Context, name string, f *os.File) error {
	i, err := f.Stat()
	if err != nil {
		return err
	}
	if !i.Mode().IsRegular() {
		p.Skipped(name, ErrSpecial)
		return nil
	}
	if err := p.header(i, name, ""); err != nil {
		return err
	}
	n, err := io.Copy(p.out, io.LimitReader(&cancelled{ctx, f}, i.Size()))
	if err == nil && n < i.Size() {
		err = fmt.Errorf("%s: %w: it has %d bytes, and had %d", name, ErrChanged, n, i.Size())
	}
	return err
}

// Dir packs a directory and everything below it under a name.
func (p *Packer) Dir(ctx context.Context, name string, root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(at string, _ fs.DirEntry, err error) error {
		as := path.Join(name, at)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", as, err)
		}
		err = p.entry(ctx, name, at, root)
		if errors.Is(err, fs.ErrNotExist) {
			p.Skipped(as, err) // it was removed meanwhile
			return nil
		}
		return err
	})
}

// entry packs one thing of a directory.
func (p *Packer) entry(ctx context.Context, name, at string, root *os.Root) error {
	as := path.Join(name, at)
	i, err := root.Lstat(at)
	if err != nil {
		return err
	}
	switch {
	case i.IsDir():
		return p.header(i, as+"/", "")
	case i.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(at)
		if err != nil {
			return err
		}
		if !within(at, target) {
			p.Skipped(as, fmt.Errorf("it is a link to %q, out of what is copied", target))
			return nil
		}
		return p.header(i, as, target)
	case !i.Mode().IsRegular():
		p.Skipped(as, ErrSpecial)
		return nil
	}
	// What it is now is judged by the open file: it may have been replaced, and a
	// pipe must not be waited for.
	f, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		p.Skipped(as, ErrChanged)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return p.File(ctx, as, f)
}

func (p *Packer) header(i fs.FileInfo, name, link string) error {
	h, err := tar.FileInfoHeader(i, link)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Format = name, "", "", tar.FormatPAX
	if p.OwnerOf != nil {
		o := p.OwnerOf(i)
		h.Uid, h.Gid = int(o.UID), int(o.GID)
	}
	return p.out.WriteHeader(h)
}

// cancelled ends reading with its context.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(b)
}
