package agent

import (
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

// supplies bring payloads to the host before the actions that read them begin.
// An action without its payload is in no lane and delays nobody; its start budget
// runs. The map belongs to the loop.
type supplies struct {
	agent  *Agent
	all    map[protocol.Digest]*fetch
	queued []*fetch
	active int
}

// fetch is a payload on its way, or one that waits for its turn.
type fetch struct {
	digest protocol.Digest
	size   int64
	action protocol.ActionID // whose payload it is to the coordinator
	quit   context.CancelFunc
}

func newSupplies(a *Agent) *supplies {
	return &supplies{agent: a, all: make(map[protocol.Digest]*fetch)}
}

// lacksPayload reports whether an action cannot begin because of its payload.
func (a *Agent) lacksPayload(s *protocol.Spec) bool {
	if !s.HasPayload() {
		return false
	}
	size, _, err := a.cfg.Payloads.Size(s.StdinSHA256)
	return err != nil || size != s.StdinBytes
}

// want sees to it that the payload of an action comes.
func (f *supplies) want(j *job) {
	d := j.spec.StdinSHA256
	if f.all[d] != nil {
		return
	}
	w := &fetch{digest: d, size: j.spec.StdinBytes, action: j.act.ID}
	f.all[d] = w
	f.queued = append(f.queued, w)
	f.next()
}

// next begins what may begin.
func (f *supplies) next() {
	a := f.agent
	for f.active < maxFetches && len(f.queued) > 0 && !a.loop.Stopping() {
		w := f.queued[0]
		f.queued = f.queued[1:]
		f.active++
		ctx, quit := context.WithCancel(a.loop.Watching())
		w.quit = quit
		a.loop.Worker(func() func() {
			err := a.fetch(ctx, w)
			quit()
			return func() { f.ended(w, err) }
		})
	}
}

// ended goes on with those who waited for a payload.
func (f *supplies) ended(w *fetch, err error) {
	a := f.agent
	f.active--
	delete(f.all, w.digest)
	for _, id := range f.waiting(w.digest) {
		j := a.jobs[id]
		switch {
		case err == nil:
			a.lanes.supplied(id)
		case a.loop.Stopping() || errors.Is(err, context.Canceled):
			if !a.loop.Stopping() {
				f.want(j) // whose payload it was has ended, and another needs it too
			}
		default:
			a.finish(j, queue.Step{Event: protocol.EventFail, Detail: "its input did not arrive: " + err.Error()})
		}
	}
	f.next()
}

// waiting are the actions that cannot begin without a payload.
func (f *supplies) waiting(d protocol.Digest) (all []protocol.ActionID) {
	for _, e := range f.agent.lanes.entries {
		if j := f.agent.jobs[e.id]; e.lacks && j != nil && j.spec.StdinSHA256 == d {
			all = append(all, e.id)
		}
	}
	return all
}

// over lets go of the payload of an action that has ended, unless another needs
// it.
func (f *supplies) over(s *protocol.Spec, id protocol.ActionID) {
	a := f.agent
	if !s.HasPayload() || a.cfg.Payloads == nil {
		return
	}
	d := s.StdinSHA256
	needed := slices.ContainsFunc(a.lanes.entries, func(e laneEntry) bool {
		j := a.jobs[e.id]
		return j != nil && e.id != id && j.spec.StdinSHA256 == d
	})
	w := f.all[d]
	switch {
	case w != nil && (!needed || w.action == id) && w.quit != nil:
		w.quit()
	case w != nil && (!needed || w.action == id):
		delete(f.all, d)
		f.queued = slices.DeleteFunc(f.queued, func(o *fetch) bool { return o == w })
		for _, other := range f.waiting(d) {
			f.want(a.jobs[other])
		}
	}
	if needed {
		return
	}
	if err := a.cfg.Payloads.Remove(d); err != nil {
		a.cfg.Log.Warn("the input of an action that has ended stays", "action", id.String(), "error", err)
	}
}

// sweepPayloads removes payloads that nobody needs, of actions that ended while
// the disk or the process failed.
func (a *Agent) sweepPayloads() {
	if a.cfg.Payloads == nil {
		return
	}
	needed := make(map[protocol.Digest]bool)
	for _, j := range a.jobs {
		needed[j.spec.StdinSHA256] = true
	}
	if _, err := a.cfg.Payloads.Sweep(time.Now().Add(time.Hour), func(d protocol.Digest) bool { return needed[d] }); err != nil {
		a.cfg.Log.Warn("old inputs stay", "error", err)
	}
}

// errNoPayload is the answer of a coordinator that has lost a payload.
var errNoPayload = errors.New("the coordinator does not have it any more: ask for the action again, with its input")

// fetch brings one payload here. It goes on where a process before has come to.
// What is there in the end and is not what was promised is fetched once more,
// for a crash of the machine can leave holes.
func (a *Agent) fetch(ctx context.Context, w *fetch) error {
	for again := range 2 {
		err := a.fill(ctx, w)
		if err == nil || again > 0 || !errors.Is(err, blob.ErrDigest) {
			return err
		}
		a.cfg.Log.Warn("a payload is fetched again", "action", w.action.String(), "error", err)
	}
	return nil
}

func (a *Agent) fill(ctx context.Context, w *fetch) error {
	f, err := a.cfg.Payloads.Fill(w.digest, w.size)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Offset() < w.size {
		s := a.inputs.open(w.action, 1, f.Offset(), w.size, f)
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

// payloadFile is where the payload of a command is. It is there since before the
// command was to begin; if it is not, somebody has removed it.
func (a *Agent) payloadFile(s *protocol.Spec) (string, error) {
	if !s.HasPayload() {
		return "", nil
	}
	if a.lacksPayload(s) {
		return "", fmt.Errorf("its input %s: %w", s.StdinSHA256, fs.ErrNotExist)
	}
	return a.cfg.Payloads.Path(s.StdinSHA256), nil
}
