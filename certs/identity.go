package certs

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	pgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/protocol"
)

// MaxSecret is the most plaintext that [PublicKey.Encrypt] takes and
// [Identity.Decrypt] gives back, in bytes: a secret value is a password or a
// key, not a file.
const MaxSecret = 64 << 10

// Identity is the secret key of a process or an operator. It implements
// [protocol.Signer] and is safe for concurrent use.
type Identity struct {
	entity *pgp.Entity
	public *PublicKey
	now    func() time.Time
}

var _ protocol.Signer = (*Identity)(nil)

// Generate makes a new key pair: EdDSA on Curve25519 in the encoding that gpg
// 2.2 knows, with an ECDH subkey for secrets. name is its user id, for people
// who see it in gpg, as in "hostler host web1"; nothing is derived from it.
// now is the creation time that is written down; a wrong one does no harm.
func Generate(name string, now time.Time) (*Identity, error) {
	if name == "" || len(name) > 200 || strings.ContainsAny(name, "()<>\x00\r\n") {
		return nil, fmt.Errorf("generating a key: name %.200q is empty, too long, or has one of ()<> or line ends", name)
	}
	created := openpgpTime(now)
	entity, err := pgp.NewEntity(name, "", "", signing(func() time.Time { return created }))
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	return newIdentity(entity)
}

func newIdentity(entity *pgp.Entity) (*Identity, error) {
	var b bytes.Buffer
	if err := entity.Serialize(&b); err != nil {
		return nil, fmt.Errorf("writing the certificate: %w", err)
	}
	public, err := ParsePublicKey(b.Bytes())
	if err != nil {
		return nil, err
	}
	return &Identity{entity: entity, public: public, now: clock.Now}, nil
}

// signing is the one profile of what is made here: SHA-256, and no random
// notation, which would add 70 bytes to each message and make the same body
// give another signature every time.
func signing(now func() time.Time) *packet.Config {
	salted := false
	return &packet.Config{
		Algorithm:                             packet.PubKeyAlgoEdDSA,
		Curve:                                 packet.Curve25519,
		DefaultHash:                           crypto.SHA256,
		NonDeterministicSignaturesViaNotation: &salted,
		Time:                                  now,
	}
}

// openpgpTime fits t into the 32 bits of OpenPGP. Zero is left out: gpg takes
// it for a missing date.
func openpgpTime(t time.Time) time.Time {
	return time.Unix(min(max(t.Unix(), 1), math.MaxUint32), 0)
}

// WithClock returns the same identity, which dates its signatures by now
// instead of by the wall clock.
func (i *Identity) WithClock(now func() time.Time) *Identity {
	other := *i
	other.now = now
	return &other
}

// Key returns the fingerprint of the primary key.
func (i *Identity) Key() protocol.KeyID { return i.public.id }

// PublicKey returns the public half.
func (i *Identity) PublicKey() *PublicKey { return i.public }

// Public returns the public half as a binary OpenPGP certificate.
func (i *Identity) Public() []byte { return i.public.Bytes() }

// Sign returns a detached binary signature over body, of 119 bytes at most. It
// is dated by the clock, but never before the key: a host that starts in 1970
// signs as well as any other.
func (i *Identity) Sign(body []byte) ([]byte, error) {
	key := i.entity.PrivateKey
	at := openpgpTime(i.now())
	if at.Before(key.CreationTime) {
		at = key.CreationTime
	}
	sig := &packet.Signature{
		Version:      4,
		SigType:      packet.SigTypeBinary,
		PubKeyAlgo:   key.PubKeyAlgo,
		Hash:         crypto.SHA256,
		CreationTime: at,
		IssuerKeyId:  &key.KeyId,
	}
	config := signing(func() time.Time { return at })
	h, err := sig.PrepareSign(config)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	h.Write(body)
	if err := sig.Sign(h, key, config); err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	var b bytes.Buffer
	b.Grow(119)
	if err := sig.Serialize(&b); err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return b.Bytes(), nil
}

// Encrypt returns an OpenPGP message that only the owner of the key can read.
// It proves nothing about who wrote it: it travels inside a signed body, and
// the plaintext repeats whom it is for and why. At most [MaxSecret] bytes.
func (k *PublicKey) Encrypt(secret []byte) ([]byte, error) {
	if len(secret) > MaxSecret {
		return nil, fmt.Errorf("encrypting: %d bytes, at most %d are allowed", len(secret), MaxSecret)
	}
	entity, err := pgp.ReadEntity(packet.NewReader(bytes.NewReader(k.raw)))
	if err != nil {
		return nil, fmt.Errorf("encrypting: %w", err)
	}
	var b bytes.Buffer
	w, err := pgp.Encrypt(&b, []*pgp.Entity{entity}, nil, nil, nil, atAnyTime())
	if err != nil {
		return nil, fmt.Errorf("encrypting to key %s: %w", k.id, err)
	}
	if _, err := w.Write(secret); err != nil {
		return nil, fmt.Errorf("encrypting: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encrypting: %w", err)
	}
	return b.Bytes(), nil
}

// Decrypt reads what [PublicKey.Encrypt] wrote for this identity. Its integrity
// is checked before anything is returned.
func (i *Identity) Decrypt(message []byte) ([]byte, error) {
	if len(message) > MaxSecret+4<<10 {
		return nil, fmt.Errorf("decrypting: %d bytes are too many", len(message))
	}
	limit := int64(MaxSecret)
	config := atAnyTime()
	config.MaxDecompressedMessageSize = &limit
	m, err := pgp.ReadMessage(bytes.NewReader(message), pgp.EntityList{i.entity}, nil, config)
	if err != nil {
		return nil, fmt.Errorf("decrypting: %w", err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(m.UnverifiedBody); err != nil {
		return nil, fmt.Errorf("decrypting: %w", err)
	}
	if b.Len() > MaxSecret || !m.IsEncrypted {
		return nil, errors.New("decrypting: the message is too large, or is not encrypted")
	}
	return b.Bytes(), nil
}
