// Package broker is the embedded MQTT server: mutual TLS, rights by certificate,
// and limits, around the mochi library, which no other package imports.
//
// The broker is not trusted with anything. What it carries is signed by its
// author and checked by its reader, and what must arrive is repeated until it was
// receipted, so the broker may lose, repeat and reorder. Its own checks keep a
// stolen host key from reading its neighbours or drowning them, and nothing that
// follows from a message rests on them.
//
// One connection goes through here like this:
//
//	accept → TLS handshake → who is it? revoked? → MQTT CONNECT → client id, will
//	       → each packet: size, rate → each publish: rights → Ingest → subscribers
//
// Each connection has an id of its own inside the library, made of the name in its certificate,
// client id and a number. So a session can never be taken over by another
// name, whatever it calls itself, and the library's own takeover, which
// races with the end of the old connection, is never used: a second connection
// of the same name and client id cuts the first one here.
//
// Nothing is stored. Retained messages and sessions end with the [Server];
// hosts come back with a new hello, and the program that runs the broker publishes the
// fleet's documents again.
package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"

	"github.com/hostler-io/hostler/internal/lobby"
	"github.com/hostler-io/hostler/internal/throttle"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// Config is what a Server needs. Zero values mean the default named at each
// field.
type Config struct {
	// Fleet is the name in all topics. Required.
	Fleet protocol.FleetName
	// Listener yields plain connections; the Server does TLS on them and closes
	// the listener in the end. Required.
	Listener net.Listener
	// TLS is the server's side of mutual TLS. It must demand a certificate of the
	// client and verify it. Required.
	TLS *tls.Config
	// Revoked reports whether a certificate, valid by itself, is no longer to be
	// accepted. It is asked at each connect and at each Recheck. Default: none is.
	Revoked func(*x509.Certificate) bool
	// Ingest takes each message that a host sent, and each will that the broker
	// published for one. It is called while the connection's reader waits, concurrently
	// for different connections, in order for one. It should hand over and return:
	// while it waits, that connection is not read, and no other is held up. The
	// payload is the callee's to keep but not to change. An error is counted and
	// has no other effect; readers see the message either way. Required.
	Ingest func(topic string, payload []byte, from san.Name) error

	// Limit bounds the first connection of a host, and a viewer's. Default: 8,000 messages and 32 MiB per second, a burst of
	// 2 s, cut at 10 s. One busy host measures 5,000 messages per second;
	// verifying 8,000 costs a third of a core.
	Limit Limit
	// BulkLimit bounds the second connection of a host. Default: 8,000 messages
	// and 1 GiB per second, a burst of 2 s, cut at 10 s. Streams are held back by
	// credit; this only stops who ignores it.
	BulkLimit Limit
	// MaxConnections is how many connections there may be whose certificate was
	// verified. Default 25,000: two for each of ten thousand hosts, and viewers.
	MaxConnections int
	// Lobby bounds the connections before that, those of other listeners included.
	// Default: one of its own with 4,096 places.
	Lobby *lobby.Lobby
	// MaxPerViewer is how many connections one viewer's certificate may hold.
	// Default 64.
	MaxPerViewer int
	// HandshakeTimeout bounds the time from accept to CONNECT. Default 30 s: a
	// full handshake and a will take 10 s at 9.6 kbit/s.
	HandshakeTimeout time.Duration
	// Logger hears of connections. Default: none.
	Logger *slog.Logger
}

const (
	// packetOverhead is the room for topic and variable header beside a payload,
	// whose size protocol bounds.
	packetOverhead = 1 << 10
	// maxKeepAlive is the longest keep-alive a client may ask for, in seconds;
	// zero, which means never, is refused. A connection whose other end is gone
	// holds its memory for 1.5 times this.
	maxKeepAlive = 600
	// maxFilters is how many filters a connection may subscribe to in its life,
	// maxFilter the length of one. A host needs six.
	maxFilters = 64
	maxFilter  = 512
)

func (cfg Config) withDefaults() Config {
	usual := Limit{Messages: 8000, Bytes: 32 << 20, Burst: 2 * time.Second, Flood: 10 * time.Second}
	cfg.Limit = cmp.Or(cfg.Limit, usual)
	usual.Bytes = 1 << 30
	cfg.BulkLimit = cmp.Or(cfg.BulkLimit, usual)
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, 25000)
	cfg.MaxPerViewer = cmp.Or(cfg.MaxPerViewer, 64)
	cfg.HandshakeTimeout = cmp.Or(cfg.HandshakeTimeout, 30*time.Second)
	if cfg.Lobby == nil {
		cfg.Lobby = lobby.New(4096)
	}
	if cfg.Revoked == nil {
		cfg.Revoked = func(*x509.Certificate) bool { return false }
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg
}

func (cfg Config) validate() error {
	if _, err := protocol.ParseFleetName(string(cfg.Fleet)); err != nil {
		return err
	}
	if cfg.Listener == nil || cfg.TLS == nil || cfg.Ingest == nil {
		return errors.New("one of Listener, TLS and Ingest is missing")
	}
	switch cfg.TLS.ClientAuth {
	case tls.RequireAndVerifyClientCert:
	case tls.RequireAnyClientCert:
		if cfg.TLS.VerifyConnection == nil {
			return errors.New("TLS would accept unverified certificates")
		}
	default:
		return errors.New("TLS does not demand a certificate of the client")
	}
	if !cfg.Limit.valid() || !cfg.BulkLimit.valid() {
		return errors.New("each part of a limit must be positive")
	}
	if min(cfg.MaxConnections, cfg.MaxPerViewer) < 0 || cfg.HandshakeTimeout < 0 {
		return errors.New("negative limit")
	}
	return nil
}

// Server is one run of the broker. Its methods may be called from any goroutine.
// It is cheap: a new certificate is put in force by ending one Server and
// starting the next on the same address.
type Server struct {
	cfg   Config
	rules rules
	mqtt  *mochi.Server
	count counters
	noise throttle.Lines // what strangers can cause must not fill a disk
	begun time.Time

	closing atomic.Bool
	wg      sync.WaitGroup // one per connection
	crew    *crew          // ends after those
	turns   turns

	mu       sync.Mutex
	conns    map[*conn]struct{}  // all, from accept on
	known    int                 // those whose certificate was verified
	sessions map[clientKey]*conn // those past CONNECT
	held     map[san.Name]int    // sessions of each
	serial   uint64              // of the newest session
}

type clientKey struct {
	name     san.Name
	clientID string
}

// New returns a Server that does not accept connections yet.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	s := &Server{
		cfg:      cfg,
		crew:     newCrew(),
		turns:    turns{free: runtime.GOMAXPROCS(0)},
		rules:    rules{fleet: cfg.Fleet},
		begun:    time.Now(),
		conns:    make(map[*conn]struct{}),
		sessions: make(map[clientKey]*conn),
		held:     make(map[san.Name]int),
	}
	s.mqtt = mochi.New(s.options())
	if err := s.mqtt.AddHook(&hook{server: s}, nil); err != nil {
		return nil, fmt.Errorf("broker: attaching to the library: %w", err)
	}
	return s, nil
}

// options are the library's, each set and none left to its defaults: those are
// for a general broker.
func (s *Server) options() *mochi.Options {
	caps := mochi.NewDefaultServerCapabilities()
	caps.MaximumClients = int64(s.cfg.MaxConnections)
	caps.MaximumClientWritesPending = 64 // half the memory per connection of the default
	caps.MaximumPacketSize = max(protocol.MaxDocument, protocol.MaxChunk) + packetOverhead
	caps.MaximumMessageExpiryInterval = 0 // retained messages do not age
	caps.MaximumSessionExpiryInterval = 0
	caps.MaximumInflight = 64
	caps.ReceiveMaximum = 64
	caps.TopicAliasMaximum = 0
	caps.SharedSubAvailable = 0
	caps.SubIDAvailable = 0
	caps.MinimumProtocolVersion = 4
	caps.MaximumQos = 1
	return &mochi.Options{
		Capabilities:            caps,
		ClientNetReadBufferSize: 512,
		InlineClient:            true,
		// It logs whole packets; what matters is logged here.
		Logger: slog.New(slog.DiscardHandler),
	}
}

// Run accepts connections until ctx ends, and returns the cause of that, or until
// the listener fails. When it returns, the listener is closed and no connection
// and no goroutine is left. Wills are not published for connections that end
// with the Server: nothing happened to those hosts. Run is called once.
func (s *Server) Run(ctx context.Context) error {
	down := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(down); s.shutdown() })
	err := s.accept(ctx)
	if stop() { // the listener failed by itself
		s.shutdown()
	} else {
		<-down
	}
	s.wg.Wait()
	s.crew.end()
	if closeErr := s.mqtt.Close(); closeErr != nil {
		return fmt.Errorf("closing the broker: %w", closeErr)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("accepting connections: %w", err)
}

func (s *Server) shutdown() {
	s.closing.Store(true)
	_ = s.cfg.Listener.Close() // accept says what is left to say
	var wg sync.WaitGroup
	for _, c := range s.matching(func(*conn) bool { return true }) {
		wg.Go(func() { c.hangUp("broker is stopping") })
	}
	wg.Wait()
}

// Publish sends a message to all its readers, as the coordinator that this
// broker is embedded in. It does not wait for them: a reader that is too slow
// misses it. It keeps nothing of the payload.
func (s *Server) Publish(topic string, payload []byte, retained bool) error {
	if !s.rules.mayPublish(san.Name{Kind: san.Coordinator}, topic) {
		return fmt.Errorf("publishing to %.100q: not the coordinator's to publish", topic)
	}
	var qos byte
	if retained {
		qos = 1
	}
	if err := s.mqtt.Publish(topic, payload, retained, qos); err != nil {
		return fmt.Errorf("publishing to %q: %w", topic, err)
	}
	return nil
}

// Disconnect cuts all connections of a name and returns how many. Its owner may
// connect again at once, unless Revoked says no.
func (s *Server) Disconnect(name san.Name) int {
	return s.cutIf(func(c *conn) bool { return c.name == name }, "disconnected by the coordinator")
}

// Recheck asks Revoked about every connection and cuts those it names; it returns
// how many. To be called after what Revoked answers from has changed: then no
// connection of a revoked certificate is left, one that is just being made
// included.
func (s *Server) Recheck() int {
	return s.cutIf(func(c *conn) bool { return c.cert != nil && s.cfg.Revoked(c.cert) }, "certificate revoked")
}

// Connected reports whether the host's first connection is there.
func (s *Server) Connected(id protocol.HostID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.sessions[clientKey{san.Name{Kind: san.Host, ID: string(id)}, string(id)}]
	return ok
}

// cutIf ends the connections for which match is true.
func (s *Server) cutIf(match func(*conn) bool, reason string) int {
	doomed := s.matching(match)
	for _, c := range doomed {
		c.cut(reason)
	}
	return len(doomed)
}

// matching returns the connections for which match is true. match is called with
// mu held.
func (s *Server) matching(match func(*conn) bool) (list []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if match(c) {
			list = append(list, c)
		}
	}
	return list
}

// Stats is a snapshot of a Server's counters. All but Connections only grow.
type Stats struct {
	Connections  int    // now, those in their handshake included
	Sessions     int    // now, those past CONNECT
	Accepted     uint64 // connections accepted
	Refused      uint64 // connections that never became a session
	Handshakes   uint64 // of those: failed in their TLS handshake
	TakenOver    uint64 // sessions ended by a newer one of the same client
	Cut          uint64 // connections ended by this side, for any reason
	Floods       uint64 // of those: for sending far above the limit
	Messages     uint64 // messages that hosts and coordinators published
	Bytes        uint64 // their payloads
	Wills        uint64 // wills published
	Denied       uint64 // publishes, subscriptions and retentions without the right to
	Limited      uint64 // messages dropped for being above the rate limit
	IngestErrors uint64 // messages that Ingest did not take
	SlowDrops    uint64 // messages that a slow reader missed
}

type counters struct {
	accepted, refused, handshakes, takenOver, cut, floods atomic.Uint64
	messages, bytes, wills, denied, limited, ingestErrors atomic.Uint64
	slowDrops                                             atomic.Uint64
}

// Stats returns the counters as they are now.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	conns, sessions := len(s.conns), len(s.sessions)
	s.mu.Unlock()
	n := &s.count
	return Stats{
		Connections:  conns,
		Sessions:     sessions,
		Accepted:     n.accepted.Load(),
		Refused:      n.refused.Load(),
		Handshakes:   n.handshakes.Load(),
		TakenOver:    n.takenOver.Load(),
		Cut:          n.cut.Load(),
		Floods:       n.floods.Load(),
		Messages:     n.messages.Load(),
		Bytes:        n.bytes.Load(),
		Wills:        n.wills.Load(),
		Denied:       n.denied.Load(),
		Limited:      n.limited.Load(),
		IngestErrors: n.ingestErrors.Load(),
		SlowDrops:    n.slowDrops.Load(),
	}
}
