package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/hostler-io/hostler/internal/lobby"
	"github.com/hostler-io/hostler/protocol/san"
)

var (
	errTooMany = errors.New("too many connections")
	errRevoked = errors.New("certificate is revoked")
	errSlow    = errors.New("reads too slowly")
)

// acceptPause is the rest after an accept that failed for want of descriptors
// or memory; without it the loop would burn what is left of the machine.
const acceptPause = 50 * time.Millisecond

// slowPatience is how long a viewer that reads too slowly may take for the packet
// that is under way, before it is cut off without a word.
const slowPatience = 5 * time.Second

// conn is one connection. The library carries it as its net.Conn, which is how
// the hook finds it again.
type conn struct {
	*tls.Conn
	raw   *handshaker
	seat  *lobby.Seat            // until its certificate was verified
	cause atomic.Pointer[string] // why this side ended it, if it did
	slow  atomic.Bool            // that it reads too slowly is the cause

	// Set under Server.mu before the library sees the connection.
	name san.Name
	cert *x509.Certificate

	// Set at CONNECT and then owned by the library's reader of this connection.
	clientID  string
	version   byte // of MQTT
	session   bool
	bulk      bool
	maxPacket int
	meter     meter
	over      bool // the packet being processed is above the limit
	filters   int
}

// cut ends the connection from this side, at once: nothing that the other end
// still sends is taken.
func (c *conn) cut(reason string) {
	if c.cause.CompareAndSwap(nil, &reason) {
		_ = c.raw.Close() // its reader notices
	}
}

// hangUp ends the connection with a TLS goodbye, which can take seconds if the
// other end does not read. Some tools give up for good if it is missing.
func (c *conn) hangUp(reason string) {
	if c.cause.CompareAndSwap(nil, &reason) {
		_ = c.Close()
	}
}

// endSlow begins the end of a viewer that reads too slowly: the write that is
// under way is the last one.
func (c *conn) endSlow() {
	reason := errSlow.Error()
	if c.cause.CompareAndSwap(nil, &reason) {
		_ = c.SetWriteDeadline(time.Now().Add(slowPatience)) // fails on what has ended
		c.slow.Store(true)
	}
}

// Write is how the library sends whole packets, one call at a time. To a slow
// reader it sends that it is one, if its version of MQTT knows how, and ends.
func (c *conn) Write(b []byte) (int, error) {
	var (
		n   int
		err error
	)
	if !c.slow.Load() {
		n, err = c.Conn.Write(b)
	}
	if !c.slow.Load() {
		return n, err
	}
	if err == nil && c.version >= 5 {
		_, _ = c.Conn.Write([]byte{packets.Disconnect << 4, 2, packets.ErrQuotaExceeded.Code, 0}) // it ends either way
	}
	_ = c.Close()
	return n, errSlow
}

// accept takes connections until the listener fails or is closed.
func (s *Server) accept(ctx context.Context) error {
	for {
		// Behind the handshakes that wait for theirs: what comes faster than they are made waits with
		// the kernel, and not in the lobby, which would turn most of it away.
		s.turns.take(false)
		s.turns.give()
		plain, err := s.cfg.Listener.Accept()
		if err != nil {
			if ctx.Err() == nil && isTemporary(err) {
				pause(ctx, acceptPause)
				continue
			}
			return err
		}
		s.count.accepted.Add(1)
		raw := &handshaker{Conn: plain, turns: &s.turns}
		c := &conn{Conn: tls.Server(raw, s.cfg.TLS), raw: raw}
		if c.seat, err = s.cfg.Lobby.Enter(raw, s.cfg.HandshakeTimeout); err != nil {
			s.refuse(c, err)
			continue
		}
		s.register(c)
		s.wg.Go(func() { s.serve(c) })
	}
}

// isTemporary tells errors of one connection from those of the listener.
func isTemporary(err error) bool {
	var e interface{ Temporary() bool }
	return errors.As(err, &e) && e.Temporary()
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// register makes c known, so that from here on shutdown and revocation find it.
func (s *Server) register(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
}

// refuse closes a connection that has not become a session.
func (s *Server) refuse(c *conn, err error) {
	s.count.refused.Add(1)
	_ = c.raw.Close()
	if skipped, ok := s.noise.Pass(time.Since(s.begun)); ok {
		s.cfg.Logger.Warn("connection refused", slog.String("remote", c.raw.RemoteAddr().String()),
			slog.String("name", c.name.String()), slog.Int("more", skipped), slog.String("error", fmt.Sprintf("%.200s", err)))
	}
}

// serve carries one connection to its end.
func (s *Server) serve(c *conn) {
	defer s.forget(c)
	if s.closing.Load() { // registered after shutdown looked
		_ = c.raw.Close()
		return
	}
	// The library sets its own deadlines once it has accepted the CONNECT.
	if err := c.SetDeadline(time.Now().Add(s.cfg.HandshakeTimeout)); err != nil {
		s.refuse(c, err)
		return
	}
	if err := s.identify(c); err != nil {
		s.refuse(c, err)
		return
	}
	err := s.mqtt.EstablishConnection("", c)
	if !c.session {
		s.refuse(c, err)
		return
	}
	level := slog.LevelDebug
	if cause := c.cause.Load(); cause != nil {
		err = errors.New(*cause)
		level = slog.LevelInfo
		s.count.cut.Add(1)
	}
	s.cfg.Logger.Log(context.Background(), level, "client disconnected", slog.String("name", c.name.String()),
		slog.String("client_id", c.clientID), slog.Any("cause", err))
}

// identify does the TLS handshake and finds out who it is. The name is
// made known before Revoked is asked: a caller that revokes and then calls Recheck
// either finds the connection or has already changed the answer.
func (s *Server) identify(c *conn) error {
	err := c.Handshake()
	c.raw.over()
	if err != nil {
		s.count.handshakes.Add(1)
		return fmt.Errorf("TLS handshake: %w", err)
	}
	chain := c.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return errors.New("no client certificate")
	}
	name, err := nameOf(chain[0])
	if err != nil {
		return err
	}
	s.mu.Lock()
	full := s.known >= s.cfg.MaxConnections
	c.name, c.cert = name, chain[0]
	s.known++
	s.mu.Unlock()
	switch {
	case s.cfg.Revoked(chain[0]):
		return errRevoked
	case full:
		return errTooMany
	}
	c.seat.Leave()
	return nil
}

// attach makes c the session of its name and client id, in place of one
// that may be there, and returns its id within the library.
func (s *Server) attach(c *conn) (string, error) {
	key := clientKey{c.name, c.clientID}
	s.mu.Lock()
	old := s.sessions[key]
	if c.name.Kind == san.Viewer && old == nil && s.held[c.name] >= s.cfg.MaxPerViewer {
		s.mu.Unlock()
		return "", errTooMany
	}
	s.serial++
	id := c.name.String() + " " + strconv.FormatUint(s.serial, 10)
	s.sessions[key] = c
	s.held[c.name]++
	s.mu.Unlock()
	if old != nil {
		s.count.takenOver.Add(1)
		old.cut("taken over by a newer connection")
	}
	return id, nil
}

// forget ends the bookkeeping of c.
func (s *Server) forget(c *conn) {
	c.seat.Leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.cert != nil {
		s.known--
	}
	if !c.session {
		return
	}
	if key := (clientKey{c.name, c.clientID}); s.sessions[key] == c {
		delete(s.sessions, key)
	}
	if s.held[c.name]--; s.held[c.name] == 0 {
		delete(s.held, c.name)
	}
}
