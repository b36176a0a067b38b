package certs

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/ProtonMail/go-crypto/openpgp/s2k"
	pgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/hostler-io/hostler/internal/clock"
)

// ErrPassphrase tells that a key is locked, and not by this passphrase.
var ErrPassphrase = errors.New("the passphrase does not open the key")

// MaxPassphrase is the longest passphrase, in bytes.
const MaxPassphrase = 1024

// armorType stands in the first line of a certificate that is written as text.
const armorType = "PGP PUBLIC KEY BLOCK"

// ReadCertificate reads one OpenPGP certificate as people keep it: binary, or as
// the text that gpg --armor --export writes. What it refuses is what
// [ParsePublicKey] does; text around the block is no part of it.
func ReadCertificate(b []byte) (*PublicKey, error) {
	if len(b) > 2*MaxCertificate {
		return nil, fmt.Errorf("%w: %d bytes are too many (gpg --export-options export-minimal leaves out the signatures of other people)", ErrCertificate, len(b))
	}
	if !bytes.Contains(b, []byte("-----BEGIN PGP")) {
		return ParsePublicKey(b)
	}
	block, err := armor.Decode(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	if block.Type != armorType {
		return nil, fmt.Errorf("%w: it is a %.60q, want a %q", ErrCertificate, block.Type, armorType)
	}
	raw, err := io.ReadAll(io.LimitReader(block.Body, 2*MaxCertificate))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	return ParsePublicKey(raw)
}

// Armor returns the certificate as text, as gpg --import reads it.
func (k *PublicKey) Armor() (string, error) {
	var b bytes.Buffer
	w, err := armor.Encode(&b, armorType, nil)
	if err == nil {
		_, err = w.Write(k.raw)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return "", fmt.Errorf("writing key %s as text: %w", k.id, err)
	}
	return b.String() + "\n", nil
}

// locking is how a passphrase protects a secret key: AES-256, as gpg 2.2 reads
// it, and as many rounds as OpenPGP can say.
func locking() *packet.Config {
	return &packet.Config{
		DefaultCipher: packet.CipherAES256,
		S2KConfig:     &s2k.Config{S2KMode: s2k.IteratedSaltedS2K, Hash: crypto.SHA256, S2KCount: 65011712},
	}
}

// CreatePersonKey is [CreateIdentity] for the key of a person, which a
// passphrase may protect; an empty one does not. It returns the public half:
// who wants to sign opens the file.
func CreatePersonKey(path, name string, passphrase []byte) (*PublicKey, error) {
	if len(passphrase) > MaxPassphrase {
		return nil, fmt.Errorf("writing key %q: a passphrase of %d bytes, at most %d are taken", path, len(passphrase), MaxPassphrase)
	}
	identity, err := Generate(name, clock.Now())
	if err != nil {
		return nil, err
	}
	if len(passphrase) > 0 {
		if err := identity.entity.EncryptPrivateKeys(passphrase, locking()); err != nil {
			return nil, fmt.Errorf("protecting key %q: %w", path, err)
		}
	}
	var b bytes.Buffer
	if err := identity.entity.SerializePrivateWithoutSigning(&b, nil); err != nil {
		return nil, fmt.Errorf("writing key %q: %w", path, err)
	}
	if err := createSecret(path, b.Bytes()); err != nil {
		return nil, fmt.Errorf("writing key %q: %w", path, err)
	}
	return identity.public, nil
}

// PersonKey is a secret key in a file, perhaps under a passphrase.
type PersonKey struct {
	path   string
	entity *pgp.Entity
	public *PublicKey
}

// OpenPersonKey reads what [CreatePersonKey] or [CreateIdentity] wrote. A
// missing file is [fs.ErrNotExist].
func OpenPersonKey(path string) (*PersonKey, error) {
	entity, err := readEntity(path)
	if err != nil {
		return nil, err
	}
	i, err := newIdentity(entity)
	if err != nil {
		return nil, fmt.Errorf("reading key %q: %w", path, err)
	}
	return &PersonKey{path, entity, i.public}, nil
}

// PublicKey returns the public half.
func (k *PersonKey) PublicKey() *PublicKey { return k.public }

// Locked reports whether a passphrase protects the key.
func (k *PersonKey) Locked() bool { return k.entity.PrivateKey.Encrypted }

// Unlock returns the identity that signs. The passphrase of a key without one
// is not looked at; a wrong one is [ErrPassphrase]. The key itself stays locked.
func (k *PersonKey) Unlock(passphrase []byte) (*Identity, error) {
	entity, err := readEntity(k.path)
	if err != nil {
		return nil, err
	}
	if entity.PrivateKey.Encrypted {
		if err := entity.DecryptPrivateKeys(passphrase); err != nil {
			return nil, fmt.Errorf("opening key %q: %w", k.path, ErrPassphrase)
		}
	}
	i, err := newIdentity(entity)
	if err == nil && i.public.id != k.public.id {
		err = errors.New("the file holds another key than before")
	}
	if err != nil {
		return nil, fmt.Errorf("opening key %q: %w", k.path, err)
	}
	return i, nil
}
