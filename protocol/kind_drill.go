package protocol

import (
	"fmt"
	"time"
)

// KindHostDrill makes a fault on a host that ends by itself.
const KindHostDrill Kind = "host.drill"

func kindHostDrill() KindInfo {
	return KindInfo{
		Kind: KindHostDrill, Doc: "Cut the agent off from its coordinator, or stop it, for a time; the host itself ends that.",
		Target: TargetHost, Lane: LaneNone, Attempts: 1, StartTTL: drillTTL, Admin: true, form: formOf(new(DrillArgs)),
	}
}

// Fault is what a drill makes.
type Fault string

// The faults.
const (
	FaultPartition Fault = "partition"  // the agent closes its connections to the coordinator, and makes none
	FaultStopAgent Fault = "stop-agent" // the agent is stopped by SIGSTOP
)

const (
	// drillTTL is short: a drill is watched, and nobody watches one that begins a day later.
	drillTTL = time.Minute
	// DrillNotice is how long after its answer a drill begins: by then the answer has
	// reached the coordinator.
	DrillNotice = 3 * time.Second
	// MinDrill is the shortest drill: a host whose connection is lost is missed after 5 s.
	MinDrill = 10 * time.Second
	// MaxDrill is the longest: a unique container has moved by then.
	MaxDrill = 15 * time.Minute
)

// DrillArgs are the arguments of a drill.
type DrillArgs struct {
	_     struct{} `required:"fault,for_ms"`
	Fault Fault    `json:"fault,omitempty" enum:"partition,stop-agent" example:"\"partition\"" doc:"What is made: partition (the agent closes its connections to the coordinator, and makes none), or stop-agent (the agent is stopped by SIGSTOP)."`
	ForMS int64    `json:"for_ms,omitempty" min:"10000" max:"900000" example:"120000" doc:"How long it lasts, in milliseconds."`
}

// For is how long the drill lasts.
func (d *DrillArgs) For() time.Duration { return time.Duration(d.ForMS) * time.Millisecond }

func (d *DrillArgs) check() error {
	if d := d.For(); d < MinDrill || d > MaxDrill {
		return fmt.Errorf("for_ms: a drill lasts %s to %s, not %s", MinDrill, MaxDrill, d)
	}
	return nil
}
