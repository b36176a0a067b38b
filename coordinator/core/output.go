package core

import (
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

// OutputState tells which bytes of an output stream are in its file here.
type OutputState struct {
	Action  protocol.ActionID
	Attempt int
	FD      protocol.FD
	window.Held
	// RemovedMS is when all of it was removed; 0 while it is kept. Unix
	// milliseconds, for people.
	RemovedMS int64
}

// Removed reports whether nothing of it is kept any more.
func (s OutputState) Removed() bool { return s.RemovedMS > 0 }
