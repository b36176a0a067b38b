package protocol

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol/data"
	"github.com/hostler-io/hostler/protocol/setting"
)

// The kinds that make images of containers, and containers of these images.
const (
	KindPromote Kind = "container.promote"
	KindDemote  Kind = "container.demote"
)

func kindPromote() KindInfo {
	return lifecycle(KindPromote, "Make an image of the files of a container, which stays as it is. One that runs is frozen meanwhile.", new(PromoteArgs))
}

func kindDemote() KindInfo {
	i := lifecycle(KindDemote, "Create the container that an image was made of, kept as it was, and take its name from the image.", new(DemoteArgs))
	i.Creates, i.RootEquivalent = true, true
	return i
}

// PromoteArgs name the image that is made of a container.
type PromoteArgs struct{ data.NewImage }

// DemoteArgs name the image that becomes a container.
type DemoteArgs struct{ data.Demotion }

func (a *PromoteArgs) check() error { return a.Check() }

func (a *DemoteArgs) check() error {
	if err := setting.CheckTemplate(a.Image); err != nil && a.Image != "" {
		return fmt.Errorf("image: %w", err)
	}
	return a.Check()
}
