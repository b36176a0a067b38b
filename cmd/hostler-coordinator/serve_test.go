package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/protocol/enrol"
)

func TestRestartsAreAskedForWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEmbedded("", nil, nil, slog.New(slog.DiscardHandler))
		for range 3 {
			e.askRestart() // nobody restarts: the broker is on its way out
		}
		if n := len(e.restart); n != 1 {
			t.Errorf("%d restarts wait, want one for all who asked", n)
		}
	})
}

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
	s.broker = newEmbedded("", nil, nil, s.log)
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: s.state.store()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	start := func() *coordinator.Coordinator {
		t.Helper()
		s.trust = newTrust(s.trust.Chain(), s.trust.id, s.trust.ca)
		c, err := s.newCoordinator(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, admin := start(), coordinator.Actor{Name: "ada", Role: coordinator.RoleAdmin}
	create := func() *x509.Certificate {
		t.Helper()
		pass, err := c.CreateViewer(t.Context(), admin, "eyes")
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
	if err := c.RevokeViewer(t.Context(), admin, "eyes"); err != nil {
		t.Fatal(err)
	}
	revoked("revoked", true, first)
	second := create()
	revoked("after another was created", true, first)
	c = start()
	revoked("after a restart", true, first)
	revoked("the other one after a restart", false, second)
	if err := c.RevokeViewer(t.Context(), admin, "eyes"); err != nil {
		t.Fatal(err)
	}
	start()
	revoked("the other one, revoked, after a restart", true, second)
}

// newServer returns a server that does not run, of a coordinator that was made
// but not let in.
func newServer(t *testing.T) *server {
	t.Helper()
	p := newProgram(t, 1)
	p.do(0, "init", "--fleet", p.code())
	c, _, err := load(p.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	code, err := enrol.ParseFleetCode(p.code())
	if err != nil {
		t.Fatal(err)
	}
	chain, err := certs.OpenChain(code.Pin, p.first)
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
	return &server{config: c, state: p.state, log: slog.New(slog.DiscardHandler), trust: newTrust(chain, id, ca), tickets: tickets}
}
