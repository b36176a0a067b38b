package rootfs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/hostler-io/hostler/container"
)

// Unpack lays layers in a directory that is empty, from the lowest one. The files belong
// to ids, the container's users, from the first moment on.
func Unpack(dir string, layers []container.Layer, ids container.IDRange) error {
	t, err := New(dir, ids, DefaultLimits)
	if err != nil {
		return err
	}
	for i, l := range layers {
		if err := t.LayFile(l); err != nil {
			return errors.Join(fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err), t.Close())
		}
	}
	return t.Close()
}

// LayFile lays a layer that is a file of the host, compressed by gzip, zstd, xz, or not at
// all, and holds it against the digest of its uncompressed bytes, where there is one.
func (t *Tree) LayFile(l container.Layer) error {
	f, err := os.Open(l.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	var from io.Reader = f
	if l.Bytes > 0 {
		from = io.NewSectionReader(f, l.Offset, l.Bytes)
	}
	r, end, err := decompress(from)
	if err != nil {
		return err
	}
	defer end()
	t.plain, t.delta = l.Plain, l.Delta
	sum := sha256.New()
	if err := t.Lay(io.TeeReader(r, sum)); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); l.DiffID != "" && got != l.DiffID {
		return fmt.Errorf("%w: unpacked it has the digest %s, and the image promises %s", ErrLayer, got, l.DiffID)
	}
	return nil
}

// Sizes of what is held in memory while a layer is decompressed.
const (
	readAhead = 1 << 20
	maxWindow = 128 << 20 // of zstd: that of its highest level
)

// decompress looks at the first bytes to see what they are.
func decompress(from io.Reader) (r io.Reader, end func(), err error) {
	b := bufio.NewReaderSize(from, readAhead)
	head, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrLayer, err)
		}
		return z, func() { _ = z.Close() }, nil // it holds nothing
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrLayer, err)
		}
		return z, z.Close, nil
	}
	if bytes.HasPrefix(head, xzMagic) {
		z, err := newXZ(b)
		return z, func() {}, err
	}
	return b, func() {}, nil
}

// xzMagic begins a stream of xz.
var xzMagic = []byte{0xfd, '7', 'z', 'X'}

// newXZ reads one stream of xz, whose first block tells how much memory it wants: the
// strongest level of the tool takes half of what is allowed.
func newXZ(b *bufio.Reader) (io.Reader, error) {
	head, err := b.Peek(xzHeader)
	if err != nil {
		return nil, fmt.Errorf("%w: it ends in its header", ErrLayer)
	}
	if size := xzWindow(head[xzStreamHeader:]); size > maxWindow {
		return nil, fmt.Errorf("%w: unpacking it takes %d bytes of memory, and at most %d are allowed: compress it with xz -9 or less", ErrLayer, size, maxWindow)
	}
	z, err := xz.ReaderConfig{SingleStream: true}.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLayer, err)
	}
	return z, nil
}

// Sizes of the header of a stream, and of all that is looked at.
const (
	xzStreamHeader = 12
	xzHeader       = xzStreamHeader + 32
)

// xzWindow reads the size of the dictionary from the header of a block: its size, flags
// (the number of filters, and whether two sizes follow), the sizes, and the filters. Of a
// block that it does not understand it returns 0, and the decoder refuses that.
func xzWindow(b []byte) int64 {
	flags := b[1]
	at := 2
	number := func() (n uint64) {
		n, used := binary.Uvarint(b[min(at, len(b)):])
		at += max(used, 1)
		return n
	}
	for bit := byte(0x40); bit != 0; bit <<= 1 { // 0x40 and 0x80
		if flags&bit != 0 {
			number()
		}
	}
	for range int(flags&3) + 1 {
		id, size := number(), number()
		if id == lzma2 && size == 1 && at < len(b) {
			bits := b[at]
			if bits > 40 {
				return 0
			}
			if bits == 40 {
				return 1<<32 - 1
			}
			return int64(2|bits&1) << (bits/2 + 11)
		}
		at += int(min(size, xzHeader))
	}
	return 0
}

// lzma2 is the filter that decompresses.
const lzma2 = 0x21
