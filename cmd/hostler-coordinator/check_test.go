package main

import (
	"crypto/tls"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
)

// TestCheckFindsABrokenBroker: whatever is at the address of the broker but the broker
// itself, the check says that no host reaches the broker there, and what to do.
func TestCheckFindsABrokenBroker(t *testing.T) {
	s := newServer(t)
	if err := s.renew(); err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: s.state.store()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s.broker = newEmbedded("", nil, nil, nil)
	if s.coord, err = s.newCoordinator(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	stranger := httptest.NewTLSServer(nil) // it has a certificate of its own
	stranger.Close()
	shows := func(cert *tls.Certificate) func(net.Conn) {
		return func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*cert}}).Handshake() // the check ends it
		}
	}
	for name, c := range map[string]struct {
		serve func(net.Conn) // nil: nothing listens
		cause string         // empty: it is well
	}{
		"the broker":          {shows(s.cert.Load()), ""},
		"nothing":             {nil, "hosts cannot connect: dial tcp ADDRESS: connect: connection refused"},
		"another certificate": {shows(&stranger.TLS.Certificates[0]), "another program listens at ADDRESS: it shows another certificate"},
		"no TLS":              {func(c net.Conn) { _, _ = c.Write([]byte("220 mail.example ESMTP\r\n")) }, "the handshake at ADDRESS fails, maybe because another program listens there: "},
		"nothing said":        {func(net.Conn) {}, "the handshake at ADDRESS fails, maybe because another program listens there: EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s.config.MQTT.Listen = l.Addr().String()
			served := make(chan struct{})
			go func() {
				defer close(served)
				for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
					c.serve(conn)
					conn.Close()
				}
			}()
			if c.serve == nil {
				l.Close()
			}
			f := find(t, s.check(t.Context()), "broker")
			l.Close()
			<-served
			switch cause := strings.ReplaceAll(c.cause, "ADDRESS", l.Addr().String()); {
			case c.cause == "":
				if f.Result != api.FindingOK {
					t.Errorf("%+v", f)
				}
			case f.Result != api.FindingFailed || !strings.Contains(f.Cause, cause) || !strings.Contains(f.Mend, "mqtt.listen"):
				t.Errorf("%+v, want the cause %q and a mend that names mqtt.listen", f, cause)
			}
		})
	}
}

// find is the finding of a check.
func find(t *testing.T, all []api.Finding, check string) api.Finding {
	t.Helper()
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("there is no check of %s in %+v", check, all)
	return api.Finding{}
}
