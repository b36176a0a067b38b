// Package mqtt carries bytes over MQTT 3.1.1. It knows topics as strings and
// payloads as byte slices, and nothing of what they mean.
//
// There are two ways to be connected:
//
//   - [Client] wants to be connected always. Each connection is a new client of
//     the library with a will of its own, made by the caller for that
//     connection: the library's own reconnect would send the bytes of the first
//     will again, and a receiver that orders messages would take the last word
//     of a dead connection for an old one.
//   - [Bulk] is connected while there is something to carry and hangs up when it
//     was idle for a while. Large payloads go here, so that on a slow line they
//     never stand before a lease on the other connection.
//
// Nothing here promises delivery. A message that was handed over may be lost
// with its connection; what must arrive is repeated by its sender until the
// receiver has said so in a message of its own. That is why QoS 0 is enough for
// almost everything, why sessions are clean, and why a full queue may simply end
// the connection.
//
// This is the only package that imports the paho library.
package mqtt

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

var (
	// ErrOffline says that there is no connection now.
	ErrOffline = errors.New("not connected to the broker")
	// ErrTooLarge says that a payload is above the configured size; it was not
	// sent. As the cause of an ended connection: the broker sent such a packet.
	ErrTooLarge = errors.New("message too large")
	// ErrSendQueueFull says that a message was not taken because the connection
	// is slower than its senders.
	ErrSendQueueFull = errors.New("send queue is full")
	// ErrOverflow is the cause of a connection that ended because its handler
	// was slower than the broker.
	ErrOverflow = errors.New("receive queue overflowed")
	// ErrRefused says that the broker refused a subscription.
	ErrRefused = errors.New("subscription refused")
	// ErrTimeout says that the broker did not answer, or did not take bytes, in
	// time.
	ErrTimeout = errors.New("broker did not answer in time")

	errIdle     = errors.New("idle")
	errShutdown = errors.New("shutting down")
)

// BulkSuffix is appended to [Config.ClientID] by [NewBulk], so that one
// certificate can hold two connections.
const BulkSuffix = "~bulk"

// Config says how to reach the broker and within which limits. Zero values mean
// the default named at each field.
type Config struct {
	// Addresses of the broker as host:port. One is used until it fails, then the
	// next. Required.
	Addresses []string
	// TLS is the client's side of mutual TLS. Required, unless Dial is set.
	TLS *tls.Config
	// Dial opens the transport, TLS included, and must honour ctx. Default: TCP
	// and TLS. Tests put a line in memory here.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// ClientID names this client to the broker. Required, and for hosts equal to
	// the id in the certificate.
	ClientID string

	// KeepAlive is the longest silence before a ping; whole seconds. The broker
	// gives a silent client up after 1.5 times this, so it bounds how late a will
	// comes. Default 30 s: half of what most NATs and firewalls forget within.
	KeepAlive time.Duration
	// PingTimeout is how long an answer to a ping may take. Default 10 s.
	PingTimeout time.Duration
	// ConnectTimeout bounds dialling, the TLS and MQTT handshakes and the
	// subscriptions, each. Default 20 s: a full handshake takes 6 s at 9.6 kbit/s.
	ConnectTimeout time.Duration
	// WriteTimeout bounds the time in which nothing is written, and the wait for
	// the acknowledgement of a retained message. Default 30 s.
	WriteTimeout time.Duration

	// MaxPublish is the largest payload that is sent, in bytes. Default 32 KiB;
	// for Bulk 544 KiB, a chunk of 512 KiB with room for its envelope.
	MaxPublish int
	// MaxReceive is the largest payload that is taken, in bytes; a larger one
	// ends the connection before it is read. Default 256 KiB, the largest of the
	// retained documents; for Bulk 544 KiB.
	MaxReceive int
	// SendQueue is how many messages may wait to be written. Default 64; for
	// Bulk 1: its senders wait, and cut what comes next to the line as it is then.
	SendQueue int
	// ReceiveQueue is how many messages may wait to be handled. Default 1024.
	ReceiveQueue int
	// ReceiveBytes is how many bytes of payload may wait to be handled. Default
	// 4 MiB, twice the largest window of chunks.
	ReceiveBytes int

	// BackoffBase is the upper bound of the first wait after a failure. Default
	// 1 s: one host is back at once, ten thousand come spread over a second.
	BackoffBase time.Duration
	// BackoffCap is the upper bound of any wait. Default 10 s: a line that healed is
	// found long before a lease runs out, and while the user of a session still waits.
	BackoffCap time.Duration
	// StableAfter is how long a connection must have been up for the next
	// failure to count as the first. Default 10 s. Without it a broker that
	// accepts and drops would be dialled at the shortest wait for ever.
	StableAfter time.Duration
	// Idle is how long Bulk stays connected without traffic. Default 30 s.
	Idle time.Duration

	// direct has messages of QoS 0 written without the library, which then does not
	// know of them: it pings at each KeepAlive.
	direct bool

	// Logger hears of connections that came and went. Default: none.
	Logger *slog.Logger
}

func (cfg Config) withDefaults() Config {
	cfg.KeepAlive = cmp.Or(cfg.KeepAlive, 30*time.Second)
	cfg.PingTimeout = cmp.Or(cfg.PingTimeout, 10*time.Second)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 20*time.Second)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, 30*time.Second)
	cfg.MaxPublish = cmp.Or(cfg.MaxPublish, 32<<10)
	cfg.MaxReceive = cmp.Or(cfg.MaxReceive, 256<<10)
	cfg.SendQueue = cmp.Or(cfg.SendQueue, 64)
	cfg.ReceiveQueue = cmp.Or(cfg.ReceiveQueue, 1024)
	cfg.ReceiveBytes = cmp.Or(cfg.ReceiveBytes, 4<<20)
	cfg.BackoffBase = cmp.Or(cfg.BackoffBase, time.Second)
	cfg.BackoffCap = cmp.Or(cfg.BackoffCap, 10*time.Second)
	cfg.StableAfter = cmp.Or(cfg.StableAfter, 10*time.Second)
	cfg.Idle = cmp.Or(cfg.Idle, 30*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Dial == nil {
		dialer := &tls.Dialer{NetDialer: Dialer(), Config: cfg.TLS}
		cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	return cfg
}

// Dialer is what makes the connections if Config.Dial is not set: plain TCP, of
// which little waits in the system for its turn on a slow line.
func Dialer() *net.Dialer { return &net.Dialer{Control: tune} }

func (cfg Config) validate() error {
	if len(cfg.Addresses) == 0 {
		return errors.New("no broker address")
	}
	if cfg.TLS == nil && cfg.Dial == nil {
		return errors.New("neither TLS nor Dial is set")
	}
	if cfg.ClientID == "" {
		return errors.New("no client id")
	}
	if cfg.KeepAlive%time.Second != 0 || cfg.KeepAlive < 0 {
		return fmt.Errorf("keep-alive %v is not a number of seconds", cfg.KeepAlive)
	}
	for _, n := range []int{cfg.MaxPublish, cfg.MaxReceive, cfg.SendQueue, cfg.ReceiveQueue, cfg.ReceiveBytes} {
		if n < 0 {
			return fmt.Errorf("negative limit %d", n)
		}
	}
	for _, d := range []time.Duration{cfg.PingTimeout, cfg.ConnectTimeout, cfg.WriteTimeout, cfg.BackoffBase, cfg.BackoffCap, cfg.StableAfter, cfg.Idle} {
		if d < 0 {
			return fmt.Errorf("negative duration %v", d)
		}
	}
	return nil
}
