package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/protocol"
)

// maxFetches is how many payloads come down at a time: each gets its part of what
// the line carries, and few of a part are worth more than a part of many.
const maxFetches = 4

// payloads brings payloads to the host before the actions that read them begin. An
// action without its payload delays no other; its start budget runs. The maps belong
// to the loop.
type payloads struct {
	cfg    *Config
	inputs *inputs
	needs  map[protocol.ActionID]need // of the actions that have not ended
	all    map[protocol.Digest]*fetch
	queued []*fetch
	active int
	kept   uint64 // counts what was kept, for the order
}

// need is the payload of an action that has not ended.
type need struct {
	digest protocol.Digest
	size   int64
	order  uint64 // of acceptance
	lacks  bool   // it is not here
}

// fetch is a payload on its way, or one that waits for its turn.
type fetch struct {
	digest protocol.Digest
	size   int64
	action protocol.ActionID // whose payload it is to the coordinator
	quit   context.CancelFunc
}

func newPayloads(cfg *Config, i *inputs) *payloads {
	return &payloads{cfg: cfg, inputs: i, needs: make(map[protocol.ActionID]need), all: make(map[protocol.Digest]*fetch)}
}

// Lacks reports whether an action cannot begin because its payload is not here.
func (r *Relay) Lacks(s *protocol.Spec) bool {
	if !s.HasPayload() {
		return false
	}
	size, _, err := r.cfg.Payloads.Size(s.Input().StdinSHA256)
	return err != nil || size != s.Input().StdinBytes
}

// Keep keeps the payload of an action, or fetches it if the action lacks it, until
// the action has ended. It belongs to the loop.
func (r *Relay) Keep(id protocol.ActionID, s *protocol.Spec, lacks bool) {
	if !s.HasPayload() {
		return
	}
	p := r.payloads
	p.kept++
	p.needs[id] = need{digest: s.Input().StdinSHA256, size: s.Input().StdinBytes, order: p.kept, lacks: lacks}
	if lacks {
		p.want(id)
	}
}

// Payload is the file with the payload of a command; empty if it has none. The
// payload came before the command was to begin, so an error means that it was
// removed.
func (r *Relay) Payload(s *protocol.Spec) (string, error) {
	if !s.HasPayload() {
		return "", nil
	}
	if r.Lacks(s) {
		return "", fmt.Errorf("its input %s: %w", s.Input().StdinSHA256, fs.ErrNotExist)
	}
	return r.cfg.Payloads.Path(s.Input().StdinSHA256), nil
}

// Sweep removes payloads that are not needed, of actions that ended while the disk or
// the process failed.
func (r *Relay) Sweep(needed func(protocol.Digest) bool) {
	if r.cfg.Payloads == nil {
		return
	}
	if _, err := r.cfg.Payloads.Sweep(time.Now().Add(time.Hour), needed); err != nil {
		r.cfg.Log.Warn("old inputs stay", "error", err)
	}
}

// want sees to it that the payload of an action comes.
func (p *payloads) want(id protocol.ActionID) {
	n := p.needs[id]
	if p.all[n.digest] != nil {
		return
	}
	w := &fetch{digest: n.digest, size: n.size, action: id}
	p.all[n.digest] = w
	p.queued = append(p.queued, w)
	p.next()
}

// next begins what may begin.
func (p *payloads) next() {
	for p.active < maxFetches && len(p.queued) > 0 && !p.cfg.Loop.Stopping() {
		w := p.queued[0]
		p.queued = p.queued[1:]
		p.active++
		ctx, quit := context.WithCancel(p.cfg.Loop.Watching())
		w.quit = quit
		p.cfg.Loop.Worker(func() func() {
			err := p.fetch(ctx, w)
			quit()
			return func() { p.ended(w, err) }
		})
	}
}

// ended goes on with the actions that waited for a payload.
func (p *payloads) ended(w *fetch, err error) {
	p.active--
	delete(p.all, w.digest)
	for _, id := range p.waiting(w.digest) {
		n, ok := p.needs[id]
		switch {
		case !ok:
			// It has ended with one before it.
		case err == nil:
			n.lacks = false
			p.needs[id] = n
			p.cfg.Actions.Supplied(id)
		case p.cfg.Loop.Stopping() || errors.Is(err, context.Canceled):
			if !p.cfg.Loop.Stopping() {
				p.want(id) // the action that it was fetched for has ended, and another needs it too
			}
		default:
			if j := p.cfg.Actions.Job(id); j != nil {
				j.Finish(queue.Step{Event: protocol.EventFail, Detail: "its input did not arrive: " + err.Error()})
			}
		}
	}
	p.next()
}

// waiting are the actions that lack a payload, the oldest first.
func (p *payloads) waiting(d protocol.Digest) (all []protocol.ActionID) {
	for id, n := range p.needs {
		if n.lacks && n.digest == d {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(x, y protocol.ActionID) int { return cmp.Compare(p.needs[x].order, p.needs[y].order) })
	return all
}

// over lets go of the payload of an action that has ended, unless another needs it.
func (p *payloads) over(id protocol.ActionID) {
	n, ok := p.needs[id]
	if !ok {
		return
	}
	delete(p.needs, id)
	needed := false
	for _, other := range p.needs {
		needed = needed || other.digest == n.digest
	}
	w := p.all[n.digest]
	switch {
	case w != nil && (!needed || w.action == id) && w.quit != nil:
		w.quit()
	case w != nil && (!needed || w.action == id):
		delete(p.all, n.digest)
		p.queued = slices.DeleteFunc(p.queued, func(o *fetch) bool { return o == w })
		for _, other := range p.waiting(n.digest) {
			p.want(other)
		}
	}
	if needed {
		return
	}
	if err := p.cfg.Payloads.Remove(n.digest); err != nil {
		p.cfg.Log.Warn("the input of an action that has ended stays", "action", id.String(), "error", err)
	}
}

// errNoPayload is the answer of a coordinator that has lost a payload.
var errNoPayload = errors.New("the coordinator does not have it any more: ask for the action again, with its input")

// fetch brings one payload here. It goes on where a process before has come to.
// What is there in the end and is not what was promised is fetched once more,
// for a crash of the machine can leave holes.
func (p *payloads) fetch(ctx context.Context, w *fetch) error {
	for again := range 2 {
		err := p.fill(ctx, w)
		if err == nil || again > 0 || !errors.Is(err, blob.ErrDigest) {
			return err
		}
		p.cfg.Log.Warn("a payload is fetched again", "action", w.action.String(), "error", err)
	}
	return nil
}

func (p *payloads) fill(ctx context.Context, w *fetch) error {
	f, err := p.cfg.Payloads.Fill(w.digest, w.size)
	for errors.Is(err, blob.ErrBusy) { // a person of this host sends the same
		if p.cfg.Payloads.Await(ctx, w.digest) != nil {
			return context.Canceled
		}
		if size, _, missing := p.cfg.Payloads.Size(w.digest); missing == nil && size == w.size {
			return nil
		}
		f, err = p.cfg.Payloads.Fill(w.digest, w.size)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Offset() < w.size {
		s := p.inputs.open(w.action, 1, f.Offset(), w.size, f)
		stop := context.AfterFunc(ctx, s.quit)
		err := s.wait()
		stop()
		switch {
		case ctx.Err() != nil:
			return context.Canceled
		case err != nil:
			return err
		}
	}
	_, err = f.Finish()
	return err
}
