package rootfs

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Checker looks whether layers could be laid, without writing anything. It counts over all
// layers of an image.
type Checker struct {
	Limits  Limits
	entries int
	bytes   int64
}

// usual are the devices that a root directory may have: every container gets them anyway.
var usual = []string{"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}

// Check reads a layer, compressed or not, to its end. It refuses what [Tree] would, and
// devices that no container gets by itself. diffID is the digest of the uncompressed
// bytes; empty is not known.
func (c *Checker) Check(from io.Reader, diffID string) error {
	r, end, err := decompress(from)
	if err != nil {
		return err
	}
	defer end()
	sum := sha256.New()
	plain := io.TeeReader(r, sum)
	for archive := tar.NewReader(plain); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLayer, err)
		}
		if err := c.entry(h); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return fmt.Errorf("%w: %w", ErrLayer, err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); diffID != "" && got != diffID {
		return fmt.Errorf("%w: unpacked it has the digest %s, and the image promises %s", ErrLayer, got, diffID)
	}
	return nil
}

func (c *Checker) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if c.entries++; c.entries > c.Limits.Entries {
		return fmt.Errorf("%w: the image has more than %d files", ErrLayer, c.Limits.Entries)
	}
	if h.Size < 0 || h.Size > c.Limits.Bytes-c.bytes {
		return fmt.Errorf("%w: the image is larger than %d bytes", ErrLayer, c.Limits.Bytes)
	}
	c.bytes += h.Size
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	base := name[strings.LastIndexByte(name, '/')+1:]
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeFifo, tar.TypeGNUSparse:
	case tar.TypeLink:
		if _, err := clean(h.Linkname); err != nil {
			return fmt.Errorf("a link to %.200q: %w", h.Linkname, err)
		}
	case tar.TypeChar:
		if !strings.HasPrefix(name, "dev/") || !slices.Contains(usual, base) && !strings.HasPrefix(base, "tty") {
			return fmt.Errorf("%w: a device", ErrLayer)
		}
	default:
		return fmt.Errorf("%w: an entry of type %q", ErrLayer, h.Typeflag)
	}
	if hidden, ok := strings.CutPrefix(base, whiteout); ok && hidden != opaque && !strings.HasPrefix(hidden, whiteout) && slices.Contains([]string{"", ".", ".."}, hidden) {
		return fmt.Errorf("%w: it hides nothing that can be", ErrLayer)
	}
	if uint64(h.Uid) >= 1<<32 || uint64(h.Gid) >= 1<<32 {
		return fmt.Errorf("%w: it belongs to %d:%d", ErrLayer, h.Uid, h.Gid)
	}
	return nil
}
