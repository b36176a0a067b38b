package lxc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hostler-io/hostler/container"
)

// pulls are the images that are being fetched for containers.
type pulls struct {
	mu  sync.Mutex
	ops map[container.CTID]container.Operation
}

func (p *pulls) operations() []container.Operation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.ops))
}

func (p *pulls) note(id container.CTID, o container.Operation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ops == nil {
		p.ops = make(map[container.CTID]container.Operation)
	}
	p.ops[id] = o
}

func (p *pulls) end(id container.CTID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ops, id)
}

// fetch gets the image of a container that is being made.
func (r *Runtime) fetch(ctx context.Context, spec container.CreateSpec) (container.Image, func(), error) {
	if r.cfg.Images == nil {
		return container.Image{}, nil, fmt.Errorf("%w: this host fetches no images for LXC", container.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Deadlines.Create, container.ErrTimeout)
	defer cancel()
	now := container.Operation{Verb: "pull", Name: spec.Name, Since: time.Now()}
	now.Note = "fetching " + spec.Template
	r.pulls.note(spec.CTID, now)
	defer r.pulls.end(spec.CTID)
	img, release, err := r.cfg.Images.Fetch(ctx, spec.Template, spec.Pull, func(note string) {
		now.Note = note
		r.pulls.note(spec.CTID, now)
	})
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return img, release, err
}
