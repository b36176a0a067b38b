package certs_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

// leaf issues a host's certificate.
func leaf(t testing.TB, ca *certs.Authority) *x509.Certificate {
	t.Helper()
	k, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	return issue(t, ca, k, certs.Leaf{Name: protocol.SAN{Kind: protocol.SANHost, ID: "web1"}, Now: time.Now()})
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
