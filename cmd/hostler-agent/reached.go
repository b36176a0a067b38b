package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/hostler-io/hostler/agent/checkup"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/san"
)

type httpConfig struct {
	Listen string `toml:"listen" takes:"reload" default:"nowhere" does:"Where other machines may ask whether the agent is there (GET /ping), have it look at everything (POST /trigger) and tell all it knows (POST /heartbeat), for example \":7070\". It is served with mutual TLS, to the coordinator and to viewers of the fleet, and nothing else is. Empty: the agent listens on its socket alone."`
}

func (c httpConfig) check() error {
	if c.Listen == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err == nil && port == "" {
		err = errors.New("the port is missing")
	}
	if err != nil {
		return fmt.Errorf("http.listen = %q: want an address with a port, such as \":7070\": %w", c.Listen, err)
	}
	return nil
}

// reached is the configuration of the listener for other machines. The host shows the
// certificate that it has for the broker.
func (m *membership) reached() *tls.Config {
	return certs.ServerTLS{
		Certificate: m.cert.Load, Roots: m.keys.Roots,
		Admit: func(name san.Name, _ *x509.Certificate) error {
			if name.Kind != san.Coordinator && name.Kind != san.Viewer {
				return errors.New("only the coordinator and viewers may ask this host")
			}
			return nil
		},
	}.Mutual()
}

// ownListener looks whether the listener of this host answers.
func ownListener(listen string) checkup.Address {
	return checkup.Address{Name: "http.listen", Address: listen, Own: true, Try: func(ctx context.Context, address string) error {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "localhost"
		}
		c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
		if err == nil {
			err = c.Close()
		}
		return err
	}}
}
