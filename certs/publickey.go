package certs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	pgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/hostler-io/hostler/protocol"
)

// MaxCertificate is the largest OpenPGP certificate, in bytes. One made by
// Hostler takes about 450; the limit leaves room for an operator's key with
// several user ids and subkeys of RSA 4096, but for no photographs.
const MaxCertificate = 16 << 10

// ErrCertificate tells that bytes are not one usable OpenPGP certificate.
var ErrCertificate = errors.New("not a usable OpenPGP certificate")

// ErrSignature tells that a signature does not fit what was signed.
var ErrSignature = errors.New("the signature does not fit")

// PublicKey is an OpenPGP certificate, reduced to what checking signatures
// takes: less than 1 kB instead of the 9 kB of a parsed certificate, so that a
// coordinator can hold one for each of ten thousand hosts. It implements
// [protocol.PublicKey], never changes, and is safe for concurrent use.
type PublicKey struct {
	id      protocol.KeyID
	digest  protocol.Digest
	raw     []byte
	signers []*packet.PublicKey // primary and subkeys that may sign
}

var _ protocol.PublicKey = (*PublicKey)(nil)

// atAnyTime judges no date. A zero time tells the library so.
func atAnyTime() *packet.Config {
	return &packet.Config{Time: func() time.Time { return time.Time{} }}
}

// ParsePublicKey reads one binary OpenPGP certificate of version 4, and
// refuses with [ErrCertificate] whatever else there is: a second certificate,
// bytes around it, secret parts, packets that a certificate does not have, a
// certificate that its owner revoked or that cannot sign. It does not keep b.
func ParsePublicKey(b []byte) (*PublicKey, error) {
	bad := func(format string, args ...any) (*PublicKey, error) {
		return nil, fmt.Errorf("%w: %w", ErrCertificate, fmt.Errorf(format, args...))
	}
	if len(b) > MaxCertificate {
		return bad("%d bytes, at most %d are allowed (gpg --export-options export-minimal leaves out what others added)", len(b), MaxCertificate)
	}
	primary, err := checkPackets(b)
	if err != nil {
		return bad("%w", err)
	}
	entity, err := pgp.ReadEntity(packet.NewReader(bytes.NewReader(b)))
	if err != nil {
		return bad("%w", err)
	}
	k := &PublicKey{raw: bytes.Clone(b)}
	prefixed := binary.BigEndian.AppendUint16([]byte{0x99}, uint16(len(primary)))
	prefixed = append(prefixed, primary...)
	k.id, k.digest = protocol.KeyID(entity.PrimaryKey.Fingerprint), sha256.Sum256(prefixed)
	if k.signers = signersOf(entity); len(k.signers) == 0 {
		return bad("it has no key that may sign, of RSA (2048 bits or more), ECDSA or EdDSA")
	}
	return k, nil
}

// checkPackets accepts the packets of one certificate and returns the body of
// the primary key's. The library would skip what it does not know, and stop
// without a word where a second certificate begins.
func checkPackets(b []byte) (primary []byte, err error) {
	for first := true; len(b) > 0; first = false {
		tag, body, rest, err := nextPacket(b)
		if err != nil {
			return nil, err
		}
		switch {
		case first != (tag == tagPublicKey):
			return nil, fmt.Errorf("packet of tag %d: want one public key, and first", tag)
		case first:
			if len(body) < 6 || body[0] != 4 {
				return nil, errors.New("its key is not of version 4")
			}
			primary = body
		case !slices.Contains([]byte{tagUserID, tagUserAttribute, tagSignature, tagPublicSubkey}, tag):
			return nil, fmt.Errorf("packet of tag %d has no place in a certificate", tag)
		}
		b = rest
	}
	if primary == nil {
		return nil, errors.New("it is empty")
	}
	return primary, nil
}

// signersOf returns the keys of a certificate that may sign data: those whose
// newest self-signature says so, which for subkeys includes that the subkey
// signed the primary key in turn.
func signersOf(e *pgp.Entity) []*packet.PublicKey {
	config := atAnyTime()
	if revokedBy(e.PrimaryKey.VerifyRevocationSignature, e.Revocations) {
		return nil
	}
	keys := []*packet.PublicKey{e.PrimaryKey}
	for _, sub := range e.Subkeys {
		verify := func(s *packet.Signature) error {
			return e.PrimaryKey.VerifySubkeyRevocationSignature(s, sub.PublicKey)
		}
		if !revokedBy(verify, sub.Revocations) {
			keys = append(keys, sub.PublicKey)
		}
	}
	return slices.DeleteFunc(keys, func(k *packet.PublicKey) bool {
		known := slices.Contains([]packet.PublicKeyAlgorithm{algRSA, algECDSA, algEdDSA}, k.PubKeyAlgo)
		if !known || k.Version != 4 {
			return true
		}
		found, ok := e.SigningKeyById(time.Time{}, k.KeyId, config)
		return !ok || found.PublicKey != k
	})
}

// revokedBy reports whether one of the revocations is genuine. The library
// would let a key that was merely superseded sign until the revocation's date;
// without dates, a revocation holds.
func revokedBy(verify func(*packet.Signature) error, revocations []*packet.VerifiableSignature) bool {
	return slices.ContainsFunc(revocations, func(r *packet.VerifiableSignature) bool { return verify(r.Packet) == nil })
}

// Key returns the fingerprint of the primary key.
func (k *PublicKey) Key() protocol.KeyID { return k.id }

// PrimaryDigest returns the SHA-256 digest of the primary key: of its packet,
// in the form that its fingerprint is taken of (0x99, two bytes of length, the
// body; RFC 4880, section 12.2), so that it does not depend on which program
// exported the certificate. It stands where twenty bytes of SHA-1 are too
// weak: whatever people compare.
func (k *PublicKey) PrimaryDigest() protocol.Digest { return k.digest }

// Bytes returns the binary certificate that was parsed.
func (k *PublicKey) Bytes() []byte { return bytes.Clone(k.raw) }

// CheckForm implements [protocol.PublicKey].
func (k *PublicKey) CheckForm(sig []byte) error {
	_, err := k.signer(sig)
	return err
}

// signer checks the form of a signature and returns the key that it names.
func (k *PublicKey) signer(sig []byte) (*packet.PublicKey, error) {
	form, err := readSignature(sig)
	if err != nil {
		return nil, err
	}
	if len(form.issuers) == 0 {
		return nil, errors.New("it does not say which key made it")
	}
	for _, s := range k.signers {
		names := func(issuer []byte) bool { return bytes.HasSuffix(s.Fingerprint, issuer) }
		if !slices.ContainsFunc(form.issuers, func(i []byte) bool { return !names(i) }) {
			if byte(s.PubKeyAlgo) != form.algorithm {
				return nil, fmt.Errorf("its algorithm is number %d, that of the key is %d", form.algorithm, s.PubKeyAlgo)
			}
			return s, nil
		}
	}
	return nil, fmt.Errorf("key %s has no signing key that it names", k.id)
}

// Verify implements [protocol.PublicKey]. It checks the form too, so a caller
// that forgets to is no worse off.
func (k *PublicKey) Verify(sig, body []byte) error { return k.VerifyFrom(sig, bytes.NewReader(body)) }

// VerifyFrom is Verify of what a reader gives until its end, which may be long.
func (k *PublicKey) VerifyFrom(sig []byte, body io.Reader) error {
	key, err := k.signer(sig)
	if err != nil {
		return err
	}
	p, err := packet.Read(bytes.NewReader(sig))
	if err != nil {
		return fmt.Errorf("reading the signature: %w", err)
	}
	s, ok := p.(*packet.Signature)
	if !ok {
		return errPacket
	}
	h, err := s.PrepareVerify()
	if err != nil {
		return fmt.Errorf("reading the signature: %w", err)
	}
	if _, err := io.Copy(h, body); err != nil {
		return fmt.Errorf("reading what was signed: %w", err)
	}
	if err := key.VerifySignature(h, s); err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return nil
}
