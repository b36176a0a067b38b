// Package envelope is the grammar of what is signed: how the bytes of an envelope are
// put together and cut apart again; pure. Who signs and who may is for package protocol.
//
//	{"v":1,"key":"…","sig":"…","body":{…}}
package envelope

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/protocol/ident"
)

// The fixed parts of an envelope. Between them stand the 40 digits of the key,
// the signature in base64, and BODY.
const (
	prefixKey  = `{"v":1,"key":"`
	prefixSig  = `","sig":"`
	prefixBody = `","body":`
	suffix     = `}`

	// overhead is all of an envelope but its signature, BODY, and what follows the LF.
	overhead = len(prefixKey) + 40 + len(prefixSig) + len(prefixBody) + len(suffix) + 1
)

// MaxSignature is the longest signature, in characters of base64. An EdDSA
// signature takes 160; the limit leaves room for RSA 4096 of operators' keys.
const MaxSignature = 1400

// ErrBody tells that a body is not an object on one line.
var ErrBody = errors.New("the body is not an object on one line")

// Parts is an envelope cut into its parts. Nothing of it is verified.
type Parts struct {
	Key        [20]byte // the fingerprint of the primary key
	Sig        []byte
	Body       []byte // a slice of what was split
	Attachment []byte // what follows the first LF; nil without one
}

// CheckBody accepts a JSON object without CR or LF, by its first and last byte.
func CheckBody(b []byte) error {
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' || bytes.ContainsAny(b, "\r\n") {
		return ErrBody
	}
	return nil
}

// Append appends the envelope of the parts: a concatenation, so that the bytes that
// were signed are the bytes that are sent. An attachment follows after one LF; nil
// means none.
func Append(dst []byte, p Parts) []byte {
	dst = slices.Grow(dst, overhead+base64.StdEncoding.EncodedLen(len(p.Sig))+len(p.Body)+len(p.Attachment))
	dst = append(dst, prefixKey...)
	dst = append(dst, strings.ToUpper(hex.EncodeToString(p.Key[:]))...)
	dst = append(dst, prefixSig...)
	dst = base64.StdEncoding.AppendEncode(dst, p.Sig)
	dst = append(dst, prefixBody...)
	dst = append(dst, p.Body...)
	dst = append(dst, suffix...)
	if p.Attachment != nil {
		dst = append(dst, '\n')
		dst = append(dst, p.Attachment...)
	}
	return dst
}

// Room is how many bytes the envelope of a chunk may take before it is
// copied by [Before].
const Room = 2 << 10

// Before puts the envelope before the attachment buf[Room:], none if that is empty:
// into the room if it fits, so that a chunk is read, sealed and sent in one buffer,
// which belongs to the result.
func Before(buf, envelope []byte) []byte {
	if len(buf) > Room {
		envelope = append(envelope, '\n')
	}
	if len(envelope) > Room {
		return append(envelope, buf[Room:]...)
	}
	at := Room - len(envelope)
	copy(buf[at:], envelope)
	return buf[at:]
}

// Split cuts an envelope by its fixed parts. No JSON parser sees it: there is
// one way to read an envelope, and it is this one.
func Split(raw []byte) (Parts, error) {
	bad := func(why string) (Parts, error) { return Parts{}, errors.New(why) }
	line, attachment, attached := bytes.Cut(raw, []byte("\n"))
	rest, ok := bytes.CutPrefix(line, []byte(prefixKey))
	if !ok {
		return bad("it does not start as an envelope of version 1")
	}
	var p Parts
	if len(rest) < 40 || ident.ParseHex("key id", p.Key[:], rest[:40], 'A') != nil {
		return bad("the key is not 40 digits of 0-9 A-F")
	}
	if rest, ok = bytes.CutPrefix(rest[40:], []byte(prefixSig)); !ok {
		return bad("the signature is missing")
	}
	end := bytes.IndexByte(rest[:min(len(rest), MaxSignature+1)], '"')
	if end < 1 {
		return bad("the signature is empty or too long")
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(string(rest[:end]))
	if err != nil || bytes.IndexByte(rest[:end], '\r') >= 0 {
		return bad("the signature is not padded base64")
	}
	if rest, ok = bytes.CutPrefix(rest[end:], []byte(prefixBody)); !ok {
		return bad("the body is missing")
	}
	body, ok := bytes.CutSuffix(rest, []byte(suffix))
	if !ok || CheckBody(body) != nil {
		return Parts{}, ErrBody
	}
	p.Sig, p.Body = sig, body
	if attached {
		p.Attachment = attachment
	}
	return p, nil
}
