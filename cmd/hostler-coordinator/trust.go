package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"sync"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

// trust gives the coordinator its keys and certificates.
type trust struct {
	*certs.Keys
	id   *certs.Identity
	ca   *certs.Authority
	keep func(*certs.Chain) error // makes rings durable

	taking  sync.Mutex // held from the files to the ring in force
	mu      sync.Mutex
	hosts   map[string]hostCerts
	viewers map[string]string // serial number of the one certificate of each, if any
}

// hostCerts is which certificates of a host are no good, although the authority has
// signed them.
type hostCerts struct {
	revoked bool   // all
	pin     []byte // SHA-256 of the one TLS key that is; empty while no machine was replaced
	keys    uint64 // of the machines that had the name, revoked
}

func newTrust(chain *certs.Chain, id *certs.Identity, ca *certs.Authority, keep func(*certs.Chain) error) *trust {
	return &trust{Keys: certs.NewKeys(chain), id: id, ca: ca, keep: keep, hosts: make(map[string]hostCerts), viewers: make(map[string]string)}
}

func (t *trust) Ring() uint64    { return t.Chain().Ring().Number }
func (t *trust) Revoked() uint64 { return t.RevokedNumber() }

// Former knows those who were coordinators, too.
func (t *trust) Former() protocol.Keyring { return t.Past() }

func (t *trust) Rings(from uint64) []byte {
	if from == 0 {
		return t.Chain().Newest()
	}
	return t.Chain().From(from)
}

func (t *trust) TakeRings(b []byte) (bool, error) {
	t.taking.Lock()
	defer t.taking.Unlock()
	next, err := t.Chain().Advance(b)
	if err != nil || next.Ring().Number == t.Ring() {
		return false, err
	}
	if err := t.keep(next); err != nil {
		return false, err
	}
	return t.Advance(b)
}

func (t *trust) RemovedCoordinator() uint64 { return t.Chain().RemovedCoordinator() }

func (t *trust) RingInForce() (uint64, protocol.Digest) {
	chain := t.Chain()
	number := chain.Ring().Number
	digest, _ := chain.Digest(number)
	return number, digest
}

func (t *trust) Own() ([]byte, protocol.Digest) {
	return t.id.Public(), t.id.PublicKey().PrimaryDigest()
}

func (t *trust) ParseHostKey(b []byte) (enrol.HostKey, error) { return certs.ParsePublicKey(b) }

// Roster signs the list of hosts. Its number is that of the hosts, revocations
// and replacements that made it, which only grows.
func (t *trust) Roster() ([]byte, error) {
	parts := t.Keys.Roster(1)
	number := 1 + t.RevokedNumber() + t.settled()
	for _, part := range parts {
		number += uint64(len(part.Hosts))
	}
	var all []byte
	for _, part := range parts {
		part.Number = number
		b, err := part.Seal(t.id)
		if err != nil {
			return nil, fmt.Errorf("sign the roster: %w", err)
		}
		all = append(append(all, b...), '\n')
	}
	return all, nil
}

// revocations signs the list of revoked keys.
func (t *trust) revocations() ([]byte, error) {
	return t.RevocationList(t.RevokedNumber()).Seal(t.id)
}

func (t *trust) AddHost(id protocol.HostID, certificate []byte) error {
	key, err := certs.ParsePublicKey(certificate)
	if err != nil {
		return err
	}
	return t.SetHost(id, key)
}

// RevokeHost revokes the key and every certificate of a host. Each revocation
// makes a new list, whose number is how many there were: so it is the same
// after a restart.
func (t *trust) RevokeHost(id protocol.HostID, key protocol.KeyID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[string(id)]
	h.revoked, h.pin = true, nil
	if !t.Keys.Revoked(key) {
		t.Revoke(t.RevokedNumber()+1, key)
		h.keys++
	}
	t.hosts[string(id)] = h
}

// PinHost lets the machine in that took the place of another: with a certificate for
// the key of its request, and with no other.
func (t *trust) PinHost(id protocol.HostID, csr []byte) error {
	r, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return err
	}
	pin := sha256.Sum256(r.RawSubjectPublicKeyInfo)
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[string(id)]
	h.revoked, h.pin = false, pin[:]
	t.hosts[string(id)] = h
	return nil
}

// settled is how many machines were replaced by others.
func (t *trust) settled() (n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hosts {
		if n += h.keys; h.revoked {
			n-- // nobody is in the place of the last one
		}
	}
	return n
}

func (t *trust) SetViewer(name, serial string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.viewers[name] = serial
}

// revoked reports whether a certificate is no longer good. The broker asks it
// for every connection.
func (t *trust) revoked(c *x509.Certificate) bool {
	name, err := certs.RoleOf(c)
	if err != nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch name.Kind {
	case san.Host:
		h := t.hosts[name.ID]
		key := sha256.Sum256(c.RawSubjectPublicKeyInfo)
		return h.revoked || h.pin != nil && !bytes.Equal(h.pin, key[:])
	case san.Viewer:
		return t.viewers[name.ID] != serial(c)
	}
	return false
}

func serial(c *x509.Certificate) string { return hex.EncodeToString(c.SerialNumber.Bytes()) }

func (t *trust) CA() []byte { return t.ca.Certificate() }

func (t *trust) IssueHost(id protocol.HostID, csr []byte) ([]byte, error) {
	return t.ca.Issue(csr, certs.Leaf{Name: san.Name{Kind: san.Host, ID: string(id)}, Now: clock.Now()})
}

func (t *trust) Current(der []byte) bool {
	leaf, err := x509.ParseCertificate(der)
	if err != nil || !clock.Now().Before(certs.RenewAt(leaf)) {
		return false
	}
	// The authority before us may have issued it, and is in no ring any more.
	ca, err := x509.ParseCertificate(t.ca.Certificate())
	return err == nil && leaf.CheckSignatureFrom(ca) == nil
}

func (t *trust) IssueViewer(name string) (certificate, key []byte, number string, err error) {
	k, err := certs.NewTLSKey()
	if err != nil {
		return nil, nil, "", err
	}
	request, err := k.Request()
	if err != nil {
		return nil, nil, "", err
	}
	der, err := t.ca.Issue(request, certs.Leaf{Name: san.Name{Kind: san.Viewer, ID: name}, Now: clock.Now()})
	if err != nil {
		return nil, nil, "", err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, "", err
	}
	if key, err = k.PEM(); err != nil {
		return nil, nil, "", err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, serial(leaf), nil
}
