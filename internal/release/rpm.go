package release

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"path"
	"slices"

	"github.com/cavaliergopher/cpio"
)

// An rpm package is a lead, a header with signatures of its own, which are not ours and
// not looked at, a header that says what the package is, and a compressed cpio archive.
const (
	rpmMagic    = "\xed\xab\xee\xdb"
	headerMagic = "\x8e\xad\xe8\x01"
	leadSize    = 96
	headerIntro = 16 // magic, four bytes, how many entries, and how many bytes their values take
	entrySize   = 16 // tag, type, offset, count
	maxHeader   = 16 << 20
	maxValue    = 256 // of a string that is looked at
)

// Tags of a header, and the type of their values.
const (
	tagName       = 1000
	tagVersion    = 1001
	tagArch       = 1022
	tagCompressor = 1125
	typeString    = 6
)

// rpmArch is Debian's name of an architecture of rpm.
func rpmArch(arch string) string {
	return cmp.Or(map[string]string{"x86_64": "amd64", "aarch64": "arm64", "i686": "i386", "armv7hl": "armhf", "ppc64le": "ppc64el"}[arch], arch)
}

func (f *File) openRPM(r io.ReaderAt, size int64) error {
	_, at, err := readHeader(r, leadSize, size)
	if err != nil {
		return err
	}
	at = (at + 7) / 8 * 8
	tags, at, err := readHeader(r, at, size)
	if err != nil {
		return err
	}
	// The header may leave out that the compression is gzip.
	if by := cmp.Or(tags[tagCompressor], "gzip"); by != "gzip" {
		return bad("its content is compressed by %.30q, not by gzip; build it with _binary_payload w9.gzdio", by)
	}
	f.Name, f.Version, f.Architecture = tags[tagName], tags[tagVersion], rpmArch(tags[tagArch])
	f.data = io.NewSectionReader(r, at, size-at)
	return nil
}

// looked are the tags that are read. Of others nothing is kept: many may name one long
// string. It is never written.
var looked = []uint32{tagName, tagVersion, tagArch, tagCompressor}

// readHeader reads the strings of a header that are looked at, and returns where it ends.
func readHeader(r io.ReaderAt, at, size int64) (tags map[uint32]string, end int64, err error) {
	damaged := bad("its header is damaged at byte %d", at)
	var intro [headerIntro]byte
	if _, err := r.ReadAt(intro[:], at); err != nil || string(intro[:len(headerMagic)]) != headerMagic {
		return nil, 0, damaged
	}
	entries, values := int64(binary.BigEndian.Uint32(intro[8:])), int64(binary.BigEndian.Uint32(intro[12:]))
	end = at + headerIntro + entries*entrySize + values
	if entries > maxEntries || values > maxHeader || end > size {
		return nil, 0, damaged
	}
	b := make([]byte, entries*entrySize+values)
	if _, err := r.ReadAt(b, at+headerIntro); err != nil {
		return nil, 0, damaged
	}
	tags = map[uint32]string{}
	index, store := b[:entries*entrySize], b[entries*entrySize:]
	for ; len(index) > 0; index = index[entrySize:] {
		tag, kind, offset := binary.BigEndian.Uint32(index), binary.BigEndian.Uint32(index[4:]), int64(binary.BigEndian.Uint32(index[8:]))
		if kind != typeString || !slices.Contains(looked, tag) {
			continue
		}
		if offset > int64(len(store)) {
			return nil, 0, damaged
		}
		value, _, ok := bytes.Cut(store[offset:min(offset+maxValue+1, int64(len(store)))], []byte{0})
		if !ok {
			return nil, 0, damaged
		}
		tags[tag] = string(value)
	}
	return tags, end, nil
}

// walkRPM calls see for the regular files of a compressed cpio archive.
func walkRPM(part io.Reader, see func(path string, content io.Reader) error) error {
	z, err := gzip.NewReader(part)
	if err != nil {
		return bad("it cannot be unpacked: %w", err)
	}
	limited := &io.LimitedReader{R: z, N: maxData}
	c := cpio.NewReader(limited)
	for range maxEntries {
		h, err := c.Next()
		switch {
		case limited.N <= 0:
			return bad("unpacked it has more than %d bytes", maxData)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return bad("it cannot be unpacked: %w", err)
		case h.Size < 0:
			return bad("it has a file of %d bytes", h.Size)
		case h.Size > limited.N:
			return bad("unpacked it has more than %d bytes", maxData)
		case !h.Mode.IsRegular():
			continue
		}
		if err := see(path.Clean("/"+h.Name), &whole{c, h.Size}); err != nil {
			return err
		}
	}
	return bad("it has more than %d files", maxEntries)
}

// whole reads all that a file of an archive is said to have, and fails when it ends
// before.
type whole struct {
	r    io.Reader
	left int64
}

func (w *whole) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if w.left -= int64(n); w.left > 0 && errors.Is(err, io.EOF) {
		return n, bad("it cannot be unpacked: %w", io.ErrUnexpectedEOF)
	}
	return n, err
}
