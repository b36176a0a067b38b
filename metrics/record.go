package metrics

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"time"
)

// A file of samples is a header and records. Each record is its length and its
// CRC-32C, four bytes each, and then:
//
//	time     Unix milliseconds, varint
//	span     milliseconds, uvarint
//	new      how many series are named for the first time in this file, uvarint; each is
//	         container, metric and part, a uvarint length before each
//	values   how many, uvarint; each is the number of its series in the file, uvarint,
//	         and mean and maximum as 32-bit floats
//
// A process that is killed leaves at most a part of the last record, which no reader
// takes: it ends where a record is not whole.
const (
	header    = "hmetric1"
	maxRecord = 4 << 20
	maxString = 4096 // a path of the kernel's
	maxSeries = 1 << 17
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errRecord tells that a record is not whole, or none.
var errRecord = errors.New("damaged record")

// encoder writes the records of one file.
type encoder struct {
	numbers map[Series]uint64
}

// append adds the record of a sample. It fails if the file has no place for its series.
func (e *encoder) append(b []byte, s Sample) ([]byte, error) {
	if e.numbers == nil {
		e.numbers = make(map[Series]uint64)
	}
	var fresh []Series
	for _, v := range s.Values {
		if _, known := e.numbers[v.Series]; !known {
			e.numbers[v.Series] = uint64(len(e.numbers))
			fresh = append(fresh, v.Series)
		}
	}
	if len(e.numbers) > maxSeries {
		return b, errRecord
	}
	start := len(b)
	b = append(b, make([]byte, 8)...)
	b = binary.AppendVarint(b, s.At.UnixMilli())
	b = binary.AppendUvarint(b, uint64(max(0, s.Span.Milliseconds())))
	b = binary.AppendUvarint(b, uint64(len(fresh)))
	for _, f := range fresh {
		for _, t := range []string{f.Container, string(f.Metric), f.Part} {
			t = t[:min(len(t), maxString)]
			b = append(binary.AppendUvarint(b, uint64(len(t))), t...)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s.Values)))
	for _, v := range s.Values {
		b = binary.AppendUvarint(b, e.numbers[v.Series])
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v.Mean)))
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v.Max)))
	}
	body := b[start+8:]
	if len(body) > maxRecord {
		return b[:start], errRecord
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(body, castagnoli))
	return b, nil
}

// decoder reads the records of one file.
type decoder struct {
	r      io.Reader
	series []Series
	whole  int64 // bytes of the header and of whole records
}

// next returns the next sample, io.EOF at the end, and errRecord where the file stops
// making sense.
func (d *decoder) next() (Sample, error) {
	if d.whole == 0 {
		var h [len(header)]byte
		if _, err := io.ReadFull(d.r, h[:]); err != nil || string(h[:]) != header {
			return Sample{}, errRecord
		}
		d.whole = int64(len(header))
	}
	var frame [8]byte
	if _, err := io.ReadFull(d.r, frame[:]); err == io.EOF {
		return Sample{}, io.EOF
	} else if err != nil {
		return Sample{}, errRecord
	}
	n := binary.LittleEndian.Uint32(frame[:])
	if n > maxRecord {
		return Sample{}, errRecord
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(d.r, body); err != nil || crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(frame[4:]) {
		return Sample{}, errRecord
	}
	s, err := d.decode(body)
	if err == nil {
		d.whole += int64(len(frame)) + int64(n)
	}
	return s, err
}

func (d *decoder) decode(b []byte) (Sample, error) {
	in := input{b: b}
	at, span, fresh := in.varint(), in.uvarint(), in.uvarint()
	if span > math.MaxInt64/uint64(time.Millisecond) || fresh > uint64(len(b)) || len(d.series)+int(fresh) > maxSeries {
		return Sample{}, errRecord
	}
	for range fresh {
		d.series = append(d.series, Series{in.string(), Metric(in.string()), in.string()})
	}
	n := in.uvarint()
	if n > uint64(len(in.b)) {
		return Sample{}, errRecord
	}
	s := Sample{At: time.UnixMilli(at), Span: time.Duration(span) * time.Millisecond, Values: make([]Value, 0, n)}
	for range n {
		i, mean, most := in.uvarint(), in.float(), in.float()
		if in.bad || i >= uint64(len(d.series)) {
			return Sample{}, errRecord
		}
		s.Values = append(s.Values, Value{d.series[i], mean, most})
	}
	if in.bad || len(in.b) > 0 {
		return Sample{}, errRecord
	}
	return s, nil
}

// input is what is left of a record.
type input struct {
	b   []byte
	bad bool
}

// take returns the next n bytes; none if there are fewer.
func (i *input) take(n uint64) []byte {
	if n > uint64(len(i.b)) {
		i.bad, i.b = true, nil
		return nil
	}
	b := i.b[:n]
	i.b = i.b[n:]
	return b
}

func (i *input) varint() int64 {
	v, n := binary.Varint(i.b)
	i.skip(n)
	return v
}

func (i *input) uvarint() uint64 {
	v, n := binary.Uvarint(i.b)
	i.skip(n)
	return v
}

func (i *input) skip(n int) {
	if n <= 0 {
		i.bad, i.b = true, nil
		return
	}
	i.b = i.b[n:]
}

func (i *input) string() string { return string(i.take(min(i.uvarint(), maxString))) }

func (i *input) float() float64 {
	b := i.take(4)
	if b == nil {
		return 0
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
}
