package containers

import (
	"fmt"
	"iter"
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// codeWrongName refuses a request that calls its container by the name of another
// one, or by a name that it never had.
const codeWrongName protocol.Code = "wrong_name"

// maxFormer is how many former names of a container are remembered: a request by an
// older name has waited for longer than containers are renamed.
const maxFormer = 16

// called is a container by another name. The name that it had stays good for what
// was asked for meanwhile.
func called(c queue.Container, name protocol.ContainerName) queue.Container {
	if c.Name == name {
		return c
	}
	former := slices.Clone(c.Former)
	former = slices.DeleteFunc(former, func(n protocol.ContainerName) bool { return n == name || n == c.Name })
	former = append(former, c.Name)
	c.Former = former[max(0, len(former)-maxFormer):]
	c.Name = name
	return c
}

// Misnamed refuses a request that calls its container otherwise than it is called, was
// called, or will be called when what was accepted before is done: pending. The people
// who approve are shown the name, but the id decides: a request that calls the
// database "scratch" would have it destroyed by people who read what they sign.
func (c *Containers) Misnamed(s *protocol.Spec, pending iter.Seq[*protocol.Spec]) error {
	if info, _ := protocol.KindOf(s.Kind); s.Name == "" || s.Target.IsZero() || info.Creates {
		return nil
	}
	var names []protocol.ContainerName // the present one first
	if m := c.managed[s.Target]; m != nil {
		names = slices.Concat([]protocol.ContainerName{m.rec.Name}, m.rec.Former)
	}
	if slices.Contains(names, s.Name) {
		return nil
	}
	for o := range pending {
		if name := o.Renames(); o.Target == s.Target && name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 || slices.Contains(names, s.Name) {
		return nil // a container that is not there at all is told when its turn comes
	}
	return fmt.Errorf("%w: container %s is called %q here and never was %q; find out which one is meant, and ask again: hostler ct ls", codeWrongName, s.Target, names[0], s.Name)
}
