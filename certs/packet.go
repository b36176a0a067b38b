package certs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// OpenPGP packet tags (RFC 4880, section 4.3).
const (
	tagSignature     = 2
	tagSecretKey     = 5
	tagPublicKey     = 6
	tagUserID        = 13
	tagPublicSubkey  = 14
	tagUserAttribute = 17
)

var errPacket = errors.New("malformed OpenPGP packet")

// nextPacket cuts one packet off b. Lengths that are partial or run to the end
// of the input are refused: they are for streams, and nothing here is one.
func nextPacket(b []byte) (tag byte, body, rest []byte, err error) {
	if len(b) < 2 || b[0]&0x80 == 0 {
		return 0, nil, nil, errPacket
	}
	var header, n int
	if b[0]&0x40 != 0 {
		tag = b[0] & 0x3f
		header, n = newLength(b[1:])
	} else {
		tag = b[0] >> 2 & 0x0f
		header, n = oldLength(b[0]&3, b[1:])
	}
	if header == 0 || n > len(b)-1-header {
		return 0, nil, nil, errPacket
	}
	b = b[1+header:]
	return tag, b[:n], b[n:], nil
}

// newLength reads a length of the new format (RFC 4880, section 4.2.2): how
// many bytes it takes, 0 if it is none that is accepted, and its value.
func newLength(b []byte) (header, n int) {
	switch c := b[0]; {
	case c < 192:
		return 1, int(c)
	case c < 224 && len(b) >= 2:
		return 2, (int(c)-192)<<8 + int(b[1]) + 192
	case c == 255 && len(b) >= 5:
		if v := binary.BigEndian.Uint32(b[1:]); v < 1<<30 {
			return 5, int(v)
		}
	}
	return 0, 0
}

// oldLength reads a length of the old format (RFC 4880, section 4.2.1).
func oldLength(kind byte, b []byte) (header, n int) {
	switch {
	case kind == 0:
		return 1, int(b[0])
	case kind == 1 && len(b) >= 2:
		return 2, int(binary.BigEndian.Uint16(b))
	case kind == 2 && len(b) >= 4:
		if v := binary.BigEndian.Uint32(b); v < 1<<30 {
			return 4, int(v)
		}
	}
	return 0, 0
}

// OpenPGP algorithms that signatures may be made with (RFC 4880, section 9;
// 22 by RFC 9580, section 9.1, as "EdDSALegacy").
const (
	algRSA   = 1
	algECDSA = 19
	algEdDSA = 22
)

// hashes that signatures may be made with: SHA-256, SHA-384, SHA-512.
var hashes = []byte{8, 9, 10}

// Types of signature subpackets (RFC 4880, section 5.2.3.1; RFC 9580 for 33).
const (
	subIssuer            = 16
	subIssuerFingerprint = 33
)

// sigForm is what the form of a detached signature tells before any
// arithmetic.
type sigForm struct {
	algorithm byte
	issuers   [][]byte // key ids (8 bytes) and v4 fingerprints (20 bytes) it names
}

// readSignature accepts exactly one signature packet, version 4, type 0x00
// (over bytes as they are), a SHA-2 hash, and nothing before or after any part
// of it.
func readSignature(sig []byte) (sigForm, error) {
	tag, body, rest, err := nextPacket(sig)
	switch {
	case err != nil:
		return sigForm{}, err
	case tag != tagSignature:
		return sigForm{}, fmt.Errorf("it is a packet of tag %d, not a signature", tag)
	case len(rest) != 0:
		return sigForm{}, fmt.Errorf("%d bytes follow the signature", len(rest))
	case len(body) < 6:
		return sigForm{}, errPacket
	case body[0] != 4:
		return sigForm{}, fmt.Errorf("it is of version %d, want 4", body[0])
	case body[1] != 0:
		return sigForm{}, fmt.Errorf("it is of type 0x%02x, want 0x00, over binary data", body[1])
	case !slices.Contains(hashes, body[3]):
		return sigForm{}, fmt.Errorf("its hash is number %d, want SHA-256, SHA-384 or SHA-512", body[3])
	}
	f := sigForm{algorithm: body[2]}
	b := body[4:]
	for range 2 { // the hashed area, then the other
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return sigForm{}, errPacket
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		if err := f.readIssuers(b[2:n]); err != nil {
			return sigForm{}, err
		}
		b = b[n:]
	}
	if len(b) < 2 || !isNumbers(b[2:], f.algorithm) { // two bytes of the hash come first
		return sigForm{}, errPacket
	}
	return f, nil
}

// readIssuers collects who the subpackets of one area say has signed.
func (f *sigForm) readIssuers(b []byte) error {
	for len(b) > 0 {
		header, n := newLength(b)
		// In subpackets 224 to 254 are lengths of two bytes too.
		if c := b[0]; c >= 224 && c < 255 && len(b) >= 2 {
			header, n = 2, (int(c)-192)<<8+int(b[1])+192
		}
		if header == 0 || n < 1 || n > len(b)-header {
			return errPacket
		}
		kind, data := b[header]&0x7f, b[header+1:header+n]
		switch kind {
		case subIssuer:
			if len(data) != 8 {
				return errPacket
			}
			f.issuers = append(f.issuers, data)
		case subIssuerFingerprint:
			if len(data) != 21 || data[0] != 4 {
				return fmt.Errorf("it names an issuer that is no key of version 4")
			}
			f.issuers = append(f.issuers, data[1:])
		}
		b = b[header+n:]
	}
	return nil
}

// isNumbers reports whether b is exactly the numbers of a signature by alg.
func isNumbers(b []byte, alg byte) bool {
	count := 2
	if alg == algRSA {
		count = 1
	}
	for range count {
		if len(b) < 2 {
			return false
		}
		n := 2 + (int(binary.BigEndian.Uint16(b))+7)/8
		if n > len(b) {
			return false
		}
		b = b[n:]
	}
	return len(b) == 0
}
