package relay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// outputID names one output stream of one attempt of a command.
type outputID struct {
	action  protocol.ActionID
	attempt int
	fd      protocol.FD
}

// Outputs are the output streams that are being received or read, and those
// that a host was asked for.
type Outputs struct {
	base   *core.Base
	cfg    Config
	mu     sync.Mutex
	known  map[protocol.HostID]map[outputID]*output
	syncs  map[protocol.HostID]*syncing
	spans  sync.Pool    // of buffers for those who read: who waits needs none
	fresh  atomic.Int64 // bytes that came since all that is kept was looked at
	tidied time.Time    // when that was; of the goroutine that calls Tidy
}

// span returns a buffer for one span.
func (m *Outputs) span() *[spanBuffer]byte {
	if b, ok := m.spans.Get().(*[spanBuffer]byte); ok {
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
	file      *os.File         // open while refs > 0, nil if it was removed
	held      core.OutputState // durable: file synced, then offsets committed
	next      core.OutputState // as written to the file, not yet durable
	dirty     bool
	limit     int64             // bytes before this may come: what was asked for
	tailFrom  int64             // where a tail was asked to begin; 0 for none
	followers map[*reader]int64 // those who follow, and where they are
	waits     bool              // the command waits for those who follow
	refs      int               // uses of this object, guarded by Outputs.mu
	begun     bool              // the attempt, as far as is known here
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

func (m *Outputs) path(id outputID) string {
	return filepath.Join(m.cfg.OutputDir, id.action.String(), strconv.Itoa(id.attempt)+"."+string(id.fd))
}

// isKnown reports whether a stream of a host is received, read or asked for.
func (m *Outputs) isKnown(host protocol.HostID, id outputID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[host][id] != nil
}

// use returns an output stream of an action of a host, opened or made. Each
// call needs one of release. It fails with ErrUnavailable when too many of the
// host are known.
func (m *Outputs) use(ctx context.Context, a core.Action, id outputID) (*output, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.known[a.Host][id]
	if o == nil {
		if len(m.known[a.Host]) >= maxOutputs {
			return nil, fmt.Errorf("%w: too many outputs of host %s are on their way", core.ErrUnavailable, a.Host)
		}
		var err error
		if o, err = m.load(ctx, a, id); err != nil {
			return nil, err
		}
	}
	if o.refs == 0 && !o.held.Removed() {
		if err := o.open(m.path(id)); err != nil {
			return nil, fmt.Errorf("keep output: %w", err)
		}
	}
	o.refs++
	if m.known == nil {
		m.known = make(map[protocol.HostID]map[outputID]*output)
	}
	if m.known[a.Host] == nil {
		m.known[a.Host] = make(map[outputID]*output)
	}
	m.known[a.Host][id] = o
	return o, nil
}

// load makes an output stream from what the store knows of it.
func (m *Outputs) load(ctx context.Context, a core.Action, id outputID) (*output, error) {
	o := &output{id: id, host: a.Host, limit: protocol.OutputKept, asked: -1, followers: make(map[*reader]int64)}
	if spec, err := protocol.DecodeSpec(a.Spec); err == nil {
		o.waits = spec.Output == protocol.OutputStream
	}
	o.held = core.OutputState{Action: id.action, Attempt: id.attempt, FD: id.fd}
	err := m.base.View(ctx, func(tx core.Tx) error {
		held, err := tx.Outputs.Get(id.action, id.attempt, id.fd)
		if err != nil {
			return err
		}
		if held.Have+held.TailTo > 0 || held.Removed() {
			o.held = held
		}
		h, err := tx.Hosts.Get(a.Host)
		if err != nil {
			return err
		}
		// All that a former machine was asked ended with it, and nothing is asked
		// before another is let in.
		former := len(h.Former) > 0 && a.State.Final() && a.EndedMS <= h.ApprovedMS
		o.gone = h.State != core.HostApproved || former
		return nil
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
		o.held = core.OutputState{Action: o.id.action, Attempt: o.id.attempt, FD: o.id.fd}
		o.next = o.held
	}
	return nil
}

// release ends one use. The file of a stream that nobody uses is closed,
// whatever its host still owes; what nothing is expected of is forgotten.
func (m *Outputs) release(o *output) {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	if delete(m.known[o.host], o.id); len(m.known[o.host]) == 0 {
		delete(m.known, o.host)
	}
}

// settle takes what is known of the attempt, and the totals of a final report.
func (o *output) settle(a core.Action) {
	o.begun = o.begun || a.Attempt >= o.id.attempt
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
	n.Gone = withGone(n.Gone, core.Range{From: n.Have, To: to})
	n.Have = to
}

// shrink drops the middle of what is kept. What was committed before is dropped
// from the file by punch.
func (o *output) shrink() {
	n := &o.next
	if to := (n.Have - keptTail) / keptStep * keptStep; to > keptHead {
		n.Gone = withGone(n.Gone, core.Range{From: keptHead, To: to})
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
// of those who follow, else the head and, once the end is known, the tail. A host
// has nothing to say of an attempt before its beginning, and may forget that it
// was asked.
func (o *output) wantsBeyond(n core.OutputState) (offset, window int64) {
	if o.gone || n.Removed() || !o.begun {
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
	if o.id.fd == protocol.Recording {
		to = end // nobody follows it, and a part of one is none
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
	o.next, o.dirty, o.begun = n, true, true
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
