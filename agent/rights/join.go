package rights

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// ErrNotYours refuses a part in a session to which the user is not let.
var ErrNotYours = errors.New("this user may not take part in the session")

// localNames begin the names of users of this host, as the kernel tells of them.
const localNames = "uid:"

// Join decides whether a user may type in a session, or watch it, which is the same
// question: what a terminal shows is what was typed, and more. here tells a user of
// the agent's socket, whom the kernel names, from a user whom the coordinator names.
//
//	on the host    root, and the user who began it there
//	elsewhere      the requester of its order, which the policy or approvals let in
//	both           of a session that is not closed, users whom the policy lets begin
//	               the same session without an approval
//
// A session that began on this host is closed unless it is shared. One of an order is
// closed to the host's own users but root. It fails with [ErrNotYours].
func (r *Rights) Join(act *queue.Action, spec *protocol.Spec, user string, here bool) error {
	switch {
	case here && user == LocalRoot, here == act.Local && user == act.Requester:
		return nil
	case act.Closed(spec):
		return fmt.Errorf("%w: only root and %s may take part in session %s, because it was begun on its host without --shared", ErrNotYours, act.Requester, act.ID)
	case here && !act.Local:
		return fmt.Errorf("%w: session %s was requested through the coordinator, so on this host only root may take part", ErrNotYours, act.ID)
	case !here && strings.HasPrefix(user, localNames):
		return fmt.Errorf("%w: the coordinator cannot speak for %.70q, a user of this host", ErrNotYours, user)
	}
	if need := r.policy.Needs(r.request(spec, user)); !need.None() {
		return fmt.Errorf("%w: %.70q may not begin a session as %s alone (%s)", ErrNotYours, user, act.ID, need)
	}
	return nil
}
