package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	"github.com/hostler-io/hostler/protocol/san"
)

// maxX509 is the largest X.509 certificate or request, in bytes. Ours take
// about 500; a server with many addresses more.
const maxX509 = 4 << 10

// LeafLife is how long a certificate says that it lives. Inside the fleet
// nobody looks; browsers and other people's tools do.
const LeafLife = 90 * 24 * time.Hour

// leafLead backdates a certificate for readers whose clocks are slow.
const leafLead = time.Hour

// ErrRequest tells that a certificate request is not one that we sign.
var ErrRequest = errors.New("unusable certificate request")

// forever is the end of a certificate without one (RFC 5280, section 4.1.2.5).
func forever() time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }

// Authority is the certificate authority of one coordinator. It lives on
// P-256, which browsers and TPMs know, and its certificate spans all of time:
// it ends when it leaves the ring. It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority. name is the fleet's, for people who look at
// the certificate.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: "Hostler fleet " + name},
		NotBefore:             time.Unix(0, 0).UTC(),
		NotAfter:              forever(),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	return authority(der, key)
}

func authority(der []byte, key *ecdsa.PrivateKey) (*Authority, error) {
	cert, err := parseAuthority(der)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("authority: key and certificate do not belong together")
	}
	// Of a certificate that is damaged the key may be whole still, and nobody
	// would accept what it issues.
	if err := cert.CheckSignatureFrom(cert); err != nil {
		return nil, fmt.Errorf("authority: the certificate is damaged: %w", err)
	}
	return &Authority{cert: cert, key: key}, nil
}

func newSerial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b[:])
}

// CreateAuthority makes an authority and writes it to path as
// [CreateIdentity] writes a key: PEM, the key first.
func CreateAuthority(path, name string) (*Authority, error) {
	a, err := NewAuthority(name)
	if err != nil {
		return nil, err
	}
	b, err := encodeKey(a.key)
	if err == nil {
		b = append(b, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: a.cert.Raw})...)
		err = createSecret(path, b)
	}
	if err != nil {
		return nil, fmt.Errorf("writing authority %q: %w", path, err)
	}
	return a, nil
}

// LoadAuthority reads what [CreateAuthority] wrote.
func LoadAuthority(path string) (*Authority, error) {
	b, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("reading authority %q: %w", path, err)
	}
	key, rest, err := decodeKey(b)
	if err != nil {
		return nil, fmt.Errorf("reading authority %q: %w", path, err)
	}
	block, _ := pem.Decode(rest)
	if block == nil || block.Type != pemCertificate {
		return nil, fmt.Errorf("reading authority %q: it holds no certificate", path)
	}
	a, err := authority(block.Bytes, key)
	if err != nil {
		return nil, fmt.Errorf("reading authority %q: %w", path, err)
	}
	return a, nil
}

// Certificate returns the authority's certificate, DER: the ring's tls_ca.
func (a *Authority) Certificate() []byte { return bytes.Clone(a.cert.Raw) }

// Leaf says what a certificate is to be.
type Leaf struct {
	Name   san.Name
	Server bool // for listening; only coordinator, broker and hop listen
	// Addresses are the IP addresses and DNS names of a server, for tools that
	// check names. Clients have none.
	Addresses []string
	Now       time.Time // when it is issued, by the wall clock
}

// Issue signs a certificate for the key of a request. Of the request nothing
// counts but its key, on P-256, and that it is signed by it: who the holder is,
// the caller decides. It returns DER.
func (a *Authority) Issue(request []byte, leaf Leaf) ([]byte, error) {
	public, err := checkRequest(request)
	if err != nil {
		return nil, err
	}
	template, err := leaf.template()
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate for %q: %w", leaf.Name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate for %q: %w", leaf.Name, err)
	}
	return der, nil
}

func (l Leaf) template() (*x509.Certificate, error) {
	name, err := url.Parse(l.Name.String())
	if err != nil {
		return nil, err
	}
	if _, err := san.Parse(l.Name.String()); err != nil {
		return nil, err
	}
	client := l.Name.Kind == san.Host || l.Name.Kind == san.Viewer
	if client && l.Server || !l.Server && len(l.Addresses) > 0 {
		return nil, errors.New("hosts and viewers do not listen, and clients have no addresses")
	}
	t := &x509.Certificate{
		SerialNumber: newSerial(),
		// The authority's own first day is 1970, and no leaf is older.
		NotBefore:             time.Unix(max(l.Now.Add(-leafLead).Unix(), 0), 0).UTC(),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{name},
	}
	t.NotAfter = t.NotBefore.Add(leafLead + LeafLife)
	switch {
	case l.Server && l.Name.Kind == san.Broker:
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case l.Server:
		// A coordinator and a hop listen, and speak to brokers as well.
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, s := range l.Addresses {
		if ip := net.ParseIP(s); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, s)
		}
	}
	return t, nil
}

// checkRequest returns the key of a request that is fit to be certified.
func checkRequest(der []byte) (*ecdsa.PublicKey, error) {
	if len(der) > maxX509 {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrRequest, len(der), maxX509)
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	key, ok := r.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%w: its key is not of ECDSA on P-256", ErrRequest)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return key, nil
}

// RenewAt is when a certificate is to be replaced: after two thirds of its
// life. A clock that is wrong makes it early or late, and neither matters
// inside the fleet.
func RenewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)
}

// TLSKey is the key of a TLS certificate, on P-256.
type TLSKey struct{ key *ecdsa.PrivateKey }

// NewTLSKey makes a key that is not kept.
func NewTLSKey() (*TLSKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a TLS key: %w", err)
	}
	return &TLSKey{key}, nil
}

// CreateTLSKey makes a key and writes it to path, as PEM, as
// [CreateIdentity] writes a key.
func CreateTLSKey(path string) (*TLSKey, error) {
	k, err := NewTLSKey()
	if err != nil {
		return nil, err
	}
	b, err := encodeKey(k.key)
	if err == nil {
		err = createSecret(path, b)
	}
	if err != nil {
		return nil, fmt.Errorf("writing TLS key %q: %w", path, err)
	}
	return k, nil
}

// LoadTLSKey reads what [CreateTLSKey] wrote.
func LoadTLSKey(path string) (*TLSKey, error) {
	b, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("reading TLS key %q: %w", path, err)
	}
	key, _, err := decodeKey(b)
	if err != nil {
		return nil, fmt.Errorf("reading TLS key %q: %w", path, err)
	}
	return &TLSKey{key}, nil
}

// PEM returns the secret key in PKCS #8, for use elsewhere.
func (k *TLSKey) PEM() ([]byte, error) { return encodeKey(k.key) }

// Request returns a certificate request for the key, DER. It names no one.
func (k *TLSKey) Request() ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, k.key)
	if err != nil {
		return nil, fmt.Errorf("requesting a certificate: %w", err)
	}
	return der, nil
}

// Certificate joins the key with the certificate that was issued for it, DER,
// for use in a connection.
func (k *TLSKey) Certificate(der []byte) (*tls.Certificate, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading a TLS certificate: %w", err)
	}
	if !k.key.PublicKey.Equal(leaf.PublicKey) {
		return nil, errors.New("reading a TLS certificate: it is for another key")
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: crypto.PrivateKey(k.key), Leaf: leaf}, nil
}

// RoleOf returns what the holder of a TLS certificate is. That it may be
// believed, the handshake must have shown.
func RoleOf(c *x509.Certificate) (san.Name, error) {
	uris := make([]string, len(c.URIs))
	for i, u := range c.URIs {
		uris[i] = u.String()
	}
	return san.ParseAll(uris)
}

// Types of PEM blocks.
const (
	pemKey         = "PRIVATE KEY"
	pemCertificate = "CERTIFICATE"
)

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

func decodeKey(b []byte) (key *ecdsa.PrivateKey, rest []byte, err error) {
	block, rest := pem.Decode(b)
	if block == nil || block.Type != pemKey {
		return nil, nil, errors.New("it holds no private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, nil, errors.New("its key is not of ECDSA on P-256")
	}
	return key, rest, nil
}
