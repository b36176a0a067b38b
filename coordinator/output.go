package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

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
	spans sync.Pool // of buffers for those who read: who waits needs none
}

// span returns a buffer for one span.
func (o *outputs) span() *[spanBuffer]byte {
	if b, ok := o.spans.Get().(*[spanBuffer]byte); ok {
		return b
	}
	return new([spanBuffer]byte)
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
	file      *os.File    // open while refs > 0, nil if it was removed
	held      OutputState // durable: file synced, then offsets committed
	next      OutputState // as written to the file, not yet durable
	dirty     bool
	limit     int64             // bytes before this may come: what was asked for
	tailFrom  int64             // where a tail was asked to begin; 0 for none
	followers map[*reader]int64 // those who follow, and where they are
	waits     bool              // the command waits for those who follow
	refs      int               // uses of this object, guarded by outputs.mu
	totals    *protocol.Output  // of the final report
	gone      bool              // the host has no more of what is missing
	asked     int64             // offset of the newest credit, −1 for none
	askedTo   int64             // where it ends
	creditAt  int64             // boot clock of it, ms
	askedAt   int64             // boot clock of the newest credit or chunk, ms
	patience  int64             // after which it is asked for again, ms
}

const (
	// renewed is how much further a credit goes than the one before it, unless
	// that is used up. A credit for each chunk would fill the way down of a slow
	// line.
	renewed = protocol.ChunkWindow / 8
	// readAhead is how far output is fetched ahead of those who follow it: those
	// for whom the command waits, or else the fastest of all.
	readAhead = 2 * protocol.ChunkWindow
	// keptHead and keptTail are how much of the beginning of a stream and of its
	// newest bytes is kept here, as on its host. The rest is dropped in steps.
	keptHead = 32 << 20
	keptTail = 32 << 20
	keptStep = 1 << 20
	// followMS is how often a host hears that somebody follows a command that
	// waits for them: three times within [protocol.OutputPatience].
	followMS = 10_000
)

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
	if o.refs == 0 && !o.held.Removed() {
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
	o := &output{id: id, host: a.Host, limit: protocol.OutputKept, asked: -1, followers: make(map[*reader]int64)}
	if spec, err := protocol.DecodeSpec(a.Spec); err == nil {
		o.waits = spec.Output == protocol.OutputStream
	}
	o.held = OutputState{Action: id.action, Attempt: id.attempt, FD: id.fd}
	err := c.cfg.Store.View(ctx, func(tx Tx) error {
		held, err := tx.Streams().Output(id.action, id.attempt, id.fd)
		if err != nil {
			return err
		}
		if held.Have+held.TailTo > 0 || held.Removed() {
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
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.file = f
	if info.Size() == 0 && o.held.Have+o.held.TailTo > 0 {
		// Not every backup has the files; the host may have it still.
		o.held = OutputState{Action: o.id.action, Attempt: o.id.attempt, FD: o.id.fd}
		o.next = o.held
	}
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
	if o.file != nil {
		_ = o.file.Close() // what matters was synced
	}
	if _, window := o.wants(); window > 0 {
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
		o.skip(to)
	}
	if n.TailTo > n.TailFrom && n.Have >= n.TailFrom {
		n.Have, n.TailFrom, n.TailTo = max(n.Have, n.TailTo), 0, 0
	}
}

// skip goes on behind bytes that the host no longer has.
func (o *output) skip(to int64) {
	n := &o.next
	n.Gone = withGone(n.Gone, Range{n.Have, to})
	n.Have = to
}

// shrink drops the middle of what is kept. What was committed before is dropped
// from the file by punch.
func (o *output) shrink() {
	n := &o.next
	if to := (n.Have - keptTail) / keptStep * keptStep; to > keptHead {
		n.Gone = withGone(n.Gone, Range{keptHead, to})
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

// wants returns where the host should go on, and how many bytes from there. What
// is not durable yet is wanted still: a credit lets the host forget.
func (o *output) wants() (offset, window int64) { return o.wantsBeyond(o.held) }

// wantsBeyond returns what is wanted beyond what a state holds: all that is ahead
// of those who follow, else the head and, once the end is known, the tail.
func (o *output) wantsBeyond(n OutputState) (offset, window int64) {
	if o.gone || n.Removed() {
		return n.Have, 0
	}
	to := o.wanted()
	if o.totals == nil {
		return n.Have, min(max(to-n.Have, 0), protocol.ChunkWindow)
	}
	end, drop := o.totals.Bytes, o.totals.DropAt+o.totals.Dropped
	headEnd := o.totals.DropAt
	if o.totals.Dropped == 0 {
		drop, headEnd = 0, end
	}
	if to = max(to, protocol.OutputKept); n.Have < min(headEnd, to) {
		return n.Have, min(to-n.Have, protocol.ChunkWindow)
	}
	from := max(n.Have, drop)
	if len(o.followers) > 0 && from < to {
		to = min(to, end)
	} else {
		from, to = max(from, end-protocol.OutputKept), end
	}
	if n.TailTo > n.TailFrom && n.TailFrom <= from {
		from = max(from, n.TailTo)
	}
	return from, min(max(to-from, 0), protocol.ChunkWindow)
}

// wanted is up to where output is fetched for those who follow.
func (o *output) wanted() int64 {
	least, most := int64(-1), int64(-1)
	for r, at := range o.followers {
		most = max(most, at)
		if r.hold && (least < 0 || at < least) {
			least = at
		}
	}
	switch {
	case most < 0:
		return 0
	case least < 0:
		least = most
	}
	return least + readAhead
}

// write takes a chunk that may be wanted; anything else is ignored: it was
// repeated, or nobody asked for it.
func (o *output) write(offset int64, data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held.Removed() {
		return nil // it was on its way when it became too old
	}
	if t := o.totals; t != nil && t.Dropped > 0 && offset < t.DropAt {
		data = data[:min(int64(len(data)), t.DropAt-offset)] // the host has zeros there
	}
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
	o.shrink()
	return nil
}

// jump takes a host's word that a part of a stream is gone.
func (o *output) jump(offset, gone int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if offset <= o.next.Have && gone > o.next.Have && o.asked >= 0 && !o.held.Removed() {
		o.skip(gone)
		o.join()
		o.shrink()
		o.dirty = true
	}
}

// lose takes a host's word that it has nothing of what it was asked for. Of a
// command that has not ended that means nothing yet.
func (o *output) lose(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if wanted, window := o.wantsBeyond(o.next); window > 0 && wanted == offset && o.totals != nil {
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
	if h.FD == protocol.TTYInput {
		return s.c.acked(s.host, h.Action, m.Attachment)
	}
	o, err := s.outputOf(h)
	if err != nil {
		return err
	}
	switch {
	case h.Gone > 0:
		o.jump(h.Offset, h.Gone)
	case h.Size == 0:
		o.lose(h.Offset)
		s.c.wake.fire(o.id)
		s.c.release(o)
		return nil
	default:
		err = o.write(h.Offset, m.Attachment)
	}
	if err != nil {
		s.c.release(o)
		return fmt.Errorf("keep output: %w", err)
	}
	// Who follows needs no disk: what is lost here is asked for again, and is
	// the same then.
	s.c.wake.fire(o.id)
	s.written = append(s.written, o)
	return nil
}

// outputOf returns the stream of a chunk, if somebody asked for it.
func (s *session) outputOf(h protocol.Header) (*output, error) {
	id := outputID{h.Action, h.Attempt, h.FD}
	if o := s.c.knownOutput(s.host, id); o != nil {
		return o, nil
	}
	a, err := s.c.Action(s.c.ctx, h.Action)
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && a.Host != s.host:
		return nil, fmt.Errorf("%w: no action %s of this host has output", protocol.ErrAction, h.Action)
	case err != nil:
		return nil, err
	}
	// The beginning of an attempt comes unasked, perhaps before the report of
	// its start. A host cannot make files of attempts that it invents.
	if (h.Attempt < a.Attempt || h.Attempt > a.Attempt+1) && !s.c.outputs.isKnown(s.host, id) {
		return nil, fmt.Errorf("%w: nobody asked for attempt %d of action %s", protocol.ErrAction, h.Attempt, h.Action)
	}
	return s.c.output(s.c.ctx, a, id)
}

// knownOutput returns a stream that is in use, as of each chunk but the first.
func (c *Coordinator) knownOutput(host protocol.HostID, id outputID) *output {
	c.outputs.mu.Lock()
	defer c.outputs.mu.Unlock()
	o := c.outputs.known[host][id]
	if o == nil || o.refs == 0 {
		return nil
	}
	o.refs++
	return o
}

// commitSoon gives what the worker's batch has written to the one who makes it
// durable, so that the next chunks are taken meanwhile.
func (s *session) commitSoon() {
	if len(s.written) == 0 {
		return
	}
	s.mu.Lock()
	s.unsynced = append(s.unsynced, s.written...)
	s.written = nil
	start := !s.syncing
	s.syncing = true
	s.mu.Unlock()
	if start && !s.c.workers.start(s.syncOutput) {
		s.syncOutput() // it is the end: what can be kept is kept
	}
}

// syncOutput makes durable what was written until nothing is left.
func (s *session) syncOutput() {
	for {
		s.mu.Lock()
		written := s.unsynced
		s.unsynced = nil
		s.syncing = len(written) > 0
		s.mu.Unlock()
		if len(written) == 0 {
			return
		}
		s.commitOutput(written)
		s.mu.Lock()
		owed := s.owed
		s.mu.Unlock()
		if owed {
			s.receipt()
		}
	}
}

// commitOutput makes what was written durable, and only then asks for more: the
// host may forget what it is not asked for any more.
func (s *session) commitOutput(written []*output) {
	var states []OutputState
	var done []*output
	for _, o := range written {
		st, dirty := o.sync()
		if !dirty {
			continue
		}
		if st == nil {
			s.c.log.Error("cannot sync output; it will come again", "action", o.id.action)
			continue
		}
		states, done = append(states, *st), append(done, o)
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
			before := o.held.Gone
			o.held, o.patience, o.askedAt = states[i], 0, s.c.cfg.Boot()
			if e := punch(o.file, o.held.Gone, before); e != nil {
				s.c.log.Warn("cannot give back the space of output that is not kept", "action", o.id.action, "err", e)
			}
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

// sync makes the file durable up to the state that it returns; nil if that
// failed. More may be written meanwhile.
func (o *output) sync() (state *OutputState, dirty bool) {
	o.mu.Lock()
	st := o.next
	dirty, o.dirty = o.dirty, false
	o.mu.Unlock()
	if !dirty {
		return nil, false
	}
	if err := syscall.Fdatasync(int(o.file.Fd())); err != nil {
		o.mu.Lock()
		o.next = o.held
		o.mu.Unlock()
		return nil, true
	}
	return &st, true
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
	offset, window := o.wants()
	asked := o.asked >= 0 && offset >= o.asked && offset < o.askedTo && offset+window-o.askedTo < renewed
	o.mu.Unlock()
	if window == 0 || asked {
		return false
	}
	s.ask(o)
	return true
}

// ask puts what is wanted of a stream into the next receipt. When that is
// nothing, the host still hears that somebody follows.
func (s *session) ask(o *output) {
	o.mu.Lock()
	offset, window := o.wants()
	now := s.c.cfg.Boot()
	o.creditAt = now
	if window > 0 {
		o.limit = max(o.limit, offset+window)
		o.asked, o.askedTo, o.askedAt = offset, offset+window, now
		if offset > o.next.Have && o.next.TailTo == o.next.TailFrom {
			o.tailFrom = offset
		}
	}
	follow := o.totals == nil && len(o.followers) > 0
	o.mu.Unlock()
	if window == 0 && !follow {
		return
	}
	s.mu.Lock()
	s.credits[o.id], s.owed = Range{offset, offset + window}, true
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
		_, window := o.wants()
		now := s.c.cfg.Boot()
		due := window > 0 && now-o.askedAt >= max(o.patience, reaskMS)
		if due {
			o.patience = min(2*max(o.patience, reaskMS), reaskMaxMS)
		}
		due = due || o.waits && o.totals == nil && len(o.followers) > 0 && now-o.creditAt >= followMS
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
				o := output{held: held, totals: &t}
				if _, window := o.wants(); window > 0 && !held.Removed() {
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
