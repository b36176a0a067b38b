package mqtt_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/mqtt"
	"github.com/hostler-io/hostler/protocol/san"
)

// The default way to connect: TCP and mutual TLS, without a seam.
func TestOverTCPAndTLS(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan string, 10)
	authority := brokertest.NewAuthority(t)
	b, err := broker.New(broker.Config{
		Fleet: brokertest.Fleet, Listener: ln, TLS: authority.Server(t),
		Ingest: func(_ string, payload []byte, from san.Name) error {
			arrived <- from.String() + " " + string(payload)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, b.Run)

	cfg := mqtt.Config{Addresses: []string{ln.Addr().String()}, TLS: authority.Client(t, brokertest.Host("web1")), ClientID: "web1"}
	down := make(chan string, 10)
	c := newClient(t, cfg)
	stop := start(t, func(ctx context.Context) error {
		return c.Run(ctx, func(uint64) (mqtt.Opening, error) {
			return mqtt.Opening{
				Filters: []string{order},
				Handle:  func(_ string, payload []byte) { down <- string(payload) },
				Up:      func(publish func(string, []byte, bool) error) { _ = publish(presence, []byte("hello"), true) },
			}, nil
		})
	})
	bulk := newBulk(t, cfg, func(string, []byte) {})
	if got := <-arrived; got != "hostler:host/web1 hello" {
		t.Errorf("up: %q", got)
	}
	if err := b.Publish(order, []byte("do it"), false); err != nil {
		t.Fatal(err)
	}
	if got := <-down; got != "do it" {
		t.Errorf("down: %q", got)
	}
	if err := bulk.Publish(t.Context(), out, []byte("chunk")); err != nil {
		t.Fatal(err)
	}
	if got := <-arrived; got != "hostler:host/web1 chunk" {
		t.Errorf("bulk: %q", got)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

// A broker whose certificate does not verify is not spoken to.
func TestStrangeBrokerIsNotTrusted(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stranger := brokertest.NewAuthority(t)
	b, err := broker.New(broker.Config{Fleet: brokertest.Fleet, Listener: ln, TLS: stranger.Server(t),
		Ingest: func(string, []byte, san.Name) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	start(t, b.Run)
	authority := brokertest.NewAuthority(t)
	c := newClient(t, mqtt.Config{Addresses: []string{ln.Addr().String()}, TLS: authority.Client(t, brokertest.Host("web1")), ClientID: "web1"})
	attempts := make(chan uint64, 100)
	start(t, func(ctx context.Context) error {
		return c.Run(ctx, func(conn uint64) (mqtt.Opening, error) {
			attempts <- conn
			return mqtt.Opening{Up: func(func(string, []byte, bool) error) { t.Error("connected") }}, nil
		})
	})
	<-attempts
	<-attempts // the second follows a failed first
	if n := b.Stats().Sessions; n != 0 {
		t.Errorf("%d sessions", n)
	}
}
