package protocol

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol/data"
	"github.com/hostler-io/hostler/protocol/setting"
)

// KindContainerUpgrade gives a container the files of another image, and the old ones back
// if it is not healthy with them.
const KindContainerUpgrade Kind = "container.upgrade"

func kindContainerUpgrade() KindInfo {
	i := lifecycle(KindContainerUpgrade, "Give a container another image, and the old one back if it is not healthy then.", new(ContainerUpgradeArgs))
	i.RootEquivalent = true
	i.Attempts = 1 // an image that has brought its host down is not tried once more
	return i
}

// ContainerUpgradeArgs ask for another image of a container.
type ContainerUpgradeArgs struct{ data.Upgrade }

func (a *ContainerUpgradeArgs) check() error {
	if err := setting.CheckTemplate(a.Image); err != nil && a.Image != "" {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}
