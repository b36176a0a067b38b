package terminal

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// A Cast writes down what a terminal prints, and when, as an asciicast of version 2:
// lines of JSON, the first a header, each of the others an event. What is typed is no
// part of it. Characters whose bytes come in two pieces are put together again; bytes
// that are none are written as U+FFFD, as JSON has no others. It is pure; the zero
// value is at the beginning.
type Cast struct {
	rest [utf8.UTFMax]byte // the beginning of a character
	n    int               // bytes in rest
}

// MaxCastLine is the longest line of a recording that is read, in bytes. The lines of
// ours are a tenth of it.
const MaxCastLine = 1 << 20

// castPiece is the most of what was printed that one event has, in bytes.
const castPiece = 16 << 10

// AppendHeader appends the first line. unix is the time of the beginning, in seconds.
func (*Cast) AppendHeader(b []byte, s Size, unix int64, term string) []byte {
	b = append(b, `{"version":2,"width":`...)
	b = strconv.AppendUint(b, uint64(s.Cols), 10)
	b = append(b, `,"height":`...)
	b = strconv.AppendUint(b, uint64(s.Rows), 10)
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, unix, 10)
	if term != "" {
		b = append(b, `,"env":{"TERM":`...)
		b = append(appendJSON(b, []byte(term)), '}')
	}
	return append(b, '}', '\n')
}

// AppendOutput appends what was printed at a time since the beginning.
func (c *Cast) AppendOutput(b []byte, at time.Duration, p []byte) []byte {
	if c.n > 0 {
		p = slices.Concat(c.rest[:c.n], p)
	}
	whole := len(p) - unfinished(p)
	c.n = copy(c.rest[:], p[whole:])
	for p = p[:whole]; len(p) > 0; {
		n := min(len(p), castPiece)
		if n < len(p) {
			n -= unfinished(p[:n])
		}
		b = appendEvent(b, at, 'o', p[:n])
		p = p[n:]
	}
	return b
}

// AppendResize appends a new size of the window.
func (*Cast) AppendResize(b []byte, at time.Duration, s Size) []byte {
	text := strconv.AppendUint(nil, uint64(s.Cols), 10)
	text = append(text, 'x')
	return appendEvent(b, at, 'r', strconv.AppendUint(text, uint64(s.Rows), 10))
}

// AppendEnd appends what is left of a character that never became whole.
func (c *Cast) AppendEnd(b []byte, at time.Duration) []byte {
	if c.n > 0 {
		b = appendEvent(b, at, 'o', c.rest[:c.n])
		c.n = 0
	}
	return b
}

// unfinished is how many bytes at the end of p are the beginning of a character.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if c := p[len(p)-n:]; utf8.RuneStart(c[0]) {
			if utf8.FullRune(c) {
				return 0
			}
			return n
		}
	}
	return 0
}

func appendEvent(b []byte, at time.Duration, kind byte, p []byte) []byte {
	b = strconv.AppendFloat(append(b, '['), at.Seconds(), 'f', 6, 64)
	b = append(b, ',', '"', kind, '"', ',')
	return append(appendJSON(b, p), ']', '\n')
}

// appendJSON appends p as a string of JSON.
func appendJSON(b, p []byte) []byte {
	b = append(b, '"')
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		default:
			b = utf8.AppendRune(b, r) // of a byte that is none: U+FFFD
		}
		p = p[n:]
	}
	return append(b, '"')
}
