package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

// output is a Sender and a Collector, as the output of commands has them.
type output struct {
	*link
	size   int64 // of all that the command will have written
	chunk  int64
	follow bool // somebody follows from the beginning to the end
	total  protocol.Output

	from    window.Sender
	written int64
	ended   bool
	conn    uint64
	allowed int64 // end of the newest credit that the sender has, or what it may send unasked

	to    window.Collector
	file  []window.Range // what was written to the file, joined and in order
	asked int64          // end of the credit that went furthest
	poll  time.Time
	first time.Time
	dirty bool
}

func newOutput(l *link) world {
	o := &output{link: l, chunk: int64(4<<10 + l.choose(protocol.ChunkSize-4<<10)), first: l.now, poll: l.now}
	o.size = int64(1 + l.choose(int(40*o.chunk)))
	o.follow = l.choose(2) == 0
	o.total = protocol.Output{FD: protocol.Stdout, Bytes: o.size}
	if l.choose(2) == 0 {
		o.total.DropAt = int64(l.choose(int(o.size)))
		o.total.Dropped = int64(l.choose(int(o.size - o.total.DropAt)))
	}
	o.from, o.allowed = window.NewSender(protocol.OutputKept), protocol.OutputKept
	o.collect(window.Held{})
	return o
}

func (o *output) line() *link { return o.link }

func (o *output) boot() time.Duration { return o.now.Sub(o.first) }

// collect begins a collector with what is durable.
func (o *output) collect(held window.Held) {
	o.to, o.asked, o.dirty = window.NewCollector(held, false), protocol.OutputKept, false
	o.to.Begin()
	if o.ended {
		o.to.End(&o.total)
	}
	o.ask()
}

// ahead is up to where the follower wants the stream.
func (o *output) ahead() int64 {
	if !o.follow {
		return 0
	}
	return o.to.Arrived().Have + 2*protocol.ChunkWindow
}

func (o *output) ask() {
	if offset, n, ok := o.to.Ask(o.ahead(), o.boot()); ok {
		o.asked = max(o.asked, offset+n)
		o.put(packet{credit: true, offset: offset, n: n})
	}
}

func (o *output) askUnlessAsked() {
	if !o.to.Asked(o.ahead()) {
		o.ask()
	}
}

func (o *output) fault() {
	switch o.choose(12) {
	case 0: // the sender begins anew
		o.from, o.allowed = window.NewSender(0), 0
	case 1: // the collector does; what is not durable is lost
		o.collect(o.to.Held())
	case 2: // a new connection
		o.air = nil
		o.conn++
		o.to.Reconnected()
		o.ask()
	case 3: // silence
		o.now = o.now.Add(time.Duration(o.choose(300)) * time.Second)
	case 4: // a disk is full
		o.to.Undo(o.boot())
		o.dirty = false
	case 5, 6, 7:
		o.written = min(o.size, o.written+int64(o.choose(int(o.size)+1)))
	case 8:
		o.end()
	}
}

// end is the end of the command: no fault, but it may come at any time.
func (o *output) end() {
	if o.written, o.ended = o.size, true; o.to.Total() == nil {
		o.to.End(&o.total)
		o.ask()
	}
}

// transmit sends what may be sent, each chunk up to the drop or behind it.
func (o *output) transmit() error {
	for {
		next := o.from.Next()
		n := min(o.chunk, o.from.Room(), o.written-next)
		if n <= 0 {
			return nil
		}
		p := packet{offset: next, n: n}
		_, to, dropped := window.Dropped(&o.total, next)
		if t := o.total; next < t.DropAt && t.Dropped > 0 {
			p.n = min(n, t.DropAt-next)
		}
		if dropped {
			p.gone, p.n, n = to, 0, to-next
		} else {
			n = p.n
		}
		if p.offset+p.n > o.allowed {
			return fmt.Errorf("a chunk up to %d, the newest credit allows %d", p.offset+p.n, o.allowed)
		}
		o.put(p)
		o.from.Sent(o.conn, n, o.now)
	}
}

func (o *output) step(until time.Time) error {
	if !o.faulty && !o.ended {
		o.end()
	}
	if err := o.transmit(); err != nil {
		return err
	}
	if o.poll.Before(until) {
		until = o.poll
	}
	if until = o.arrival(until); until.After(o.now) {
		o.now = until
	}
	if !o.now.Before(o.poll) {
		o.poll = o.now.Add(time.Second)
		o.commit()
		if o.to.Overdue(o.ahead(), true, o.boot()) {
			o.ask()
		}
	}
	p, ok := o.take()
	switch {
	case !ok:
		return nil
	case p.credit:
		o.from.Allow(p.offset, p.n, maxDelay+time.Second, o.now)
		o.allowed = p.offset + p.n
		return nil
	}
	if err := o.arrive(p); err != nil {
		return err
	}
	if !o.faulty || o.choose(2) == 0 {
		o.commit()
	}
	o.askUnlessAsked()
	return o.check()
}

func (o *output) commit() {
	if o.dirty {
		o.to.Commit(o.to.Arrived(), o.boot())
		o.dirty = false
		o.askUnlessAsked()
	}
}

func (o *output) arrive(p packet) error {
	if p.gone > 0 {
		o.dirty = o.to.Jump(p.offset, p.gone) || o.dirty
		return nil
	}
	then, n, ok := o.to.Judge(p.offset, p.n)
	if !ok {
		return nil
	}
	if p.offset+n > o.asked || n > p.n {
		return fmt.Errorf("%d bytes from %d on are taken, asked for is all before %d", n, p.offset, o.asked)
	}
	o.write(window.Range{From: p.offset, To: p.offset + n})
	o.to.Put(then)
	o.dirty = true
	return nil
}

// write notes what was written to the file.
func (o *output) write(r window.Range) {
	var all []window.Range
	for _, f := range o.file {
		if f.To < r.From || f.From > r.To {
			all = append(all, f)
			continue
		}
		r = window.Range{From: min(f.From, r.From), To: max(f.To, r.To)}
	}
	o.file = append(all, r)
}

// written reports whether the file has a range.
func (o *output) has(from, to int64) bool {
	for _, f := range o.file {
		if f.From <= from && to <= f.To {
			return true
		}
	}
	return from >= to
}

// check compares what the collector says with what was written.
func (o *output) check() error {
	h := o.to.Arrived()
	for at := int64(0); at < h.Have; {
		until, gone := h.Readable(at)
		if until > at && !o.has(at, until) {
			return fmt.Errorf("%d to %d is not in the file %v", at, until, o.file)
		}
		if gone > 0 && (at < o.total.DropAt || gone > o.total.DropAt+o.total.Dropped) {
			return fmt.Errorf("%d to %d is gone, and nobody dropped it", at, gone)
		}
		at = max(until, gone)
	}
	if !o.has(h.TailFrom, h.TailTo) {
		return fmt.Errorf("the tail %d to %d is not in the file %v", h.TailFrom, h.TailTo, o.file)
	}
	return nil
}

// done reports whether everything arrived that was to.
func (o *output) done() (bool, error) {
	if _, n := o.to.Wants(o.ahead()); !o.ended || n > 0 {
		return false, nil
	}
	h := o.to.Held()
	inHole := func(at int64) bool { _, _, in := window.Dropped(&o.total, at); return in }
	for at := int64(0); at < o.size; at += 1021 {
		head := at < protocol.OutputKept && (o.total.Dropped == 0 || at < o.total.DropAt)
		tail := at >= o.size-protocol.OutputKept && at >= o.total.DropAt+o.total.Dropped
		wanted := o.follow || head || tail
		until, _ := h.Readable(at)
		if wanted && !inHole(at) && until <= at {
			return false, fmt.Errorf("byte %d of %d is not held: %+v, dropped %d from %d on", at, o.size, h, o.total.Dropped, o.total.DropAt)
		}
	}
	return true, nil
}

func TestOutputArrives(t *testing.T) { explore(t, 1000, newOutput) }
