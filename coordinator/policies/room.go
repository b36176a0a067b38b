// Package policies knows what the operators of the coordinator and those of each host ask
// for, and says what an action needs before it is sent.
package policies

import (
	"sync/atomic"

	"github.com/hostler-io/hostler/coordinator/core"
)

// Room holds policies. All methods are safe for concurrent use.
type Room struct {
	base       *core.Base
	configured atomic.Pointer[Policies] // in force
	known      texts
}

// New returns a room with the policies that are in force from the start.
func New(base *core.Base, configured Policies) *Room {
	r := &Room{base: base}
	r.configured.Store(&configured)
	return r
}
