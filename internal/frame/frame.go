// Package frame puts a signed manifest behind an archive, in a frame that decompressors
// of zstd skip and readers of tar archives never come to.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrFrame says that a file does not end with a manifest of the mark that is asked for.
var ErrFrame = errors.New("it does not end as such an archive does; it may be cut short")

// Bounds of what is read, in bytes.
const (
	MaxManifest  = 1 << 20
	MaxSignature = 16 << 10
)

// The frame: its magic number and length, which zstd defines, then manifest, signature,
// and at the end of the file the lengths of both and a mark.
const (
	magic    = 0x184D2A50
	headSize = 8
	tailSize = 16
	markSize = 8
)

// Append returns the frame with a manifest and what shows that somebody signed it. The
// mark has eight bytes and says of what sort of archive it is.
func Append(mark string, manifest, signature []byte) ([]byte, error) {
	if len(mark) != markSize || len(manifest) > MaxManifest || len(signature) > MaxSignature {
		return nil, fmt.Errorf("the manifest has %d bytes, want at most %d", len(manifest), MaxManifest)
	}
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(manifest)+len(signature)+tailSize))
	b = append(append(b, manifest...), signature...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(manifest)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(signature)))
	return append(b, mark...), nil
}

// Read returns the manifest at the end of a file of that size, and how long the archive
// before it is. Nothing is verified yet. It does not read the archive.
func Read(f io.ReaderAt, size int64, mark string) (manifest, signature []byte, archive int64, err error) {
	var tail [tailSize]byte
	if size < headSize+tailSize {
		return nil, nil, 0, ErrFrame
	}
	if _, err := f.ReadAt(tail[:], size-tailSize); err != nil {
		return nil, nil, 0, err
	}
	body, sig := int64(binary.LittleEndian.Uint32(tail[:])), int64(binary.LittleEndian.Uint32(tail[4:]))
	archive = size - tailSize - sig - body - headSize
	if string(tail[tailSize-markSize:]) != mark || body > MaxManifest || sig > MaxSignature || archive < 0 {
		return nil, nil, 0, ErrFrame
	}
	b := make([]byte, headSize+body+sig)
	if _, err := f.ReadAt(b, archive); err != nil {
		return nil, nil, 0, err
	}
	if binary.LittleEndian.Uint32(b) != magic || int64(binary.LittleEndian.Uint32(b[4:])) != body+sig+tailSize {
		return nil, nil, 0, ErrFrame
	}
	return b[headSize : headSize+body], b[headSize+body:], archive, nil
}
