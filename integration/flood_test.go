//go:build integration

package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFloods has one host, and then a viewer, do what drowns a careless
// coordinator, while orders of another host go on.
func TestFloods(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	s.eyes.end(t, kill) // it might be too slow as well
	t.Run("messages", func(t *testing.T) { floodOfMessages(t, s) })
	t.Run("large messages", func(t *testing.T) { largeMessages(t, s) })
	t.Run("a viewer that does not read", func(t *testing.T) { slowViewer(t, s) })
	s.unchanged(t)
}

// raw is a connection on which MQTT is spoken by hand: no library sends as
// fast, as large, or reads as little.
type raw struct {
	*tls.Conn
	version byte
}

// speak connects with a certificate. Version 4 is MQTT 3.1.1, 5 is 5.
func (s *siege) speak(t testing.TB, l login, version byte) (*raw, error) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(l.cert, l.key)
	if err != nil {
		t.Fatal(err)
	}
	d := tls.Dialer{Config: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}} // an attacker does not care
	conn, err := d.DialContext(t.Context(), "tcp", s.mqtt)
	if err != nil {
		return nil, err
	}
	c := &raw{conn.(*tls.Conn), version}
	hello := []byte{0, 4, 'M', 'Q', 'T', 'T', version, 2, 0, 60}
	if version == 5 {
		hello = append(hello, 0) // no properties
	}
	id := hostOf(t, l)
	if err := c.packet(0x10, append(hello, text(id)...)); err != nil {
		return nil, err
	}
	var ack [4]byte
	if _, err := io.ReadFull(c, ack[:]); err != nil {
		return nil, err
	}
	if ack[0] != 0x20 || ack[3] != 0 {
		return nil, fmt.Errorf("CONNACK % x", ack)
	}
	return c, nil
}

func text(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

// publication is a PUBLISH of QoS 0, whole.
func publication(topic string, payload []byte) []byte {
	return whole(0x30, append(text(topic), payload...))
}

func whole(first byte, body []byte) []byte {
	b := []byte{first}
	n := len(body)
	for {
		d := byte(n & 0x7f)
		if n >>= 7; n > 0 {
			d |= 0x80
		}
		if b = append(b, d); n == 0 {
			return append(b, body...)
		}
	}
}

func (c *raw) packet(first byte, body []byte) error {
	_, err := c.Write(whole(first, body))
	return err
}

// ordered runs honest orders until stop is called, which returns how many were
// carried out. Each of them has to be.
func (s *siege) ordered(t *testing.T) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var (
		wg sync.WaitGroup
		n  int
	)
	wg.Go(func() {
		for ctx.Err() == nil {
			if r := s.cli(t, "run", "edge-01", "--", "true"); r.code != 0 {
				t.Errorf("an order of another host: exit %d: %s", r.code, r.stderr)
				return
			}
			n++
		}
	})
	return func() int { cancel(); wg.Wait(); return n }
}

// floodOfMessages sends 150,000 messages as fast as the network takes them, and goes
// on until it was cut: what a busy machine takes may be little above the limit.
func floodOfMessages(t *testing.T, s *siege) {
	const total, batch = 150_000, 500
	forged := strings.Replace(s.order, `"ring":`, `"rinG":`, 1)
	flood := bytes.Repeat(publication(s.topic("edge-03", "report"), []byte(forged)), batch)
	tlsOf := s.tlsOf(t, "edge-03")
	mark, lines, before := s.events.mark(), len(s.coordinator.talk.lines()), s.memory(t)
	begin := time.Now()
	stop := s.ordered(t)
	cuts, sent := 0, 0
	var writing time.Duration // without the making of connections
	more := func() bool { return sent < total || cuts == 0 && time.Since(begin) < patience }
	for more() {
		c, err := s.speak(t, tlsOf, 4)
		if err != nil {
			t.Fatalf("connecting again: %v", err)
		}
		from := time.Now()
		for more() {
			if _, err := c.Write(flood); err != nil {
				cuts++
				break
			}
			sent += batch
		}
		writing += time.Since(from)
		_ = c.Close() // it may have been cut
	}
	t.Logf("%.0f messages a second, cut %d times", float64(sent)/writing.Seconds(), cuts)
	if n := stop(); n == 0 {
		t.Error("no order of another host was carried out meanwhile")
	}
	exposition := s.metrics(t)
	limited := metric(t, exposition, "hostler_coordinator_broker_messages_not_taken_total", `why="rate"`)
	if cuts == 0 || limited == 0 {
		t.Errorf("the flood was cut %d times, and %v messages were above the limit", cuts, limited)
	}
	for _, e := range s.events.since(mark) {
		// Tests beside this one make and remove interfaces of the machine, which is changed by that.
		if e.Host == "edge-01" && e.Type != "action.state" && e.Type != "host.changed" {
			t.Errorf("the other host: %+v", e)
		}
	}
	if n, most := len(s.coordinator.talk.lines())-lines, 4*(int(time.Since(begin).Seconds())+2); n > most {
		t.Errorf("%d lines were logged, want %d at most", n, most)
	}
	if grown := s.memory(t) - before; grown > 64<<20 {
		t.Errorf("the coordinator has grown by %d MiB", grown>>20)
	}
}

// largeMessages sends 256 KiB of anything, and what claims to be 256 MiB.
func largeMessages(t *testing.T, s *siege) {
	tlsOf := s.tlsOf(t, "edge-03")
	cut := func() float64 {
		return metric(t, s.metrics(t), "hostler_coordinator_broker_connections_ended_total", `how="cut"`)
	}
	for _, tc := range []struct {
		what string
		b    []byte
		cut  float64 // at least: another's end may be counted late
	}{
		{"256 KiB", publication(s.topic("edge-03", "report"), bytes.Repeat([]byte{0xff}, 256<<10)), 1},
		{"a claim of 256 MiB", []byte{0x30, 0xff, 0xff, 0xff, 0x7f, 0, 1, 'x'}, 0}, // ends before it is a packet
	} {
		before := cut()
		c, err := s.speak(t, tlsOf, 4)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(tc.b)          // it may be cut before all was written
		_, _ = io.Copy(io.Discard, c) // goes on until the broker ends it
		_ = c.Close()
		s.must(t, "run", "edge-01", "--", "true")
		if n := cut() - before; n < tc.cut {
			t.Errorf("%s: counted %v times, want %v at least", tc.what, n, tc.cut)
		}
	}
}

// slowViewer subscribes to everything and does not read, while a command writes
// more than the network holds.
func slowViewer(t *testing.T, s *siege) {
	c, err := s.speak(t, s.viewer(t, "asleep"), 5)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.packet(0x82, append([]byte{0, 1, 0}, append(text("hostler/#"), 0)...)); err != nil {
		t.Fatal(err)
	}
	dropped := func() float64 {
		return metric(t, s.metrics(t), "hostler_coordinator_broker_messages_not_taken_total", `why="slow_reader"`)
	}
	for range 20 {
		s.must(t, "run", "edge-01", "--", "head", "-c", "4000000", "/dev/zero")
		if dropped() > 0 {
			break
		}
	}
	if dropped() == 0 {
		t.Fatal("nothing was left out for a viewer that does not read")
	}
	s.coordinator.says(t, s.coordinator.talk, "reads too slowly")
	_, _ = io.Copy(io.Discard, c) // ends, as the connection has
	s.must(t, "run", "edge-01", "--", "true")
}

// memory is what the coordinator holds of this machine's, in bytes.
func (s *siege) memory(t testing.TB) int {
	t.Helper()
	return int(metric(t, s.metrics(t), "process_resident_memory_bytes", ""))
}
