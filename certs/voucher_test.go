package certs_test

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/san"
)

// TestVoucher: a key is that of a host if its TLS key says so, whose certificate an
// authority of the fleet has issued to a host; nothing else shows it.
func TestVoucher(t *testing.T) {
	authority, foreign := newAuthority(t), newAuthority(t)
	roots := x509.NewCertPool()
	ca, err := x509.ParseCertificate(authority.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(ca)
	id, another := newIdentity(t, "edge-01"), newIdentity(t, "edge-02")
	tls, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	vouch := func(a *certs.Authority, kind san.Kind) certs.Voucher {
		t.Helper()
		request, err := tls.Request()
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := a.Issue(request, certs.Leaf{Name: san.Name{Kind: kind, ID: "edge-01"}, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		v, err := tls.Vouch(id.PublicKey(), leaf)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	good := vouch(authority, san.Host)
	key, host, err := good.Verify(roots)
	if err != nil || host != "edge-01" || key.Key() != id.Key() {
		t.Fatalf("it shows %s of %q, %v", key.Key(), host, err)
	}
	swapped, empty := good, certs.Voucher{Key: id.Public()}
	swapped.Key = another.Public()
	for why, v := range map[string]certs.Voucher{
		"another key": swapped, "no certificate": empty, "another fleet's": vouch(foreign, san.Host), "that of a viewer": vouch(authority, san.Viewer),
	} {
		if _, host, err := v.Verify(roots); !errors.Is(err, certs.ErrVoucher) {
			t.Errorf("%s: it is taken as that of %q, %v", why, host, err)
		}
	}
}
