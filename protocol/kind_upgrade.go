package protocol

import (
	"fmt"
	"time"
)

// KindHostUpgrade replaces the programs of the agent.
const KindHostUpgrade Kind = "host.upgrade"

func kindHostUpgrade() KindInfo {
	return KindInfo{
		Kind: KindHostUpgrade, Doc: "Replace the agent's programs by those of a signed package.",
		Target: TargetHost, Lane: LaneExclusive, Attempts: 3, StartTTL: upgradeTTL,
		RootEquivalent: true, form: formOf(new(UpgradeArgs)),
	}
}

// DefaultProbation is how long a new agent has to be answered by the coordinator: a
// slow line takes its time, and so does a coordinator that many hosts greet.
const DefaultProbation = time.Minute

// maxVersion is the length of a version.
const maxVersion = 128

// UpgradeArgs are the arguments of an upgrade. Its payload is a bundle of packages,
// each behind its signature.
type UpgradeArgs struct {
	_           struct{} `required:"version"`
	Version     string   `json:"version,omitempty" example:"\"0.2.0\"" doc:"The version of the packages."`
	ProbationMS int64    `json:"probation_ms,omitzero" min:"0" max:"3600000" example:"60000" doc:"How long the new agent has to be answered by the coordinator, in milliseconds. 0 is a minute."`
	Input
}

// Probation is how long the new agent has.
func (u *UpgradeArgs) Probation() time.Duration {
	if u.ProbationMS == 0 {
		return DefaultProbation
	}
	return time.Duration(u.ProbationMS) * time.Millisecond
}

func (u *UpgradeArgs) check() error {
	if len(u.Version) > maxVersion {
		return fmt.Errorf("version: %d characters, want at most %d", len(u.Version), maxVersion)
	}
	return u.Input.check()
}
