package containers

import (
	"context"
	"fmt"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// toRename refuses a name that another container has. A container that has the name
// already was renamed by an attempt that was interrupted after that.
func (c *Containers) toRename(s *protocol.Spec) (queue.Change, *queue.Step) {
	rec, end := unmoved(c, s)
	if end == nil && rec.Name != s.Renames() && c.used(s.Renames()) {
		end = &queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("a container %q exists on this host; choose another name, or remove it first", s.Renames())}
	}
	return queue.Change{}, end
}

// rename gives a stopped container another name. Its id, address and hardware
// address stay.
func (o *operation) rename(ctx context.Context) (queue.Change, error) {
	r, ok := o.runtime.(container.Renamer)
	if !ok {
		return queue.Change{}, fmt.Errorf("%w: %s renames no containers here", container.ErrUnsupported, o.rec.Runtime)
	}
	id, name := container.CTID(o.rec.CTID.String()), string(o.spec.Renames())
	if err := r.Rename(ctx, string(o.rec.Name), name, id); err != nil {
		// Cut short, it may have its new name all the same: what is there decides.
		if there := o.inspect(o.cfg.Loop.Work(), name); there.CTID != id {
			return queue.Change{}, err
		}
	}
	next := called(o.rec, o.spec.Renames())
	o.rec.Name = next.Name // for the look at it
	return keep(next), nil
}
