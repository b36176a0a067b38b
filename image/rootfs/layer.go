package rootfs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/hostler-io/hostler/container"
)

// LayFile lays a layer that is a file of the host, compressed by gzip, zstd, or not at
// all, and holds it against the digest of its uncompressed bytes, where there is one.
func (t *Tree) LayFile(l container.Layer) error {
	f, err := os.Open(l.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, end, err := decompress(f)
	if err != nil {
		return err
	}
	defer end()
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
	return b, func() {}, nil
}
