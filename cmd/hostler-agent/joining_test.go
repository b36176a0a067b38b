package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

// answering serves one answer as a coordinator, whatever the question, and
// returns the record of a host that waits for it.
func answering(t *testing.T, answer string) join.Record {
	t.Helper()
	owner := must[*certs.Identity](t)(certs.Generate("owner", time.Now()))
	self := must[*certs.Identity](t)(certs.Generate("coordinator", time.Now()))
	ca := must[*certs.Authority](t)(certs.NewAuthority("demo"))
	ring := must[certs.Ring](t)(certs.NewFleet(protocol.FleetID{1}, "demo", "ada", owner.PublicKey()))
	if err := ring.AddCoordinator(enrol.CoordinatorRequest{Fleet: ring.Fleet, Key: self.Public(), TLSCA: ca.Certificate()}); err != nil {
		t.Fatal(err)
	}
	signed := must[[]byte](t)(certs.SignRing(ring, owner))
	pin := enrol.PinOf(1, protocol.Sum(must[[]byte](t)(ring.Body())))

	key := must[*certs.TLSKey](t)(certs.NewTLSKey())
	leaf := certs.Leaf{Name: san.Name{Kind: san.Coordinator}, Server: true, Now: time.Now()}
	cert := must[*tls.Certificate](t)(key.Certificate(must[[]byte](t)(ca.Issue(must[[]byte](t)(key.Request()), leaf))))
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	server := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }),
		TLSConfig: certs.ServerTLS{Certificate: func() *tls.Certificate { return cert }}.Plain(),
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	code := must[string](t)(enrol.JoinCode{Addresses: []string{l.Addr().String()}, Pin: pin, Secret: enrol.Secret{1}}.Encode())
	r := must[join.Record](t)(join.Begin(code, "web1", nil))
	r.Exchange, r.State, r.Rings = enrol.ExchangeID{1}, enrol.Pending, [][]byte{signed}
	return r
}

func TestDenialIsRemembered(t *testing.T) {
	s := state(t.TempDir())
	r := answering(t, `{"state":"denied","reason":"not one of ours","host":"web1"}`)
	if err := s.keep(r); err != nil {
		t.Fatal(err)
	}
	n := &node{state: s, log: slog.New(slog.DiscardHandler)}
	if err := n.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := must[join.Record](t)(s.record())
	if kept.State != enrol.Denied || kept.Reason != "not one of ours" || kept.Code != "" {
		t.Errorf("kept: state %q, reason %q, code %q", kept.State, kept.Reason, kept.Code)
	}
	if _, err := begin(s, config{}, "", "", nil); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "new code") {
		t.Errorf("going on after it: %v", err)
	}
}

// TestNothingToGoOnWith is a host whose code was refused before there was an
// exchange.
func TestNothingToGoOnWith(t *testing.T) {
	s := state(t.TempDir())
	if err := s.keep(join.Record{Host: "web1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := begin(s, config{}, "", "", nil); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "new code") {
		t.Errorf("going on without a code: %v", err)
	}
}
