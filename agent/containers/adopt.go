package containers

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// adopt makes a foreign container one of ours. Its commit point is the record that says
// that it is made: before it an interruption makes the container foreign again.
type adopt struct{ *Containers }

// Admit implements [actions.Handler].
func (h adopt) Admit(s *protocol.Spec) error {
	for _, r := range h.cfg.Runtimes {
		if kind := protocol.ArgsOf[protocol.AdoptArgs](s).Runtime; kind != "" && kind != string(r.Kind()) {
			continue
		}
		if slices.Contains(container.Abilities(r), "adopt") {
			return nil
		}
	}
	return fmt.Errorf("%w: no runtime of this host can take over containers", actions.CodeUnsupported)
}

// Prepare implements [actions.Handler]: the container is to be as it is now.
func (h adopt) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	if m := h.managed[s.Target]; m != nil && m.rec.Name == s.Name {
		return queue.Change{}, nil
	}
	info, err := h.stranger(s)
	if err != nil {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: err.Error()}
	}
	intended := queue.Stopped
	if info.State != container.StateStopped && info.State != container.StateStopping {
		intended = queue.Running
	}
	return keep(queue.Container{
		CTID: s.Target, Name: s.Name, Runtime: string(info.Kind), Class: classPinned, Intended: intended, Offline: "keep", Template: container.Adopted,
	}), nil
}

// stranger returns the foreign container that is meant, or why it is not adopted.
func (h adopt) stranger(s *protocol.Spec) (found container.Info, err error) {
	args := protocol.ArgsOf[protocol.AdoptArgs](s)
	for _, m := range h.managed {
		if m.rec.Name == s.Name {
			return found, fmt.Errorf("container %q of %s is kept by Hostler already: it need not be adopted, and another one of its name cannot be", s.Name, m.rec.Runtime)
		}
	}
	n := 0
	for kind, infos := range h.foreign {
		for _, info := range infos {
			if info.Name == string(s.Name) && (args.Runtime == "" || args.Runtime == string(kind)) {
				found = info
				n++
			}
		}
	}
	switch {
	case h.managed[s.Target] != nil:
		err = fmt.Errorf("the id %s is that of another container", s.Target)
	case n == 0:
		err = fmt.Errorf("there is no foreign container %q on this host; see which there are: hostler ct ls", s.Name)
	case n > 1:
		err = fmt.Errorf("two foreign containers are called %q, one of each runtime: name the runtime, as in HOST/podman:%s", s.Name, s.Name)
	case found.State == container.StateUnknown:
		err = fmt.Errorf("container %q does not answer, so it is not known whether it runs; try again later", s.Name)
	case found.Privileged && !args.Privileged:
		err = fmt.Errorf("container %q is privileged: root in it is root of this host; adopt it with --privileged if that is what you want", s.Name)
	}
	return found, err
}

// adopted returns a container that is kept from now on, as it was last seen if it was
// foreign until then.
func (h adopt) adopted(m *managed) *managed {
	kind := container.Kind(m.rec.Runtime)
	i := slices.IndexFunc(h.foreign[kind], func(info container.Info) bool { return info.Name == string(m.rec.Name) })
	if i >= 0 {
		m.info, m.seen = h.foreign[kind][i], true
		h.foreign[kind] = slices.Delete(h.foreign[kind], i, i+1)
	}
	return m
}

// since reports whether a foreign container that a look has seen is being adopted, or was
// after the look had begun.
func (h adopt) since(l listing, info container.Info) bool {
	for _, m := range h.managed {
		if string(m.rec.Name) == info.Name && m.rec.Runtime == string(l.kind) {
			return m.look > l.look || !h.cfg.Actions.Idle(m.rec.CTID)
		}
	}
	return false
}

// Begin implements [actions.Handler].
func (h adopt) Begin(j *actions.Job) {
	o := h.operation(j)
	if o == nil {
		return
	}
	h.run(j, o, actions.Saga{
		Steps:     []actions.Step{{Do: adoption{o}.adopt, Commit: true}},
		Undo:      adoption{o}.disown,
		Committed: o.rec.Made,
	})
}

// Settle implements [actions.Settler]: what could not be adopted is foreign again.
func (h adopt) Settle(j *actions.Job) { h.Begin(j) }

// adoption is what a worker does to adopt a container.
type adoption struct{ *operation }

// adopt has the runtime take the container over.
func (o adoption) adopt(ctx context.Context) (queue.Change, error) {
	r, ok := o.runtime.(container.Adopter)
	if !ok {
		return queue.Change{}, unsupported(o.operation, "adopt")
	}
	info, err := r.Adopt(ctx, string(o.rec.Name), container.CTID(o.rec.CTID.String()))
	switch {
	case err != nil:
		return queue.Change{}, err
	case info.Privileged && !protocol.ArgsOf[protocol.AdoptArgs](o.spec).Privileged:
		return queue.Change{}, fmt.Errorf("%w: it is privileged now, and was not when it was last looked at", container.ErrUnsupported)
	}
	o.seen = info
	o.rec.Made, o.rec.Template, o.rec.MAC = true, info.Template, info.MAC
	return keep(o.rec), nil
}

// disown makes a container foreign again that could not be adopted.
func (o adoption) disown(ctx context.Context, why error) (queue.Change, error) {
	if r, ok := o.runtime.(container.Adopter); ok {
		ctx, cancel := context.WithTimeout(ctx, correctTimeout)
		defer cancel()
		if err := r.Disown(ctx, string(o.rec.Name), container.CTID(o.rec.CTID.String())); err != nil {
			return queue.Change{}, fmt.Errorf("%w; it cannot be made foreign again: %w", why, err)
		}
	}
	return queue.Change{Delete: []protocol.CTID{o.rec.CTID}}, why
}
