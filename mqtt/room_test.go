package mqtt_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/mqtt"
)

// deep is a connection over a line of so many bytes a second, whose system takes
// whatever is written at once and lets nobody see but by asking.
type deep struct {
	net.Conn
	rate float64

	mu   sync.Mutex
	held float64 // bytes on their way
	at   time.Time
	most int
	dead bool // none of them arrives any more
}

func (d *deep) OnItsWay() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pass()
	return int(d.held)
}

// pass is called with mu held.
func (d *deep) pass() {
	if !d.dead {
		d.held = max(0, d.held-time.Since(d.at).Seconds()*d.rate)
	}
	d.at = time.Now()
}

func (d *deep) Write(b []byte) (int, error) {
	d.mu.Lock()
	d.pass()
	d.held += float64(len(b))
	d.most = max(d.most, int(d.held))
	d.mu.Unlock()
	return d.Conn.Write(b)
}

// overDeep lets cfg connect over such a line, and returns the newest connection.
func overDeep(cfg *mqtt.Config, rate float64) func() *deep {
	var newest *deep
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		select { // as long as its handshake takes
		case <-time.After(time.Duration(4<<10/rate*1000) * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		conn, err := dial(ctx, address)
		newest = &deep{Conn: conn, rate: rate, at: time.Now()}
		return newest, err
	}
	return func() *deep { return newest }
}

// TestBulkLeavesRoomOnASlowLine: of what is handed over, a slow line has a few
// seconds on its way, and a fast one whatever its system takes.
func TestBulkLeavesRoomOnASlowLine(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		chunk int
		most  int
	}{
		{1200, 1 << 10, 6 << 10},
		{8000, 8 << 10, 28 << 10},
		{10 << 20, 128 << 10, 20 * 130 << 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			var up inbox
			s := brokertest.New(t, broker.Config{Ingest: up.ingest})
			cfg := config(s, "web1")
			conn := overDeep(&cfg, c.rate)
			b := newBulk(t, cfg, func(string, []byte) {})
			for range 20 {
				if err := b.Publish(t.Context(), out, make([]byte, c.chunk)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := up.take(); len(got) != 20 {
				t.Errorf("%d of 20 chunks arrived", len(got))
			}
			if d := conn(); d.most > c.most {
				t.Errorf("at %.0f bytes a second %d were on their way, want %d at most", c.rate, d.most, c.most)
			}
		})
	}
}

// TestBulkFindsADeadSlowLine: what is on its way and never arrives ends the
// connection, as a write does that never ends.
func TestBulkFindsADeadSlowLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		cfg := config(s, "web1")
		conn := overDeep(&cfg, 1200)
		b := newBulk(t, cfg, func(string, []byte) {})
		if err := b.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := conn()
		first.mu.Lock()
		first.dead, first.held = true, 64<<10
		first.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 { // one that waits for room, one in the queue
			if err := b.Publish(ctx, out, make([]byte, 1<<10)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Publish(soon, out, make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if conn() == first {
			t.Error("the dead connection is still there")
		}
		if len(up.take()) == 0 {
			t.Error("nothing arrives by the next one")
		}
	})
}
