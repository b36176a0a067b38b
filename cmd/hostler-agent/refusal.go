package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/mqtt"
)

// dialer opens connections to the brokers of the fleet, and notes for askWhy
// those that do not take us.
func (m *membership) dialer() func(ctx context.Context, address string) (net.Conn, error) {
	d := &tls.Dialer{NetDialer: mqtt.Dialer(), Config: m.tlsConfig()}
	return m.outage.Dialer(func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return &heedfulConn{Conn: conn, m: m}, nil
	})
}

// heedfulConn notes a connection that fails before the broker has said a word.
// To us a handshake succeeds before our certificate is looked at: a broker that
// does not take it sends an alert and closes, and we see the alert, or our own
// first words failing, whichever comes first.
type heedfulConn struct {
	net.Conn
	m     *membership
	heard atomic.Bool
}

// NetConn is what it stands before.
func (c *heedfulConn) NetConn() net.Conn { return c.Conn }

func (c *heedfulConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(true)
	}
	c.note(err)
	return n, err
}

func (c *heedfulConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.note(err)
	return n, err
}

func (c *heedfulConn) note(err error) {
	if err == nil || c.heard.Load() {
		return
	}
	select {
	case c.m.refused <- struct{}{}:
	default:
	}
}

// askWhy asks the coordinator where this host stands when a broker refuses it,
// until ctx ends. A fleet whose coordinator was replaced has another authority,
// which has a certificate for us; the people of a host that was revoked learn it
// here. What runs goes on in any case.
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
			m.log.Error("the fleet has shut this host out; to join again, stop the agent and type hostler-agent leave", "error", err)
			pause = lookAtCertificate
		case err != nil && ctx.Err() == nil:
			m.log.Warn("the broker refuses this host, and the coordinator does not say why", "error", err)
		}
		if err := wait(ctx, pause, nil); err != nil {
			return err
		}
	}
}
