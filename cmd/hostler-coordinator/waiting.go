package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator/web"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol/san"
)

// lookForFleet is how often a coordinator without a fleet looks whether it has one.
const lookForFleet = time.Second

// lack is what a coordinator waits for, and the command that helps.
type lack struct{ detail, hint string }

func (l lack) Error() string { return l.detail + "\n" + l.hint }

// member opens the rings and the key of a coordinator that is part of a fleet. Of one
// that is not yet, the error is a [lack].
func (s state) member() (*certs.Chain, *certs.Identity, error) {
	if err := s.usable(); err != nil {
		return nil, nil, err
	}
	chain, err := s.chain()
	if err != nil {
		return nil, nil, s.lacking(err)
	}
	id, err := certs.LoadIdentity(s.identity())
	if err != nil {
		return nil, nil, err
	}
	if _, ok := chain.Coordinator(id.Key()); !ok {
		return nil, nil, fmt.Errorf("ring %d does not have this coordinator (key %s): its owners took it out, or never let it in", chain.Ring().Number, id.Key())
	}
	return chain, id, nil
}

// lacking turns the error of rings that are not there into what is to be done.
func (s state) lacking(err error) error {
	const detail = "this coordinator is not part of a fleet yet"
	switch _, unmade := s.code(); {
	case errors.Is(err, fs.ErrPermission):
		return lack{detail, fmt.Sprintf("It may not read %s: hostler-coordinator init was probably run by another user.", s)}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case unmade != nil:
		return lack{detail, fmt.Sprintf("Run here: hostler fleet init NAME --coordinator %s\nOr, with the owner's key on another machine: hostler-coordinator init --fleet CODE", s)}
	}
	return lack{detail, "Run where the owner's key is: hostler fleet ring add-coordinator REQUEST, with the request that hostler-coordinator init --fleet CODE prints\nThen here: hostler-coordinator init --ring FILE"}
}

// awaitFleet returns the rings and the key of this coordinator. As long as it is part
// of no fleet, it looks again and again, and answers at the address of the API that it
// waits. The lock, nil if it did not wait, is to be given back once the coordinator
// serves: init waits for that.
func awaitFleet(ctx context.Context, c config, service daemon.Service, log *slog.Logger) (*certs.Chain, *certs.Identity, *durable.Lock, error) {
	s := state(c.StateDir)
	chain, id, err := s.member()
	waits, ok := errors.AsType[lack](err)
	if !ok {
		return chain, id, nil, err
	}
	var now atomic.Pointer[lack]
	server, err := waitingServer(c, log, func() (string, string) { return now.Load().detail, now.Load().hint })
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := listen(ctx, c.HTTP.Listen)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the API cannot listen at http.listen: %w", err)
	}
	held, _ := durable.TryLock(s.waiting()) // there may be no directory yet
	served := make(chan error, 1)
	go func() {
		served <- server.ServeTLS(shareOf(openFiles()).lobby().Listener(l, web.StrangerPatience), "", "")
	}()
	defer func() {
		server.Close()
		<-served
	}()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan error, 1)
	go func() { watched <- service.Watch(ctx, func(context.Context) {}) }()
	defer func() {
		stop()
		tell(log, <-watched)
	}()
	t := time.NewTicker(lookForFleet)
	defer t.Stop()
	for {
		if before := now.Swap(new(waits)); before == nil || *before != waits {
			log.WarnContext(ctx, waits.detail, "next", waits.hint)
			tell(log, service.Ready(waits.detail))
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, nil, held, context.Cause(ctx)
		}
		chain, id, err := s.member()
		if waits, ok = errors.AsType[lack](err); !ok {
			return chain, id, held, err
		}
	}
}

// noticePatience bounds how long init waits for a coordinator to notice its fleet.
const noticePatience = 10 * time.Second

// noticed waits until a coordinator that waited for a fleet serves it: what is typed
// after init finds it so.
func (s state) noticed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, noticePatience)
	defer cancel()
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for {
		if _, err := os.Stat(s.waiting()); err != nil {
			return
		}
		held, err := durable.TryLock(s.waiting())
		if err == nil {
			held.Close()
		}
		if !errors.Is(err, durable.ErrLocked) {
			return
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// waitingServer serves with a certificate that proves nothing: there is no authority.
func waitingServer(c config, log *slog.Logger, why func() (detail, hint string)) (*http.Server, error) {
	ca, err := certs.NewAuthority("none")
	if err != nil {
		return nil, err
	}
	key, err := certs.NewTLSKey()
	if err != nil {
		return nil, err
	}
	request, err := key.Request()
	if err != nil {
		return nil, err
	}
	der, err := ca.Issue(request, certs.Leaf{Name: san.Name{Kind: san.Coordinator}, Server: true, Addresses: hostNames(c.HTTP.Addresses), Now: clock.Now()})
	if err != nil {
		return nil, err
	}
	cert, err := key.Certificate(der)
	if err != nil {
		return nil, err
	}
	t := certs.ServerTLS{Certificate: func() *tls.Certificate { return cert }}
	return web.NewServer(web.NoFleet(why), t.Plain(), web.NewNoise(log)), nil
}
