package certs

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	pgp "github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// maxRecipients is how many keys a file of recipients may have.
const maxRecipients = 16

// Recipients are people's OpenPGP keys of any sort, to which files are encrypted. It is safe
// for concurrent use.
type Recipients struct{ keys pgp.EntityList }

// LoadRecipients reads public keys from a file as gpg --export writes it, armored or not. Each
// must be able to encrypt now: none that was revoked or has expired. A file with secret keys
// is refused, because it does not belong on a host that only encrypts.
func LoadRecipients(path string) (*Recipients, error) {
	bad := func(err error) (*Recipients, error) { return nil, fmt.Errorf("reading the keys in %q: %w", path, err) }
	f, err := os.Open(path)
	if err != nil {
		return bad(err)
	}
	defer f.Close()
	keys, err := readKeys(f)
	if err != nil {
		return bad(err)
	}
	for _, k := range keys {
		if k.PrivateKey != nil {
			return bad(fmt.Errorf("it holds the secret key %X: name a file with public keys alone", k.PrimaryKey.Fingerprint))
		}
		if _, err := encryptTo(io.Discard, pgp.EntityList{k}); err != nil { // the library says no more than that
			return bad(fmt.Errorf("nothing can be encrypted to key %X: it has expired, was revoked, or is not made for that", k.PrimaryKey.Fingerprint))
		}
	}
	return &Recipients{keys}, nil
}

// errNoKeys is said of a file that is none of OpenPGP keys, or a damaged one.
var errNoKeys = errors.New("it is not a whole file of OpenPGP keys, as gpg --export writes it")

// readKeys reads the keys of a file, and nothing that is none.
func readKeys(r io.Reader) (pgp.EntityList, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	var in io.Reader = bytes.NewReader(b)
	if bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("-----BEGIN")) {
		block, err := armor.Decode(in)
		if err != nil {
			return nil, errNoKeys
		}
		in = block.Body
	}
	keys, err := pgp.ReadKeyRing(in)
	switch {
	case err != nil:
		return nil, errNoKeys
	case len(keys) == 0 || len(keys) > maxRecipients:
		return nil, fmt.Errorf("it holds %d keys; want 1 to %d", len(keys), maxRecipients)
	}
	return keys, nil
}

func encryptTo(to io.Writer, keys pgp.EntityList) (io.WriteCloser, error) {
	return pgp.Encrypt(to, keys, nil, &pgp.FileHints{IsBinary: true}, &packet.Config{DefaultCipher: packet.CipherAES256})
}

// Fingerprints are those of the keys, in hexadecimal.
func (r *Recipients) Fingerprints() (all []string) {
	for _, k := range r.keys {
		all = append(all, hex.EncodeToString(k.PrimaryKey.Fingerprint))
	}
	return all
}

// Encrypt returns a writer whose input is written to another one as a binary OpenPGP message.
// Closing it completes the message, and leaves the other one open.
func (r *Recipients) Encrypt(to io.Writer) (io.WriteCloser, error) { return encryptTo(to, r.keys) }

// Opener decrypts what was encrypted to one of its keys. It is safe for concurrent use.
type Opener struct{ keys pgp.EntityList }

// LoadOpener reads secret keys without a passphrase from a file that only its owner may read,
// armored or not.
func LoadOpener(path string) (*Opener, error) {
	b, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("reading the secret key in %q: %w", path, err)
	}
	keys, err := readKeys(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("reading the secret key in %q: %w", path, err)
	}
	for _, k := range keys {
		switch {
		case k.PrivateKey == nil:
			return nil, fmt.Errorf("reading the secret key in %q: key %X is a public key", path, k.PrimaryKey.Fingerprint)
		case k.PrivateKey.Encrypted:
			return nil, fmt.Errorf("reading the secret key in %q: a passphrase protects key %X; no person is there to type it", path, k.PrimaryKey.Fingerprint)
		}
	}
	return &Opener{keys}, nil
}

// Decrypt returns a reader of the text of a message. Only when it has come to its end without
// an error is what it has given known to be what was encrypted.
func (o *Opener) Decrypt(from io.Reader) (io.Reader, error) {
	m, err := pgp.ReadMessage(from, o.keys, nil, atAnyTime())
	if err != nil {
		return nil, fmt.Errorf("decrypting: %w", err)
	}
	if !m.IsEncrypted {
		return nil, errors.New("decrypting: the message is not encrypted")
	}
	return m.UnverifiedBody, nil
}
