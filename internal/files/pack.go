package files

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
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
	// Packed, if it is set, is told of each file that was packed, and its digest.
	Packed func(name string, size int64, digest [32]byte)
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
	content, size := io.Reader(&cancelled{ctx, f}), i.Size()
	if size <= untold {
		b, err := small(ctx, f, size)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			p.Skipped(name, err)
			return nil
		}
		content, size = bytes.NewReader(b), int64(len(b))
	}
	if err := p.header(i, name, "", size); err != nil {
		return err
	}
	var sum hash.Hash
	w := io.Writer(p.out)
	if p.Packed != nil {
		sum = sha256.New()
		w = io.MultiWriter(p.out, sum)
	}
	n, err := io.Copy(w, io.LimitReader(content, size))
	if err == nil && n < size {
		err = fmt.Errorf("%s: %w: it has %d bytes, and had %d", name, ErrChanged, n, size)
	}
	if err == nil && sum != nil {
		p.Packed(name, n, [32]byte(sum.Sum(nil)))
	}
	return err
}

// A file of /proc says that it has no bytes, and one of /sys that it has a page,
// whatever they hold: files up to that size are read before the archive tells it.
const (
	untold    = 4096
	maxUntold = 1 << 20
	// readTime is for how long a file may have nothing to say yet, as a log of the
	// kernel does.
	readTime = time.Second
)

// small reads a file that says that it has up to a page.
func small(ctx context.Context, f *os.File, size int64) ([]byte, error) {
	if size > 0 {
		return io.ReadAll(io.LimitReader(&cancelled{ctx, f}, size))
	}
	if err := f.SetReadDeadline(clock.Now().Add(readTime)); err != nil && !errors.Is(err, os.ErrNoDeadline) { // most never wait
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(&cancelled{ctx, f}, maxUntold+1))
	if err == nil && len(b) > maxUntold {
		err = fmt.Errorf("its size is given as 0, but it holds more than %d bytes", maxUntold)
	}
	return b, err
}

// Dir packs a directory and everything below it under a name.
func (p *Packer) Dir(ctx context.Context, name string, root *os.Root) error {
	return fs.WalkDir(walked{root}, ".", func(at string, _ fs.DirEntry, err error) error {
		as := path.Join(name, at)
		if errors.Is(err, syscall.ENOTDIR) {
			p.Skipped(as, ErrChanged) // it was a directory before
			return nil
		}
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
		return p.header(i, as+"/", "", 0)
	case i.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(at)
		if err != nil {
			return err
		}
		if !within(at, target) {
			p.Skipped(as, fmt.Errorf("it is a link to %q, outside the copied directory", target))
			return nil
		}
		return p.header(i, as, target, 0)
	case !i.Mode().IsRegular():
		p.Skipped(as, ErrSpecial)
		return nil
	}
	f, err := openRegular(root, at)
	if errors.Is(err, ErrChanged) {
		p.Skipped(as, ErrChanged)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return p.File(ctx, as, f)
}

func (p *Packer) header(i fs.FileInfo, name, link string, size int64) error {
	h, err := tar.FileInfoHeader(i, link)
	if err != nil {
		return err
	}
	// Packed again, what has not changed must be the same archive: reading a file
	// changes the time of its last reading.
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	h.Name, h.Size, h.Uname, h.Gname, h.Format = name, size, "", "", tar.FormatPAX
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
