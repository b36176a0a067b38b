package certs

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// Voucher shows, to who holds the rings of a fleet, that an OpenPGP key is that of one of
// its hosts: the TLS key of the host has signed it, and an authority of the fleet the
// certificate of that. So hosts can verify what others have signed without asking.
type Voucher struct {
	// Key is the public key, and Certificate that of the host for TLS, DER.
	Key         []byte `json:"key"`
	Certificate []byte `json:"certificate,omitempty"`
	Signature   []byte `json:"signature,omitempty"` // by the TLS key
}

// ErrVoucher says that a voucher shows nothing.
var ErrVoucher = errors.New("nothing shows that the key is that of a host of the fleet")

// vouched is what the TLS key signs, so that it means nothing else.
func vouched(key []byte) []byte {
	sum := sha256.Sum256(append([]byte("hostler-voucher-1\x00"), key...))
	return sum[:]
}

// Vouch signs the key of a host, whose certificate, DER, was issued for k.
func (k *TLSKey) Vouch(key *PublicKey, certificate []byte) (Voucher, error) {
	if _, err := k.Certificate(certificate); err != nil {
		return Voucher{}, err
	}
	sig, err := ecdsa.SignASN1(rand.Reader, k.key, vouched(key.Bytes()))
	if err != nil {
		return Voucher{}, fmt.Errorf("signing a voucher: %w", err)
	}
	return Voucher{Key: key.Bytes(), Certificate: certificate, Signature: sig}, nil
}

// Verify returns the key and the host that it belongs to. As everywhere in the fleet no
// date of the certificate is judged.
func (v Voucher) Verify(roots *x509.CertPool) (*PublicKey, protocol.HostID, error) {
	leaf, err := x509.ParseCertificate(v.Certificate)
	if err != nil {
		return nil, "", fmt.Errorf("%w: its certificate: %w", ErrVoucher, err)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrVoucher, err)
	}
	name, err := RoleOf(leaf)
	if err != nil || name.Kind != san.Host {
		return nil, "", fmt.Errorf("%w: its certificate is not that of a host", ErrVoucher)
	}
	public, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok || !ecdsa.VerifyASN1(public, vouched(v.Key), v.Signature) {
		return nil, "", fmt.Errorf("%w: host %s has not signed it", ErrVoucher, name.ID)
	}
	key, err := ParsePublicKey(v.Key)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrVoucher, err)
	}
	return key, protocol.HostID(name.ID), nil
}
