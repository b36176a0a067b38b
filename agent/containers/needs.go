package containers

import (
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// needs is a verb for which the runtime of the container needs an ability.
type needs struct {
	verb
	ability string // one of [container.Abilities]
}

// Admit implements [actions.Handler]: what the runtime of the container cannot do is
// refused at once. Whether a container that is not there yet can be frozen is told when
// its turn comes.
func (n needs) Admit(s *protocol.Spec) error {
	m := n.managed[s.Target]
	if m == nil {
		return nil
	}
	r := n.runtime(m.rec.Runtime)
	if r == nil || slices.Contains(container.Abilities(r), n.ability) {
		return nil
	}
	return fmt.Errorf("%w: %s", actions.CodeUnsupported, cannot(m.rec.Runtime, n.ability))
}

// Prepare implements [actions.Handler]: it changes nothing of what is remembered.
func (n needs) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	if n.ability == "promote" { // it changes nothing at all
		_, end := n.record(s)
		return queue.Change{}, end
	}
	return later(n.Containers)(s)
}

// cannot says that a runtime lacks an ability.
func cannot(runtime, ability string) string {
	return fmt.Sprintf("%s on this host cannot %s containers", runtime, ability)
}

// unsupported is the error of an operation whose runtime lacks an ability.
func unsupported(o *operation, ability string) error {
	return fmt.Errorf("%w: %s", container.ErrUnsupported, cannot(o.rec.Runtime, ability))
}
