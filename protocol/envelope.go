package protocol

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol/envelope"
)

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
// the envelope. An attachment follows after one LF; nil means none.
func Seal(s Signer, body, attachment []byte) ([]byte, error) {
	if err := envelope.CheckBody(body); err != nil {
		return nil, fmt.Errorf("seal: %w: %w", ErrGrammar, err)
	}
	sig, err := s.Sign(body)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return AppendEnvelope(nil, s.Key(), sig, body, attachment), nil
}

// SealRoom is how many bytes the envelope of a chunk may take before it is
// copied by [SealBehind].
const SealRoom = envelope.Room

// SealBehind is [Seal] of the attachment buf[SealRoom:], none if that is empty, in one
// buffer: see [envelope.Before].
func SealBehind(s Signer, body, buf []byte) ([]byte, error) {
	sealed, err := Seal(s, body, nil)
	if err != nil {
		return nil, err
	}
	return envelope.Before(buf, sealed), nil
}

// AppendEnvelope appends the envelope of a body that was signed before, for
// documents whose signatures are made elsewhere.
func AppendEnvelope(dst []byte, key KeyID, sig, body, attachment []byte) []byte {
	return envelope.Append(dst, envelope.Parts{Key: key, Sig: sig, Body: body, Attachment: attachment})
}

// Envelope is an envelope cut into its parts. Nothing of it is verified yet.
type Envelope struct {
	Key        KeyID
	Sig        []byte
	Body       []byte // a slice of what was split
	Attachment []byte // what follows the first LF; nil without one
}

// Split cuts an envelope by its grammar, that of package envelope. It returns
// [ErrGrammar].
func Split(raw []byte) (Envelope, error) {
	p, err := envelope.Split(raw)
	if err != nil {
		return Envelope{}, refuse(ErrGrammar, "%s", err)
	}
	return Envelope{KeyID(p.Key), p.Sig, p.Body, p.Attachment}, nil
}
