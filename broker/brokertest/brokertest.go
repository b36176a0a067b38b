// Package brokertest runs the real broker in a test, on lines in memory with
// real mutual TLS. It works in a synctest bubble, where keep-alives, backoffs and
// idle times pass on the bubble's clock, and it can break lines the way networks
// do.
//
// One trap: a write of TLS holds a lock, and a goroutine that waits for a lock
// keeps a bubble's clock from moving. A test in which a line fills up, because
// the other end does not read, must not let a ping wait behind the write: give
// the client a long keep-alive there.
package brokertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// Fleet is the fleet name of a Server whose Config names none.
const Fleet = "testfleet"

// Host returns the name of a host in a certificate.
func Host(id protocol.HostID) san.Name {
	return san.Name{Kind: san.Host, ID: string(id)}
}

// Viewer returns the name of a viewer in a certificate.
func Viewer(id string) san.Name { return san.Name{Kind: san.Viewer, ID: id} }

// errDown is what Dial returns while the broker is stopped.
var errDown = errors.New("connection refused")

// Server is a broker with its own certificate authority. Its methods may be
// called from any goroutine, those that take part in the test's verdict only from
// the test's own.
type Server struct {
	// Authority issues the certificates of Dialer.
	Authority *Authority

	t   testing.TB
	cfg broker.Config

	mu     sync.Mutex
	broker *broker.Server // nil while stopped
	listen *listener
	cancel context.CancelFunc
	done   chan error
	lines  map[san.Name][]*line
}

// New starts a broker and stops it when the test ends. Fleet, Listener, TLS and
// Ingest of cfg may be left out: the fleet is [Fleet], and messages go nowhere
// but to their readers.
func New(t testing.TB, cfg broker.Config) *Server {
	t.Helper()
	if cfg.Fleet == "" {
		cfg.Fleet = Fleet
	}
	if cfg.Ingest == nil {
		cfg.Ingest = func(string, []byte, san.Name) error { return nil }
	}
	s := &Server{t: t, cfg: cfg, Authority: NewAuthority(t), lines: make(map[san.Name][]*line)}
	if cfg.TLS == nil {
		s.cfg.TLS = s.Authority.Server(t)
	}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Broker returns the broker that runs now. After a Restart it is another one.
func (s *Server) Broker() *broker.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broker
}

// Start starts the broker after a Stop.
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listen = newListener()
	cfg := s.cfg
	cfg.Listener = s.listen
	b, err := broker.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s.broker, s.cancel, s.done = b, cancel, done
	go func() { done <- b.Run(ctx) }()
}

// Stop ends the broker and waits for it; all connections are gone then.
func (s *Server) Stop() {
	s.t.Helper()
	s.mu.Lock()
	cancel, done := s.cancel, s.done
	s.broker, s.cancel, s.done = nil, nil, nil
	s.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		s.t.Errorf("broker ended with %v", err)
	}
}

// Restart stops the broker and starts it again, without its retained messages.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// Dialer returns a function that opens a line to the broker as p, whatever the
// address, with a certificate of its own.
func (s *Server) Dialer(p san.Name) func(ctx context.Context, address string) (net.Conn, error) {
	s.t.Helper()
	cfg := s.Authority.Client(s.t, p)
	return func(ctx context.Context, _ string) (net.Conn, error) {
		raw, err := s.open(ctx, p)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, cfg)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return conn, nil
	}
}

// DialWith opens a line with a given certificate. The broker's verdict on it comes
// with the first bytes that are read.
func (s *Server) DialWith(t testing.TB, cert tls.Certificate) net.Conn {
	t.Helper()
	cfg := s.Authority.client(cert)
	raw, err := s.open(t.Context(), san.Name{})
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(raw, cfg)
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	return conn
}

// open makes a line to the broker that runs now.
func (s *Server) open(ctx context.Context, p san.Name) (net.Conn, error) {
	s.mu.Lock()
	listen := s.listen
	s.mu.Unlock()
	l, client, server := newLine()
	select {
	case listen.backlog <- server:
	case <-listen.closed:
		return nil, errDown
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines[p] = append(s.lines[p], l)
	return client, nil
}

// Cut breaks all lines of p, as a reset would.
func (s *Server) Cut(p san.Name) { s.each(p, (*line).cut) }

// Freeze lets nothing through the lines of p any more and tells neither end, as
// a cable that was pulled far away.
func (s *Server) Freeze(p san.Name) { s.each(p, (*line).freeze) }

func (s *Server) each(p san.Name, do func(*line)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines[p] {
		do(l)
	}
	s.lines[p] = nil
}

// Authority is a certificate authority for one test.
type Authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	mu     sync.Mutex
	serial int64
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(1000 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{cert: cert, key: key, serial: 1}
}

// Issue makes a certificate with the given URIs as subject alternative names,
// good for a client and for a server on 127.0.0.1 and localhost.
func (a *Authority) Issue(t testing.TB, uris ...string) tls.Certificate {
	t.Helper()
	a.mu.Lock()
	a.serial++
	serial := a.serial
	a.mu.Unlock()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: fmt.Sprintf("certificate %d", serial)},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(1000 * time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, s := range uris {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Pool returns the authority's certificate as a pool.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// CertificateDER returns the authority's certificate.
func (a *Authority) CertificateDER() []byte { return a.cert.Raw }

// Server returns the broker's side of mutual TLS.
func (a *Authority) Server(t testing.TB) *tls.Config {
	t.Helper()
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		Certificates:     []tls.Certificate{a.Issue(t, "hostler:broker")},
		ClientAuth:       tls.RequireAndVerifyClientCert,
		ClientCAs:        a.Pool(),
		CurvePreferences: []tls.CurveID{tls.X25519},
	}
}

// Client returns the side of p of mutual TLS, with a new certificate.
func (a *Authority) Client(t testing.TB, p san.Name) *tls.Config {
	t.Helper()
	return a.client(a.Issue(t, p.String()))
}

func (a *Authority) client(cert tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// Not Certificates: from those the library picks only what it believes
		// the server would accept.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil },
		RootCAs:              a.Pool(),
		ServerName:           "localhost",
	}
}
