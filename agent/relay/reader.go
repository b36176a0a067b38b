package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// Output has a user of the host read what a command has written, from an offset on. Of
// a session only those may who may take part in it. With follow the reader waits for
// more until the command has ended; a Read that waits ends when ctx does. Bytes that
// the cap has dropped are left out: never within one Read, and the offset tells. Before
// an action has output, a reader that follows waits, and another is at the end. A
// command in mode stream waits for a reader that holds it. The error is
// [queue.ErrUnknown], [commands.ErrGone] or why the user may not.
func (r *Relay) Output(ctx context.Context, id protocol.ActionID, user string, fd protocol.FD, offset int64, follow, hold bool) (*Reader, error) {
	if r.cfg.RunDirs == nil || !slices.Contains(commands.Streams[:], fd) || offset < 0 {
		return nil, fmt.Errorf("output of action %s: %w", id, queue.ErrUnknown)
	}
	act, err := r.cfg.Queue.Action(ctx, id)
	if err != nil {
		return nil, err
	}
	if spec, err := protocol.DecodeSpec(act.Spec); err == nil && spec.Kind.Interactive() {
		if err := r.join(ctx, &act, &spec, user); err != nil {
			return nil, err
		}
	}
	if act.State.Final() && act.Attempt > 0 {
		f, err := r.cfg.openEnded(&act, fd)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err == nil {
			_ = f.Close() // it is opened when it is read
		}
	}
	return &Reader{ctx: ctx, cfg: &r.cfg, id: id, fd: fd, offset: offset, follow: follow, hold: follow && hold && fd != protocol.Recording}, nil
}

// Reader reads an output stream of an action on the host itself. It belongs to one
// goroutine.
type Reader struct {
	ctx      context.Context
	cfg      *Config
	id       protocol.ActionID
	fd       protocol.FD
	offset   int64
	follow   bool
	hold     bool
	run      commands.Run // while the command lives
	acks     *commands.Acknowledged
	follower *commands.Follower
	file     commands.Output
}

// Read returns what is there, waits for more if it follows, and leaves out what
// was dropped.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.file == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	r.acknowledge()
	for {
		var changed <-chan struct{}
		ended := r.run == nil || !r.follow
		if !ended {
			changed = r.run.Changed()
			select {
			case <-r.run.Done():
				ended = true // what is read from now on is all there is
			default:
			}
		}
		n, err := r.file.ReadAt(p, r.offset)
		r.offset += int64(n)
		to, dropped := commands.Dropped(err)
		switch {
		case n > 0:
			return n, nil
		case dropped:
			r.offset = to
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return 0, err
		case ended:
			return 0, io.EOF
		}
		if err := r.cfg.wait(r.ctx, changed); err != nil {
			return 0, err
		}
	}
}

// acknowledge tells the command how far a reader that holds it has come.
func (r *Reader) acknowledge() {
	switch {
	case !r.hold || r.acks == nil:
	case r.follower == nil:
		r.follower = r.acks.Follow(r.fd, r.offset)
	default:
		r.follower.At(r.offset)
	}
}

// Offset is where the next byte stands in the stream that the command wrote. It
// grows by more than was read when bytes were left out.
func (r *Reader) Offset() int64 { return r.offset }

// open waits until the command has begun, if it follows, and opens its output.
func (r *Reader) open() error {
	for {
		at, news, err := r.cfg.standing(r.ctx, r.id)
		if err != nil {
			return err
		}
		if news == nil { // it has ended
			act, err := r.cfg.Queue.Action(r.ctx, r.id)
			if err != nil {
				return err
			}
			if act.Attempt == 0 {
				return io.EOF
			}
			r.file, err = r.cfg.openEnded(&act, r.fd)
			return err
		}
		if at.Run != nil || !r.follow {
			if at.Attempt == 0 {
				return io.EOF
			}
			r.run, r.acks = at.Run, at.Acks
			r.file, err = r.cfg.RunDirs.Output(r.id, at.Attempt, r.fd)
			return err
		}
		if err := r.cfg.wait(r.ctx, news); err != nil {
			return err
		}
	}
}

// Close releases the file.
func (r *Reader) Close() error {
	if r.follower != nil {
		r.follower.Leave()
	}
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// standing returns how an action stands and what is closed at its next change; nil
// if the action has ended.
func (c *Config) standing(ctx context.Context, id protocol.ActionID) (Standing, <-chan struct{}, error) {
	var news <-chan struct{}
	at, err := loop.Ask(ctx, c.Loop, func() (Standing, error) {
		at, open := c.find(id)
		if open {
			news = c.Actions.News(id)
		}
		return at, nil
	})
	return at, news, err
}

// wait waits for one of an action's channels.
func (c *Config) wait(ctx context.Context, news <-chan struct{}) error {
	select {
	case <-news:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.Loop.Stopped():
		return loop.ErrStopped
	}
}

// openEnded opens the output of an attempt of an action that has ended. It is
// [commands.ErrGone] if there was some and it was removed, and [io.EOF] if there never was.
func (c *Config) openEnded(act *queue.Action, fd protocol.FD) (commands.Output, error) {
	f, err := c.RunDirs.Output(act.ID, act.Attempt, fd)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	for _, o := range act.Output {
		if o.FD == fd && o.Bytes > 0 {
			return nil, fmt.Errorf("%w: the output of action %s was removed, because it was old or there was too much; how long output is kept is a setting of the agent (commands.output_days, commands.output_mib)",
				commands.ErrGone, act.ID)
		}
	}
	return nil, io.EOF
}
