package mqtt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

const (
	// handoverTimeout is how long the library may take to accept a message for
	// writing. The previous one is always written by then, so only a connection
	// that is being taken down needs any time at all.
	handoverTimeout = 5 * time.Second
	// drainTimeout is how long an orderly end waits for what is queued: a
	// goodbye should go out, a dead line should not hold up a shutdown.
	drainTimeout = 2 * time.Second
	// packetOverhead is the room for a topic and the variable header beside the
	// payload of a PUBLISH.
	packetOverhead = 1 << 10
	// maxWill is the longest will of MQTT 3.1.1, which counts it in two bytes.
	maxWill = 1<<16 - 1

	subackFailure = 0x80
)

// Opening is what the caller wants of one connection. It is made anew for each.
type Opening struct {
	// WillTopic, Will and WillRetained are what the broker publishes when the
	// connection ends without a goodbye. No will if the topic is empty.
	WillTopic    string
	Will         []byte
	WillRetained bool
	// Filters to subscribe to, at QoS 0.
	Filters []string
	// Handle is called for each message in order of arrival. It must not block.
	// The slice is the callee's to keep. Required if there are Filters.
	Handle func(topic string, payload []byte)
	// Up, if set, is called once, when the broker accepted the connection and
	// all subscriptions, before the first Handle and by the same goroutine. publish
	// sends on this very connection and returns ErrSendQueueFull instead of
	// waiting. Up must not block.
	Up func(publish func(topic string, payload []byte, retained bool) error)
}

func (s Opening) validate(cfg *Config) error {
	if s.Handle == nil && len(s.Filters) > 0 {
		return errors.New("filters without Handle")
	}
	if limit := min(cfg.MaxPublish, maxWill); len(s.Will) > limit {
		return fmt.Errorf("will of %d bytes: %w", len(s.Will), ErrTooLarge)
	}
	return nil
}

type message struct {
	topic    string
	payload  []byte
	retained bool
	back     func() // called when the payload is not used any more; may be nil
}

func (m message) done() {
	if m.back != nil {
		m.back()
	}
}

// link is one connection from CONNACK to its end. The library's goroutines feed
// recv and are fed from send by the two goroutines of serve.
type link struct {
	cfg     *Config
	session Opening
	conn    *guardConn
	client  paho.Client

	// ctx ends, with the reason as its cause, when the connection is over.
	ctx context.Context
	end context.CancelCauseFunc
	// gone is closed when nothing more can be written.
	gone chan struct{}

	send     chan message
	recv     chan message
	recvSize atomic.Int64 // bytes in recv
	unsent   atomic.Int64 // messages handed in and not yet written
	born     time.Time
	measured struct {
		sync.Mutex
		gauge *gauge
	}
	moved atomic.Int64 // when a message last arrived or was written: ns since born
}

// dial connects and subscribes. It returns when the session is established, or
// when ctx ends; nothing is left running after an error.
func dial(ctx context.Context, cfg *Config, clientID, address string, s Opening) (*link, error) {
	if err := s.validate(cfg); err != nil {
		return nil, err
	}
	begun := time.Now()
	dialCtx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	conn, err := cfg.Dial(dialCtx, address)
	if err != nil {
		return nil, fmt.Errorf("dialling broker %q: %w", address, err)
	}
	l := &link{
		cfg:     cfg,
		session: s,
		conn: &guardConn{
			Conn:         conn,
			maxPacket:    cfg.MaxReceive + packetOverhead,
			suback:       2 + len(s.Filters),
			writeTimeout: cfg.WriteTimeout,
			writing:      make(chan struct{}, 1),
		},
		born: time.Now(),
		gone: make(chan struct{}),
		send: make(chan message, cfg.SendQueue),
		recv: make(chan message, cfg.ReceiveQueue),
	}
	l.ctx, l.end = context.WithCancelCause(context.WithoutCancel(ctx))
	l.client = paho.NewClient(l.options(clientID))
	if err := l.establish(ctx); err != nil {
		l.end(err)
		l.close(false)
		return nil, fmt.Errorf("connecting to broker %q: %w", address, err)
	}
	l.measured.gauge = newGauge(time.Since(l.born), time.Since(begun))
	return l, nil
}

func (l *link) options(clientID string) *paho.ClientOptions {
	o := paho.NewClientOptions().
		AddBroker("tcp://broker"). // never dialled: the transport is open already
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) { return l.conn, nil }).
		SetClientID(clientID).
		SetProtocolVersion(4).
		SetCleanSession(true).
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetOrderMatters(true).
		SetKeepAlive(l.cfg.KeepAlive).
		SetPingTimeout(l.cfg.PingTimeout).
		SetConnectTimeout(l.cfg.ConnectTimeout).
		SetWriteTimeout(handoverTimeout).
		SetDefaultPublishHandler(l.receive).
		SetConnectionLostHandler(func(_ paho.Client, err error) {
			l.end(fmt.Errorf("connection lost: %w", err))
		})
	if l.session.WillTopic != "" {
		o.SetBinaryWill(l.session.WillTopic, l.session.Will, 1, l.session.WillRetained)
	}
	return o
}

// establish does the MQTT handshake and the subscriptions.
func (l *link) establish(ctx context.Context) error {
	if err := l.await(ctx, l.client.Connect(), l.cfg.ConnectTimeout); err != nil {
		return err
	}
	if len(l.session.Filters) == 0 {
		return nil
	}
	filters := make(map[string]byte, len(l.session.Filters))
	for _, f := range l.session.Filters {
		filters[f] = 0
	}
	if len(filters) != len(l.session.Filters) {
		return errors.New("a filter is given twice")
	}
	token := l.client.SubscribeMultiple(filters, nil)
	if err := l.await(ctx, token, l.cfg.ConnectTimeout); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	granted := token.(*paho.SubscribeToken).Result()
	for f := range filters {
		if code, ok := granted[f]; !ok || code >= subackFailure {
			return fmt.Errorf("subscribing to %q: %w", f, ErrRefused)
		}
	}
	return nil
}

// await waits for an answer of the broker. The library's own Wait can hang, and
// its WaitTimeout knows no context.
func (l *link) await(ctx context.Context, token paho.Token, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-token.Done():
		return token.Error()
	case <-timer.C:
		return ErrTimeout
	case <-l.gone:
		return context.Cause(l.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// serve carries messages until the connection ends or ctx does, takes everything
// down and returns the reason.
func (l *link) serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { l.end(errShutdown) })
	defer stop()
	written := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(l.dispatch)
	wg.Go(func() { defer close(written); l.transmit() })

	<-l.ctx.Done()
	if l.orderly() {
		drain := time.NewTimer(drainTimeout)
		defer drain.Stop()
		select {
		case <-written:
			l.close(true)
		case <-drain.C:
			l.close(false)
		}
	} else {
		l.close(false)
	}
	wg.Wait()
	return context.Cause(l.ctx)
}

// orderly tells an end that we wanted from one that happened to us: after the
// former the broker must not publish the will.
func (l *link) orderly() bool {
	cause := context.Cause(l.ctx)
	return cause == errShutdown || cause == errIdle
}

// close takes the connection down and waits for the library. With goodbye, a
// DISCONNECT is sent first, which makes the broker forget the will.
func (l *link) close(goodbye bool) {
	if goodbye {
		l.client.Disconnect(uint(drainTimeout.Milliseconds()))
	}
	close(l.gone)
	// What matters is that the library lets go of it; there is no one to tell
	// that a connection could not be closed well.
	_ = l.conn.Close()
	l.client.Disconnect(uint(handoverTimeout.Milliseconds()))
}

// receive runs on the library's reader. It must not wait.
func (l *link) receive(_ paho.Client, m paho.Message) {
	if l.session.Handle == nil {
		return // nothing was asked for
	}
	size := l.recvSize.Add(int64(len(m.Payload())))
	if size <= int64(l.cfg.ReceiveBytes) {
		select {
		case l.recv <- message{topic: m.Topic(), payload: m.Payload()}:
			return
		default:
		}
	}
	l.end(ErrOverflow)
}

// dispatch calls Up and then Handle for each message, in order.
func (l *link) dispatch() {
	if l.session.Up != nil {
		l.session.Up(l.offer)
	}
	for {
		select {
		case <-l.ctx.Done():
			return
		case m := <-l.recv:
			l.recvSize.Add(-int64(len(m.payload)))
			l.touch()
			l.session.Handle(m.topic, m.payload)
		}
	}
}

// transmit writes what was handed in, in order; at an orderly end also what is
// left.
func (l *link) transmit() {
	for {
		select {
		case m := <-l.send:
			err := l.write(m)
			m.done()
			if err != nil {
				l.end(err)
				return
			}
			continue
		case <-l.ctx.Done():
		}
		for l.orderly() {
			select {
			case m := <-l.send:
				err := l.write(m)
				m.done()
				if err != nil {
					return
				}
				continue
			default:
			}
			return
		}
		return
	}
}

// write sends one message and waits until it is written, a retained one until it
// is acknowledged. Waiting keeps the library's hand-over free, whose own wait
// cannot be interrupted.
func (l *link) write(m message) error {
	began := time.Since(l.born)
	if err := l.hand(m); err != nil {
		return fmt.Errorf("publishing to %q: %w", m.topic, err)
	}
	l.unsent.Add(-1)
	l.touch()
	l.measured.Lock()
	l.measured.gauge.wrote(len(m.payload), began, time.Since(l.born))
	l.conn.wide.Store(l.measured.gauge.rate() >= wideRate)
	l.measured.Unlock()
	return nil
}

func (l *link) hand(m message) error {
	if l.cfg.direct && !m.retained {
		if err := l.makeRoom(); err != nil {
			return err
		}
		return l.conn.publish(m.topic, m.payload)
	}
	var qos byte
	if m.retained {
		qos = 1
	}
	// The time of a write is that of each piece.
	patience := time.Duration(1+len(m.payload)/piece) * l.cfg.WriteTimeout
	return l.await(context.Background(), l.client.Publish(m.topic, qos, m.retained, m.payload), patience)
}

// pace returns how many bytes pass in a second, as far as is known, and how long
// what was handed in by now may be on its way.
func (l *link) pace() (second int, delay time.Duration) {
	l.measured.Lock()
	defer l.measured.Unlock()
	g := l.measured.gauge
	return int(min(g.rate(), 1<<30)), g.delay() + time.Duration(l.unsent.Load())*time.Second
}

// touch notes that something moved.
func (l *link) touch() { l.moved.Store(int64(time.Since(l.born))) }

// idle returns for how long nothing has moved.
func (l *link) idle() time.Duration {
	return time.Since(l.born) - time.Duration(l.moved.Load())
}

func (l *link) checkSize(topic string, payload []byte) error {
	if len(payload) > l.cfg.MaxPublish {
		return fmt.Errorf("publishing %d bytes to %q: %w", len(payload), topic, ErrTooLarge)
	}
	return nil
}

// offer queues a message or returns ErrSendQueueFull.
func (l *link) offer(topic string, payload []byte, retained bool) error {
	m := message{topic: topic, payload: payload, retained: retained}
	if err := l.checkSize(topic, payload); err != nil {
		return err
	}
	if l.ctx.Err() != nil {
		return ErrOffline
	}
	l.unsent.Add(1)
	select {
	case l.send <- m:
		return nil
	default:
		l.unsent.Add(-1)
		return ErrSendQueueFull
	}
}

// publish queues a message; it waits for room until ctx or the connection ends.
func (l *link) publish(ctx context.Context, m message) error {
	if err := l.checkSize(m.topic, m.payload); err != nil {
		return err
	}
	if l.ctx.Err() != nil {
		return ErrOffline
	}
	l.unsent.Add(1)
	select {
	case l.send <- m:
		return nil
	case <-l.ctx.Done():
		l.unsent.Add(-1)
		return ErrOffline
	case <-ctx.Done():
		l.unsent.Add(-1)
		return context.Cause(ctx)
	}
}
