package agent

import "github.com/hostler-io/hostler/protocol"

// Ask lets tests ask for what an action reads, whatever the action.
func (a *Agent) Ask(id protocol.ActionID, size int64) {
	a.loop.Tell(func() {
		a.relay.Keep(id, &protocol.Spec{Args: &protocol.CommandArgs{Input: protocol.Input{StdinSHA256: protocol.Sum([]byte(id.String())), StdinBytes: size}}}, true)
	})
}
