package mqtt

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// stream is a net.Conn that only reads.
type stream struct {
	net.Conn
	r io.Reader
}

func (s stream) Read(p []byte) (int, error)       { return s.r.Read(p) }
func (s stream) SetWriteDeadline(time.Time) error { return nil }

func TestGuardStopsWhatTheLibraryWouldTrust(t *testing.T) {
	connack := []byte{0x20, 2, 0, 0}
	publish := append([]byte{0x30, 0x84, 0x01, 0, 1, 'a'}, make([]byte, 129)...) // 132 bytes
	for _, tc := range []struct {
		name string
		in   [][]byte
		bad  bool
	}{
		{"usual", [][]byte{connack, {0x90, 4, 0, 1, 0, 0}, publish, {0xd0, 0}, publish}, false},
		{"refused properly", [][]byte{{0x20, 2, 0, 5}}, false},
		{"refused with an unknown code", [][]byte{{0x20, 2, 0, 0x87}}, true},
		{"long CONNACK", [][]byte{{0x20, 3, 0, 5, 0}}, true},
		{"packet too long", [][]byte{connack, {0x30, 0xff, 0xff, 0xff, 0x7f}}, true},
		{"just too long", [][]byte{connack, {0x30, 0xe9, 0x07}}, true},
		{"endless length", [][]byte{connack, {0x30, 0xff, 0xff, 0xff, 0xff, 0x01}}, true},
		{"SUBACK with an answer too many", [][]byte{connack, {0x90, 5, 0, 1, 0, 0, 0}}, true},
		{"SUBACK with an answer too few", [][]byte{connack, {0x90, 3, 0, 1, 0}}, true},
	} {
		raw := bytes.Join(tc.in, nil)
		for size, r := range map[string]io.Reader{
			"whole":        bytes.NewReader(raw),
			"byte by byte": iotest.OneByteReader(bytes.NewReader(raw)),
		} {
			g := &guardConn{Conn: stream{r: r}, maxPacket: 1000, suback: 4}
			_, err := io.Copy(io.Discard, struct{ io.Reader }{g})
			if (err != nil) != tc.bad {
				t.Errorf("%s, %s: error %v, want one: %v", tc.name, size, err, tc.bad)
			}
		}
	}
	g := &guardConn{Conn: stream{r: bytes.NewReader([]byte{0x30, 0xff, 0xff, 0xff, 0x7f})}, maxPacket: 1000}
	if _, err := io.ReadAll(g); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
}

// A chunk on a slow line takes minutes. As long as it moves the line is not
// dead, and whoever writes beside it, a ping, does not come in between.
func TestLongWritesMayTakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, far := net.Pipe()
		g := &guardConn{Conn: line, writeTimeout: 30 * time.Second, writing: make(chan struct{}, 1)}
		chunk := bytes.Repeat([]byte{'c'}, 128<<10)
		written := make(chan error, 2)
		go func() { _, err := g.Write(chunk); written <- err }()
		synctest.Wait()
		go func() { _, err := g.Write([]byte("ping")); written <- err }()
		var got []byte
		begin := time.Now()
		for b := make([]byte, 1<<10); len(got) < len(chunk)+4; {
			<-time.After(2 * time.Second)
			n, err := far.Read(b)
			if err != nil {
				t.Fatalf("after %v and %d bytes: %v", time.Since(begin), len(got), err)
			}
			got = append(got, b[:n]...)
		}
		if !bytes.Equal(got, append(chunk, "ping"...)) {
			t.Error("what arrives is not what was written")
		}
		for range 2 {
			if err := <-written; err != nil {
				t.Errorf("writing for %v: %v", time.Since(begin), err)
			}
		}
		// A line on which nothing moves is dead soon.
		begin = time.Now()
		if _, err := g.Write(chunk); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) > 31*time.Second {
			t.Errorf("on a dead line a write ended after %v with %v", time.Since(begin), err)
		}
	})
}

// pieces notes how much each write has.
type pieces struct {
	net.Conn
	sizes []int
}

func (p *pieces) SetWriteDeadline(time.Time) error { return nil }

func (p *pieces) Write(b []byte) (int, error) {
	p.sizes = append(p.sizes, len(b))
	return len(b), nil
}

// TestPiecesOfTheLine: on a line that is not known to be fast, little must be written
// within the time of a write.
func TestPiecesOfTheLine(t *testing.T) {
	for _, wide := range []bool{false, true} {
		line := &pieces{}
		g := &guardConn{Conn: line, writeTimeout: time.Minute, writing: make(chan struct{}, 1)}
		g.wide.Store(wide)
		if err := g.publish("t", make([]byte, 200<<10)); err != nil {
			t.Fatal(err)
		}
		most := slices.Max(line.sizes)
		if wide && most != widePiece || !wide && most != piece {
			t.Errorf("fast line: %v, written at a time: %v", wide, line.sizes)
		}
	}
}
