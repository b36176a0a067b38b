package certs_test

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

// desk is a coordinator's end of enrolment, as its handlers build it.
type desk struct {
	chain  *certs.Chain
	key    *certs.Identity
	ca     *certs.Authority
	invite enrol.Invite
}

func newDesk(t *testing.T) (*desk, enrol.JoinCode) {
	t.Helper()
	f := newFleet(t, 1, 1)
	key, ca := f.withCoordinator()
	d := &desk{chain: f.chain, key: key, ca: ca, invite: enrol.Invite{Expires: 1000}}
	_, _ = rand.Read(d.invite.Secret[:])
	return d, enrol.JoinCode{Addresses: []string{"192.0.2.1:8443"}, Pin: f.chain.Pin(), Secret: d.invite.Secret}
}

func (d *desk) begin(t *testing.T, r enrol.BeginRequest) (enrol.Exchange, enrol.BeginResponse) {
	t.Helper()
	host, err := certs.ParsePublicKey(r.HostKey)
	if err != nil {
		t.Fatal(err)
	}
	digest, _ := d.chain.Digest(d.chain.Ring().Number)
	s := enrol.Exchange{
		Fleet: d.chain.Ring().Fleet, Invite: r.Invite, Commit: r.Commit, HostKey: host, HostKeyRaw: r.HostKey,
		Ring: digest, Coordinator: d.key.PublicKey().PrimaryDigest(),
	}
	_, _ = rand.Read(s.NonceC[:])
	return s, enrol.BeginResponse{NonceC: s.NonceC[:], CoordinatorKey: d.key.Public(), Ring: d.chain.Ring().Number}
}

// attempt is a host's end.
func attempt(t *testing.T, chain *certs.Chain, secret enrol.Secret) (enrol.Attempt, *certs.TLSKey) {
	t.Helper()
	id := newIdentity(t, "hostler host web1")
	k, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := k.Request()
	if err != nil {
		t.Fatal(err)
	}
	o, err := enrol.Offer{Hostname: "web1", Host: "web1", Key: id.Public(), CSR: csr, Architecture: "amd64", Version: "1", Boot: "b"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	a := enrol.Attempt{Fleet: chain.Ring().Fleet, Secret: secret, Offer: o, Signer: id, HostKey: id.PublicKey().PrimaryDigest()}
	_, _ = rand.Read(a.NonceA[:])
	return a, k
}

func reveal(t *testing.T, a enrol.Attempt, chain *certs.Chain, r enrol.BeginResponse) (enrol.OfferRequest, []byte) {
	t.Helper()
	named, err := certs.ParsePublicKey(r.CoordinatorKey)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := chain.Coordinator(named.Key())
	if !ok {
		t.Fatal("the coordinator is not in the ring")
	}
	ring, _ := chain.Digest(r.Ring)
	q, transcript, err := a.Reveal(r, ring, key.PrimaryDigest())
	if err != nil {
		t.Fatal(err)
	}
	return q, transcript
}

func begin(t *testing.T, a enrol.Attempt) enrol.BeginRequest {
	t.Helper()
	r, err := a.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEnrolment plays the exchange with real keys, up to a connection with the
// certificate that was issued.
func TestEnrolment(t *testing.T) {
	d, code := newDesk(t)
	text, err := code.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if code, err = enrol.ParseJoinCode(text); err != nil {
		t.Fatal(err)
	}
	chain, err := certs.OpenChain(code.Pin, d.chain.Newest())
	if err != nil {
		t.Fatal(err)
	}
	a, key := attempt(t, chain, code.Secret)
	session, answer := d.begin(t, begin(t, a))
	q, seen := reveal(t, a, chain, answer)
	offer, transcript, err := session.Reveal(q)
	if err != nil {
		t.Fatal(err)
	}
	if enrol.Words(seen) != enrol.Words(transcript) {
		t.Error("the screens show different words")
	}
	if d.invite, err = d.invite.Judge(1, session.HostKey.Key(), transcript, q.Proof); err != nil {
		t.Fatal(err)
	}
	der, err := d.ca.Issue(offer.CSR, certs.Leaf{Name: san.Name{Kind: san.Host, ID: string(offer.Host)}, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := key.Certificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keys := certs.NewKeys(chain)
	server := certs.ServerTLS{
		Certificate: side(t, d.ca, certs.Leaf{Name: coordinator, Server: true}), Roots: keys.Roots,
		Admit: func(name san.Name, leaf *x509.Certificate) error {
			if name != web1 || !leaf.Equal(mine.Leaf) {
				return errors.New("somebody else")
			}
			return nil
		},
	}
	client := certs.ClientTLS{Certificate: keep(mine), Roots: keys.Roots}
	if _, serverErr, clientErr := handshake(t, server.Mutual(), client.Config()); serverErr != nil || clientErr != nil {
		t.Errorf("server says %v, client says %v", serverErr, clientErr)
	}
	// The same code on a second host.
	b, _ := attempt(t, chain, code.Secret)
	session, answer = d.begin(t, begin(t, b))
	q, _ = reveal(t, b, chain, answer)
	if _, transcript, err = session.Reveal(q); err != nil {
		t.Fatal(err)
	}
	if _, err := d.invite.Judge(1, session.HostKey.Key(), transcript, q.Proof); !errors.Is(err, enrol.ErrUsed) {
		t.Errorf("a second host with the same code: %v", err)
	}
}

func keep[T any](v T) func() T { return func() T { return v } }

// TestImpostor stands where the coordinator's address leads.
func TestImpostor(t *testing.T) {
	genuine, code := newDesk(t)
	impostor, _ := newDesk(t) // same fleet id and name, other keys
	if _, err := certs.OpenChain(code.Pin, impostor.chain.Newest()); !errors.Is(err, certs.ErrPin) {
		t.Errorf("rings of its own: %v", err)
	}
	// The genuine rings are public: it may serve them, and speak as itself.
	chain, err := certs.OpenChain(code.Pin, genuine.chain.Newest())
	if err != nil {
		t.Fatal(err)
	}
	server := certs.ServerTLS{Certificate: side(t, impostor.ca, certs.Leaf{Name: coordinator, Server: true})}.Plain()
	if _, _, err := handshake(t, server, certs.StrangerTLS()); err != nil {
		t.Errorf("fetching rings from anybody: %v", err)
	}
	if _, _, err := handshake(t, server, certs.ClientTLS{Roots: chain.Roots}.Config()); !errors.Is(err, certs.ErrPeer) {
		t.Errorf("TLS of its own: %v", err)
	}
	// A host of the fleet has a certificate of the right authority.
	host := certs.ServerTLS{Certificate: side(t, genuine.ca, certs.Leaf{Name: web1})}.Plain()
	if _, _, err := handshake(t, host, certs.ClientTLS{Roots: chain.Roots}.Config()); !errors.Is(err, certs.ErrPeer) {
		t.Errorf("TLS of a host: %v", err)
	}
	if _, ok := chain.Coordinator(impostor.key.Key()); ok {
		t.Error("its key is in the ring")
	}
}

// TestStolenCode is somebody who read the join code and is faster than the
// host: it can enrol a machine of its own, but not under the host's words, nor
// can it use what the host says.
func TestStolenCode(t *testing.T) {
	d, code := newDesk(t)
	host, _ := attempt(t, d.chain, code.Secret)
	thief, _ := attempt(t, d.chain, code.Secret)
	hostSession, hostAnswer := d.begin(t, begin(t, host))
	thiefSession, thiefAnswer := d.begin(t, begin(t, thief))
	q, onHost := reveal(t, host, d.chain, hostAnswer)
	if _, _, err := thiefSession.Reveal(q); !errors.Is(err, enrol.ErrCommit) {
		t.Errorf("the host's offer in the thief's session: %v", err)
	}
	stolen, _ := reveal(t, thief, d.chain, thiefAnswer)
	_, onScreen, err := thiefSession.Reveal(stolen)
	if err != nil {
		t.Fatal(err)
	}
	if enrol.Words(onHost) == enrol.Words(onScreen) {
		t.Error("the operator sees the host's words for the thief")
	}
	if d.invite, err = d.invite.Judge(1, thiefSession.HostKey.Key(), onScreen, stolen.Proof); err != nil {
		t.Fatal(err)
	}
	_, transcript, err := hostSession.Reveal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.invite.Judge(2, hostSession.HostKey.Key(), transcript, q.Proof); !errors.Is(err, enrol.ErrUsed) {
		t.Errorf("the host is not told that the code was used: %v", err)
	}
}
