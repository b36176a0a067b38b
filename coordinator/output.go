package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// outputID names one output stream of one attempt of a command.
type outputID struct {
	action  protocol.ActionID
	attempt int
	fd      protocol.FD
}

// outputs are the output streams that are being received or read, and those
// that a host was asked for.
type outputs struct {
	dir   string
	mu    sync.Mutex
	known map[protocol.HostID]map[outputID]*output
}

// maxOutputs is how many streams of one host are known at a time. An honest one
// comes near it after weeks without a connection.
const maxOutputs = 4096

// output is one stream. Its file holds bytes at their true offsets: a head
// that grows, and once the command has ended perhaps a tail, with a hole
// between them that nobody asked for.
type output struct {
	id   outputID
	host protocol.HostID

	mu        sync.Mutex
	file      *os.File    // open while refs > 0
	held      OutputState // durable: file synced, then offsets committed
	next      OutputState // as written to the file, not yet durable
	dirty     bool
	limit     int64 // bytes before this may come: what was asked for
	tailFrom  int64 // where a tail was asked to begin; 0 for none
	followers int
	refs      int              // uses of this object, guarded by outputs.mu
	totals    *protocol.Output // of the final report
	gone      bool             // the host has no more of what is missing
	asked     int64            // offset of the newest credit, −1 for none
	askedAt   int64            // boot clock of the newest credit or chunk, ms
	patience  int64            // after which it is asked for again, ms
}

// ahead is how much of a window is left when it is renewed. A credit for each
// chunk would fill the way down of a slow line.
const ahead = protocol.ChunkWindow * 3 / 4

// An asked chunk is asked for again after reaskMS, then after twice as long, up
// to reaskMaxMS: on a slow line it is still on its way, and asking takes the
// line's other direction.
const (
	reaskMS    = 2000
	reaskMaxMS = 64_000
)

func (o *outputs) path(id outputID) string {
	return filepath.Join(o.dir, id.action.String(), strconv.Itoa(id.attempt)+"."+string(id.fd))
}

// isKnown reports whether a stream of a host is received, read or asked for.
func (o *outputs) isKnown(host protocol.HostID, id outputID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[host][id] != nil
}

// output returns an output stream of an action of a host, opened or made. Each
// call needs one of release. It fails with ErrUnavailable when too many of the
// host are known.
func (c *Coordinator) output(ctx context.Context, a Action, id outputID) (*output, error) {
	c.outputs.mu.Lock()
	defer c.outputs.mu.Unlock()
	o := c.outputs.known[a.Host][id]
	if o == nil {
		if len(c.outputs.known[a.Host]) >= maxOutputs {
			return nil, fmt.Errorf("%w: too many outputs of host %s are on their way", ErrUnavailable, a.Host)
		}
		var err error
		if o, err = c.loadOutput(ctx, a, id); err != nil {
			return nil, err
		}
	}
	if o.refs == 0 {
		if err := o.open(c.outputs.path(id)); err != nil {
			return nil, fmt.Errorf("keep output: %w", err)
		}
	}
	o.refs++
	if c.outputs.known == nil {
		c.outputs.known = make(map[protocol.HostID]map[outputID]*output)
	}
	if c.outputs.known[a.Host] == nil {
		c.outputs.known[a.Host] = make(map[outputID]*output)
	}
	c.outputs.known[a.Host][id] = o
	return o, nil
}

// loadOutput makes an output stream from what the store knows of it.
func (c *Coordinator) loadOutput(ctx context.Context, a Action, id outputID) (*output, error) {
	o := &output{id: id, host: a.Host, limit: protocol.OutputKept, asked: -1}
	o.held = OutputState{Action: id.action, Attempt: id.attempt, FD: id.fd}
	err := c.cfg.Store.View(ctx, func(tx Tx) error {
		held, err := tx.Streams().Output(id.action, id.attempt, id.fd)
		if err != nil {
			return err
		}
		if held.Have+held.TailTo > 0 {
			o.held = held
		}
		h, err := tx.Hosts().Get(a.Host)
		o.gone = err == nil && h.State == HostRevoked
		return err
	})
	if err != nil {
		return nil, err
	}
	o.next = o.held
	o.settle(a)
	return o, nil
}

func (o *output) open(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.file = f
	return nil
}

// release ends one use. The file of a stream that nobody uses is closed,
// whatever its host still owes; what nothing is expected of is forgotten.
func (c *Coordinator) release(o *output) {
	c.outputs.mu.Lock()
	defer c.outputs.mu.Unlock()
	if o.refs--; o.refs > 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.file.Close() // what matters was synced
	if _, wanted := o.wants(); wanted {
		return
	}
	if delete(c.outputs.known[o.host], o.id); len(c.outputs.known[o.host]) == 0 {
		delete(c.outputs.known, o.host)
	}
}

// settle takes the totals of a final report.
func (o *output) settle(a Action) {
	if !a.State.Final() {
		return
	}
	o.totals = &protocol.Output{FD: o.id.fd}
	if a.Attempt != o.id.attempt && a.Attempt != 0 {
		return
	}
	for _, t := range a.Output {
		if t.FD == o.id.fd {
			o.totals = &t
		}
	}
	o.join()
}

// join counts as held what nobody will ever send, once all before it is held:
// what the host dropped. What lies behind it then follows upon the head, and
// the tail upon that.
func (o *output) join() {
	n := &o.next
	if _, to, ok := dropped(o.totals, n.Have); ok {
		n.Have = to
	}
	if n.TailTo > n.TailFrom && n.Have >= n.TailFrom {
		n.Have, n.TailFrom, n.TailTo = max(n.Have, n.TailTo), 0, 0
	}
}

// dropped returns the part that the host dropped, if an offset is within it.
func dropped(t *protocol.Output, offset int64) (from, to int64, within bool) {
	if t == nil || t.Dropped == 0 {
		return 0, 0, false
	}
	from, to = t.DropAt, t.DropAt+t.Dropped
	return from, to, offset >= from && offset < to
}

// wants returns the offset that the host should send from, false if nothing is
// wanted: everything while somebody follows, else the head and, once the end
// is known, the tail.
func (o *output) wants() (int64, bool) {
	n := o.next
	if o.gone {
		return 0, false
	}
	if o.totals == nil {
		return n.Have, o.followers > 0
	}
	end, drop := o.totals.Bytes, o.totals.DropAt+o.totals.Dropped
	if o.totals.Dropped == 0 {
		drop = 0
	}
	headEnd := end
	if o.totals.Dropped > 0 {
		headEnd = o.totals.DropAt
	}
	if n.Have < headEnd && (o.followers > 0 || n.Have < protocol.OutputKept) {
		return n.Have, true
	}
	from := max(n.Have, drop)
	if o.followers == 0 {
		from = max(from, end-protocol.OutputKept)
	}
	if n.TailTo > n.TailFrom && n.TailFrom <= from {
		from = max(from, n.TailTo)
	}
	return from, from < end
}

// write takes a chunk that may be wanted; anything else is ignored: it was
// repeated, or nobody asked for it.
func (o *output) write(offset int64, data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, end := o.next, offset+int64(len(data))
	switch {
	case offset <= n.Have && end > n.Have && end <= max(o.limit, protocol.OutputKept):
		n.Have = end
	case n.TailTo > n.TailFrom && offset <= n.TailTo && offset >= n.TailFrom && end > n.TailTo && end <= o.limit:
		n.TailTo = end
	case n.TailTo == n.TailFrom && o.tailFrom > 0 && offset == o.tailFrom && end <= o.limit:
		n.TailFrom, n.TailTo = offset, end
	default:
		return nil
	}
	if _, err := o.file.WriteAt(data, offset); err != nil {
		return err
	}
	o.next, o.dirty = n, true
	o.join()
	return nil
}

// lose takes a host's word that it has nothing of what it was asked for. Of a
// command that has not ended that means nothing yet.
func (o *output) lose(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if wanted, ok := o.wants(); ok && wanted == offset && o.totals != nil {
		o.gone = true
	}
}

// loseOutput ends what is awaited of a host that will never send again.
func (c *Coordinator) loseOutput(host protocol.HostID) {
	c.outputs.mu.Lock()
	defer c.outputs.mu.Unlock()
	for id, o := range c.outputs.known[host] {
		o.mu.Lock()
		o.gone = true
		o.mu.Unlock()
		c.wake.fire(id)
	}
}

// onOut takes a chunk of output.
func (s *session) onOut(in inbound) error {
	m, err := protocol.Open(in.payload, s.c.expect(in.topic, itemFresh{s}))
	if err != nil {
		return err
	}
	h := m.Header
	a, err := s.c.Action(s.c.ctx, h.Action)
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && a.Host != s.host:
		return fmt.Errorf("%w: no action %s of this host has output", protocol.ErrAction, h.Action)
	case err != nil:
		return err
	}
	id := outputID{h.Action, h.Attempt, h.FD}
	// The beginning of an attempt comes unasked, perhaps before the report of
	// its start. A host cannot make files of attempts that it invents.
	if (h.Attempt < a.Attempt || h.Attempt > a.Attempt+1) && !s.c.outputs.isKnown(s.host, id) {
		return fmt.Errorf("%w: nobody asked for attempt %d of action %s", protocol.ErrAction, h.Attempt, h.Action)
	}
	o, err := s.c.output(s.c.ctx, a, id)
	if err != nil {
		return err
	}
	if h.Size == 0 {
		o.lose(h.Offset)
		s.c.wake.fire(id)
		s.c.release(o)
		return nil
	}
	if err := o.write(h.Offset, m.Attachment); err != nil {
		s.c.release(o)
		return fmt.Errorf("keep output: %w", err)
	}
	s.written = append(s.written, o)
	return nil
}

// commitOutput makes what was written durable, and only then tells followers
// and asks for more.
func (s *session) commitOutput() {
	written := s.written
	s.written = nil
	var states []OutputState
	var done []*output
	for _, o := range written {
		o.mu.Lock()
		if o.dirty {
			if err := o.file.Sync(); err != nil {
				s.c.log.Error("cannot sync output; it will come again", "action", o.id.action, "err", err)
				o.next = o.held
			} else {
				states, done = append(states, o.next), append(done, o)
			}
			o.dirty = false
		}
		o.mu.Unlock()
	}
	var err error
	if len(done) > 0 {
		err = s.c.keepOffsets(states)
	}
	for i, o := range done {
		o.mu.Lock()
		if err != nil {
			// It is asked for again in its turn: asking at once would send the
			// same chunk round and round for as long as the disk is full.
			o.next, o.askedAt = o.held, s.c.cfg.Boot()
		} else {
			o.held, o.patience, o.askedAt = states[i], 0, s.c.cfg.Boot()
		}
		o.mu.Unlock()
		if err == nil {
			s.c.wake.fire(o.id)
			s.goOn(o)
		}
	}
	for _, o := range written {
		s.c.release(o)
	}
	if err != nil {
		s.c.log.Error("cannot keep the offsets of output; it will come again", "host", s.host, "err", err)
	}
}

// keepOffsets makes durable how much of each stream is held.
func (c *Coordinator) keepOffsets(states []OutputState) error {
	return c.update(c.ctx, failpoint.OutputKept, func(tx Tx) error {
		for _, st := range states {
			if err := tx.Streams().PutOutput(st); err != nil {
				return err
			}
		}
		return nil
	})
}

// goOn asks for what is wanted of a stream unless that was asked for and may be
// on its way. It reports whether it did.
func (s *session) goOn(o *output) bool {
	o.mu.Lock()
	offset, ok := o.wants()
	may := o.asked >= 0 && offset >= o.asked && offset < o.asked+protocol.ChunkWindow-ahead
	o.mu.Unlock()
	if ok = ok && !may; ok {
		s.ask(o)
	}
	return ok
}

// ask puts what is wanted of a stream into the next receipt.
func (s *session) ask(o *output) {
	o.mu.Lock()
	offset, ok := o.wants()
	if ok {
		o.limit = max(o.limit, offset+protocol.ChunkWindow)
		o.asked, o.askedAt = offset, s.c.cfg.Boot()
		if offset > o.next.Have && o.next.TailTo == o.next.TailFrom {
			o.tailFrom = offset
		}
	}
	o.mu.Unlock()
	if !ok {
		return
	}
	s.mu.Lock()
	s.credits[o.id], s.owed = offset, true
	s.mu.Unlock()
}

// settleOutput reacts to a report: the final one tells how much there is.
func (c *Coordinator) settleOutput(a Action) {
	if !a.State.Final() || a.Attempt == 0 {
		return
	}
	s := c.session(a.Host)
	for _, t := range a.Output {
		if t.Bytes == 0 {
			continue
		}
		o, err := c.output(c.ctx, a, outputID{a.ID, a.Attempt, t.FD})
		if errors.Is(err, ErrUnavailable) {
			return // it is asked for when the host comes back
		}
		if err != nil {
			c.log.Error("cannot keep output", "action", a.ID, "err", err)
			return
		}
		o.mu.Lock()
		o.settle(a)
		o.mu.Unlock()
		s.ask(o)
		c.release(o)
	}
	for _, fd := range []protocol.FD{protocol.Stdout, protocol.Stderr} {
		c.wake.fire(outputID{a.ID, a.Attempt, fd})
	}
}

// reask asks again for what did not come: a credit or a chunk was lost.
func (s *session) reask() {
	s.c.outputs.mu.Lock()
	var mine []*output
	for _, o := range s.c.outputs.known[s.host] {
		mine = append(mine, o)
	}
	s.c.outputs.mu.Unlock()
	s.mu.Lock()
	asked := len(s.credits) > 0
	s.mu.Unlock()
	for _, o := range mine {
		o.mu.Lock()
		_, wanted := o.wants()
		due := wanted && s.c.cfg.Boot()-o.askedAt >= max(o.patience, reaskMS)
		if due {
			o.patience = min(2*max(o.patience, reaskMS), reaskMaxMS)
		}
		o.mu.Unlock()
		if due {
			s.ask(o)
			asked = true
		}
	}
	if asked {
		s.receipt()
	}
}

// resumeActions is how many of a host's newest actions are looked at when it
// comes back: their output may have been under way when this side ended. Hosts
// keep the output of the hundred that ended last; those may have begun in
// another order.
const resumeActions = 128

// resumeOutput asks a host that came back for output of ended actions that
// should be here and is not.
func (s *session) resumeOutput() {
	s.c.outputs.mu.Lock()
	for _, o := range s.c.outputs.known[s.host] {
		o.mu.Lock()
		o.patience, o.asked = 0, -1 // what was on its way is lost
		o.mu.Unlock()
	}
	s.c.outputs.mu.Unlock()
	var missing []Action
	err := s.c.cfg.Store.View(s.c.ctx, func(tx Tx) error {
		missing = nil
		ended, err := tx.Actions().List(ActionFilter{
			Host: s.host, States: []protocol.State{protocol.StateDone, protocol.StateFailed, protocol.StateCancelled}, Limit: resumeActions,
		})
		if err != nil {
			return err
		}
		for _, a := range ended {
			for _, t := range a.Output {
				held, err := tx.Streams().Output(a.ID, a.Attempt, t.FD)
				if err != nil {
					return err
				}
				o := output{next: held, totals: &t}
				if _, wanted := o.wants(); wanted {
					missing = append(missing, a)
					break
				}
			}
		}
		return nil
	})
	if err != nil {
		s.c.log.Error("cannot see which output is missing", "host", s.host, "err", err)
	}
	for _, a := range missing {
		s.c.settleOutput(a)
	}
	if len(missing) > 0 {
		s.receipt()
	}
}

// Span is where reading of output stopped.
type Span struct {
	// Next is the offset from which to read on, −1 if everything was read. A
	// Next beyond what was read tells of bytes that were left out.
	Next int64
}

// spanBuffer is how much output is handed on at a time.
const spanBuffer = 64 << 10

// ReadOutput hands the bytes of an output stream from an offset on to emit, in
// order and without a hole. With follow it waits for more until the command
// has ended and everything was read; as long as somebody follows, everything
// is fetched from the host. It returns at the first hole, be it that the command
// wrote more than is kept or that the host has lost what it kept, and tells where
// to go on.
func (c *Coordinator) ReadOutput(ctx context.Context, id protocol.ActionID, fd protocol.FD, offset int64, follow bool, emit func([]byte) error) (Span, error) {
	r := &reader{c: c, id: id, fd: fd, offset: offset, follow: follow}
	defer r.leave()
	buf := make([]byte, spanBuffer)
	for {
		more, span, err := r.step(ctx, buf, emit)
		if err != nil || !more {
			return span, err
		}
	}
}

// reader is one reading of an output stream.
type reader struct {
	c      *Coordinator
	id     protocol.ActionID
	fd     protocol.FD
	offset int64
	follow bool
	o      *output
}

// step emits what is there, or waits for more. It reports false at the end of
// the span.
func (r *reader) step(ctx context.Context, buf []byte, emit func([]byte) error) (more bool, _ Span, _ error) {
	actionChanged, doneA := r.c.wake.on(r.id)
	defer doneA()
	a, err := r.c.Action(ctx, r.id)
	if err != nil {
		return false, Span{}, err
	}
	if err := r.attach(ctx, a); err != nil {
		return false, Span{}, err
	}
	changed, done := r.c.wake.on(r.o.id)
	defer done()
	r.o.mu.Lock()
	r.o.settle(a)
	held, totals, lost := r.o.held, r.o.totals, r.o.gone
	r.o.mu.Unlock()
	until := held.Have
	if r.offset >= held.TailFrom && r.offset < held.TailTo {
		until = held.TailTo
	}
	from, _, gone := dropped(totals, r.offset)
	if from > r.offset {
		until = min(until, from) // the file has zeros there
	}
	if r.offset < until && !gone {
		n, err := r.o.file.ReadAt(buf[:min(int64(len(buf)), until-r.offset)], r.offset)
		if err != nil {
			return false, Span{}, fmt.Errorf("read output: %w", err)
		}
		r.offset += int64(n)
		return true, Span{}, emit(buf[:n])
	}
	if next, ended := r.ended(held, totals, lost); ended {
		return false, Span{Next: next}, nil
	}
	if s := r.c.session(a.Host); r.follow && s.goOn(r.o) {
		s.receipt()
	}
	select {
	case <-changed:
	case <-actionChanged:
	case <-ctx.Done():
		return false, Span{}, context.Cause(ctx)
	}
	return true, Span{}, nil
}

// ended judges a reader that has read all that is held from its offset on. lost
// tells that the host has no more of it.
func (r *reader) ended(held OutputState, t *protocol.Output, lost bool) (next int64, ended bool) {
	_, to, gone := dropped(t, r.offset)
	switch {
	case t != nil && r.offset >= t.Bytes:
		return -1, true
	case gone:
		return to, true // the command wrote more than its cap
	case (lost || !r.follow) && held.TailTo > held.TailFrom && r.offset < held.TailFrom:
		return held.TailFrom, true // the middle is on the host alone, or nowhere
	case lost && t != nil:
		return t.Bytes, true
	case !r.follow:
		return r.offset, true
	}
	return 0, false
}

// attach follows the stream of the newest attempt. An attempt that never began
// wrote nothing, so nothing is lost by going over to the next.
func (r *reader) attach(ctx context.Context, a Action) error {
	id := outputID{r.id, max(1, a.Attempt), r.fd}
	if r.o != nil && (r.o.id == id || r.offset > 0) {
		return nil
	}
	r.leave()
	o, err := r.c.output(ctx, a, id)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.followers++
	o.mu.Unlock()
	r.o = o
	return nil
}

func (r *reader) leave() {
	if r.o == nil {
		return
	}
	r.o.mu.Lock()
	r.o.followers--
	r.o.mu.Unlock()
	r.c.release(r.o)
	r.o = nil
}
