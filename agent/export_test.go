package agent

import (
	"io"

	"github.com/hostler-io/hostler/protocol"
)

// Ask lets tests ask for what an action reads, whatever the action.
func (a *Agent) Ask(id protocol.ActionID, size int64) { a.inputs.open(id, 1, 0, size, io.Discard) }
