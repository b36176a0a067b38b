package protocol

import (
	"fmt"
	"time"

	"github.com/hostler-io/hostler/protocol/data"
)

// KindHostFence asks a fence device that this host reaches and the coordinator does not.
const KindHostFence Kind = "host.fence"

// FenceTTL is how long the order may be on its way: an off that arrives later would switch
// off a host that has recovered. It is tried once.
const FenceTTL = 10 * time.Second

func kindHostFence() KindInfo {
	return KindInfo{
		Kind: KindHostFence, Doc: "Ask a fence device of this host about another host, or have that switched off or on.",
		Target: TargetHost, Lane: LaneNone, Attempts: 1, StartTTL: FenceTTL, Urgent: true, Admin: true, form: formOf(new(FenceArgs)),
	}
}

// FenceArgs are the arguments.
type FenceArgs struct{ data.Fence }

func (f *FenceArgs) check() error {
	if _, err := ParseHostID(f.Host); err != nil {
		return fmt.Errorf("host: %w", err)
	}
	return f.Check()
}
