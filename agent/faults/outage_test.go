package faults

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
)

// TestOutage: an outage closes the open connections, lets none be made, and ends by itself,
// also if a dial waits for that.
func TestOutage(t *testing.T) {
	var o Outage
	dials := 0
	dial := o.Dialer(func(context.Context, string) (net.Conn, error) {
		dials++
		near, far := net.Pipe()
		t.Cleanup(func() { far.Close() })
		return near, nil
	})
	first, err := dial(t.Context(), "broker")
	if err != nil {
		t.Fatal(err)
	}
	closed, err := dial(t.Context(), "broker")
	if err != nil || closed.Close() != nil || len(o.conns) != 1 {
		t.Fatalf("%d connections are held: %v", len(o.conns), err)
	}

	const lasts = 300 * time.Millisecond
	end := clock.BootMS() + lasts.Milliseconds()
	if err := o.Begin(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("the connection of before is open")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dial(ended, "broker"); err == nil || !strings.Contains(err.Error(), "ends by itself") {
		t.Errorf("a connection during the outage: %v", err)
	}
	if dials != 2 {
		t.Errorf("%d connections were tried", dials)
	}
	if _, err := dial(t.Context(), "broker"); err != nil {
		t.Fatal(err)
	}
	if now := clock.BootMS(); now < end {
		t.Errorf("there is a connection %d ms before the end", end-now)
	}
	if err := o.Err(); err != nil {
		t.Error(err)
	}
}

// TestOutageBeginsWhileDialling: a connection that was being made is closed.
func TestOutageBeginsWhileDialling(t *testing.T) {
	var o Outage
	near, far := net.Pipe()
	defer far.Close()
	dial := o.Dialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return near, o.Begin(ctx, clock.BootMS()+time.Minute.Milliseconds())
	})
	if _, err := dial(t.Context(), "broker"); err == nil {
		t.Error("there is a connection")
	}
	if _, err := near.Read(make([]byte, 1)); err == nil {
		t.Error("it is open")
	}
}
