package attach_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/internal/attach"
	"github.com/hostler-io/hostler/terminal"
)

// away is a part in a session whose host is away until it begins.
type away struct {
	begin chan struct{}
	mu    sync.Mutex
	typed []string
}

func (a *away) Type(ctx context.Context, packet []byte) error {
	select {
	case <-a.begin:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p, err := terminal.ParsePacket(packet)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(p.Data) > 0 {
		a.typed = append(a.typed, string(p.Data))
	}
	return nil
}

func (a *away) Acks() <-chan int64 { return nil }

func (a *away) Read(ctx context.Context, _ func(int64, []byte) error) ([]byte, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// pipes is a listener on connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// connected runs a test with a peer that is connected to a part, on virtual time.
func connected(t *testing.T, test func(*testing.T, *attach.Conn, *away)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		part := &away{begin: make(chan struct{})}
		var wg sync.WaitGroup
		defer wg.Wait()
		l := make(pipes)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = attach.Serve(r.Context(), w, r, part) // the peer sees how it ends
		})}
		wg.Go(func() { _ = server.Serve(l) })
		defer server.Close()
		defer close(l)
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l <- there
			return here, nil
		}}
		defer transport.CloseIdleConnections()
		conn, _, err := attach.Dial(t.Context(), &http.Client{Transport: transport}, "http://host/attach", nil, attach.Wish{Peer: terminal.Peer{1}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		test(t, conn, part)
	})
}

// TestHostAway: somebody whose host is away stays connected, however long that
// takes, and what was typed first is there when the host is.
func TestHostAway(t *testing.T) {
	connected(t, func(t *testing.T, conn *attach.Conn, part *away) {
		lost := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { // ends with ctx, at the latest
			_, err := conn.Receive(ctx)
			lost <- err
		}()
		number, offset := uint64(0), int64(0)
		send := func(text string) {
			t.Helper()
			number++
			if err := conn.Send(t.Context(), terminal.Packet{Peer: terminal.Peer{1}, Number: number, Offset: offset, Data: []byte(text)}); err != nil {
				t.Fatal(err)
			}
			offset += int64(len(text))
		}
		send("ls")
		alive := time.NewTicker(terminal.AliveEvery)
		defer alive.Stop()
		for range 200 {
			select {
			case err := <-lost:
				t.Fatalf("the connection was lost: %v", err)
			case <-alive.C:
				send("")
			}
		}
		send("\n")
		synctest.Wait()
		close(part.begin)
		synctest.Wait()
		part.mu.Lock()
		defer part.mu.Unlock()
		if want := []string{"ls", "\n"}; !slices.Equal(part.typed, want) {
			t.Errorf("typed was %q, want %q", part.typed, want)
		}
		stop()
		<-lost
	})
}

// TestBabblerTakesNoMemory: of what is typed while the host is away no more than
// some packets are kept, and the peer is read on.
func TestBabblerTakesNoMemory(t *testing.T) {
	connected(t, func(t *testing.T, conn *attach.Conn, part *away) {
		for n := range int64(1000) {
			if err := conn.Send(t.Context(), terminal.Packet{Peer: terminal.Peer{1}, Number: uint64(n) + 1, Offset: n, Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(part.begin)
		synctest.Wait()
		part.mu.Lock()
		defer part.mu.Unlock()
		if n := len(part.typed); n < 1 || n > 100 {
			t.Errorf("%d packets were kept", n)
		}
	})
}
