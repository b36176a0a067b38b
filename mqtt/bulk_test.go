package mqtt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/mqtt"
	"github.com/hostler-io/hostler/protocol/san"
)

const (
	action = "01890a5d-ac96-774b-bcce-b302099a8057"
	out    = host + "out/" + action
	in     = host + "in/" + action
)

func newBulk(t *testing.T, cfg mqtt.Config, handle func(string, []byte)) *mqtt.Bulk {
	t.Helper()
	b, err := mqtt.NewBulk(cfg)
	if err != nil {
		t.Fatal(err)
	}
	start(t, func(ctx context.Context) error {
		return b.Run(ctx, mqtt.Opening{Filters: []string{host + "in/+"}, Handle: handle})
	})
	return b
}

func TestBulkConnectsOnDemandAndHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, down inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		b := newBulk(t, config(s, "web1"), down.add)
		sessions := func() int { synctest.Wait(); return s.Broker().Stats().Sessions }

		time.Sleep(time.Hour)
		if n := s.Broker().Stats().Accepted; n != 0 {
			t.Fatalf("%d connections without demand", n)
		}
		big := make([]byte, 128<<10)
		if err := b.Publish(t.Context(), out, big); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := up.take(); len(got) != 1 || len(got[0]) < 128<<10 {
			t.Fatalf("%d messages arrived", len(got))
		}

		// Traffic in either direction keeps it.
		for range 5 {
			time.Sleep(25 * time.Second)
			if err := s.Broker().Publish(in, []byte("stdin"), false); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, "input", func() []string { synctest.Wait(); return down.take() }(),
			action+" stdin", action+" stdin", action+" stdin", action+" stdin", action+" stdin")
		time.Sleep(29 * time.Second)
		if n := sessions(); n != 1 {
			t.Fatalf("%d sessions before the idle time, want 1", n)
		}
		time.Sleep(2 * time.Second)
		if n := sessions(); n != 0 {
			t.Fatalf("%d sessions after the idle time, want 0", n)
		}
		time.Sleep(time.Hour)
		if n := s.Broker().Stats().Accepted; n != 1 {
			t.Fatalf("%d connections, want 1: it came back without demand", n)
		}

		if err := b.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := sessions(); n != 1 {
			t.Fatalf("%d sessions after Connect, want 1", n)
		}
	})
}

func TestBulkPublishWaitsForTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		s.Stop()
		b := newBulk(t, config(s, "web1"), func(string, []byte) {})

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Publish(ctx, out, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Publish without a broker = %v, want the deadline", err)
		}
		done := make(chan error, 1)
		go func() { done <- b.Publish(t.Context(), out, []byte("chunk")) }()
		time.Sleep(time.Minute)
		s.Start()
		time.Sleep(time.Minute)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, "chunk", up.take(), action+" chunk")
	})
}

// After the last sender has given up, nobody dials for nothing.
func TestBulkStopsDiallingWithoutSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{})
		s.Stop()
		b := newBulk(t, config(s, "web1"), func(string, []byte) {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Connect(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Connect = %v", err)
		}
		s.Start()
		time.Sleep(time.Hour)
		if n := s.Broker().Stats().Accepted; n != 0 {
			t.Errorf("%d connections although nobody wanted one", n)
		}
	})
}

func TestBulkSendersSurviveACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		b := newBulk(t, config(s, "web1"), func(string, []byte) {})
		for i := range 50 {
			if i == 25 {
				s.Cut(brokertest.Host("web1"))
				synctest.Wait()
			}
			if err := b.Publish(t.Context(), out, fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if got := up.take(); len(got) != 50 {
			t.Errorf("%d of 50 chunks arrived", len(got))
		}
	})
}

// A sender that waits for room is carried over to the next connection.
func TestBulkSenderWaitingForRoomSurvivesACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up inbox
		hang := make(chan struct{})
		s := brokertest.New(t, broker.Config{Ingest: func(topic string, payload []byte, _ san.Name) error {
			<-hang
			up.add(topic, payload[:2])
			return nil
		}})
		b := newBulk(t, config(s, "web1"), func(string, []byte) {})
		done := make(chan error, 1)
		go func() {
			for i := range 20 { // more than the queue and the line hold
				if err := b.Publish(t.Context(), out, append(fmt.Appendf(nil, "%02d", i), make([]byte, 64<<10)...)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		synctest.Wait()
		s.Cut(brokertest.Host("web1"))
		close(hang)
		if err := <-done; err != nil {
			t.Fatalf("Publish = %v", err)
		}
		synctest.Wait()
		got := up.take()
		if n := len(got); n < 10 || got[n-1] != action+" 19" {
			t.Errorf("arrived: %q, want the last chunk too", got)
		}
	})
}

// A connection on which a sender waits is not idle, however slow it is.
func TestBulkIsNotIdleWhileASenderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up inbox
		hang := make(chan struct{})
		s := brokertest.New(t, broker.Config{Ingest: func(topic string, payload []byte, _ san.Name) error {
			<-hang
			up.add(topic, nil)
			return nil
		}})
		cfg := config(s, "web1")
		cfg.WriteTimeout, cfg.KeepAlive = time.Hour, time.Minute*10
		b := newBulk(t, cfg, func(string, []byte) {})
		done := make(chan error, 1)
		go func() {
			var err error
			for i := 0; i < 20 && err == nil; i++ {
				err = b.Publish(t.Context(), out, make([]byte, 64<<10))
			}
			done <- err
		}()
		time.Sleep(5 * time.Minute)
		close(hang)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n, conns := len(up.take()), s.Broker().Stats().Accepted; n != 20 || conns != 1 {
			t.Errorf("%d of 20 chunks over %d connections, want all over one", n, conns)
		}
	})
}

// TestBulkCarriesAnySize: what is written beside the library arrives as it is,
// whatever its length takes to tell, and beside what the library writes.
func TestBulkCarriesAnySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrived := make(chan []byte, 1)
		s := brokertest.New(t, broker.Config{Ingest: func(_ string, payload []byte, _ san.Name) error {
			arrived <- payload
			return nil
		}})
		b := newBulk(t, config(s, "web1"), func(string, []byte) {})
		long := make([]byte, 516<<10)
		for i := range long {
			long[i] = byte(i*7 + i>>8)
		}
		for _, n := range []int{0, 1, 127 - 2 - len(out), 128 - 2 - len(out), 8<<10 - 1, 8 << 10, 16<<10 - 2 - len(out), 64<<10 + 1, len(long)} {
			if err := b.Publish(t.Context(), out, long[:n]); err != nil {
				t.Fatal(err)
			}
			if got := <-arrived; !bytes.Equal(got, long[:n]) {
				t.Errorf("of %d bytes %d arrived, or others", n, len(got))
			}
			time.Sleep(11 * time.Second) // idle after 30 s; the library looks every 5 s whether to ping
		}
	})
}

// TestBulkGivesBack: who lends a payload may change it when it comes back, and what
// arrives is what was lent.
func TestBulkGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum atomic.Int64
		s := brokertest.New(t, broker.Config{Ingest: func(_ string, payload []byte, _ san.Name) error {
			if bytes.Count(payload, payload[:1]) != len(payload) {
				t.Error("a payload was changed on its way")
			}
			sum.Add(int64(payload[0]))
			return nil
		}})
		b := newBulk(t, config(s, "web1"), func(string, []byte) {})
		free := make(chan []byte, 3)
		for range cap(free) {
			free <- make([]byte, 100<<10)
		}
		for i := range 100 {
			p := <-free
			for j := range p {
				p[j] = byte(i)
			}
			if err := b.Lend(t.Context(), out, p, func() { free <- p }); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := sum.Load(); n != 99*50 || len(free) != cap(free) {
			t.Errorf("the sum of what arrived is %d, %d payloads came back", n, len(free))
		}
	})
}

func TestBulkRefusesAWill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{})
		b, err := mqtt.NewBulk(config(s, "web1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Run(t.Context(), mqtt.Opening{WillTopic: presence, Will: []byte("x")}); err == nil {
			t.Error("Run took a will")
		}
	})
}

// TestBulkPace: whoever cuts messages to the line learns which one it is, and
// that little passes a slow one.
func TestBulkPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		s := brokertest.New(t, broker.Config{Ingest: func(string, []byte, san.Name) error {
			if slow.Load() {
				time.Sleep(32 * time.Second)
			}
			return nil
		}})
		b := newBulk(t, config(s, "web1"), func(string, []byte) {})
		pace := func() (uint64, int, time.Duration) {
			t.Helper()
			conn, second, delay, err := b.Pace(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return conn, second, delay
		}
		if conn, second, delay := pace(); conn != 1 || second < 128<<10 || delay > time.Second {
			t.Errorf("at first: connection %d, %d bytes a second, %v", conn, second, delay)
		}
		slow.Store(true)
		for range 40 {
			if err := b.Publish(t.Context(), out, make([]byte, 32<<10)); err != nil {
				t.Fatal(err)
			}
		}
		if _, second, delay := pace(); second < 500 || second > 4<<10 || delay < 10*time.Second {
			t.Errorf("1 KiB a second: %d bytes a second, %v on their way", second, delay)
		}
		slow.Store(false)
		s.Cut(brokertest.Host("web1"))
		time.Sleep(2 * time.Minute)
		if conn, _, _ := pace(); conn != 2 {
			t.Errorf("after a cut: connection %d", conn)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.Stop()
		time.Sleep(time.Second)
		if _, _, _, err := b.Pace(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a broker: %v", err)
		}
	})
}
