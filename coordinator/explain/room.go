// Package explain says why an action has not begun, or has not ended.
package explain

import (
	"context"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Hosts is what the conversations with hosts know and do. It is safe for concurrent use.
type Hosts interface {
	// Here reports whether a host can be reached now, and when it was last heard, Unix
	// milliseconds; 0 if not since the start.
	Here(protocol.HostID) (bool, int64)
	// Quarantined reports whether a host gets no orders until a person readmits it.
	Quarantined(protocol.HostID) bool
	// AskIn returns when a host may be asked about an action, one question behind the
	// other: false if that is further off than patience.
	AskIn(host protocol.HostID, patience time.Duration) (time.Duration, bool)
	// Ask asks a host about an action. That nothing is asked, because the host takes no
	// questions, is no error.
	Ask(ctx context.Context, host protocol.HostID, action protocol.ActionID) error
}

// Approvals knows who may approve what. It is safe for concurrent use.
type Approvals interface {
	// WhoMayApprove says for whose approval an action waits, a sentence for people.
	WhoMayApprove(core.Action) string
}

// Room explains. All methods are safe for concurrent use.
type Room struct {
	base      *core.Base
	hosts     Hosts
	approvals Approvals

	mu   sync.Mutex
	whys map[protocol.ActionID]toldWhy // what hosts told of actions just now; see askWhy
}

// New returns a room that no host has told anything.
func New(base *core.Base, hosts Hosts, approvals Approvals) *Room {
	return &Room{base: base, hosts: hosts, approvals: approvals}
}
