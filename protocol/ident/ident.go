// Package ident is how identifiers are written: labels, digits and UUIDs, each value in
// one way alone; pure.
package ident

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ErrMalformed tells that a text is not a well-formed identifier of the wanted type.
var ErrMalformed = errors.New("wrong form")

// MaxLabel is the longest DNS label, in bytes (RFC 1035, section 2.3.4).
const MaxLabel = 63

// CheckLabel accepts [a-z0-9]([a-z0-9-]*[a-z0-9])? of at most MaxLabel bytes. What is
// the noun of its error, here and below.
func CheckLabel(what, s string) error {
	ok := len(s) >= 1 && len(s) <= MaxLabel && s[0] != '-' && s[len(s)-1] != '-'
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
	}
	if !ok {
		return fmt.Errorf("%s %.70q: %w: want 1 to %d of a-z, 0-9 and inner hyphens", what, s, ErrMalformed, MaxLabel)
	}
	return nil
}

// ParseHex decodes exactly len(dst) bytes whose letters have the case of a, so
// that every value has one text. It leaves dst alone when it fails.
func ParseHex(what string, dst, b []byte, a byte) error {
	ok := len(b) == 2*len(dst)
	for _, c := range b {
		ok = ok && (c >= '0' && c <= '9' || c >= a && c <= a+5)
	}
	if !ok {
		return fmt.Errorf("%s %.70q: %w: want %d hexadecimal digits like 0-9 %c-%c", what, b, ErrMalformed, 2*len(dst), a, a+5)
	}
	_, err := hex.Decode(dst, b)
	return err
}

// NewUUID makes a UUID of version 7 from a wall-clock time in milliseconds and ten
// random bytes, by RFC 9562, section 5.7. The time only serves sorting.
func NewUUID(unixMS int64, random [10]byte) (u [16]byte) {
	for i := range 6 {
		u[i] = byte(unixMS >> (8 * (5 - i)))
	}
	copy(u[6:], random[:])
	u[6] = u[6]&0x0f | 0x70 // version 7
	u[8] = u[8]&0x3f | 0x80 // variant of RFC 9562
	return u
}

// UUIDText returns the usual text of a UUID.
func UUIDText(u [16]byte) string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseUUID reads what UUIDText makes of a UUID of version 7, and nothing else. It
// leaves dst alone when it fails.
func ParseUUID(what string, dst, b []byte) error {
	bad := func() error {
		return fmt.Errorf("%s %.70q: %w: want a UUID of version 7, as in 01928fd1-6d4a-7c3e-9b1f-0a2b3c4d5e6f", what, b, ErrMalformed)
	}
	if len(b) != 36 || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return bad()
	}
	var u [16]byte
	digits := string(b[:8]) + string(b[9:13]) + string(b[14:18]) + string(b[19:23]) + string(b[24:])
	if err := ParseHex(what, u[:], []byte(digits), 'a'); err != nil || u[6]>>4 != 7 || u[8]>>6 != 2 {
		return bad()
	}
	copy(dst, u[:])
	return nil
}

// Selectable reports whether a selector can name a label: commas part the terms of
// a selector, it is one line, and k==v is k=v there. Labels that were accepted before
// this was asked stay as they are.
func Selectable(label string) bool {
	_, value, _ := strings.Cut(label, "=")
	return !strings.HasPrefix(value, "=") && !strings.ContainsFunc(label, func(r rune) bool { return r == ',' || unicode.IsControl(r) })
}

// IsWord reports whether a text is 1 to limit bytes of a-z, 0-9 and _ - . alone.
func IsWord(s string, limit int) bool {
	ok := len(s) >= 1 && len(s) <= limit
	for _, c := range []byte(s) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.')
	}
	return ok
}
