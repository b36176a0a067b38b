package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/hostler-io/hostler/agent/checkup"
	"github.com/hostler-io/hostler/agent/local"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/san"
)

type httpConfig struct {
	Listen string `toml:"listen" takes:"reload" default:"nowhere" does:"Where other machines may ask whether the agent is there (GET /ping), have it look at everything (POST /trigger) and tell all it knows (POST /heartbeat), for example \":7070\". It is served with mutual TLS, to the coordinator and to viewers of the fleet, and nothing else is. Empty: it is not served."`

	Metrics string `toml:"metrics" takes:"reload" default:"nowhere" does:"Where Prometheus may read what the agent tells of itself and has measured (GET /metrics), for example \":7071\". It is served with mutual TLS, to the coordinator and to viewers of the fleet, and nothing else is. Empty: it is served on the agent's socket alone."`
}

// port is an address at which other machines may ask the agent.
type port struct {
	setting, address string
	asked            func(http.Handler) http.Handler // of all that the socket serves, what they may ask
}

// ports are those that the configuration names.
func (c httpConfig) ports() (all []port) {
	for _, p := range []port{{"http.listen", c.Listen, local.Reachable}, {"http.metrics", c.Metrics, local.Scrapable}} {
		if p.address != "" {
			all = append(all, p)
		}
	}
	return all
}

func (c httpConfig) check() error {
	for _, p := range c.ports() {
		_, number, err := net.SplitHostPort(p.address)
		if err == nil && number == "" {
			err = errors.New("the port is missing")
		}
		if err != nil {
			return fmt.Errorf("%s = %q: want an address with a port, such as \":7070\": %w", p.setting, p.address, err)
		}
	}
	if c.Listen != "" && c.Listen == c.Metrics {
		return fmt.Errorf("http.listen and http.metrics are both %q: want an address for each", c.Listen)
	}
	return nil
}

// reached is the configuration of a listener for other machines. The host shows the
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

// bindAgain is how long the agent waits at most until it tries again to listen at an address
// that it could not have. The first waits are shorter.
const bindAgain = time.Minute

// door is the listener of a port. An address that another program has, or that this host
// does not have yet, is tried again: nothing else of the agent waits for it. One goroutine
// uses it at a time.
type door struct {
	port
	log      *slog.Logger
	listen   func(ctx context.Context, address string) (net.Listener, error)
	listener net.Listener  // nil: not yet
	pause    time.Duration // before the next try
}

// try listens, if it can.
func (d *door) try(ctx context.Context) {
	l, err := d.listen(ctx, d.address)
	if err == nil {
		d.listener = l
		d.log.Info("other machines may ask", "setting", d.setting, "address", l.Addr().String())
		return
	}
	d.pause = min(max(2*d.pause, time.Second), bindAgain)
	d.log.Warn("other machines cannot ask this host, because the agent cannot listen at an address of its configuration; the agent tries again. If another program has the address, end that program or change the setting",
		"setting", d.setting, "address", d.address, "within", d.pause, "error", err)
}

// bind tries until it listens, or until ctx ends.
func (d *door) bind(ctx context.Context) (net.Listener, error) {
	for d.listener == nil {
		if err := wait(ctx, d.pause/2+rand.N(d.pause/2+1), nil); err != nil {
			return nil, err
		}
		d.try(ctx)
	}
	return d.listener, nil
}

// own looks whether the listener of a port answers.
func (p port) own() checkup.Address {
	return checkup.Address{Name: p.setting, Address: p.address, Own: true, Try: func(ctx context.Context, address string) error {
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
