package join

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

// Record is an enrolment as it is kept over restarts: first of an exchange,
// then of a membership. Code and Exchange let their holder act for the host in
// the exchange, so it is kept as a secret.
type Record struct {
	// Code is the join code, until there is a decision.
	Code string `json:"code,omitzero"`
	// Host is the id that is asked for, and later that of the host.
	Host   protocol.HostID `json:"host"`
	Labels []string        `json:"labels,omitzero"` // K=V, wishes

	// Ring and Pin name the ring that everything follows from, Rings are those
	// from it on. They are there as soon as an exchange was made.
	Ring  uint64   `json:"ring,omitzero"`
	Pin   []byte   `json:"pin,omitzero"`
	Rings [][]byte `json:"rings,omitzero"`
	// Addresses are those of the coordinator, host:port, tried in order.
	Addresses []string `json:"addresses,omitzero"`
	// Exchange names the exchange at the coordinator, Words are those on this
	// host's screen. They are there as soon as it has answered our offer.
	Exchange enrol.ExchangeID `json:"session,omitzero"`
	Words    string           `json:"words,omitzero"`

	// State is empty until the coordinator has answered an offer.
	State  enrol.State `json:"state,omitzero"`
	Reason string      `json:"reason,omitzero"` // for people, with denied and revoked

	// With approved. Certificate is ours for TLS, DER, and CA its issuer.
	Certificate []byte   `json:"certificate,omitzero"`
	CA          []byte   `json:"ca,omitzero"`
	Brokers     []string `json:"brokers,omitzero"` // host:port, tried in order
	// Revoked are the keys that the host has heard to be revoked and that one of
	// its rings names, and the number of the newest list that said so. They stay,
	// whatever later rings say.
	RevokedNumber uint64           `json:"revoked_number,omitzero"`
	Revoked       []protocol.KeyID `json:"revoked,omitzero"`
}

// Begin returns the record of a host that has just been given a code.
func Begin(code string, host protocol.HostID, labels []string) (Record, error) {
	c, err := enrol.ParseJoinCode(code)
	if err != nil {
		return Record{}, err
	}
	return Record{
		Code: code, Host: host, Labels: labels, Addresses: c.Addresses, Ring: c.Pin.Ring, Pin: c.Pin.Digest[:],
	}, nil
}

// Member reports whether the host belongs to a fleet.
func (r Record) Member() bool { return r.State == enrol.Approved }

// Chain verifies the rings of the record.
func (r Record) Chain() (*certs.Chain, error) {
	if len(r.Pin) != len(enrol.Pin{}.Digest) {
		return nil, errors.New("the record has no pin of a ring")
	}
	return certs.OpenChain(enrol.Pin{Ring: r.Ring, Digest: [20]byte(r.Pin)}, r.Rings...)
}

// withChain returns the record with what a longer chain holds.
func (r Record) withChain(chain *certs.Chain) Record {
	r.Rings = chain.Rings()
	return r
}

// maxBrokers bounds what a coordinator may name.
const maxBrokers = 16

// accept takes the coordinator's answer into the record. Nothing of an answer
// that does not hold together is taken.
func (r Record) accept(a enrol.StateResponse, key *certs.TLSKey) (Record, error) {
	if err := a.Check(); err != nil {
		return r, err
	}
	if a.Host != r.Host {
		return r, fmt.Errorf("%w: the answer is about host %s and we are %s", enrol.ErrMalformed, a.Host, r.Host)
	}
	if a.State == enrol.Approved {
		var err error
		if r, err = r.admitted(a, key); err != nil {
			return r, err
		}
	}
	r.State, r.Reason = a.State, a.Reason
	if a.State != enrol.Pending {
		r.Code = ""
	}
	return r, nil
}

// admitted takes what comes with approval. All of it must fit the rings that
// the host holds: the approval itself is not signed, its parts are.
func (r Record) admitted(a enrol.StateResponse, key *certs.TLSKey) (Record, error) {
	chain, err := r.Chain()
	if err != nil {
		return r, err
	}
	if len(a.Rings) > 0 {
		if chain, err = chain.Advance(a.Rings); errors.Is(err, certs.ErrGap) {
			// Between them are rings that we fetch when something needs them.
			chain, err = r.Chain()
		}
		if err != nil {
			return r, fmt.Errorf("%w: %w", ErrStranger, err)
		}
	}
	ring := chain.Ring()
	switch {
	case a.Fleet != ring.Fleet || a.FleetName != ring.Name:
		return r, fmt.Errorf("%w: the answer names fleet %s, the ring is of fleet %s", ErrStranger, a.FleetName, ring.Name)
	case !slices.ContainsFunc(ring.Coordinators, func(c certs.Coordinator) bool { return bytes.Equal(c.TLSCA, a.CA) }):
		return r, fmt.Errorf("%w: its authority is not in ring %d", ErrStranger, ring.Number)
	case len(a.Brokers) > maxBrokers:
		return r, fmt.Errorf("%w: %d brokers, at most %d are allowed", enrol.ErrMalformed, len(a.Brokers), maxBrokers)
	}
	for _, b := range a.Brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" {
			return r, fmt.Errorf("%w: %.80q is no address of a broker", enrol.ErrMalformed, b)
		}
	}
	if err := checkCertificate(a.Certificate, r.Host, chain, key); err != nil {
		return r, fmt.Errorf("%w: the certificate: %w", enrol.ErrMalformed, err)
	}
	r.Certificate, r.CA, r.Brokers = a.Certificate, a.CA, a.Brokers
	return r.withChain(chain), nil
}

// checkCertificate finds out now what a broker would find out later: whether
// the certificate is for our key, says who we are, and is of the fleet.
func checkCertificate(der []byte, host protocol.HostID, chain *certs.Chain, key *certs.TLSKey) error {
	if _, err := key.Certificate(der); err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: chain.Roots(), CurrentTime: leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return err
	}
	name, err := certs.RoleOf(leaf)
	if err != nil {
		return err
	}
	if want := (san.Name{Kind: san.Host, ID: string(host)}); name != want {
		return fmt.Errorf("the certificate is for %q, want %q", name, want)
	}
	return nil
}
