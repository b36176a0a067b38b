package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/protocol"
)

// errRestart ends one run of the broker so that the next can begin.
var errRestart = errors.New("the broker is restarted")

// embedded is the broker of this process. A restart makes a new server, with
// the certificate and the rings that are in force then; what the old one had
// retained is published again by after.
type embedded struct {
	listen  string
	config  func() broker.Config // all but the listener
	after   func()
	revoked func() // says what is revoked to all who listen
	log     *slog.Logger

	server  atomic.Pointer[broker.Server]
	restart chan struct{}
}

func newEmbedded(listen string, config func() broker.Config, after, revoked func(), log *slog.Logger) *embedded {
	return &embedded{listen: listen, config: config, after: after, revoked: revoked, log: log, restart: make(chan struct{}, 1)}
}

// askRestart lets the broker restart as soon as it can. It never waits: who
// asks again before that is served by the same restart, and a broker that has
// ended serves nobody.
func (e *embedded) askRestart() {
	select {
	case e.restart <- struct{}{}:
	default:
	}
}

var errNoBroker = errors.New("the broker is being restarted")

// Publish implements coordinator.Broker.
func (e *embedded) Publish(topic string, payload []byte, retained bool) error {
	s := e.server.Load()
	if s == nil {
		return errNoBroker
	}
	return s.Publish(topic, payload, retained)
}

// Disconnect implements coordinator.Broker. A host is mostly disconnected
// because it was revoked, which everybody is told.
func (e *embedded) Disconnect(name protocol.SAN) {
	s := e.server.Load()
	if s == nil {
		return
	}
	s.Recheck()
	s.Disconnect(name)
	if name.Kind == protocol.SANHost {
		e.revoked()
	}
}

// run serves until ctx ends, through any number of restarts.
func (e *embedded) run(ctx context.Context) error {
	for {
		err := e.once(ctx)
		if !errors.Is(err, errRestart) {
			return err
		}
		e.log.InfoContext(ctx, "restarting the broker")
	}
}

func (e *embedded) once(ctx context.Context) error {
	l, err := listen(ctx, e.listen)
	if err != nil {
		return fmt.Errorf("the broker cannot listen: %w", err)
	}
	cfg := e.config()
	cfg.Listener = l
	s, err := broker.New(cfg)
	if err != nil {
		return fmt.Errorf("start the broker: %w", errors.Join(err, cfg.Listener.Close()))
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Known before it accepts: a revocation finds every connection.
	e.server.Store(s)
	defer e.server.Store(nil)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	e.after()
	select {
	case err := <-done:
		return err
	case <-e.restart:
		stop(errRestart)
		return <-done
	}
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
			return nil, err
		}
	}
}
