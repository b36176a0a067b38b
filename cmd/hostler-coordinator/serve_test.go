package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/mqtt"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

func TestUpkeepRenewsWhatAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		// It ages within the first hour.
		if _, _, err := s.state.certificate(s.trust.ca, s.config.HTTP.Addresses, time.Now().Add(-60*24*time.Hour+50*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := s.renew(); err != nil {
			t.Fatal(err)
		}
		listening := s.brokerConfig().TLS
		served := func() *tls.Certificate {
			cert, err := listening.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return cert
		}
		old := served()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.upkeep(ctx) }()
		synctest.Wait()
		if !served().Leaf.Equal(old.Leaf) {
			t.Error("a certificate that serves is made anew")
		}
		time.Sleep(lookAtAge + time.Minute)
		synctest.Wait()
		if served().Leaf.Equal(old.Leaf) {
			t.Error("an old certificate is not renewed while the coordinator runs")
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("upkeep ended with %v", err)
		}
	})
}

func TestRevokedViewerStaysRevoked(t *testing.T) {
	s := newServer(t)
	s.broker = newEmbedded("", nil, nil, nil)
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: s.state.store()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	start := func() *coordinator.Coordinator {
		t.Helper()
		s.trust = newTrust(s.trust.Chain(), s.trust.id, s.trust.ca, s.state.keep)
		c, err := s.newCoordinator(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, admin := start(), core.Actor{Name: "ada", Role: core.RoleAdmin}
	create := func() *x509.Certificate {
		t.Helper()
		pass, err := c.Access().CreateViewer(t.Context(), admin, "eyes")
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(pass.Certificate)
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return leaf
	}
	revoked := func(when string, want bool, c *x509.Certificate) {
		t.Helper()
		if got := s.trust.revoked(c); got != want {
			t.Errorf("%s: revoked is %v, want %v", when, got, want)
		}
	}
	first := create()
	revoked("created", false, first)
	if err := c.Access().RevokeViewer(t.Context(), admin, "eyes"); err != nil {
		t.Fatal(err)
	}
	revoked("revoked", true, first)
	second := create()
	revoked("after another was created", true, first)
	c = start()
	revoked("after a restart", true, first)
	revoked("the other one after a restart", false, second)
	if err := c.Access().RevokeViewer(t.Context(), admin, "eyes"); err != nil {
		t.Fatal(err)
	}
	start()
	revoked("the other one, revoked, after a restart", true, second)
}

// TestNumbersOnlyGrow: neither a second revocation of the same host nor a clock
// moves the numbers of the lists.
func TestNumbersOnlyGrow(t *testing.T) {
	s := newServer(t)
	number := func() uint64 {
		t.Helper()
		b, err := s.trust.Roster()
		if err != nil {
			t.Fatal(err)
		}
		roster, err := s.trust.OpenRoster(bytes.TrimSuffix(b, []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		return roster.Number
	}
	if n := number(); n != 1 {
		t.Errorf("an empty roster has number %d, want 1", n)
	}
	host, err := certs.Generate("hostler host web1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.trust.AddHost("web1", host.Public()); err != nil {
		t.Fatal(err)
	}
	if n := number(); n != 2 {
		t.Errorf("with a host it has number %d, want 2", n)
	}
	for range 2 {
		s.trust.RevokeHost("web1", host.Key())
		if roster, list := number(), s.trust.Revoked(); roster != 3 || list != 1 {
			t.Errorf("revoked: roster %d and list %d, want 3 and 1", roster, list)
		}
	}
}

// patience is how long something may take that takes milliseconds.
const patience = 2 * time.Minute

// TestRevocationIsSaid looks at the broker as a viewer does.
func TestRevocationIsSaid(t *testing.T) {
	s := newServer(t)
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: s.state.store()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	said := make(chan struct{})
	s.broker = newEmbedded(s.config.MQTT.Listen, s.brokerConfig, func() { s.publishDocuments(); close(said) }, s.publishRevocations)
	if s.coord, err = s.newCoordinator(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.broker.run(ctx) }()
	defer func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the broker ended with %v", err)
		}
	}()
	<-said

	lists := make(chan []byte, 8)
	defer s.listen(t, protocol.ChannelRevoked, func(b []byte) { lists <- b })()
	owner := s.trust.Chain().Ring().Owners[0].Key
	member, err := certs.ParsePublicKey(owner)
	if err != nil {
		t.Fatal(err)
	}
	key := member.Key()
	s.trust.Revoke(1, key) // a list names keys of the ring; the roster tells which hosts are members
	s.trust.RevokeHost("web1", protocol.KeyID{7})
	s.broker.Disconnect(san.Name{Kind: san.Host, ID: "web1"})
	var list []byte
	select {
	case list = <-lists:
	case <-time.After(patience):
		t.Fatal("the list of revocations is not published")
	}
	got, err := s.trust.OpenRevocations(list)
	if err != nil || got.Number != 2 || !slices.Equal(got.Keys, []protocol.KeyID{key}) {
		t.Errorf("list %d says %v, %v", got.Number, got.Keys, err)
	}
}

// listen connects a viewer that listens to a channel of the fleet.
func (s *server) listen(t *testing.T, c protocol.Channel, take func([]byte)) (leave func()) {
	t.Helper()
	pass, err := s.coord.Access().CreateViewer(t.Context(), core.Actor{Name: "ada", Role: core.RoleAdmin}, "eyes")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pass.Certificate, pass.Key)
	if err != nil {
		t.Fatal(err)
	}
	viewer, err := mqtt.New(mqtt.Config{
		Addresses: []string{s.config.MQTT.Listen}, ClientID: "eyes",
		TLS: certs.ClientTLS{Certificate: func() *tls.Certificate { return &cert }, Roots: s.trust.Roots}.Config(),
	})
	if err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	session := mqtt.Opening{
		Filters: []string{protocol.FleetTopic(s.trust.Chain().Ring().Name, c).String()},
		Handle:  func(_ string, b []byte) { take(b) },
		Up:      func(func(string, []byte, bool) error) { close(up) },
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- viewer.Run(ctx, func(uint64) (mqtt.Opening, error) { return session, nil }) }()
	select {
	case <-up:
	case <-time.After(patience):
		t.Error("the viewer is not let in")
	}
	return func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the viewer ended with %v", err)
		}
	}
}

// newServer returns a server that does not run.
func newServer(t *testing.T) *server {
	t.Helper()
	return newProgram(t, 1).server()
}

// server lets the coordinator into its fleet and returns it, not running.
func (p *program) server() *server {
	t := p.t
	t.Helper()
	out, _ := p.do(0, "init", "--fleet", p.code())
	p.do(0, "init", "--ring", p.admit(field(t, out, "request")))
	c, _, err := load(p.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := p.state.chain()
	if err != nil {
		t.Fatal(err)
	}
	id, err := certs.LoadIdentity(p.state.identity())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := certs.LoadAuthority(p.state.authority())
	if err != nil {
		t.Fatal(err)
	}
	tickets, err := certs.OpenTicketKeys(p.state.tickets())
	if err != nil {
		t.Fatal(err)
	}
	return &server{config: c, state: p.state, log: slog.New(slog.DiscardHandler), trust: newTrust(chain, id, ca, p.state.keep), tickets: tickets}
}
