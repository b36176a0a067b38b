// Package members decides which hosts belong to the fleet: it invites and enrols them,
// labels, quarantines, readmits, replaces and revokes them.
package members

import (
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Links are the conversations with hosts. It is safe for concurrent use.
type Links interface {
	// Presence returns whether a host is there, and when it was last heard, Unix
	// milliseconds; 0 if not since the start.
	Presence(protocol.HostID) core.Presence
	// Readmitted begins anew with a host that was readmitted, and Drop forgets a machine.
	Readmitted(protocol.HostID)
	Drop(protocol.HostID)
}

// Others is what other rooms keep of a host. It is safe for concurrent use.
type Others interface {
	// Lost tells that a machine is shut out: nothing more comes of it.
	Lost(protocol.HostID)
	// Forget drops what is stored of a machine, because another one has its name.
	Forget(core.Tx, protocol.HostID) error
	// AskAnew begins anew with what a host is asked since a recovery.
	AskAnew(core.Tx, protocol.HostID) error
	// Labelled tells that a host has other labels now.
	Labelled(protocol.HostID)
	// RecoveredMS is when the newest recovery was made, 0 if there was none.
	RecoveredMS() int64
}

// Config is what a Room is made of. All but the addresses is needed.
type Config struct {
	// Rings returns rings from a number on, or the newest for 0, as many as are
	// served at once.
	Rings     func(from uint64) []byte
	HostKeys  core.HostKeys
	Authority core.Authority
	Links     Links
	Others    Others
	// Addresses are those that join codes name, "host:port" of the HTTPS API, and
	// BrokerAddresses those that hosts connect to.
	Addresses       []string
	BrokerAddresses []string
}

// Room holds the hosts of the fleet. All methods are safe for concurrent use once
// LoadHost was called for each host.
type Room struct {
	base *core.Base
	cfg  Config

	exchanges exchanges

	mu sync.Mutex
	// quarantined tells why a host gets nothing; it is a copy of the store's.
	quarantined map[protocol.HostID]string
	// judging has room for the one who quarantines or readmits a host, from the
	// store to the copy, so that neither decision undoes half of the other.
	judging chan struct{}
	// trusting has room for the one who takes into force what was decided about the
	// keys of a host.
	trusting chan struct{}
}

// New returns a room that knows no host yet.
func New(base *core.Base, cfg Config) *Room {
	return &Room{
		base: base, cfg: cfg, quarantined: make(map[protocol.HostID]string), judging: make(chan struct{}, 1), trusting: make(chan struct{}, 1),
	}
}

// LoadHost takes into force what the store has of a host. It is called for each host at
// the start.
func (r *Room) LoadHost(h core.Host) error {
	if h.Quarantined != "" {
		r.quarantined[h.ID] = h.Quarantined
	}
	return r.trustHost(h)
}
