package main

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

// machine has a key, and a certificate in the name of a host.
type machine struct {
	id      *certs.Identity
	request []byte
	leaf    *x509.Certificate
}

func newMachine(t *testing.T, tr *trust, host protocol.HostID) machine {
	t.Helper()
	id, err := certs.Generate("hostler host "+string(host), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := key.Request()
	if err != nil {
		t.Fatal(err)
	}
	der, err := tr.IssueHost(host, request)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return machine{id, request, leaf}
}

// TestReplacedCertificate: with the name of a host its certificate does not come back.
// Each step makes a roster with a higher number, which a restart does not lower.
func TestReplacedCertificate(t *testing.T) {
	s := newServer(t)
	old, next, other := newMachine(t, s.trust, "edge-01"), newMachine(t, s.trust, "edge-01"), newMachine(t, s.trust, "edge-02")
	steps := []func(tr *trust) error{
		func(tr *trust) error { return tr.AddHost("edge-01", old.id.Public()) },
		func(tr *trust) error { tr.RevokeHost("edge-01", old.id.Key()); return nil },
		func(tr *trust) error {
			if err := tr.AddHost("edge-01", next.id.Public()); err != nil {
				return err
			}
			tr.RevokeHost("edge-01", old.id.Key())
			return tr.PinHost("edge-01", next.request)
		},
	}
	number := func(tr *trust) uint64 {
		return 1 + tr.RevokedNumber() + tr.settled() + uint64(len(tr.Keys.Roster(1)[0].Hosts))
	}
	last := number(s.trust)
	for i, step := range steps {
		if err := step(s.trust); err != nil {
			t.Fatal(err)
		}
		if n := number(s.trust); n <= last {
			t.Errorf("step %d: the roster has number %d, had %d", i, n, last)
		}
		last = number(s.trust)
		want := [][2]bool{{false, false}, {true, true}, {true, false}}[i]
		if got := [2]bool{s.trust.revoked(old.leaf), s.trust.revoked(next.leaf)}; got != want || s.trust.revoked(other.leaf) {
			t.Errorf("step %d: old and new certificate are revoked: %v, want %v", i, got, want)
		}
	}
	again := newTrust(s.trust.Chain(), s.trust.id, s.trust.ca, nil)
	if err := steps[2](again); err != nil {
		t.Fatal(err)
	}
	if n := number(again); n != last {
		t.Errorf("after a restart the roster has number %d, had %d", n, last)
	}
}
