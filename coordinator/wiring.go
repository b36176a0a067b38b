package coordinator

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// standingOf, approvalsOf and policiesOf are what the conversations with hosts are
// given.
type (
	standingOf  struct{ c *Coordinator }
	approvalsOf struct{ c *Coordinator }
	policiesOf  struct{ c *Coordinator }
)

func (s standingOf) Quarantined(host protocol.HostID) bool         { return s.c.isQuarantined(host) }
func (s standingOf) Quarantine(host protocol.HostID, why string)   { s.c.quarantine(host, why) }
func (a approvalsOf) Approved(of *core.Action, lifeMS int64) bool  { return a.c.approved(of, lifeMS) }
func (a approvalsOf) WhyExpired(of *core.Action) string            { return a.c.whyExpired(of) }
func (p policiesOf) PutIntoForce(tx core.Tx, by core.Action) error { return p.c.setPolicy(tx, by) }
func (p policiesOf) Told(tx core.Tx, host protocol.HostID, text []byte) error {
	return p.c.toldPolicy(tx, host, text)
}
func (p policiesOf) Hear(tx core.Tx, host protocol.HostID, info *protocol.PolicyInfo, asked protocol.Digest) (bool, error) {
	return p.c.hearPolicy(tx, host, info, asked)
}
