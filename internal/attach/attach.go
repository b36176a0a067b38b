// Package attach is the connection of one peer to an interactive session: a
// websocket whose messages package terminal describes. The coordinator and the
// agent serve it alike, and the command line connects.
//
//	GET /v1/actions/{id}/attach?peer=<16 hex digits>&offset=N[&read_only=true]
//
// What the terminal has printed comes from offset on; a negative one begins that
// many bytes before the present end. The connection may break at any time: the
// peer comes back under its name with the offset that it has come to, and sends
// what was not acknowledged.
package attach

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/hostler-io/hostler/terminal"
)

// Protocol is the name of the websocket's subprotocol. Another meaning of the
// messages would have another name.
const Protocol = "hostler.attach.v1"

// Limits of a connection.
const (
	// writePatience is how long the other side may take for one message. Who is
	// slower is disconnected and comes back: nothing is lost by that.
	writePatience = 30 * time.Second
	// pingEvery and pingPatience find a peer whose line is dead.
	pingEvery    = 10 * time.Second
	pingPatience = 20 * time.Second
	// typedAhead is how many packets wait while another one does.
	typedAhead = 64
	// maxTail is how far before the end a peer may begin, in bytes.
	maxTail = 1 << 20
)

// Wish is what a peer asks for.
type Wish struct {
	Peer     terminal.Peer
	Offset   int64
	ReadOnly bool
}

// ParseWish reads the query of a request.
func ParseWish(q url.Values) (w Wish, err error) {
	if w.Peer, err = terminal.ParsePeer(q.Get("peer")); err != nil {
		return w, fmt.Errorf("peer: %.40q is not 16 hexadecimal digits", q.Get("peer"))
	}
	if s := q.Get("offset"); s != "" {
		if w.Offset, err = strconv.ParseInt(s, 10, 64); err != nil || w.Offset < -maxTail {
			return w, fmt.Errorf("offset: %.40q is not a number from %d on", s, -maxTail)
		}
	}
	if s := q.Get("read_only"); s != "" {
		if w.ReadOnly, err = strconv.ParseBool(s); err != nil {
			return w, fmt.Errorf("read_only: %.40q is neither true nor false", s)
		}
	}
	return w, nil
}

func (w Wish) query() string {
	q := url.Values{"peer": {w.Peer.String()}, "offset": {strconv.FormatInt(w.Offset, 10)}}
	if w.ReadOnly {
		q.Set("read_only", "true")
	}
	return q.Encode()
}

// A Participant is a person in a session. Its methods are called from several
// goroutines.
type Participant interface {
	// Type takes a packet of the peer. It may wait, for a host that is away: what
	// comes meanwhile waits too, or is dropped and comes again.
	Type(ctx context.Context, packet []byte) error
	// Acks delivers how far the peer's stream was taken.
	Acks() <-chan int64
	// Read hands what the terminal prints to emit until the session has ended,
	// and returns how, as JSON.
	Read(ctx context.Context, emit func(offset int64, b []byte) error) ([]byte, error)
}

// ErrUpgrade tells that the request was none for a websocket. It was answered.
var ErrUpgrade = errors.New("not a websocket request")

// ErrDismissed, as the cause of a context that ends, tells the peer that it need
// not come back.
var ErrDismissed = errors.New("the peer is to go for good")

// Serve connects a peer to its part until one of them ends, or ctx does. A request
// that comes from a page of another origin is refused.
func Serve(ctx context.Context, w http.ResponseWriter, r *http.Request, p Participant) error {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{Protocol}, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUpgrade, err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(terminal.MaxMessage)
	if conn.Subprotocol() != Protocol {
		return conn.Close(websocket.StatusPolicyViolation, "the subprotocol "+Protocol+" is needed")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &served{conn: conn, part: p, typed: make(chan []byte, typedAhead)}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	// To stop reading breaks the connection, and a peer that broke the rules is to
	// be told so.
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	wg.Go(func() { cancel(s.read(reading)) })
	for _, f := range []func(context.Context) error{s.typing, s.acks, s.ping} {
		wg.Go(func() { cancel(f(ctx)) })
	}
	end, err := p.Read(ctx, func(offset int64, b []byte) error { return s.print(ctx, offset, b) })
	if err == nil {
		if err = s.send(ctx, terminal.Message{Kind: terminal.MessageEnd, Data: end}); err == nil {
			return conn.Close(websocket.StatusNormalClosure, "the session has ended")
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if !forGood(err) {
		stop()
	}
	return s.bye(err)
}

// served is a connection on the serving side.
type served struct {
	conn  *websocket.Conn
	part  Participant
	typed chan []byte // packets in their order
}

func (s *served) send(ctx context.Context, m terminal.Message) error {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageBinary, terminal.AppendMessage(nil, m))
}

// print sends what was printed, in as many messages as it takes.
func (s *served) print(ctx context.Context, offset int64, b []byte) error {
	for part := range slices.Chunk(b, terminal.MaxOutput) {
		if err := s.send(ctx, terminal.Message{Kind: terminal.MessageOutput, Offset: offset, Data: part}); err != nil {
			return err
		}
		offset += int64(len(part))
	}
	return nil
}

// errPeer is the end of a peer that does not speak as it should.
var errPeer = errors.New("the peer broke the rules")

// read reads on whatever the part does: with the messages come the answers to
// pings, and a peer that waits for a host would be taken for one that is gone.
func (s *served) read(ctx context.Context) error {
	for {
		typ, b, err := s.conn.Read(ctx)
		if err != nil {
			return err
		}
		m, err := terminal.ParseMessage(b)
		if err != nil || typ != websocket.MessageBinary || m.Kind != terminal.MessageTyped {
			return fmt.Errorf("%w: a message holds no typed input", errPeer)
		}
		if p, err := terminal.ParsePacket(m.Data); err == nil && len(p.Data) == 0 && len(s.typed) > 0 {
			continue // a sign of life, which what waits before it gives as well
		}
		select {
		case s.typed <- m.Data:
		default: // it was not acknowledged, so it comes again
		}
	}
}

// typing hands what was read to the part.
func (s *served) typing(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case packet := <-s.typed:
			if ctx.Err() != nil {
				continue // who is to go types nothing more
			}
			if err := s.part.Type(ctx, packet); err != nil {
				return fmt.Errorf("%w: %w", errPeer, err)
			}
		}
	}
}

func (s *served) acks(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case offset := <-s.part.Acks():
			if err := s.send(ctx, terminal.Message{Kind: terminal.MessageAck, Offset: offset}); err != nil {
				return err
			}
		}
	}
}

func (s *served) ping(ctx context.Context) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		patient, cancel := context.WithTimeout(ctx, pingPatience)
		err := s.conn.Ping(patient)
		cancel()
		if err != nil {
			return err
		}
	}
}

// forGood reports whether an end is none after which the peer may come back.
func forGood(err error) bool { return errors.Is(err, errPeer) || errors.Is(err, ErrDismissed) }

// bye tells the peer why its connection ends, if it can still be told.
func (s *served) bye(err error) error {
	status := websocket.StatusGoingAway // it may come back
	switch {
	case forGood(err):
		status = websocket.StatusPolicyViolation
	case websocket.CloseStatus(err) != -1:
		return nil // it has gone by itself
	}
	text := err.Error()
	_ = s.conn.Close(status, text[:min(len(text), maxReason)]) // it may be gone
	return err
}

// maxReason is how long the reason of a close frame may be, in bytes.
const maxReason = 120

// Conn is a peer's connection. Send and Receive may be used at the same time, each
// by one goroutine.
type Conn struct{ ws *websocket.Conn }

// Dial connects a peer. The client's transport must not speak HTTP/2. An answer
// that is none of a websocket is returned with the error.
func Dial(ctx context.Context, client *http.Client, address string, header http.Header, w Wish) (*Conn, *http.Response, error) {
	ws, resp, err := websocket.Dial(ctx, address+"?"+w.query(), &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: header, Subprotocols: []string{Protocol}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, resp, err
	}
	ws.SetReadLimit(terminal.MaxMessage)
	return &Conn{ws}, nil, nil
}

// Send sends a packet of the peer.
func (c *Conn) Send(ctx context.Context, p terminal.Packet) error {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageBinary, terminal.AppendMessage(nil, terminal.Message{Kind: terminal.MessageTyped, Data: terminal.AppendPacket(nil, p)}))
}

// Ping waits until the other side has answered. Receive must be under way meanwhile.
func (c *Conn) Ping(ctx context.Context) error { return c.ws.Ping(ctx) }

// Receive waits for the next message.
func (c *Conn) Receive(ctx context.Context) (terminal.Message, error) {
	_, b, err := c.ws.Read(ctx)
	if err != nil {
		return terminal.Message{}, err
	}
	return terminal.ParseMessage(b)
}

// Refused reports whether an error of Receive says that this peer need not come
// back, and why.
func Refused(err error) (why string, yes bool) {
	e, ok := errors.AsType[websocket.CloseError](err)
	if !ok || e.Code != websocket.StatusPolicyViolation {
		return "", false
	}
	return e.Reason, true
}

// Close ends the connection without waiting for the other side.
func (c *Conn) Close() error { return c.ws.CloseNow() }
