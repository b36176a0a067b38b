package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

// Span is where reading of output stopped.
type Span struct {
	// Next is the offset from which to read on, −1 if everything was read. A
	// Next beyond what was read tells of bytes that were left out.
	Next int64
}

// spanBuffer is how much output is handed on at a time. Each slow reader keeps one.
const spanBuffer = 128 << 10

// Reading is which output is to be read, and how.
type Reading struct {
	Action protocol.ActionID
	FD     protocol.FD
	Offset int64
	// Follow waits for more until the command has ended and everything was read;
	// as long as a client follows, everything is fetched from the host.
	Follow bool
	// Hold is a follower for whom a command in mode stream waits. Of others who
	// follow beside it, each reads at its own speed what is still kept.
	Hold bool
}

// Extent is how much of a stream can be read from an offset on at once.
type Extent struct {
	To    int64 // behind the last byte; the offset if there is none
	Total int64 // bytes that the command wrote; −1 while that is not known
}

// Extent tells what can be read, and whether it may be read that way: a hold
// takes the role operator, for it makes a command wait. It fails with ErrGone for
// output that was removed because it was old.
func (m *Outputs) Extent(ctx context.Context, by core.Actor, what Reading) (Extent, error) {
	if what.Hold {
		if err := by.May(core.RoleOperator, "make a command wait for its reader"); err != nil {
			return Extent{}, err
		}
	}
	a, err := m.cfg.Action(ctx, what.Action)
	if err != nil {
		return Extent{}, err
	}
	if err := open(a); err != nil {
		return Extent{}, err
	}
	o, err := m.use(ctx, a, outputID{a.ID, max(1, a.Attempt), what.FD})
	if err != nil {
		return Extent{}, err
	}
	defer m.release(o)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle(a)
	if o.removedMS != 0 {
		return Extent{}, o.removed()
	}
	e := Extent{Total: -1}
	if t := o.col.Total(); t != nil {
		e.Total = t.Bytes
	}
	e.To, _ = o.col.Arrived().Readable(what.Offset)
	return e, nil
}

// open refuses what a closed session has shown: its host gives nothing of it.
func open(a core.Action) error {
	if !a.Kind.Interactive() || !a.BegunOnHost() {
		return nil
	}
	if spec, err := protocol.DecodeSpec(a.Spec); err == nil && spec.Shared() {
		return nil
	}
	return fmt.Errorf("%w: session %s was begun on host %s without --shared: root there and %s take part in it alone", core.ErrDenied, a.ID, a.Host, a.Requester)
}

// removed says why output is not there.
func (o *output) removed() error {
	return fmt.Errorf("%w: the output of action %s was removed at %s, because it was old or there was too much; how long output is kept is a setting of the coordinator (output.days, output.total_mib)",
		core.ErrGone, o.id.action, time.UnixMilli(o.removedMS).UTC().Format(time.RFC3339))
}

// Read hands the bytes of an output stream on to emit, in order and without
// a hole. It returns at the first hole, be it that more was written than is kept,
// or that the host has lost what it kept, and tells where to go on. It fails with
// ErrGone for output that was removed because it was old.
func (m *Outputs) Read(ctx context.Context, what Reading, emit func([]byte) error) (Span, error) {
	r := &reader{m: m, id: what.Action, fd: what.FD, offset: what.Offset, follow: what.Follow, hold: what.Follow && what.Hold}
	defer r.leave()
	for {
		more, span, err := r.step(ctx, emit)
		if err != nil || !more {
			return span, err
		}
	}
}

// reader is one reading of an output stream.
type reader struct {
	m      *Outputs
	id     protocol.ActionID
	fd     protocol.FD
	offset int64
	follow bool
	hold   bool
	o      *output
	a      core.Action // as it was before news
	news   <-chan struct{}
	done   func()
}

// look reads the action if it may have changed since the last time.
func (r *reader) look(ctx context.Context) error {
	if r.news != nil {
		select {
		case <-r.news:
		default:
			return nil
		}
		r.done()
	}
	r.news, r.done = r.m.base.Wake.On(r.id)
	a, err := r.m.cfg.Action(ctx, r.id)
	if err != nil {
		return err
	}
	r.a = a
	return r.attach(ctx, a)
}

// step emits what is there, or waits for more. It reports false at the end of
// the span.
func (r *reader) step(ctx context.Context, emit func([]byte) error) (more bool, _ Span, _ error) {
	if err := r.look(ctx); err != nil {
		return false, Span{}, err
	}
	changed, done := r.m.base.Wake.On(r.o.id)
	defer done()
	r.o.mu.Lock()
	r.o.settle(r.a)
	if r.follow {
		r.o.followers[r] = r.offset
	}
	held, total, lost, removed := r.o.col.Arrived(), r.o.col.Total(), r.o.col.Lost(), r.o.removedMS != 0
	r.o.mu.Unlock()
	if removed {
		return false, Span{}, r.o.removed()
	}
	until, next := held.Readable(r.offset)
	if r.offset < until {
		err := r.pass(until, emit)
		return err == nil, Span{}, err
	}
	if next > r.offset {
		return false, Span{Next: next}, nil
	}
	if next, ended := r.ended(held, total, lost); ended {
		return false, Span{Next: next}, nil
	}
	r.advance()
	select {
	case <-changed:
	case <-r.news:
	case <-ctx.Done():
		return false, Span{}, context.Cause(ctx)
	}
	return true, Span{}, nil
}

// pass hands on one span of what is held before until.
func (r *reader) pass(until int64, emit func([]byte) error) error {
	buf := r.m.span()
	defer r.m.spans.Put(buf)
	n, err := r.read(buf[:min(int64(len(buf)), until-r.offset)])
	if err != nil || n == 0 {
		return err
	}
	r.offset += int64(n)
	if err := emit(buf[:n]); err != nil {
		return err
	}
	r.advance()
	return nil
}

// read reads what is held, and nothing if it was dropped meanwhile.
func (r *reader) read(p []byte) (int, error) {
	n, err := r.o.file.ReadAt(p, r.offset)
	if err != nil {
		return 0, fmt.Errorf("read output: %w", err)
	}
	r.o.mu.Lock()
	until, _ := r.o.col.Arrived().Readable(r.offset)
	r.o.mu.Unlock()
	return int(max(0, min(int64(n), until-r.offset))), nil
}

// advance tells where the reader is, and asks the host for what is wanted now.
func (r *reader) advance() {
	if !r.follow {
		return
	}
	r.o.mu.Lock()
	r.o.followers[r] = r.offset
	r.o.mu.Unlock()
	if r.m.goOn(r.o) {
		r.m.cfg.Receipts.Send(r.a.Host)
	}
}

// ended judges a reader that has read all that is held from its offset on. lost
// tells that the host has no more of it.
func (r *reader) ended(held window.Held, t *protocol.Output, lost bool) (next int64, ended bool) {
	_, to, gone := window.Dropped(t, r.offset)
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

// attach goes to the stream of the newest attempt. An attempt that never began
// wrote nothing, so nothing is lost by going over to the next.
func (r *reader) attach(ctx context.Context, a core.Action) error {
	id := outputID{r.id, max(1, a.Attempt), r.fd}
	if r.o != nil && (r.o.id == id || r.offset > 0) {
		return nil
	}
	r.detach()
	o, err := r.m.use(ctx, a, id)
	if err != nil {
		return err
	}
	r.o = o
	return nil
}

func (r *reader) leave() {
	r.detach()
	if r.done != nil {
		r.done()
	}
}

func (r *reader) detach() {
	if r.o == nil {
		return
	}
	r.o.mu.Lock()
	delete(r.o.followers, r)
	r.o.mu.Unlock()
	r.m.release(r.o)
	r.o = nil
}
