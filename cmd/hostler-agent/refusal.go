package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/mqtt"
)

// dialer opens connections to the brokers of the fleet. A broker that refuses
// our certificate says so when we first listen, not while the connection is
// opened; it is noted for askWhy.
func (m *membership) dialer() func(ctx context.Context, address string) (net.Conn, error) {
	d := &tls.Dialer{NetDialer: mqtt.Dialer(), Config: m.tlsConfig()}
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			m.noteRefusal(err)
			return nil, err
		}
		return &heedfulConn{conn, m}, nil
	}
}

// heedfulConn notes the alert with which a broker ends a connection.
type heedfulConn struct {
	net.Conn
	m *membership
}

func (c *heedfulConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.m.noteRefusal(err)
	}
	return n, err
}

// noteRefusal has askWhy ask, if the other side has ended a connection by an
// alert: all that TLS tells a client whose certificate is not taken.
func (m *membership) noteRefusal(err error) {
	if e, ok := errors.AsType[*net.OpError](err); !ok || e.Op != "remote error" {
		return
	}
	select {
	case m.refused <- struct{}{}:
	default:
	}
}

// askWhy asks the coordinator where this host stands when a broker refuses it,
// until ctx ends. A fleet whose coordinator was replaced has another authority,
// which has a certificate for us; the people of a host that was revoked learn it
// here. What runs goes on, whoever says so.
func (m *membership) askWhy(ctx context.Context) error {
	for {
		select {
		case <-m.refused:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause := retryUpkeep
		err := m.renew(ctx)
		switch {
		case errors.Is(err, join.ErrRevoked):
			m.log.Error("the fleet has shut this host out; to join again: hostler-agent leave", "error", err)
			pause = lookAtCertificate
		case err != nil && ctx.Err() == nil:
			m.log.Warn("the broker refuses this host, and the coordinator does not say why", "error", err)
		}
		if err := wait(ctx, pause, nil); err != nil {
			return err
		}
	}
}
