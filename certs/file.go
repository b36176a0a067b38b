package certs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	pgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/durable"
)

// maxFile bounds every file that is read or written here, in bytes.
const maxFile = 64 << 10

// ErrFileMode tells that a secret can be read or replaced by others than its owner.
var ErrFileMode = errors.New("the file is open to other users")

// CreateIdentity makes a new key pair and writes it to path, with mode 0600 in
// a directory that is made with mode 0700. A file that is there already is
// never touched: the error is [fs.ErrExist]. After a crash the file is there
// whole, or not at all.
func CreateIdentity(path, name string) (*Identity, error) {
	identity, err := Generate(name, clock.Now())
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	// The self-signatures are those of the public half, so that every export
	// gives the same certificate.
	if err := identity.entity.SerializePrivateWithoutSigning(&b, nil); err != nil {
		return nil, fmt.Errorf("writing key %q: %w", path, err)
	}
	if err := createSecret(path, b.Bytes()); err != nil {
		return nil, fmt.Errorf("writing key %q: %w", path, err)
	}
	return identity, nil
}

// LoadIdentity reads what [CreateIdentity] wrote. A missing file is
// [fs.ErrNotExist] and nothing is made in its place.
func LoadIdentity(path string) (*Identity, error) {
	entity, err := readEntity(path)
	if err != nil {
		return nil, err
	}
	if entity.PrivateKey.Encrypted {
		return nil, fmt.Errorf("reading key %q: a passphrase protects it", path)
	}
	identity, err := newIdentity(entity)
	if err != nil {
		return nil, fmt.Errorf("reading key %q: %w", path, err)
	}
	return identity, nil
}

// readEntity reads a key file with its secret half, which may be under a
// passphrase.
func readEntity(path string) (*pgp.Entity, error) {
	b, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("reading key %q: %w", path, err)
	}
	entity, err := pgp.ReadEntity(packet.NewReader(bytes.NewReader(b)))
	if err != nil {
		return nil, fmt.Errorf("reading key %q: %w", path, err)
	}
	if entity.PrivateKey == nil || entity.PrivateKey.Dummy() {
		return nil, fmt.Errorf("reading key %q: it holds no usable secret key", path)
	}
	if entity.PrivateKey.PubKeyAlgo != packet.PubKeyAlgoEdDSA {
		return nil, fmt.Errorf("reading key %q: its algorithm is number %d, want EdDSA", path, entity.PrivateKey.PubKeyAlgo)
	}
	return entity, nil
}

// readSecret reads a small file that only its owner may read, and that no other user may
// put into its place.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%w: its mode is %04o, want 0600", ErrFileMode, info.Mode().Perm())
	}
	if err := durable.CheckDirectory(path); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFileMode, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return b, err
}

// createSecret writes a file that must not exist yet.
func createSecret(path string, b []byte) error {
	return putSecret(path, b, durable.CreateFile)
}

// replaceSecret writes a file over the one that may be there.
func replaceSecret(path string, b []byte) error {
	return putSecret(path, b, durable.WriteFile)
}

func putSecret(path string, b []byte, put func(string, []byte, fs.FileMode, int64) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return put(path, b, 0o600, maxFile)
}
