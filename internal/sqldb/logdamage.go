package sqldb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
)

// SQLite ends a write-ahead log at the first frame whose checksum does not fit,
// and takes what follows for the remains of a crash. After a crash that is right:
// the last transaction was not answered yet. After damage it forgets, without a
// word, everything that was answered since. What tells the two apart:
//
//   - A transaction is synced before the next one is written. So a frame that
//     continues the chain of checksums from the end of a transaction shows that
//     the transaction was whole once.
//   - No crash leaves a frame that one bit makes whole: the checksums have 64.
//
// Remains of transactions that the disk refused are neither: those that came
// later were written over them and not onto them.
const (
	logHeaderSize   = 32
	frameHeaderSize = 24
	frameSize       = frameHeaderSize + pageSize
)

// frame is one page in the log: number of the page, size of the database if a
// transaction ends here, salt of the log, checksum.
type frame [frameSize]byte

func (f *frame) ends() bool   { return binary.BigEndian.Uint32(f[4:]) != 0 }
func (f *frame) salt() []byte { return f[8:16] }
func (f *frame) sum() logSum {
	return logSum{binary.BigEndian.Uint32(f[16:]), binary.BigEndian.Uint32(f[20:])}
}

// logSum is SQLite's checksum, of all that is in a log up to a frame.
type logSum [2]uint32

func (s logSum) add(b []byte, order binary.ByteOrder) logSum {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}

func (s logSum) distance(other logSum) int {
	return bits.OnesCount32(s[0]^other[0]) + bits.OnesCount32(s[1]^other[1])
}

// pageLog is the log of a database as it is read from its beginning.
type pageLog struct {
	file  io.ReaderAt
	order binary.ByteOrder // of the words in checksums
	salt  [8]byte
}

// sumAfter is the checksum that a frame has which follows before.
func (l *pageLog) sumAfter(before logSum, f *frame) logSum {
	return before.add(f[:8], l.order).add(f[frameHeaderSize:], l.order)
}

func (l *pageLog) follows(before logSum, f *frame) bool {
	return [8]byte(f.salt()) == l.salt && f[0]|f[1]|f[2]|f[3] != 0 && l.sumAfter(before, f) == f.sum()
}

// read returns false at the end of the file; a part of a frame is no frame.
func (l *pageLog) read(n int64, f *frame) (bool, error) {
	_, err := l.file.ReadAt(f[:], logHeaderSize+n*frameSize)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// checkLog finds damage in the log of a database that is not in use. What a crash
// leaves there is no damage.
func checkLog(path string) error {
	file, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	l, sum, err := openLog(file)
	if l == nil || err != nil {
		return err
	}
	var f frame
	for n := int64(0); ; n++ {
		there, err := l.read(n, &f)
		switch {
		case err != nil || !there:
			return err
		case !l.follows(sum, &f):
			return l.judge(n, sum, &f)
		}
		sum = f.sum()
	}
}

// openLog reads the header. It returns nil if the file is no log yet.
func openLog(file io.ReaderAt) (*pageLog, logSum, error) {
	var h [logHeaderSize]byte
	if _, err := file.ReadAt(h[:], 0); errors.Is(err, io.EOF) || err == nil && h == [logHeaderSize]byte{} {
		return nil, logSum{}, nil
	} else if err != nil {
		return nil, logSum{}, err
	}
	l := &pageLog{file: file, order: binary.LittleEndian, salt: [8]byte(h[16:24])}
	magic := binary.BigEndian.Uint32(h[:])
	if magic&1 != 0 {
		l.order = binary.BigEndian
	}
	sum := logSum{}.add(h[:24], l.order)
	if sum != (logSum{binary.BigEndian.Uint32(h[24:]), binary.BigEndian.Uint32(h[28:])}) ||
		magic&^1 != 0x377f0682 || binary.BigEndian.Uint32(h[4:]) != 3007000 || binary.BigEndian.Uint32(h[8:]) != pageSize {
		return nil, sum, fmt.Errorf("%w: the header of its log does not match its checksum", ErrCorrupt)
	}
	return l, sum, nil
}

// judge tells what the frame is that does not follow: damage, or the end.
func (l *pageLog) judge(n int64, before logSum, f *frame) error {
	damage := fmt.Errorf("%w: frame %d of its log (at byte %d) does not match its checksum, and was whole once", ErrCorrupt, n, logHeaderSize+n*frameSize)
	if l.oneBit(before, f) {
		return damage
	}
	last := *f
	for at := n + 1; ; at++ {
		var next frame
		there, err := l.read(at, &next)
		switch {
		case err != nil:
			return err
		case !there:
			return nil
		case last.ends() && l.follows(last.sum(), &next):
			return damage
		}
		last = next
	}
}

// oneBit reports whether one bit keeps the frame from following.
func (l *pageLog) oneBit(before logSum, f *frame) bool {
	salt := 0
	for i, b := range f.salt() {
		salt += bits.OnesCount8(b ^ l.salt[i])
	}
	sum := l.sumAfter(before, f)
	switch distance := sum.distance(f.sum()); {
	case salt > 0:
		return salt == 1 && distance == 0
	case distance == 1:
		return true
	}
	return l.oneBitOfContent(before, f)
}

// oneBitOfContent turns each bit that the checksum is of.
func (l *pageLog) oneBitOfContent(before logSum, f *frame) bool {
	turned, want := *f, f.sum()
	sum := before
	for word := 0; word < frameSize; word += 8 {
		if word >= 8 && word < frameHeaderSize {
			continue // salt and checksum
		}
		for bit := range 64 {
			b := &turned[word+bit/8]
			*b ^= 1 << (bit % 8)
			if l.sumFrom(sum, &turned, word) == want {
				return true
			}
			*b ^= 1 << (bit % 8)
		}
		sum = sum.add(turned[word:word+8], l.order)
	}
	return false
}

// sumFrom goes on with a checksum at a word of the frame.
func (l *pageLog) sumFrom(s logSum, f *frame, word int) logSum {
	if word == 0 {
		return l.sumAfter(s, f)
	}
	return s.add(f[word:], l.order)
}
