package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/protocol/san"
)

// embedded is the broker of this process.
type embedded struct {
	listen  string
	config  func() broker.Config // all but the listener
	after   func()               // publishes what the broker retains
	revoked func()               // says what is revoked to all who listen

	server atomic.Pointer[broker.Server]
}

func newEmbedded(listen string, config func() broker.Config, after, revoked func()) *embedded {
	return &embedded{listen: listen, config: config, after: after, revoked: revoked}
}

var errNoBroker = errors.New("the broker does not serve")

// Publish implements coordinator.Broker.
func (e *embedded) Publish(topic string, payload []byte, retained bool) error {
	s := e.server.Load()
	if s == nil {
		return errNoBroker
	}
	return s.Publish(topic, payload, retained)
}

// Disconnect implements coordinator.Broker. A host is mostly disconnected
// because it was revoked, which every client is told.
func (e *embedded) Disconnect(name san.Name) {
	s := e.server.Load()
	if s == nil {
		return
	}
	s.Recheck()
	s.Disconnect(name)
	if name.Kind == san.Host {
		e.revoked()
	}
}

// run serves until ctx ends.
func (e *embedded) run(ctx context.Context) error {
	l, err := listen(ctx, e.listen)
	if err != nil {
		return fmt.Errorf("the broker cannot listen at mqtt.listen: %w", err)
	}
	cfg := e.config()
	cfg.Listener = l
	s, err := broker.New(cfg)
	if err != nil {
		return fmt.Errorf("start the broker: %w", errors.Join(err, cfg.Listener.Close()))
	}
	// Known before it accepts: a revocation finds every connection.
	e.server.Store(s)
	defer e.server.Store(nil)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	e.after()
	return <-done
}

// listenPatience is how long an address may still be taken: by the process
// that we replace, which is on its way out.
const listenPatience = 10 * time.Second

// listen opens a TCP listener. An address that is taken is tried again for a
// moment.
func listen(ctx context.Context, address string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	var lc net.ListenConfig
	for {
		l, err := lc.Listen(ctx, "tcp", address)
		if err == nil {
			return l, nil
		}
		t := time.NewTimer(100 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w; end the program that listens there (ss -ltnp names it), or set another address", err)
			}
			return nil, err
		}
	}
}
