package certs_test

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/san"
)

// TestOneBitOfAKey turns every third bit of a key's file: it is refused, or it is the
// same key still. Never does it sign what nobody can verify.
func TestOneBitOfAKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	id, err := certs.CreateIdentity(path, "hostler host edge-01")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"hostler":"x/1"}`)
	taken := 0
	for bit := 0; bit < 8*len(raw); bit += 3 {
		damaged := bytes.Clone(raw)
		damaged[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := certs.LoadIdentity(path)
		if err != nil {
			continue
		}
		taken++
		sig, err := got.Sign(body)
		if err != nil || got.Key() != id.Key() || id.PublicKey().Verify(sig, body) != nil {
			t.Errorf("bit %d turned: the key is %s and signs with %v", bit, got.Key(), err)
		}
	}
	t.Logf("%d of %d are taken for the key", taken, 8*len(raw)/3)
}

// TestOneBitOfTheAuthority turns every fifth bit of the authority's file: it is
// refused, or what it issues is what hosts accept.
func TestOneBitOfTheAuthority(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca")
	ca, err := certs.CreateAuthority(path, "lab")
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := x509.ParseCertificate(ca.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pinned)
	key, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := key.Request()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for bit := 0; bit < 8*len(raw); bit += 5 {
		damaged := bytes.Clone(raw)
		damaged[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := certs.LoadAuthority(path)
		if err != nil {
			continue
		}
		der, err := got.Issue(request, certs.Leaf{Name: san.Name{Kind: san.Host, ID: "edge-01"}, Now: time.Now()})
		if err != nil {
			continue
		}
		leaf, err := x509.ParseCertificate(der)
		if err == nil {
			_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		}
		if err != nil {
			t.Errorf("bit %d turned: nobody accepts what it issues: %v", bit, err)
		}
	}
}
