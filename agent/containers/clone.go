package containers

import (
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// clone makes a container of another one, in the steps of a creation. It holds the lanes
// of both.
type clone struct{ create }

// source returns the container that is copied, or why it cannot be.
func (h clone) source(s *protocol.Spec) (*managed, error) {
	args := protocol.ArgsOf[protocol.CloneArgs](s)
	id, err := protocol.ParseCTID(args.Source)
	m := h.managed[id]
	switch {
	case err != nil:
		return nil, err
	case m == nil || !m.rec.Made:
		return nil, fmt.Errorf("there is no container %q of that id on this host; see which there are: hostler ct ls", args.SourceName)
	case string(m.rec.Name) != args.SourceName:
		return nil, fmt.Errorf("%w: container %s is called %q here, and not %q; ask again", codeWrongName, id, m.rec.Name, args.SourceName)
	}
	return m, nil
}

// Admit implements [actions.Handler].
func (h clone) Admit(s *protocol.Spec) error {
	m, err := h.source(s)
	if err != nil {
		return nil // it may be there when its turn comes
	}
	if r := h.runtime(m.rec.Runtime); r != nil && !slices.Contains(container.Abilities(r), "clone") {
		return fmt.Errorf("%w: %s", actions.CodeUnsupported, cannot(m.rec.Runtime, "clone"))
	}
	return nil
}

// Prepare implements [actions.Handler]: the clone is kept as its source is, but for the
// ports of the host, which lead to one container each.
func (h clone) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	if m := h.managed[s.Target]; m != nil && m.rec.Name == s.Name {
		return queue.Change{}, nil
	}
	from, err := h.source(s)
	if err == nil && (h.managed[s.Target] != nil || h.used(s.Name)) {
		err = fmt.Errorf("a container %q exists on this host, or its id does", s.Name)
	}
	if err != nil {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: err.Error()}
	}
	was := &from.rec
	rec := queue.Container{
		CTID: s.Target, Name: s.Name, Runtime: was.Runtime, Class: was.Class, Intended: queue.Stopped, Offline: was.Offline,
		Labels: slices.Clone(was.Labels), Template: was.Template, MAC: container.MAC(container.CTID(s.Target.String())), Settings: was.Settings,
	}
	rec.Settings.Hostname = protocol.ContainerName(protocol.ArgsOf[protocol.CloneArgs](s).Hostname)
	rec.Settings.Ports, rec.Settings.Opening, rec.Settings.Mounts, rec.Settings.Paused, rec.Settings.RolledBack, rec.Settings.Upgraded, rec.Settings.Address6, rec.Settings.Moving = nil, nil, nil, "", "", "", "", nil
	return keep(rec), nil
}

// Begin implements [actions.Handler].
func (h clone) Begin(j *actions.Job) {
	o := h.operation(j)
	if o == nil {
		return
	}
	if !o.rec.Made {
		from, err := h.source(o.spec)
		if err != nil { // its lane is ours: it was gone before
			h.run(j, o, actions.Saga{Steps: []actions.Step{{Do: failing(err)}}, Undo: o.unmake})
			return
		}
		o.source = from.rec.Name
	}
	h.begin(j, o)
}

// Settle implements [actions.Settler].
func (h clone) Settle(j *actions.Job) { h.Begin(j) }
