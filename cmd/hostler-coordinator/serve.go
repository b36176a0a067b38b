package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/policies"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/coordinator/web"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/lobby"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/metrics/influx"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
	"github.com/hostler-io/hostler/unique"
)

// errRevoked ends the handshake of a peer whose certificate was revoked.
var errRevoked = errors.New("its certificate was revoked")

// shutdownPatience is how long requests may still run after the end was asked
// for. Those that wait or follow are cut.
const shutdownPatience = 5 * time.Second

// serve runs everything until ctx ends. again reads the configuration once more.
func serve(ctx context.Context, c config, again loader, log *slog.Logger, out io.Writer) error {
	s := state(c.StateDir)
	if err := s.usable(); err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1) // one that comes early waits here, and ends nothing
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	service := daemon.ServiceOf(os.Environ(), os.Getpid())
	defer context.AfterFunc(ctx, func() { tell(log, service.Stopping()) })()
	chain, id, held, err := awaitFleet(ctx, c, service, log)
	if held != nil {
		defer held.Close()
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if _, ok := chain.Coordinator(id.Key()); !ok {
		return fmt.Errorf("ring %d does not have this coordinator (key %s): its owners took it out, or never let it in", chain.Ring().Number, id.Key())
	}
	ca, err := certs.LoadAuthority(s.authority())
	if err != nil {
		return err
	}
	if at, err := space.Of(string(s)); err == nil && at.Low() {
		s.reserve().Spend() // a start writes, and then removes what takes the room
	}
	store, err := sqlstore.Open(ctx, sqlstore.Config{Path: s.store(), Log: log})
	if err != nil {
		return err
	}
	defer func() {
		if err := store.Close(); err != nil {
			log.Error("cannot close the database", "err", err)
		}
	}()
	share := shareOf(openFiles())
	server := &server{share: share, lobby: share.lobby(), noise: web.NewNoise(log), config: c, again: again, hangup: hangup, state: s, service: service, waited: held, log: log, trust: newTrust(chain, id, ca, s.keep), commits: func() uint64 { return store.Stats().Commits }}
	return server.run(ctx, store, out)
}

// server is everything that runs.
type server struct {
	config  config
	again   loader // reads the configuration once more
	hangup  <-chan os.Signal
	state   state
	service daemon.Service
	waited  *durable.Lock // nil if it has not waited for its fleet
	log     *slog.Logger
	trust   *trust
	tickets *certs.TicketKeys
	cert    atomic.Pointer[tls.Certificate] // in force, of broker and API
	broker  *embedded
	share   share        // of the descriptors
	lobby   *lobby.Lobby // of broker and API
	noise   *web.Noise   // of the API
	coord   *coordinator.Coordinator
	saying  sync.Mutex // held to publish a list of revocations
	looking sync.Mutex // held to look at the whole database
	commits func() uint64
	sink    *influx.Sink // of samples; nil if none is configured
}

func (s *server) run(ctx context.Context, store core.Store, out io.Writer) (err error) {
	if s.tickets, err = certs.OpenTicketKeys(s.state.tickets()); err != nil {
		return err
	}
	if err := s.renew(); err != nil {
		return err
	}
	s.broker = newEmbedded(s.config.MQTT.Listen, s.brokerConfig, s.publishDocuments, s.publishRevocations)
	if err := s.openSink(); err != nil {
		return err
	}
	if s.coord, err = s.newCoordinator(ctx, store); err != nil {
		return err
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	l, err := listen(ctx, s.config.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("the API cannot listen at http.listen: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.coord.Run(ctx) })
	g.Go(func() error { return s.broker.run(ctx) })
	g.Go(func() error { return api.ServeTLS(s.lobby.Listener(l, web.StrangerPatience), "", "") })
	g.Go(func() error { return s.upkeep(ctx) })
	g.Go(func() error { return pace(ctx) })
	g.Go(func() error { return s.bring(ctx) })
	g.Go(func() error { return daemon.Tidy(ctx) })
	g.Go(func() error {
		return s.service.Watch(ctx, func(ctx context.Context) { _ = s.coord.Ready(ctx) })
	})
	g.Go(func() error {
		<-ctx.Done()
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
		defer cancel()
		if api.Shutdown(patience) != nil {
			api.Close()
		}
		return context.Cause(ctx)
	})
	fmt.Fprintf(out, "fleet %s: API on https://%s, broker on %s\n", s.trust.Chain().Ring().Name, s.config.HTTP.Addresses[0], s.config.MQTT.Addresses[0])
	s.log.InfoContext(ctx, "serving", "fleet", s.trust.Chain().Ring().Name, "term", s.coord.Term(), "http", s.config.HTTP.Listen, "mqtt", s.config.MQTT.Listen)
	s.ready()
	g.Go(func() error {
		was := s.config
		for {
			select {
			case <-s.hangup:
				tell(s.log, s.service.Reloading())
				s.reread(ctx, &was)
				s.ready()
			case <-ctx.Done():
				return nil
			}
		}
	})
	if s.waited != nil {
		_ = s.waited.Close() // closed again in the end, which is nothing
	}
	err = g.Wait()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// ready tells the manager of services that the coordinator serves.
func (s *server) ready() {
	tell(s.log, s.service.Ready("serves fleet "+string(s.trust.Chain().Ring().Name)))
}

// tell logs what kept the manager of services from being told. The coordinator serves
// without it.
func tell(log *slog.Logger, err error) {
	if err != nil {
		log.Warn("systemd does not hear", "err", err)
	}
}

// reread takes the rings into force that init --ring has put beside those that
// are, and the policies that the configuration names now. A configuration or policies that
// cannot be used change nothing. was is the configuration as it was read before.
func (s *server) reread(ctx context.Context, was *config) {
	by := core.Actor{Name: "signal", Role: core.RoleAdmin}
	chain, err := s.state.chain()
	for err == nil && chain.Ring().Number > s.trust.Ring() {
		_, err = s.coord.TakeRings(ctx, by, chain.From(s.trust.Ring()+1))
	}
	if err != nil {
		s.log.ErrorContext(ctx, "cannot take the rings of the state directory", "err", err)
	}
	c, _, err := s.again()
	if err != nil {
		s.log.ErrorContext(ctx, "the new configuration is refused; the one before it stays in force", "err", err)
		return
	}
	if err := s.coord.Policies().Set(ctx, by, s.policies(ctx, &c)); err != nil {
		s.log.ErrorContext(ctx, "cannot take the policies; the policies before them stay in force", "err", err)
		return
	}
	taken, _ := settings.Changed(was, &c)
	_, restart := settings.Changed(&s.config, &c)
	s.log.InfoContext(ctx, "the configuration was read again", "changed", taken)
	if len(restart) > 0 {
		s.log.WarnContext(ctx, "these settings take a restart: systemctl restart hostler-coordinator", "settings", restart)
	}
	*was = c
	s.log.InfoContext(ctx, "policies are in force", "file", c.Policy.File, "hosts_file", c.Policy.HostsFile, "four_eyes", c.Policy.FourEyes)
}

// policies are those of a configuration.
func (s *server) policies(ctx context.Context, c *config) policies.Policies {
	for path, p := range map[string]*policy.Policy{c.Policy.File: c.own, c.Policy.HostsFile: c.hosts} {
		if p != nil && p.Bypass() {
			s.log.WarnContext(ctx, "the policy can be bypassed, and accepts that: allow_bypass = true", "file", path)
		}
	}
	return policies.Policies{Own: c.own, Hosts: c.hosts, FourEyes: c.Policy.FourEyes}
}

func (s *server) newCoordinator(ctx context.Context, store core.Store) (*coordinator.Coordinator, error) {
	times, err := s.config.Lease.timing()
	if err != nil {
		return nil, err
	}
	placing, err := s.config.Placement.placing()
	if err != nil {
		return nil, err
	}
	ring := s.trust.Chain().Ring()
	policies := s.policies(ctx, &s.config)
	publishing := coordinator.Publishing{Plain: s.config.MQTT.Plain, Window: s.config.MQTT.window}
	if s.sink != nil {
		publishing.Samples = s.sink
	}
	return coordinator.New(ctx, coordinator.Config{
		Store: store, Fleet: ring.Fleet, FleetName: ring.Name,
		Signer: s.trust.id, Trust: s.trust, Rings: s.trust, HostKeys: s.trust, Viewers: s.trust, Authority: s.trust, Broker: s.broker,
		Policies:   policies,
		Notices:    s.config.notices,
		Publishing: publishing,
		Leases:     coordinator.Leases{Lease: times, MinSelfFence: unique.SelfFence(s.config.Lease.Fence), Copies: unique.Copies(s.config.Unique.Copies), Placing: placing},
		Fences:     s.fences(),
		OutputDir:  s.state.output(),
		Retention:  coordinator.Retention{OutputTotal: int64(s.config.Output.TotalMiB) << 20, OutputAge: time.Duration(s.config.Output.Days) * 24 * time.Hour, ActionAge: time.Duration(s.config.Actions.Days) * 24 * time.Hour, Actions: s.config.Actions.Count},
		PayloadDir: s.state.payloads(), MaxPayload: int64(s.config.MaxPayload) << 20, Addresses: s.config.HTTP.Addresses, BrokerAddresses: s.config.MQTT.Addresses,
		Now: clock.Now, Boot: clock.BootMS, Rand: rand.Reader, Log: s.log,
	})
}

// renew puts the certificate for listening in force, made anew when it must be.
// Listeners take it up at their next handshake.
func (s *server) renew() error {
	addresses := append(append([]string(nil), s.config.HTTP.Addresses...), s.config.MQTT.Addresses...)
	key, der, err := s.state.certificate(s.trust.ca, addresses, clock.Now())
	if err != nil {
		return fmt.Errorf("certificate of the coordinator: %w", err)
	}
	cert, err := key.Certificate(der)
	if err != nil {
		return fmt.Errorf("certificate of the coordinator: %w", err)
	}
	s.cert.Store(cert)
	return nil
}

// How often what ages is looked at, and the age at which the keys of session
// tickets are replaced. The wall clock decides, and may be changed at any time.
const (
	lookAtAge  = time.Hour
	ticketLife = 24 * time.Hour
)

// upkeep renews what ages, until ctx ends.
func (s *server) upkeep(ctx context.Context) error {
	t := time.NewTicker(lookAtAge)
	defer t.Stop()
	for {
		if err := s.tickets.RotateAfter(ticketLife); err != nil {
			s.log.ErrorContext(ctx, "cannot replace the keys of session tickets", "err", err)
		}
		if err := s.renew(); err != nil {
			s.log.ErrorContext(ctx, "cannot renew the certificate; the one in force goes on", "err", err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// brokerConfig is what the next run of the broker is made from.
func (s *server) brokerConfig() broker.Config {
	if err := s.renew(); err != nil {
		s.log.Error("cannot renew the certificate; the one in force goes on", "err", err)
	}
	t := certs.ServerTLS{
		Certificate: s.cert.Load, Roots: s.trust.Roots, Tickets: s.tickets,
		Admit: func(_ san.Name, leaf *x509.Certificate) error {
			if s.trust.revoked(leaf) {
				return errRevoked
			}
			return nil
		},
	}
	return broker.Config{
		Fleet: s.trust.Chain().Ring().Name, TLS: t.Mutual(), Revoked: s.trust.revoked, Logger: s.log,
		Lobby: s.lobby, MaxConnections: s.share.members,
		Ingest: func(topic string, payload []byte, _ san.Name) error { return s.coord.Ingest(topic, payload) },
	}
}

// metrics is what the broker and the listeners count.
func (s *server) metrics(w *prom.Scrape) {
	s.sinkMetrics(w)
	var n broker.Stats
	if b := s.broker.server.Load(); b != nil {
		n = b.Stats()
	}
	w.Gauge("broker_connections", "Connections, those in their handshake included.", float64(n.Connections))
	w.Counter("broker_connections_total", "Connections that were accepted.", float64(n.Accepted))
	w.CounterBy("broker_connections_ended_total", "Connections that the broker ended, by how.", "how", map[string]float64{
		"refused": float64(n.Refused), "taken_over": float64(n.TakenOver), "cut": float64(n.Cut),
	})
	w.CounterBy("tls_handshake_errors_total", "TLS handshakes that failed, by listener.", "listener", map[string]float64{
		"api": float64(s.noise.Handshakes()), "broker": float64(n.Handshakes),
	})
	in := s.lobby.Stats()
	w.Gauge("strangers", "Connections to the broker and the API that are not authenticated yet.", float64(in.Strangers))
	w.Gauge("strangers_max", "How many such connections there may be.", float64(s.share.strangers))
	w.CounterBy("strangers_ended_total", "Such connections that were ended, by why.", "why", map[string]float64{
		"full": float64(in.TurnedAway), "displaced": float64(in.Displaced), "late": float64(in.Overdue),
	})
	w.Counter("broker_messages_total", "Messages that hosts and coordinators published.", float64(n.Messages))
	w.CounterBy("broker_messages_not_taken_total", "Messages that went no further, by why.", "why", map[string]float64{
		"right": float64(n.Denied), "rate": float64(n.Limited), "ingest": float64(n.IngestErrors), "slow_reader": float64(n.SlowDrops),
	})
}

// api is the HTTP server.
func (s *server) api() (*http.Server, error) {
	handler, err := web.New(web.Config{Coordinator: s.coord, Version: buildinfo.Version, OpenMetrics: s.config.HTTP.OpenMetrics, Commits: s.commits, Metrics: s.metrics, Check: s.check, Log: s.log})
	if err != nil {
		return nil, err
	}
	t := certs.ServerTLS{Certificate: s.cert.Load, Tickets: s.tickets}
	return web.NewServer(handler, t.Plain(), s.noise), nil
}

// publishDocuments puts the documents of the fleet on a broker that has none.
func (s *server) publishDocuments() {
	s.publishDocument(protocol.ChannelRing, s.trust.Rings(0), nil)
	s.publishRevocations()
	s.coord.SayState()
}

// publishRevocations replaces the list of revoked keys, if there are any.
func (s *server) publishRevocations() {
	s.saying.Lock() // the newest list comes last
	defer s.saying.Unlock()
	if s.trust.RevokedNumber() > 0 {
		list, err := s.trust.revocations()
		s.publishDocument(protocol.ChannelRevoked, list, err)
	}
}

func (s *server) publishDocument(c protocol.Channel, b []byte, err error) {
	if err == nil {
		err = s.broker.Publish(protocol.FleetTopic(s.trust.Chain().Ring().Name, c).String(), b, true)
	}
	if err != nil {
		s.log.Error("cannot publish a document of the fleet", "channel", string(c), "err", err)
	}
}

// Collecting garbage costs by its frequency, and a small heap is collected
// often: of a coordinator with few hosts it takes a tenth of all it does. So the
// heap may grow by spareHeap between two collections, or by a third of what is to be
// looked at if that is more: with ten thousand hosts their connections hold several
// hundred MB, and the runtime's default would let the heap grow by as much again.
const (
	spareHeap  = 64 << 20
	minPercent = 33
	maxPercent = 400
	paceEvery  = 10 * time.Second
)

// percent is the pace when a collection has so many bytes to look at: those that live in the
// heap, and those of stacks. The runtime counts both.
func percent(bytes uint64) int {
	return int(min(maxPercent, max(minPercent, spareHeap*100/max(bytes, 1))))
}

// pace sets the pace of collections as the heap grows and shrinks, and gives it
// back to what it was in the end. A person who set GOGC knows better.
func pace(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	defer debug.SetGCPercent(debug.SetGCPercent(maxPercent))
	t := time.NewTicker(paceEvery)
	defer t.Stop()
	looked := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for {
		metrics.Read(looked)
		debug.SetGCPercent(percent(looked[0].Value.Uint64() + looked[1].Value.Uint64()))
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
