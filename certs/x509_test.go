package certs_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/san"
)

// leaf issues a host's certificate.
func leaf(t testing.TB, ca *certs.Authority) *x509.Certificate {
	t.Helper()
	k, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	return issue(t, ca, k, certs.Leaf{Name: san.Name{Kind: san.Host, ID: "web1"}, Now: time.Now()})
}

func issue(t testing.TB, ca *certs.Authority, k *certs.TLSKey, l certs.Leaf) *x509.Certificate {
	t.Helper()
	request, err := k.Request()
	if err != nil {
		t.Fatal(err)
	}
	der, err := ca.Issue(request, l)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLeaf(t *testing.T) {
	ca := newAuthority(t)
	k, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, l := range map[string]certs.Leaf{
		"host":        {Name: web1, Now: now},
		"viewer":      {Name: san.Name{Kind: san.Viewer, ID: "web1"}, Now: now},
		"hop":         {Name: san.Name{Kind: san.Hop, ID: "berlin"}, Now: now},
		"coordinator": {Name: coordinator, Now: now},
		"server":      {Name: coordinator, Server: true, Addresses: []string{"10.0.0.1", "c.example.org"}, Now: now},
		"broker":      {Name: san.Name{Kind: san.Broker}, Server: true, Addresses: []string{"10.0.0.2"}, Now: now},
	} {
		c := issue(t, ca, k, l)
		if got, err := certs.RoleOf(c); err != nil || got != l.Name {
			t.Errorf("%s: named %q, %v", name, got, err)
		}
		want := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		switch name {
		case "server":
			want = append(want, x509.ExtKeyUsageServerAuth)
		case "broker":
			want = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}
		if !slices.Equal(c.ExtKeyUsage, want) || c.IsCA || c.Subject.String() != "" || c.KeyUsage != x509.KeyUsageDigitalSignature {
			t.Errorf("%s: usages %v, authority %v, subject %q, key usage %v", name, c.ExtKeyUsage, c.IsCA, c.Subject, c.KeyUsage)
		}
		if c.NotBefore.After(now) || !c.NotAfter.Equal(now.Add(certs.LeafLife)) || len(c.IPAddresses)+len(c.DNSNames) != len(l.Addresses) {
			t.Errorf("%s: lives from %v to %v, at %v and %v", name, c.NotBefore, c.NotAfter, c.IPAddresses, c.DNSNames)
		}
		if at := certs.RenewAt(c); at.Before(now.Add(55*24*time.Hour)) || at.After(now.Add(65*24*time.Hour)) {
			t.Errorf("%s: to be renewed at %v", name, at)
		}
	}
	request, err := k.Request()
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]certs.Leaf{
		"a host that listens":       {Name: web1, Server: true},
		"a viewer that listens":     {Name: san.Name{Kind: san.Viewer, ID: "a"}, Server: true},
		"a host with an address":    {Name: web1, Addresses: []string{"10.0.0.1"}},
		"nobody":                    {},
		"a host without an id":      {Name: san.Name{Kind: san.Host}},
		"a name that breaks out":    {Name: san.Name{Kind: san.Host, ID: "a/../b"}},
		"a coordinator with a name": {Name: san.Name{Kind: san.Coordinator, ID: "x"}},
	} {
		if _, err := ca.Issue(request, l); err == nil {
			t.Errorf("%s: issued", name)
		}
	}
}

// TestNameIsNotTheCommonName holds that a viewer who is called as a host is
// called, by whatever authority wrote its certificate, is no host.
func TestNameIsNotTheCommonName(t *testing.T) {
	viewer := san.Name{Kind: san.Viewer, ID: "web1"}
	for _, subject := range []string{"web1", "host/web1", "hostler:host/web1"} {
		c := &x509.Certificate{
			Subject:  pkix.Name{CommonName: subject},
			DNSNames: []string{subject},
			URIs:     []*url.URL{{Scheme: "hostler", Opaque: "viewer/web1"}},
		}
		if name, err := certs.RoleOf(c); err != nil || name != viewer {
			t.Errorf("viewer %q is taken for %q, %v", subject, name, err)
		}
		c.URIs = nil
		if name, err := certs.RoleOf(c); !errors.Is(err, san.ErrName) {
			t.Errorf("%q without a URI is taken for %q, %v", subject, name, err)
		}
	}
}

// TestRequestGivesItsKeyAlone asks for the world, and gets a host's leaf.
func TestRequestGivesItsKeyAlone(t *testing.T) {
	ca := newAuthority(t)
	key := ecKey(t, elliptic.P256())
	greedy := request(t, key, &x509.CertificateRequest{
		Subject:         pkix.Name{CommonName: "coordinator"},
		DNSNames:        []string{"coordinator.example.org"},
		URIs:            []*url.URL{{Scheme: "hostler", Opaque: "coordinator"}},
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}},
	})
	der, err := ca.Issue(greedy, certs.Leaf{Name: web1, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := certs.RoleOf(c); err != nil || name != web1 || len(c.DNSNames) != 0 || c.IsCA || c.Subject.CommonName != "" {
		t.Errorf("it got name %q, DNS %v, authority %v, subject %q, %v", name, c.DNSNames, c.IsCA, c.Subject, err)
	}
	if !key.PublicKey.Equal(c.PublicKey) {
		t.Error("the certificate is for another key")
	}
}

func TestRequestsRefused(t *testing.T) {
	ca := newAuthority(t)
	_, ed, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := request(t, ecKey(t, elliptic.P256()), &x509.CertificateRequest{})
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1
	for name, b := range map[string][]byte{
		"P-384":       request(t, ecKey(t, elliptic.P384()), &x509.CertificateRequest{}),
		"Ed25519":     request(t, ed, &x509.CertificateRequest{}),
		"forged":      forged,
		"bytes after": append(slices.Clone(good), 0),
		"empty":       nil,
		"large":       make([]byte, 5<<10),
		"no request":  ca.Certificate(),
	} {
		if _, err := ca.Issue(b, certs.Leaf{Name: web1, Now: time.Now()}); !errors.Is(err, certs.ErrRequest) {
			t.Errorf("%s: %v, want ErrRequest", name, err)
		}
	}
}

func ecKey(t *testing.T, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func request(t *testing.T, key crypto.Signer, template *x509.CertificateRequest) []byte {
	t.Helper()
	b, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
