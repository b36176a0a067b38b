package brokertest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// LineBuffer is how many bytes a line holds in each direction before a writer
// waits, about what a kernel buffers for a TCP connection.
const LineBuffer = 64 << 10

var errCut = errors.New("line was cut")

// line is a connection in memory with the buffering of a network. Both ends wait
// on channels only, so that a synctest bubble sees them as idle.
type line struct {
	a, b *pipe // a carries from the client, b to it
}

func newLine() (l *line, client, server net.Conn) {
	l = &line{a: newPipe(), b: newPipe()}
	return l, newEnd(l.b, l.a), newEnd(l.a, l.b)
}

// cut breaks the line as a reset would.
func (l *line) cut() { l.a.close(errCut); l.b.close(errCut) }

// freeze lets nothing through any more and tells neither end: both believe to be
// connected.
func (l *line) freeze() { l.a.freeze(); l.b.freeze() }

// pipe is one direction of a line.
type pipe struct {
	mu      sync.Mutex
	buf     []byte
	err     error // what readers get after buf, and writers at once
	frozen  bool
	changed chan struct{} // closed and replaced on each change
}

func newPipe() *pipe { return &pipe{changed: make(chan struct{})} }

// wake is called with mu held.
func (p *pipe) wake() { close(p.changed); p.changed = make(chan struct{}) }

func (p *pipe) close(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		p.wake()
	}
}

func (p *pipe) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen, p.buf = true, nil
	p.wake()
}

// read waits for bytes, the end of the pipe, or the deadline.
func (p *pipe) read(b []byte, d *deadline) (int, error) {
	for {
		p.mu.Lock()
		n := copy(b, p.buf)
		p.buf = p.buf[n:]
		err, changed := p.err, p.changed
		if n > 0 {
			p.wake()
		}
		p.mu.Unlock()
		if n > 0 || len(b) == 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-changed:
		case <-d.expired():
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// write waits until all of b is buffered, the pipe ends, or the deadline.
func (p *pipe) write(b []byte, d *deadline) (done int, err error) {
	for {
		p.mu.Lock()
		if p.err != nil {
			p.mu.Unlock()
			return done, io.ErrClosedPipe
		}
		n := min(len(b), LineBuffer-len(p.buf))
		if p.frozen {
			n = len(b)
		} else {
			p.buf = append(p.buf, b[:n]...)
		}
		b = b[n:]
		done += n
		if n > 0 {
			p.wake()
		}
		changed := p.changed
		p.mu.Unlock()
		if len(b) == 0 {
			return done, nil
		}
		select {
		case <-changed:
		case <-d.expired():
			return done, os.ErrDeadlineExceeded
		}
	}
}

// deadline is a point in time that can be moved while others wait for it, in the
// way of net.Pipe.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	past  chan struct{} // closed when the deadline has passed
}

func newDeadline() *deadline { return &deadline{past: make(chan struct{})} }

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.past // it fires just now
	}
	d.timer = nil
	passed := false
	select {
	case <-d.past:
		passed = true
	default:
	}
	left := time.Until(t)
	switch {
	case !t.IsZero() && left <= 0:
		if !passed {
			close(d.past)
		}
		return
	case passed:
		d.past = make(chan struct{})
	}
	if !t.IsZero() {
		past := d.past
		d.timer = time.AfterFunc(left, func() { close(past) })
	}
}

// expired returns a channel that is closed once the deadline has passed.
func (d *deadline) expired() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.past
}

// end is one end of a line.
type end struct {
	in, out     *pipe
	read, write *deadline
}

func newEnd(in, out *pipe) *end {
	return &end{in: in, out: out, read: newDeadline(), write: newDeadline()}
}

// Read implements net.Conn.
func (e *end) Read(b []byte) (int, error) { return e.in.read(b, e.read) }

// Write implements net.Conn.
func (e *end) Write(b []byte) (int, error) { return e.out.write(b, e.write) }

// Close ends both directions; the other end reads what was written before.
func (e *end) Close() error {
	e.in.close(net.ErrClosed)
	e.out.close(io.EOF)
	return nil
}

// LocalAddr implements net.Conn.
func (e *end) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn.
func (e *end) SetDeadline(t time.Time) error {
	e.read.set(t)
	e.write.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (e *end) SetReadDeadline(t time.Time) error { e.read.set(t); return nil }

// SetWriteDeadline implements net.Conn.
func (e *end) SetWriteDeadline(t time.Time) error { e.write.set(t); return nil }

type address struct{}

// Network implements net.Addr.
func (address) Network() string { return "memory" }

// String implements net.Addr.
func (address) String() string { return "memory" }

// listener hands the server ends of lines to the broker.
type listener struct {
	backlog chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newListener() *listener {
	return &listener{backlog: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return address{} }
