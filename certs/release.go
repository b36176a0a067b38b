package certs

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"github.com/hostler-io/hostler/protocol"
)

// ErrRelease tells that a package is not signed by a release key of the ring.
var ErrRelease = errors.New("not signed by a release key of this fleet")

// MaxSignature is the largest signature of a package, in bytes of the packet.
const MaxSignature = 4 << 10

// armoredSignature stands in the first line of a signature that is written as text.
const armoredSignature = "PGP SIGNATURE"

// ReadSignature reads a detached signature as gpg --detach-sign writes it, binary or
// as text, and returns its packet.
func ReadSignature(b []byte) ([]byte, error) {
	if len(b) > 2*MaxSignature {
		return nil, fmt.Errorf("a signature of %d bytes, at most %d are taken", len(b), 2*MaxSignature)
	}
	if !bytes.Contains(b, []byte("-----BEGIN PGP")) {
		return b, nil
	}
	block, err := armor.Decode(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("reading the signature: %w", err)
	}
	if block.Type != armoredSignature {
		return nil, fmt.Errorf("it is a %.60q, want a %q", block.Type, armoredSignature)
	}
	raw, err := io.ReadAll(io.LimitReader(block.Body, MaxSignature+1))
	if err != nil {
		return nil, fmt.Errorf("reading the signature: %w", err)
	}
	return raw, nil
}

// VerifyRelease verifies the detached signature of a package against the release keys
// of the ring in force, and returns the name of the key and its fingerprint. The signature is over the file as it
// is, so stock gpg makes and verifies it; a package begins with "!<arch>", and so no
// message or document can be taken for one. It is [ErrRelease] otherwise.
func (c *Chain) VerifyRelease(sig []byte, file io.Reader) (name string, key protocol.KeyID, err error) {
	top := c.top()
	if len(sig) > MaxSignature {
		return "", key, fmt.Errorf("%w: a signature of %d bytes, at most %d are taken", ErrRelease, len(sig), MaxSignature)
	}
	if len(top.members.releases) == 0 {
		return "", key, fmt.Errorf("%w: ring %d names none; an owner adds one by: hostler fleet ring add-release-key NAME KEY --out RING", ErrRelease, top.ring.Number)
	}
	for i, k := range top.members.releases {
		if k.CheckForm(sig) != nil {
			continue // of another key
		}
		if err := k.VerifyFrom(sig, file); err != nil {
			return "", key, fmt.Errorf("%w: %w", ErrRelease, err)
		}
		return top.ring.Releases[i].Name, k.id, nil
	}
	return "", key, fmt.Errorf("%w: the signature is by another key, or no signature at all", ErrRelease)
}
