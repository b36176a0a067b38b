package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// typedBuffer is how much of what is written waits for its host at the most:
// beyond it the writer does.
const typedBuffer = 64 << 10

// typed is what somebody writes while the action runs. It is in memory alone,
// until the host has passed it.
type typed struct {
	mu    sync.Mutex
	begun bool  // base is known
	base  int64 // offset of buf[0]
	buf   []byte
	ended bool
	room  chan struct{} // closed when there is more room, or none ever again
	lost  error
}

func (t *typed) read(offset int64, n int) ([]byte, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := offset - t.base
	if at < 0 || at > int64(len(t.buf)) {
		return nil, false, nil // beyond the end, which was sent
	}
	data := t.buf[at:min(int64(len(t.buf)), at+int64(n))]
	return data, t.ended && len(data) == 0, nil
}

func (t *typed) passed(offset int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.begun {
		// A host may have read what a process before this one was given.
		t.begun, t.base = true, offset
	}
	if offset < t.base {
		t.lost = fmt.Errorf("%w: the host asks for input from byte %d on, and only what follows byte %d is still here", ErrConflict, offset, t.base)
		t.wake()
		return t.lost
	}
	if n := min(offset-t.base, int64(len(t.buf))); n > 0 {
		t.buf, t.base = append([]byte(nil), t.buf[n:]...), t.base+n
		t.wake()
	}
	return nil
}

// wake is called with mu held.
func (t *typed) wake() {
	if t.room != nil {
		close(t.room)
		t.room = nil
	}
}

func (t *typed) done(offset int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended && offset > t.base+int64(len(t.buf))
}

func (t *typed) close() {}

// add takes as much of p as there is room for. Without room it returns a channel
// that is closed when there may be some.
func (t *typed) add(p []byte) (int, <-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.lost != nil:
		return 0, nil, t.lost
	case t.ended:
		return 0, nil, fmt.Errorf("%w: the input has ended", ErrConflict)
	}
	n := min(len(p), typedBuffer-len(t.buf))
	t.buf = append(t.buf, p[:n]...)
	if n == 0 && len(p) > 0 {
		if t.room == nil {
			t.room = make(chan struct{})
		}
		return 0, t.room, nil
	}
	return n, nil, nil
}

func (t *typed) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.wake()
}

// Input is a stream of bytes to one attempt of an action, for what is not there
// before the action begins: what somebody types. It keeps what it was given in
// memory until the host has taken it, and no longer than this process. Its
// methods may be called from any goroutine; bytes arrive in the order in which
// they were written, each once, whatever the lines lose and repeat.
type Input struct {
	in   *input
	src  *typed
	once sync.Once
}

// OpenInput returns the stream to an attempt of an action without a payload. Who
// opens it again continues where the one before has ended. It returns
// [ErrNotFound] for an action that there is not, and [ErrInvalid] for one that
// has a payload. Close must follow.
func (c *Coordinator) OpenInput(ctx context.Context, id protocol.ActionID, attempt int) (*Input, error) {
	a, err := c.Action(ctx, id)
	if err != nil {
		return nil, err
	}
	var w *Input
	err = c.withInput(ctx, a.Host, inputID{id, attempt}, func(i *input) error {
		src, ok := i.src.(*typed)
		if !ok {
			return fmt.Errorf("%w: action %s reads a payload", ErrInvalid, id)
		}
		i.mu.Lock()
		i.writers++
		i.mu.Unlock()
		i.serve()
		w = &Input{in: i, src: src}
		return nil
	})
	return w, err
}

// Write takes all of p, waiting as long as the host is behind, or until ctx
// ends. It returns how much it took: that much will be sent.
func (w *Input) Write(ctx context.Context, p []byte) (int, error) {
	total := 0
	for {
		n, room, err := w.src.add(p[total:])
		total += n
		if n > 0 {
			w.in.look()
		}
		if err != nil || total == len(p) {
			return total, err
		}
		if room == nil {
			continue
		}
		select {
		case <-room:
		case <-ctx.Done():
			return total, context.Cause(ctx)
		case <-w.in.c.ctx.Done():
			return total, fmt.Errorf("%w: the coordinator stops", ErrUnavailable)
		}
	}
}

// End tells that nothing more will be written: the command reads the end of its
// input when it has read what came before.
func (w *Input) End() {
	w.src.end()
	w.in.look()
}

// Close ends the use of the stream. What was written is still sent.
func (w *Input) Close() {
	w.once.Do(func() {
		w.in.mu.Lock()
		w.in.writers--
		w.in.creditAt = time.Now()
		w.in.mu.Unlock()
		w.in.look()
	})
}
