package agent

import (
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// codeWrongName refuses a request that calls its container by the name of another,
// or by a name that it never had.
const codeWrongName protocol.Code = "wrong_name"

// maxFormer is how many former names of a container are remembered: whoever asked
// by an older one has waited for longer than anybody renames.
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

// misnamed refuses what calls its container otherwise than it is called, was
// called, or will be when what was accepted before is done. Whoever approves is
// shown the name, and it is the id that counts: one who calls the database
// "scratch" would have it destroyed by people who read what they sign.
func (a *Agent) misnamed(s *protocol.Spec, pending []*protocol.Spec) error {
	if s.Name == "" || s.Target.IsZero() || s.Kind == protocol.KindCreate {
		return nil
	}
	var names []protocol.ContainerName // the present one first
	if t := a.managed[s.Target]; t != nil {
		names = slices.Concat([]protocol.ContainerName{t.rec.Name}, t.rec.Former)
	}
	if slices.Contains(names, s.Name) {
		return nil
	}
	given := func(o *protocol.Spec) {
		switch {
		case o.Target != s.Target:
		case o.Kind == protocol.KindCreate:
			names = append(names, o.Name)
		case o.Kind == protocol.KindRename:
			names = append(names, o.NewName)
		}
	}
	for _, o := range pending {
		given(o)
	}
	if len(names) == 0 || slices.Contains(names, s.Name) {
		return nil // what is not there at all says so when its turn comes
	}
	return fmt.Errorf("%w: container %s is called %q here and never was %q; find out which one is meant, and ask again: hostler ct ls", codeWrongName, s.Target, names[0], s.Name)
}
