package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestConnectIsTriedAgain: a network that swallows packets for a while is found soon
// after it is back, and one that never answers is given up.
func TestConnectIsTriedAgain(t *testing.T) {
	const bound = 30 * time.Second
	for name, c := range map[string]struct {
		back, took time.Duration // from then on a try is answered, after this time
		want       time.Duration
		fails      bool
	}{
		"at once":      {0, 0, 0, false},
		"after a loss": {5 * time.Second, 0, 12 * time.Second, false},
		"a slow line":  {0, 13 * time.Second, 25 * time.Second, false},
		"never":        {time.Hour, 0, bound, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				here, _ := net.Pipe()
				d := &dialer{bound: bound, connect: func(ctx context.Context, _, _ string) (net.Conn, error) {
					answer := time.After(c.took)
					if time.Since(begin) < c.back {
						answer = nil
					}
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-answer:
						return here, nil
					}
				}}
				conn, err := d.dial(t.Context(), "tcp", "there:1")
				if (err != nil) != c.fails || (conn != nil) == c.fails {
					t.Errorf("dial: %v, %v", conn, err)
				}
				if got := time.Since(begin); got != c.want {
					t.Errorf("it took %v, want %v", got, c.want)
				}
			})
		})
	}
}

// mute is a connection whose packets are lost from some time on.
type mute struct {
	net.Conn
	lost <-chan struct{}
}

func (m *mute) Write(b []byte) (int, error) {
	select {
	case <-m.lost:
		return len(b), nil
	default:
		return m.Conn.Write(b)
	}
}

// pipes is a listener of connections in memory.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	end   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.end) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// TestSilentConnectionEnds: a stream on a connection that lost its network breaks off,
// so that its reader tries again, and one that is only quiet goes on.
func TestSilentConnectionEnds(t *testing.T) {
	made := httptest.NewUnstartedServer(nil)
	made.StartTLS()
	made.Close()
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), end: make(chan struct{})}
		opened := make(chan struct{})
		server := &http.Server{
			TLSConfig: &tls.Config{Certificates: made.TLS.Certificates, NextProtos: []string{"h2"}},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				close(opened)
				<-r.Context().Done()
			}),
		}
		served := make(chan error)
		go func() { served <- server.ServeTLS(l, "", "") }() // until it is closed, below
		c, err := New(Config{Address: "https://example.com:1", CA: made.Certificate().Raw})
		if err != nil {
			t.Fatal(err)
		}
		lost := make(chan struct{})
		transport := c.http.Transport.(*http.Transport)
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l.conns <- there
			return &mute{here, lost}, nil
		}
		ended := make(chan error, 1)
		go func() {
			_, err := c.stream(t.Context(), "/v1/events", nil, nil)
			ended <- err
		}()
		<-opened
		select {
		case err := <-ended:
			t.Errorf("a quiet stream ended: %v", err)
		case <-time.After(10 * time.Minute):
		}
		close(lost)
		begin := time.Now()
		err = <-ended
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("it ended with %v, want %v", err, ErrUnreachable)
		}
		if took := time.Since(begin); took > pingAfter+pingTime {
			t.Errorf("it ended after %v, want %v at most", took, pingAfter+pingTime)
		}
		_ = server.Close()
		transport.CloseIdleConnections()
		<-served
	})
}
