package protocol

import (
	"bytes"
	"encoding/base64"
	"fmt"
)

// The fixed parts of an envelope. Between them stand the 40 digits of the key,
// the signature in base64, and BODY:
//
//	{"v":1,"key":"…","sig":"…","body":{…}}
const (
	envKey  = `{"v":1,"key":"`
	envSig  = `","sig":"`
	envBody = `","body":`
	envEnd  = `}`
)

// MaxSignature is the longest signature, in characters of base64. An EdDSA
// signature takes 160; the limit leaves room for RSA 4096 of operators' keys.
const MaxSignature = 1400

// Signer signs with the secret key of this process. It is safe for concurrent
// use.
type Signer interface {
	// Key returns the fingerprint of the primary key.
	Key() KeyID
	// Sign returns a detached binary OpenPGP signature over body.
	Sign(body []byte) ([]byte, error)
}

// PublicKey checks signatures of one certificate. It is safe for concurrent
// use.
type PublicKey interface {
	// CheckForm accepts exactly one OpenPGP signature packet of version 4 and
	// type 0x00 made with SHA-256, -384 or -512 by an algorithm of this key,
	// with nothing after it. It does no public-key arithmetic.
	CheckForm(sig []byte) error
	// Verify checks a signature of that form over body. Dates are not judged:
	// a wrong clock must stop nothing.
	Verify(sig, body []byte) error
}

// Seal signs body, which must be a JSON object without CR or LF, and returns
// the envelope: a concatenation, so that the bytes that were signed are the
// bytes that are sent. An attachment follows after one LF; nil means none.
func Seal(s Signer, body, attachment []byte) ([]byte, error) {
	if !isBody(body) {
		return nil, fmt.Errorf("seal: %w: the body is not an object on one line", ErrGrammar)
	}
	sig, err := s.Sign(body)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return AppendEnvelope(nil, s.Key(), sig, body, attachment), nil
}

// SealRoom is how many bytes the envelope of a chunk may take before it is
// copied by [SealBehind].
const SealRoom = 2 << 10

// SealBehind is [Seal] of the attachment buf[SealRoom:], none if that is empty. The
// envelope is put into the room before it if it fits: so a chunk is read, sealed and sent in one
// buffer, which belongs to the result.
func SealBehind(s Signer, body, buf []byte) ([]byte, error) {
	head, err := Seal(s, body, nil)
	if err != nil {
		return nil, err
	}
	if len(buf) > SealRoom {
		head = append(head, '\n')
	}
	if len(head) > SealRoom {
		return append(head, buf[SealRoom:]...), nil
	}
	at := SealRoom - len(head)
	copy(buf[at:], head)
	return buf[at:], nil
}

// AppendEnvelope appends the envelope of a body that was signed before, for
// documents whose signatures are made elsewhere.
func AppendEnvelope(dst []byte, key KeyID, sig, body, attachment []byte) []byte {
	dst = append(dst, envKey...)
	dst = append(dst, key.String()...)
	dst = append(dst, envSig...)
	dst = base64.StdEncoding.AppendEncode(dst, sig)
	dst = append(dst, envBody...)
	dst = append(dst, body...)
	dst = append(dst, envEnd...)
	if attachment != nil {
		dst = append(dst, '\n')
		dst = append(dst, attachment...)
	}
	return dst
}

func isBody(b []byte) bool {
	return len(b) >= 2 && b[0] == '{' && b[len(b)-1] == '}' && bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0
}

// Envelope is an envelope cut into its parts. Nothing of it is verified yet.
type Envelope struct {
	Key        KeyID
	Sig        []byte
	Body       []byte // a slice of what was split
	Attachment []byte // what follows the first LF; nil without one
}

// Split cuts an envelope by its fixed parts. No JSON parser sees it: there is
// one way to read an envelope, and it is this one. It returns [ErrGrammar].
func Split(raw []byte) (Envelope, error) {
	bad := func(why string) (Envelope, error) { return Envelope{}, refuse(ErrGrammar, "%s", why) }
	line, attachment, attached := bytes.Cut(raw, []byte("\n"))
	rest, ok := bytes.CutPrefix(line, []byte(envKey))
	if !ok {
		return bad("it does not start as an envelope of version 1")
	}
	var e Envelope
	if len(rest) < 40 || e.Key.UnmarshalText(rest[:40]) != nil {
		return bad("the key is not 40 digits of 0-9 A-F")
	}
	if rest, ok = bytes.CutPrefix(rest[40:], []byte(envSig)); !ok {
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
	if rest, ok = bytes.CutPrefix(rest[end:], []byte(envBody)); !ok {
		return bad("the body is missing")
	}
	body, ok := bytes.CutSuffix(rest, []byte(envEnd))
	if !ok || !isBody(body) {
		return bad("the body is not an object on one line")
	}
	e.Sig, e.Body = sig, body
	if attached {
		e.Attachment = attachment
	}
	return e, nil
}
