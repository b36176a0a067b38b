package mqtt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/mqtt"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

const (
	host     = "hostler/v1/testfleet/host/web1/"
	presence = host + "presence"
	order    = host + "order"
	report   = host + "report"
)

// inbox collects what arrives somewhere.
type inbox struct {
	mu   sync.Mutex
	list []string
}

func (b *inbox) add(topic string, payload []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, topic[strings.LastIndexByte(topic, '/')+1:]+" "+string(payload))
}

func (b *inbox) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list
}

func (b *inbox) ingest(topic string, payload []byte, _ san.Name) error {
	b.add(topic, payload)
	return nil
}

// start runs f until the test ends.
func start(t *testing.T, f func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { stop() })
	return stop
}

func config(s *brokertest.Server, id string) mqtt.Config {
	return mqtt.Config{Addresses: []string{"broker:8883"}, ClientID: id, Dial: s.Dialer(brokertest.Host(protocol.HostID(id)))}
}

func newClient(t *testing.T, cfg mqtt.Config) *mqtt.Client {
	t.Helper()
	c, err := mqtt.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// session says hello at each connection and leaves a will that names it.
func session(in *inbox) func(conn uint64) (mqtt.Opening, error) {
	return func(conn uint64) (mqtt.Opening, error) {
		return mqtt.Opening{
			WillTopic:    presence,
			Will:         fmt.Appendf(nil, "will %d", conn),
			WillRetained: true,
			Filters:      []string{order, "hostler/v1/testfleet/fleet/#"},
			Handle:       in.add,
			Up: func(publish func(string, []byte, bool) error) {
				if err := publish(presence, fmt.Appendf(nil, "hello %d", conn), true); err != nil {
					panic(err)
				}
			},
		}, nil
	}
}

func TestEachConnectionHasItsOwnWill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, down inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		c := newClient(t, config(s, "web1"))
		stop := start(t, func(ctx context.Context) error { return c.Run(ctx, session(&down)) })
		synctest.Wait()
		equal(t, "first connection", up.take(), "presence hello 1")

		for conn := 1; conn <= 3; conn++ {
			s.Cut(brokertest.Host("web1"))
			synctest.Wait()
			equal(t, "after a cut", up.take(), fmt.Sprintf("presence will %d", conn))
			time.Sleep(time.Minute) // longer than any backoff
			synctest.Wait()
			equal(t, "back again", up.take(), fmt.Sprintf("presence hello %d", conn+1))
		}

		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want context.Canceled", err)
		}
		synctest.Wait()
		equal(t, "an orderly end leaves no will", up.take())
	})
}

func TestGoodbyeIsWrittenBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, down inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		c := newClient(t, config(s, "web1"))
		stop := start(t, func(ctx context.Context) error { return c.Run(ctx, session(&down)) })
		synctest.Wait()
		for i := range 20 {
			if err := c.Publish(t.Context(), report, fmt.Append(nil, i), false); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Publish(t.Context(), presence, []byte("goodbye"), true); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		stop()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Run took %v to end", took)
		}
		synctest.Wait()
		got := up.take()
		if len(got) != 22 || got[21] != "presence goodbye" {
			t.Errorf("got %q, want hello, 20 reports and the goodbye", got)
		}
		if err := c.Publish(t.Context(), report, nil, false); !errors.Is(err, mqtt.ErrOffline) {
			t.Errorf("Publish after the end = %v, want ErrOffline", err)
		}
	})
}

func TestMessagesArriveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, down inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		if err := s.Broker().Publish("hostler/v1/testfleet/fleet/ring", []byte("ring 7"), true); err != nil {
			t.Fatal(err)
		}
		cfg := config(s, "web1")
		cfg.ReceiveBytes = 64 // at a time, not in total
		c := newClient(t, cfg)
		start(t, func(ctx context.Context) error { return c.Run(ctx, session(&down)) })
		synctest.Wait()
		equal(t, "retained document", down.take(), "ring ring 7")
		up.take()

		var want []string
		for i := range 200 {
			want = append(want, fmt.Sprintf("order %d", i))
			if err := s.Broker().Publish(order, fmt.Append(nil, i), false); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		equal(t, "down", down.take(), want...)

		want = nil
		for i := range 200 {
			want = append(want, fmt.Sprintf("report %d", i))
			if err := c.Publish(t.Context(), report, fmt.Append(nil, i), false); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		equal(t, "up", up.take(), want...)
	})
}

func TestReconnectsAfterBrokerRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, down inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		c := newClient(t, config(s, "web1"))
		start(t, func(ctx context.Context) error { return c.Run(ctx, session(&down)) })
		synctest.Wait()
		equal(t, "connected", up.take(), "presence hello 1")

		s.Stop()
		synctest.Wait()
		if err := c.Publish(t.Context(), report, nil, false); !errors.Is(err, mqtt.ErrOffline) {
			t.Errorf("Publish without a broker = %v, want ErrOffline", err)
		}
		time.Sleep(10 * time.Minute)
		equal(t, "a stopping broker publishes no wills", up.take())

		s.Start()
		time.Sleep(30 * time.Second) // the cap of the backoff
		synctest.Wait()
		got := up.take()
		if len(got) != 1 || !strings.HasPrefix(got[0], "presence hello ") {
			t.Errorf("after the restart: %q, want one hello", got)
		}
	})
}

// A line that swallows everything is noticed by both ends.
func TestHalfOpenConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, down inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		cfg := config(s, "web1")
		cfg.KeepAlive, cfg.PingTimeout = 20*time.Second, 5*time.Second
		c := newClient(t, cfg)
		start(t, func(ctx context.Context) error { return c.Run(ctx, session(&down)) })
		synctest.Wait()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		equal(t, "pings keep a silent connection", up.take(), "presence hello 1")

		s.Freeze(brokertest.Host("web1"))
		time.Sleep(20*time.Second + 5*time.Second + 10*time.Second + 30*time.Second)
		synctest.Wait()
		got := up.take()
		slices.Sort(got) // the broker may notice before or after the host is back
		equal(t, "will of the dead and hello of the new", got, "presence hello 2", "presence will 1")
	})
}

func TestOverflowEndsTheConnection(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit func(*mqtt.Config)
	}{
		{"messages", func(c *mqtt.Config) { c.ReceiveQueue = 10 }},
		{"bytes", func(c *mqtt.Config) { c.ReceiveBytes = 10 << 10 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := brokertest.New(t, broker.Config{})
				cfg := config(s, "web1")
				tc.limit(&cfg)
				var log logBuffer
				cfg.Logger = log.logger()
				c := newClient(t, cfg)
				release := make(chan struct{})
				conns := 0
				start(t, func(ctx context.Context) error {
					return c.Run(ctx, func(conn uint64) (mqtt.Opening, error) {
						conns = int(conn)
						return mqtt.Opening{Filters: []string{order}, Handle: func(string, []byte) {
							if conn == 1 {
								<-release
							}
						}}, nil
					})
				})
				synctest.Wait()
				for range 13 {
					if err := s.Broker().Publish(order, bytes.Repeat([]byte("x"), 1<<10), false); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				close(release)
				time.Sleep(time.Minute)
				synctest.Wait()
				if conns != 2 {
					t.Errorf("%d connections, want 2: the first must have ended", conns)
				}
				if !strings.Contains(log.String(), mqtt.ErrOverflow.Error()) {
					t.Errorf("log does not name the cause:\n%s", log.String())
				}
			})
		})
	}
}

func TestSizesAreCheckedBeforeSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, down inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		c := newClient(t, config(s, "web1"))
		start(t, func(ctx context.Context) error { return c.Run(ctx, session(&down)) })
		synctest.Wait()
		up.take()
		if err := c.Publish(t.Context(), report, make([]byte, 32<<10+1), false); !errors.Is(err, mqtt.ErrTooLarge) {
			t.Errorf("one byte too many: %v, want ErrTooLarge", err)
		}
		if err := c.Publish(t.Context(), report, make([]byte, 32<<10), false); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := len(up.take()); n != 1 {
			t.Errorf("%d messages arrived, want 1", n)
		}
	})
}

func TestSendQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		s := brokertest.New(t, broker.Config{Ingest: func(string, []byte, san.Name) error { <-block; return nil }})
		cfg := config(s, "web1")
		cfg.SendQueue = 5
		c := newClient(t, cfg)
		var queued int
		var full error
		start(t, func(ctx context.Context) error {
			return c.Run(ctx, func(uint64) (mqtt.Opening, error) {
				return mqtt.Opening{Up: func(publish func(string, []byte, bool) error) {
					for full == nil && queued < 1000 {
						if full = publish(report, make([]byte, 30<<10), false); full == nil {
							queued++
						}
					}
				}}, nil
			})
		})
		synctest.Wait()
		if !errors.Is(full, mqtt.ErrSendQueueFull) || queued < 5 {
			t.Errorf("%d queued, then %v, want ErrSendQueueFull", queued, full)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		for err == nil {
			err = c.Publish(ctx, report, make([]byte, 30<<10), false)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Publish on a full queue = %v, want the deadline", err)
		}
		close(block)
	})
}

// Each message takes longer than the library may take to accept one, but less
// than a write may take: as 32 KiB do at 9.6 kbit/s.
func TestSlowLineIsNotADeadOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up inbox
		s := brokertest.New(t, broker.Config{Ingest: func(topic string, payload []byte, _ san.Name) error {
			time.Sleep(20 * time.Second)
			up.add(topic, nil)
			return nil
		}})
		cfg := config(s, "web1")
		cfg.KeepAlive = 10 * time.Minute // a ping would wait behind the write for a lock of TLS, which stops a bubble's clock
		c := newClient(t, cfg)
		var conns atomic.Uint64
		start(t, func(ctx context.Context) error {
			return c.Run(ctx, func(conn uint64) (mqtt.Opening, error) {
				conns.Store(conn)
				return mqtt.Opening{}, nil
			})
		})
		synctest.Wait()
		for range 10 {
			if err := c.Publish(t.Context(), report, make([]byte, 32<<10), false); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := len(up.take()); n != 10 || conns.Load() != 1 {
			t.Errorf("%d of 10 messages over %d connections, want all over one", n, conns.Load())
		}
	})
}

func TestRefusedSubscriptionFailsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{})
		cfg := config(s, "web1")
		var log logBuffer
		cfg.Logger = log.logger()
		c := newClient(t, cfg)
		start(t, func(ctx context.Context) error {
			return c.Run(ctx, func(uint64) (mqtt.Opening, error) {
				return mqtt.Opening{
					Filters: []string{order, "hostler/v1/testfleet/host/web2/order"},
					Handle:  func(string, []byte) {},
					Up:      func(func(string, []byte, bool) error) { t.Error("Up without its subscriptions") },
				}, nil
			})
		})
		synctest.Wait()
		if !strings.Contains(log.String(), mqtt.ErrRefused.Error()) {
			t.Errorf("log does not name the cause:\n%s", log.String())
		}
	})
}

func TestRunEndsPromptly(t *testing.T) {
	silent := func(context.Context, string) (net.Conn, error) {
		a, b := net.Pipe()
		go func() { // the far end listens and says nothing, ever
			var buf [1 << 10]byte
			for {
				if _, err := b.Read(buf[:]); err != nil {
					return
				}
			}
		}()
		return a, nil
	}
	for _, tc := range []struct {
		name string
		dial func(context.Context, string) (net.Conn, error)
	}{
		{"while dialling", func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }},
		{"while waiting for CONNACK", silent},
		{"in backoff", func(context.Context, string) (net.Conn, error) { return nil, errors.New("no route") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, mqtt.Config{Addresses: []string{"a"}, ClientID: "web1", Dial: tc.dial, ConnectTimeout: time.Hour, BackoffBase: time.Hour, BackoffCap: time.Hour})
				stop := start(t, func(ctx context.Context) error {
					return c.Run(ctx, func(uint64) (mqtt.Opening, error) { return mqtt.Opening{}, nil })
				})
				synctest.Wait()
				began := time.Now()
				if err := stop(); !errors.Is(err, context.Canceled) {
					t.Errorf("Run = %v", err)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("Run took %v to end", took)
				}
			})
		})
	}
}

func TestAddressesAreTriedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{})
		good := s.Dialer(brokertest.Host("web1"))
		var tried []string
		cfg := config(s, "web1")
		cfg.Addresses = []string{"dead:1", "alive:1"}
		cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			tried = append(tried, address)
			if address == "dead:1" {
				return nil, errors.New("no route")
			}
			return good(ctx, address)
		}
		c := newClient(t, cfg)
		start(t, func(ctx context.Context) error {
			return c.Run(ctx, func(uint64) (mqtt.Opening, error) { return mqtt.Opening{}, nil })
		})
		time.Sleep(time.Minute)
		s.Cut(brokertest.Host("web1"))
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "one that worked is kept", tried, "dead:1", "alive:1", "alive:1")
	})
}

// The broker may send what nobody asked for.
func TestUnaskedMessagesAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, far := net.Pipe()
		go func() {
			var buf [1 << 10]byte
			if _, err := far.Read(buf[:]); err != nil {
				return
			}
			_, _ = far.Write([]byte{0x20, 2, 0, 0})         // CONNACK
			_, _ = far.Write([]byte{0x30, 4, 0, 1, 'a', 7}) // PUBLISH
			for {
				if _, err := far.Read(buf[:]); err != nil {
					return
				}
			}
		}()
		c := newClient(t, mqtt.Config{Addresses: []string{"a"}, ClientID: "x",
			Dial: func(context.Context, string) (net.Conn, error) { return client, nil }})
		start(t, func(ctx context.Context) error {
			return c.Run(ctx, func(uint64) (mqtt.Opening, error) { return mqtt.Opening{}, nil })
		})
		synctest.Wait()
		if err := c.Publish(t.Context(), "b", nil, false); err != nil {
			t.Errorf("Publish = %v: the connection did not survive", err)
		}
	})
}

func TestSessionErrorEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, mqtt.Config{Addresses: []string{"a"}, ClientID: "x", Dial: func(context.Context, string) (net.Conn, error) { return nil, errors.New("unused") }})
		broken := errors.New("cannot sign")
		err := c.Run(t.Context(), func(uint64) (mqtt.Opening, error) { return mqtt.Opening{}, broken })
		if !errors.Is(err, broken) {
			t.Errorf("Run = %v, want %v", err, broken)
		}
	})
}

func TestConfigIsValidated(t *testing.T) {
	good := mqtt.Config{Addresses: []string{"a"}, ClientID: "x", Dial: func(context.Context, string) (net.Conn, error) { return nil, nil }}
	if _, err := mqtt.New(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*mqtt.Config){
		"no broker address":  func(c *mqtt.Config) { c.Addresses = nil },
		"no client id":       func(c *mqtt.Config) { c.ClientID = "" },
		"neither TLS nor":    func(c *mqtt.Config) { c.Dial = nil },
		"number of seconds":  func(c *mqtt.Config) { c.KeepAlive = 1500 * time.Millisecond },
		"negative limit":     func(c *mqtt.Config) { c.SendQueue = -1 },
		"negative duration ": func(c *mqtt.Config) { c.Idle = -1 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := mqtt.New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := mqtt.NewBulk(cfg); err == nil {
			t.Errorf("%s: NewBulk took it", name)
		}
	}
}
