package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

const (
	// waitStep is how long the other end is asked to wait at a time.
	waitStep = 30 * time.Second
	// lookStep is that where more may happen than the end.
	lookStep = 2 * time.Second
	// SubmitTries is how often an action is asked for when no answer comes. It
	// has its id by then, so asking again does it no second time.
	SubmitTries = 4
	// tail is how long output that is still under way may stand still after the
	// end of its command was told, unless its host is there: over the slowest line
	// a part takes longer. It is looked at as often, so giving up takes up to
	// twice of it.
	tail = 30 * time.Second
)

// Follower waits for the end of an action and tells how it goes.
type Follower struct {
	Dispatcher *Dispatcher
	Remote     *conn.Remote
	Label      string // of what it is about
	// Stdout and stderr get the output of a command; nil for none.
	Stdout, Stderr io.Writer
	// Hold lets a command in mode stream wait for us: we have asked for it.
	Hold bool
	// Whole takes nothing behind a part of stdout that was left out, and fails
	// without the end of it.
	Whole bool
	// Enough, if it is set, tells that there is nothing to wait for though the
	// action has not ended. It is asked every few seconds.
	Enough func(api.Action) bool
	// Ticker is told how it goes. Without one, and without output, Await has its own.
	Ticker *term.Ticker
	told   bool // that output is waited for
}

// Wait returns the action in its final state, when all of its output was
// written.
func (f *Follower) Wait(ctx context.Context, act api.Action) (api.Action, error) {
	if f.Stdout == nil {
		return f.Await(ctx, act)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var readers sync.WaitGroup
	var moved atomic.Int64 // bytes that came so far
	streams := [2]Stream{{Fd: protocol.Stdout, W: f.Stdout}, {Fd: protocol.Stderr, W: f.Stderr}}
	for i := range streams {
		readers.Go(func() { streams[i].Err = f.Copy(ctx, act.ID, &streams[i], true, &moved) })
	}
	done := make(chan struct{})
	go func() { readers.Wait(); close(done) }() // ends with the readers, which end with ctx
	final, err := f.Await(ctx, act)
	if err != nil {
		stop(err)
		<-done
		return final, err
	}
	WatchTail(f.Dispatcher.Tail, done, &moved, func() bool { return f.Comes(ctx, final, moved.Load()) }, stop)
	return final, f.streamsEnded(final, streams[:])
}

// WatchTail waits until the readers are done, and stops them when what they have
// moved stands still for a pause and no sender is connected.
func WatchTail(pause time.Duration, done <-chan struct{}, moved *atomic.Int64, comes func() bool, stop context.CancelCauseFunc) {
	t := time.NewTicker(pause)
	defer t.Stop()
	for last := moved.Load(); ; {
		select {
		case <-done:
			return
		case <-t.C:
		}
		now := moved.Load()
		if now == last && !comes() {
			stop(ErrTail)
		}
		last = now
	}
}

// Comes reports whether more of the output of an ended action can be expected: so
// much came, and its host is there to send the rest. It says so once.
func (f *Follower) Comes(ctx context.Context, act api.Action, moved int64) bool {
	missing := -moved
	for _, o := range act.Output {
		missing += o.Bytes - o.Dropped
	}
	if missing <= 0 || f.Remote.Local {
		return false
	}
	h, err := f.Remote.Member(ctx, protocol.HostID(act.Host))
	if err != nil {
		return errors.Is(err, client.ErrUnreachable) // the readers find out whether that lasts
	}
	if h.Connectivity != "online" && h.Connectivity != "late" {
		return false
	}
	if !f.told {
		f.told = true
		f.Dispatcher.Say("hostler: %s has ended; waiting for %d bytes of its output, which its host, %s, has not sent yet", f.Label, missing, act.Host)
	}
	return true
}

// ErrTail tells that output which was promised did not come.
var ErrTail = errors.New("the rest of the output did not arrive")

// streamsEnded says what is not there of the output.
func (f *Follower) streamsEnded(act api.Action, streams []Stream) error {
	f.Dispatcher.SayCutShort(act)
	for _, s := range streams {
		if s.Err != nil && !term.IsNotFound(s.Err) {
			if errors.Is(s.Err, ErrTail) && f.Whole && s.Fd == protocol.Stdout {
				return &term.Failure{Code: term.ExitUnreachable, What: fmt.Sprintf("no more output has arrived for %v", f.Dispatcher.Tail), Next: "hostler host ls"}
			}
			if errors.Is(s.Err, ErrTail) {
				f.Dispatcher.Say("hostler: %s of %s: no more output has arrived for %v; later: hostler action logs %s --follow", s.Fd, f.Label, f.Dispatcher.Tail, act.ID)
				continue
			}
			return s.Err
		}
		for _, o := range act.Output {
			if o.FD == string(s.Fd) && o.Dropped > 0 && !s.gap {
				f.Dispatcher.Say("hostler: %d bytes of %s of %s were left out, from byte %d on", o.Dropped, s.Fd, f.Label, o.DropAt)
			}
		}
	}
	return nil
}

// Await polls the state of an action until it is final, over restarts of the
// other end.
func (f *Follower) Await(ctx context.Context, act api.Action) (api.Action, error) {
	if f.Ticker == nil && f.Stdout == nil {
		f.Ticker = f.Dispatcher.Tick(f.Label, "")
		defer func() { f.Ticker.End(); f.Ticker = nil }()
	}
	var again conn.Retry
	shown, away := "", false
	begun := f.Dispatcher.Now()
	step := lookStep // a host that is away is told of soon
	for ; ; step = waitStep {
		if now := act.Waits != nil && act.Waits.For == "host"; now != away {
			if away = now; away {
				f.Dispatcher.Say("hostler: %s: %s; to look: hostler why %s", term.Printable(f.Label), term.Printable(act.Waits.Text), act.ID)
			}
		}
		// That an action is being sent is worth a word only when it takes long.
		fresh := protocol.State(act.State) == protocol.StatePendingSchedule && f.Dispatcher.Now().Sub(begun) < lookStep
		if word := cmp.Or(act.Shown, act.State); word != shown && !fresh {
			shown = word
			if f.Ticker != nil {
				f.Ticker.Tell(word)
			}
			if f.Dispatcher.ErrTTY && f.Stdout == nil && (f.Dispatcher.Dumb() || protocol.State(act.State).Final()) {
				f.Dispatcher.Say("%s: %s", term.Printable(f.Label), term.Printable(word))
			}
		}
		if protocol.State(act.State).Final() {
			return act, nil
		}
		asked := f.Dispatcher.Now()
		if f.Enough != nil {
			step = lookStep
		}
		next, err := f.Remote.Action(ctx, act.ID, step)
		if err != nil {
			if again.Since.IsZero() && ctx.Err() == nil && errors.Is(err, client.ErrUnreachable) {
				f.Dispatcher.Say("hostler: no answer from the coordinator, trying again; %s continues", act.ID)
			}
			if err := again.Wait(ctx, f.Dispatcher.Now(), err); err != nil {
				return act, err
			}
			continue
		}
		act, again = next, conn.Retry{}
		if f.Enough != nil && f.Enough(act) {
			return act, nil
		}
		if !protocol.State(act.State).Final() && f.Dispatcher.Now().Sub(asked) < time.Second {
			// A server that answers at once without an end does not wait.
			if err := term.Pause(ctx, conn.FirstRetry); err != nil {
				return act, err
			}
		}
	}
}

// Stream is one output stream of a command.
type Stream struct {
	Fd   protocol.FD
	W    io.Writer
	From int64 // first byte that is wanted
	gap  bool  // bytes were left out, and it was said
	End  int64 // offset behind the last byte that was written
	Err  error
}

// Copy writes a stream from its first wanted byte on.
func (f *Follower) Copy(ctx context.Context, id string, s *Stream, follow bool, moved *atomic.Int64) error {
	var again conn.Retry
	for offset := s.From; ; {
		w := &counter{w: s.W, moved: moved}
		next, err := f.Remote.Output(ctx, client.Reading{Action: id, FD: string(s.Fd), Offset: offset, Follow: follow, Hold: f.Hold}, w)
		if w.err != nil {
			return w.err // the reader of our output is gone
		}
		if w.n > 0 {
			again = conn.Retry{}
		}
		end := offset + w.n
		s.End, offset = end, next
		switch {
		case err != nil:
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			if err := again.Wait(ctx, f.Dispatcher.Now(), err); err != nil {
				return err
			}
		case next < 0:
			return nil
		case next > end && f.Whole && s.Fd == protocol.Stdout:
			return fmt.Errorf("%d bytes were left out, because they were not read in time", next-end)
		case next > end:
			s.gap = true
			f.Dispatcher.Say("hostler: %d bytes of %s of %s were left out here", next-end, s.Fd, f.Label)
		case !follow:
			return nil // that is all there is yet
		case w.n == 0:
			if err := term.Pause(ctx, conn.FirstRetry); err != nil {
				return err
			}
		}
	}
}

// counter counts what is written, and keeps the error of the other side.
type counter struct {
	w     io.Writer
	n     int64
	err   error
	moved *atomic.Int64 // the same of all streams, for the progress line
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n, c.err = c.n+int64(n), err
	c.moved.Add(int64(n))
	return n, err
}
