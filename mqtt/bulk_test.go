package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/mqtt"
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
		return b.Run(ctx, mqtt.Session{Filters: []string{host + "in/+"}, Handle: handle})
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
		time.Sleep(time.Minute) // the attempt under way and its backoff
		s.Start()
		time.Sleep(time.Hour)
		if n := s.Broker().Stats().Accepted; n > 1 {
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

func TestBulkRefusesAWill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{})
		b, err := mqtt.NewBulk(config(s, "web1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Run(t.Context(), mqtt.Session{WillTopic: presence, Will: []byte("x")}); err == nil {
			t.Error("Run took a will")
		}
	})
}
