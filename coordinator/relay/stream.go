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
	"syscall"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
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
	// pressed tells, with one place, that output found no room.
	pressed chan struct{}
	reserve durable.Reserve // spent when the store has no room for the removal of output
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
// between them that were not asked for.
type output struct {
	id   outputID
	host protocol.HostID

	mu        sync.Mutex
	file      *os.File          // open while refs > 0, nil if it was removed
	col       window.Collector  // what is here, and what is asked for
	removedMS int64             // when all of it was removed because it was old; 0 while it is kept
	dirty     bool              // something arrived that is not durable yet
	followers map[*reader]int64 // those who follow, and where they are
	waits     bool              // the command waits for those who follow
	refs      int               // uses of this object, guarded by Outputs.mu
}

// readAhead is how far output is fetched ahead of those who follow it: those
// for whom the command waits, or else the fastest of all.
const readAhead = 2 * protocol.ChunkWindow

// now is the time of the collectors.
func (m *Outputs) now() time.Duration { return time.Duration(m.base.Boot()) * time.Millisecond }

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
	if o.refs == 0 && o.removedMS == 0 {
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
	o := &output{id: id, host: a.Host, followers: make(map[*reader]int64)}
	if spec, err := protocol.DecodeSpec(a.Spec); err == nil {
		o.waits = spec.OutputMode() == protocol.OutputStream
	}
	err := m.base.View(ctx, func(tx core.Tx) error {
		held, err := tx.Outputs.Get(id.action, id.attempt, id.fd)
		if err != nil {
			return err
		}
		o.removedMS = held.RemovedMS
		o.col = window.NewCollector(held.Held, id.fd == protocol.Recording)
		h, err := tx.Hosts.Get(a.Host)
		if err != nil {
			return err
		}
		// All that a former machine was asked ended with it, and nothing is asked
		// before another is let in.
		former := len(h.Former) > 0 && a.State.Final() && a.EndedMS <= h.ApprovedMS
		if h.State != core.HostApproved || former {
			o.col.Lose()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
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
	if held := o.col.Held(); info.Size() == 0 && held.Have+held.TailTo > 0 {
		o.col.Restore(window.Held{}) // not every backup has the files; the host may have it still
	}
	return nil
}

// release ends one use. The file of a stream without uses is closed,
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
	if o.wants() {
		return
	}
	if delete(m.known[o.host], o.id); len(m.known[o.host]) == 0 {
		delete(m.known, o.host)
	}
}

// settle takes what is known of the attempt, and the totals of a final report.
func (o *output) settle(a core.Action) {
	if a.Attempt >= o.id.attempt {
		o.col.Begin()
	}
	if !a.State.Final() {
		return
	}
	total := &protocol.Output{FD: o.id.fd}
	for _, t := range a.Output {
		if t.FD == o.id.fd && (a.Attempt == o.id.attempt || a.Attempt == 0) {
			total = &t
		}
	}
	o.col.End(total)
}

// wants reports whether the host owes something of the stream.
func (o *output) wants() bool {
	_, window := o.col.Wants(o.ahead())
	return window > 0 && o.removedMS == 0
}

// ahead is up to where output is fetched for those who follow; 0 if there are
// none.
func (o *output) ahead() int64 {
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
// repeated, or was not asked for.
func (o *output) write(offset int64, data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	then, keep, ok := o.col.Judge(offset, int64(len(data)))
	if !ok || o.removedMS != 0 { // it may have been on its way when it became too old
		return nil
	}
	if _, err := o.file.WriteAt(data[:keep], offset); err != nil {
		return err
	}
	o.col.Put(then)
	o.dirty = true
	return nil
}

// jump takes a host's word that a part of a stream is gone.
func (o *output) jump(offset, gone int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.removedMS == 0 && o.col.Jump(offset, gone) {
		o.dirty = true
	}
}

// lose takes a host's word that it has nothing of what it was asked for.
func (o *output) lose(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.removedMS == 0 {
		o.col.Nothing(offset, o.ahead())
	}
}

// punch gives back the space of what is gone now and was not before.
func punch(f *os.File, now, before []window.Range) error {
	for _, r := range now {
		for _, b := range before {
			if b.From == r.From {
				r.From = min(b.To, r.To)
			}
		}
		if r.From == r.To {
			continue
		}
		const hole = 0x1 | 0x2 // FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
		if err := syscall.Fallocate(int(f.Fd()), hole, r.From, r.To-r.From); err != nil {
			return fmt.Errorf("punching %d bytes out of %s: %w", r.To-r.From, f.Name(), err)
		}
	}
	return nil
}
