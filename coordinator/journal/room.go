// Package journal keeps the coordinator's memory of what was done: it seals the audit
// log and reads it out, keeps events for those who watch, and forgets what ended long
// ago.
package journal

import (
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Outputs keeps the output of actions.
type Outputs interface {
	// Remove calls forget with those of some actions whose output is not being read, and
	// lets nobody begin to read it meanwhile. Then it removes the output of those that
	// forget returns.
	Remove(all []core.Action, forget func(unread []core.Action) (gone []core.Action, err error)) error
}

// Config is what a Room is made of. All of it is needed.
type Config struct {
	Signer  protocol.Signer // of checkpoints
	Term    protocol.Term   // of this process
	Outputs Outputs
	// Recovering tells whether a host has still to tell what it did before a recovery.
	Recovering func(protocol.HostID) bool
	// RecoveredMS tells when the newest recovery was made, 0 if there was none.
	RecoveredMS func() int64
	// Sealed is called with the hosts that the newest checkpoint is about.
	Sealed func([]protocol.HostID)
	// Records is how many records of the audit log are kept.
	Records uint64
	// ActionAge is how long what has ended is kept, and Actions how many actions that
	// have ended.
	ActionAge time.Duration
	Actions   int
}

// Room is the journal. All methods are safe for concurrent use, but for those that say
// otherwise.
type Room struct {
	base   *core.Base
	cfg    Config
	sealer sealer
	walk   forgetting // is of the goroutine that calls Forget
}

// New returns a room which has sealed nothing yet.
func New(base *core.Base, cfg Config) *Room {
	return &Room{base: base, cfg: cfg, sealer: sealer{full: make(chan struct{}, 1)}}
}

// Written notes that a transaction may have recorded something. It is called after
// each.
func (r *Room) Written() { r.sealer.note() }

// NewestSeal returns the newest checkpoint that this process has made, nil if there is
// none.
func (r *Room) NewestSeal() *core.Seal { return r.sealer.newest.Load() }
