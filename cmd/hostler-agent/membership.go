package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/agent/faults"
	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/protocol"
)

// membership is what the host knows of its fleet: rings, revocations and its
// own certificate. It implements [agent.Trust]; what it takes it keeps in the
// record first.
type membership struct {
	keys   *certs.Keys
	tls    *certs.TLSKey
	client *join.Client
	keep   func(join.Record) error
	log    *slog.Logger
	cert   atomic.Pointer[tls.Certificate]
	// stranger tells of a broker that is not of the rings that we hold: they may
	// be too old, if the fleet has changed its authority while we were away.
	stranger chan struct{}
	// refused tells of a broker that may not have taken our certificate.
	refused chan struct{}
	// outage is what a drill makes of the ways to the coordinator.
	outage faults.Outage

	mu     sync.Mutex
	record join.Record // as it was kept last
	// heard is the list of revocations that was heard last. It may name keys of
	// rings that are not here yet. It is not kept: every connection brings it
	// again.
	heard certs.Revocations
}

// newMembership takes up what a record holds. The certificate is not judged by
// any date: a wrong clock must stop nothing. Revoked keys that no ring names are
// dropped: agents of before kept them without a bound.
func newMembership(r join.Record, key *certs.TLSKey, client *join.Client, keep func(join.Record) error, log *slog.Logger) (*membership, error) {
	chain, err := r.Chain()
	if err != nil {
		return nil, fmt.Errorf("the rings of the fleet: %w", err)
	}
	m := &membership{keys: certs.NewKeys(chain), tls: key, client: client, keep: keep, log: log, record: r, stranger: make(chan struct{}, 1), refused: make(chan struct{}, 1)}
	m.trim()
	m.keys.Revoke(m.record.RevokedNumber, m.record.Revoked...)
	cert, err := key.Certificate(r.Certificate)
	if err != nil {
		return nil, fmt.Errorf("the host's certificate: %w", err)
	}
	m.cert.Store(cert)
	return m, nil
}

// trim drops from the record the revoked keys that no ring names. If that
// cannot be kept now, the next record that is kept is as small.
func (m *membership) trim() {
	r := m.record
	if r.Revoked = revocable(m.keys.Chain(), r.Revoked); len(r.Revoked) == len(m.record.Revoked) {
		return
	}
	m.log.Info("revoked keys that no ring names are dropped", "keys", len(m.record.Revoked)-len(r.Revoked))
	m.record = r
	if err := m.keep(r); err != nil {
		m.log.Warn("the smaller enrolment could not be kept", "error", err)
	}
}

// revocable returns those of some keys that a coordinator may revoke: a ring of
// the chain names them, and none reinstates them. An agent obeys no other key, so
// it needs to know of no other that it was revoked: what it keeps is bounded by
// its rings, which the owners have signed.
func revocable(chain *certs.Chain, keys []protocol.KeyID) []protocol.KeyID {
	var all []protocol.KeyID
	for _, k := range keys {
		if chain.Revocable(k) {
			all = append(all, k)
		}
	}
	return all
}

// Keyring implements [agent.Trust].
func (m *membership) Keyring() protocol.Keyring { return m.keys }

// Ring implements [agent.Trust].
func (m *membership) Ring() uint64 { return m.keys.Chain().Ring().Number }

// Owners implements [agent.Trust].
func (m *membership) Owners() int { return m.keys.Chain().Ring().Threshold }

// Advance implements [agent.Trust].
func (m *membership) Advance(_ context.Context, b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	chain, err := m.keys.Chain().Advance(b)
	if err != nil {
		return err
	}
	if chain.Ring().Number == m.Ring() {
		return nil
	}
	r := m.record
	r.Rings = chain.Rings()
	fresh := m.fresh(chain)
	r.Revoked = revocable(chain, append(slices.Clone(r.Revoked), fresh...))
	if err := m.keep(r); err != nil {
		return err
	}
	m.record = r
	m.keys.Revoke(r.RevokedNumber, fresh...) // before a ring gives them rights
	_, err = m.keys.Advance(b)
	return err
}

// fresh returns the keys of the list heard last that it may revoke, and that are
// not revoked yet. Once the owners have removed the coordinator that signed it, the
// list is void: its key may be stolen, and name the keys of the next ring.
func (m *membership) fresh(chain *certs.Chain) []protocol.KeyID {
	if _, ok := chain.Coordinator(m.heard.By); !ok {
		return nil
	}
	return slices.DeleteFunc(revocable(chain, m.heard.Keys), m.keys.Revoked)
}

// Revoke implements [agent.Trust].
func (m *membership) Revoke(_ context.Context, list []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	said, err := m.keys.OpenRevocations(list)
	if err != nil {
		return err
	}
	m.heard = said
	fresh := m.fresh(m.keys.Chain())
	if len(fresh) == 0 && said.Number <= m.record.RevokedNumber {
		return nil
	}
	r := m.record
	r.RevokedNumber = max(r.RevokedNumber, said.Number)
	r.Revoked = append(slices.Clone(r.Revoked), fresh...)
	if err := m.keep(r); err != nil {
		return err
	}
	m.record = r
	m.keys.Revoke(said.Number, fresh...)
	return nil
}

// Fetch implements [agent.Trust].
func (m *membership) Fetch(ctx context.Context, number uint64) error {
	m.mu.Lock()
	addresses := m.record.Addresses
	m.mu.Unlock()
	if err := m.outage.Err(); err != nil {
		return err
	}
	for have := m.Ring(); have < number; have = m.Ring() {
		b, err := m.client.Rings(ctx, addresses, have+1)
		if err == nil && len(b) > 0 {
			err = m.Advance(ctx, b)
		}
		if err != nil {
			return fmt.Errorf("fetching ring %d: %w", number, err)
		}
		if m.Ring() == have {
			return fmt.Errorf("fetching ring %d: the coordinator serves ring %d", number, have)
		}
	}
	return nil
}

// tlsConfig is for connections to the brokers of the fleet.
func (m *membership) tlsConfig() *tls.Config {
	c := certs.ClientTLS{Certificate: m.cert.Load, Roots: m.keys.Roots}.Config()
	verify := c.VerifyConnection
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		err := verify(cs)
		if err != nil {
			select {
			case m.stranger <- struct{}{}:
			default:
			}
		}
		return err
	}
	return c
}

// Pauses of the upkeep. The wall clock decides when a certificate is due, and
// may be changed at any time.
const (
	lookAtCertificate = time.Hour
	retryUpkeep       = time.Minute
)

// upkeep brings up to date what no message does, until ctx ends: the
// certificate when two thirds of its life are over, and the rings when the
// broker is not of those that we hold. Nothing depends on the former: inside the
// fleet no peer looks at dates, so the next connection is early enough.
func (m *membership) upkeep(ctx context.Context) error {
	for {
		if clock.Now().After(certs.RenewAt(m.cert.Load().Leaf)) {
			if err := m.renew(ctx); err != nil && ctx.Err() == nil {
				m.log.Warn("the certificate could not be renewed", "error", err)
			}
		}
		if err := wait(ctx, retryUpkeep, nil); err != nil {
			return err
		}
		select {
		case <-m.stranger:
			if err := m.Fetch(ctx, m.Ring()+1); err != nil && ctx.Err() == nil {
				m.log.Warn("the rings do not name this broker, and no newer ring exists", "error", err)
			}
			continue
		default:
		}
		if err := wait(ctx, lookAtCertificate, m.stranger); err != nil {
			return err
		}
	}
}

// wait waits for a time or a signal, which it gives back.
func wait(ctx context.Context, d time.Duration, early chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-early:
		select {
		case early <- struct{}{}:
		default:
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// renew asks for a new certificate, and takes what else is new.
func (m *membership) renew(ctx context.Context) error {
	if err := m.outage.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	r := m.record
	m.mu.Unlock()
	answer, err := m.client.Ask(ctx, r)
	if err != nil {
		return err
	}
	cert, err := m.tls.Certificate(answer.Certificate)
	if err != nil {
		return err
	}
	if newer := answer.Rings[len(r.Rings):]; len(newer) > 0 {
		if err := m.Advance(ctx, bytes.Join(newer, []byte("\n"))); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r = m.record
	if bytes.Equal(r.Certificate, answer.Certificate) {
		return nil // the old one is good still
	}
	r.Certificate, r.CA, r.Brokers = answer.Certificate, answer.CA, answer.Brokers
	if err := m.keep(r); err != nil {
		return err
	}
	m.record = r
	m.cert.Store(cert)
	m.log.Info("the certificate was renewed", "serial", serial(cert.Leaf))
	return nil
}

// validity is from when until when the host's certificate is good; zero if it is unknown.
func (m *membership) validity() (from, until time.Time) {
	if leaf := m.cert.Load().Leaf; leaf != nil {
		return leaf.NotBefore, leaf.NotAfter
	}
	return time.Time{}, time.Time{}
}

func serial(leaf *x509.Certificate) string {
	if leaf == nil {
		return ""
	}
	return leaf.SerialNumber.Text(16)
}
