// Package recovery owns what becomes of a coordinator that went back in time: what proves
// that it did, what a restored store must not do, and what its hosts are asked until they
// have told what happened meanwhile.
package recovery

import (
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Room is the recovery of one coordinator. All methods are safe for concurrent use once
// Load and LoadHost have returned.
type Room struct {
	base *core.Base
	own  protocol.KeyID // of the coordinator
	term protocol.Term  // of this process

	recovered Recovered // as of the start

	mu sync.Mutex
	// recovering are the hosts that have not told yet what they did before the
	// newest recovery, which is recovered.
	recovering map[protocol.HostID]bool
}

// New returns a room that has loaded nothing yet.
func New(base *core.Base, own protocol.KeyID, term protocol.Term) *Room {
	return &Room{base: base, own: own, term: term, recovering: make(map[protocol.HostID]bool)}
}
