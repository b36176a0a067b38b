package main

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/san"
)

// TestTakenRingsStay: what a running coordinator took is there at the next start,
// and what it could not keep is not in force.
func TestTakenRingsStay(t *testing.T) {
	p := newProgram(t, 1)
	s := p.server()
	chain := s.trust.Chain()
	next := chain.Next()
	ring, err := certs.SignRing(next, p.owner)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	keep := s.trust.keep
	s.trust.keep = func(*certs.Chain) error { return full }
	if newer, err := s.trust.TakeRings(ring); newer || !errors.Is(err, full) || s.trust.Ring() != chain.Ring().Number {
		t.Errorf("without a disk: %v, %v, ring %d", newer, err, s.trust.Ring())
	}
	s.trust.keep = keep
	if newer, err := s.trust.TakeRings(ring); !newer || err != nil || s.trust.Ring() != next.Number {
		t.Fatalf("%v, %v, ring %d", newer, err, s.trust.Ring())
	}
	if newer, err := s.trust.TakeRings(ring); newer || err != nil {
		t.Errorf("once more: %v, %v", newer, err)
	}
	kept, err := s.state.chain()
	if err != nil || kept.Ring().Number != next.Number {
		t.Errorf("kept is ring %d, %v", kept.Ring().Number, err)
	}
}

// TestCertificatesEnd: a host's certificate is good until the host is revoked,
// and is not renewed by what only looks like one of ours.
func TestCertificatesEnd(t *testing.T) {
	s := newServer(t)
	key, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := key.Request()
	if err != nil {
		t.Fatal(err)
	}
	der, err := s.trust.IssueHost("edge-01", request)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if s.trust.revoked(leaf) || !s.trust.Current(der) {
		t.Error("the certificate of a member is not good")
	}
	other, err := certs.NewAuthority("demo")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Issue(request, certs.Leaf{Name: san.Name{Kind: san.Host, ID: "edge-01"}, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if s.trust.Current(foreign) {
		t.Error("the certificate of another authority need not be renewed")
	}
	host, err := certs.Generate("hostler host edge-01", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.trust.RevokeHost("edge-01", host.Key())
	if !s.trust.revoked(leaf) {
		t.Error("the certificate of a host that was revoked is good still")
	}
}
