package coordinator

import "github.com/hostler-io/hostler/protocol"

// standingOf is what the conversations with hosts are given of the quarantine.
type standingOf struct{ c *Coordinator }

// Quarantined implements [hostlink.Standing].
func (s standingOf) Quarantined(host protocol.HostID) bool { return s.c.isQuarantined(host) }

// Quarantine implements [hostlink.Standing].
func (s standingOf) Quarantine(host protocol.HostID, why string) { s.c.quarantine(host, why) }
