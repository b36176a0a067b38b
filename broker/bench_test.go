package broker_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// BenchmarkIngest measures the way of a message from the socket to Ingest: TLS,
// the library, rate, rights. Per operation: one message, of eight connections
// that send as fast as they can.
func BenchmarkIngest(b *testing.B) {
	for _, size := range []int{400, 2 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) { benchIngest(b, size) })
	}
}

func benchIngest(b *testing.B, size int) {
	const hosts = 8
	var seen atomic.Int64
	total := int64(b.N)
	all := make(chan struct{})
	s := newSite(b, func(cfg *broker.Config) {
		cfg.Limit = broker.Limit{Messages: 1e9, Bytes: 1 << 40, Burst: time.Second, Flood: time.Second}
		cfg.Ingest = func(string, []byte, san.Name) error {
			if seen.Add(1) == total {
				close(all)
			}
			return nil
		}
	})
	conns := make([]*tls.Conn, hosts)
	for i := range conns {
		conns[i] = s.connect(protocol.HostID(fmt.Sprintf("h%d", i)))
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, conn := range conns {
		wg.Go(func() {
			pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish}, TopicName: fmt.Sprintf("%shost/h%d/report", root, i), Payload: make([]byte, size)}
			var buf bytes.Buffer
			if err := pk.PublishEncode(&buf); err != nil {
				b.Error(err)
				return
			}
			for n := i; n < b.N; n += hosts {
				if _, err := conn.Write(buf.Bytes()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	<-all
}

// connect opens a session of a host over TCP and TLS.
func (s *site) connect(id protocol.HostID) *tls.Conn {
	s.t.Helper()
	conn, err := tls.Dial("tcp", "127.0.0.1:"+s.port, s.authority.Client(s.t, brokertest.Host(id)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 4,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: string(id), Keepalive: 60, Clean: true},
	}
	var buf bytes.Buffer
	if err := pk.ConnectEncode(&buf); err != nil {
		s.t.Fatal(err)
	}
	if _, err := conn.Write(buf.Bytes()); err != nil {
		s.t.Fatal(err)
	}
	var ack [4]byte
	if _, err := conn.Read(ack[:]); err != nil || ack[3] != 0 {
		s.t.Fatalf("CONNACK %v, %v", ack, err)
	}
	return conn
}

// BenchmarkConnect measures a connection from dial to CONNACK, both ends and the
// making of the certificate included; each is a full handshake.
func BenchmarkConnect(b *testing.B) {
	s := newSite(b, nil)
	for b.Loop() {
		_ = s.connect("web1").Close()
	}
}
