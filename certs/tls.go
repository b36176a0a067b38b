package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/protocol/san"
)

// ErrPeer tells that the other side of a connection is not whom we speak to.
var ErrPeer = errors.New("refused TLS peer")

// ServerTLS makes the configurations of listeners. The zero value of a field
// that is not said to be optional is an error of its user.
type ServerTLS struct {
	// Certificate returns the server's certificate. It is asked at each
	// handshake, so that a renewed one needs no restart.
	Certificate func() *tls.Certificate
	// Roots returns the authorities in force, at each handshake: [Keys.Roots].
	// Only Mutual needs it.
	Roots func() *x509.CertPool
	// Admit decides about a peer whose certificate holds, at each handshake
	// and again when a session is resumed. It refuses what was revoked. A host
	// is to be held to the public key that it enrolled with, not to a serial
	// number: its certificate may have been renewed. Only Mutual needs it.
	Admit func(name san.Name, leaf *x509.Certificate) error
	// Tickets lets sessions be resumed over a restart. Optional: without it
	// they last as long as the process.
	Tickets *TicketKeys
}

// Mutual returns the configuration of the broker's listener: the client must
// show a certificate of the fleet.
func (s ServerTLS) Mutual() *tls.Config {
	c := s.Plain()
	// The chain is verified in VerifyConnection: not against today's date, and
	// for resumed sessions too.
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		name, err := verifyPeer(cs, s.Roots(), x509.ExtKeyUsageClientAuth)
		if err != nil {
			return err
		}
		if err := s.Admit(name, cs.PeerCertificates[0]); err != nil {
			return fmt.Errorf("%w: %q: %w", ErrPeer, name, err)
		}
		return nil
	}
	return c
}

// Plain returns the configuration of a listener that knows its clients by
// other means: the HTTPS API.
func (s ServerTLS) Plain() *tls.Config {
	c := &tls.Config{
		Time:             clock.Now, // for the life of sessions; no certificate is judged by it
		MinVersion:       tls.VersionTLS13,
		CurvePreferences: curves(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if cert := s.Certificate(); cert != nil {
				return cert, nil
			}
			return nil, errors.New("the server has no certificate yet")
		},
	}
	if s.Tickets != nil {
		s.Tickets.use(c)
	}
	return c
}

// curves are the key exchanges that are offered: not the post-quantum one, which the
// library would choose first, and which costs a fifth more CPU for each handshake.
func curves() []tls.CurveID { return []tls.CurveID{tls.X25519, tls.CurveP256} }

// ClientTLS makes the configuration of connections into the fleet.
type ClientTLS struct {
	// Certificate returns our certificate, at each handshake. Optional: without
	// it, or if it returns nil, the server learns nothing about us, as in
	// enrolment.
	Certificate func() *tls.Certificate
	// Roots returns the authorities in force, at each handshake: [Keys.Roots].
	Roots func() *x509.CertPool
	// Servers are the kinds of server that are wanted. Names of machines are
	// not looked at: a server that the fleet's authority certified as its coordinator
	// is that, wherever it listens. Default: coordinator and broker.
	Servers []san.Kind
}

// Config returns the configuration. It keeps the sessions of the last few
// servers, so one configuration is to be used for all connections.
func (c ClientTLS) Config() *tls.Config {
	wanted := c.Servers
	if wanted == nil {
		wanted = []san.Kind{san.Coordinator, san.Broker}
	}
	return &tls.Config{
		Time:               clock.Now,
		MinVersion:         tls.VersionTLS13,
		CurvePreferences:   curves(),
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if c.Certificate != nil {
				if cert := c.Certificate(); cert != nil {
					return cert, nil
				}
			}
			return &tls.Certificate{}, nil
		},
		// The usual check wants the name of a machine and today's date. Ours
		// wants neither, and runs for resumed sessions too.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			name, err := verifyPeer(cs, c.Roots(), x509.ExtKeyUsageServerAuth)
			if err == nil && !slices.Contains(wanted, name.Kind) {
				err = fmt.Errorf("%w: it is %q, want one of %q", ErrPeer, name, wanted)
			}
			return err
		},
	}
}

// StrangerTLS returns the configuration for the one request that is made before
// any authority is known: fetching the rings, which authenticate themselves.
// Any server may answer it, and nothing secret may be sent over it.
func StrangerTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, CurvePreferences: curves(), InsecureSkipVerify: true}
}

// verifyPeer checks that the peer's certificate chains to the authorities and
// may be used so, as of its own first day: a wrong clock, on any side, must
// stop nothing. That a certificate has ended, revocation says.
func verifyPeer(cs tls.ConnectionState, roots *x509.CertPool, usage x509.ExtKeyUsage) (san.Name, error) {
	if len(cs.PeerCertificates) == 0 {
		return san.Name{}, fmt.Errorf("%w: it showed no certificate", ErrPeer)
	}
	leaf := cs.PeerCertificates[0]
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots:       roots,
		CurrentTime: leaf.NotBefore,
		KeyUsages:   []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return san.Name{}, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	name, err := RoleOf(leaf)
	if err != nil {
		return san.Name{}, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	return name, nil
}
