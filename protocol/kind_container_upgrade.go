package protocol

import "github.com/hostler-io/hostler/protocol/setting"

const KindContainerUpgrade Kind = "container.upgrade" // its old image is put back if that fails

func kindContainerUpgrade() KindInfo {
	i := lifecycle(KindContainerUpgrade, "Give a container another image, and the old one back if it is not healthy then.", new(ContainerUpgradeArgs))
	i.RootEquivalent, i.Attempts = true, 1 // an image that has brought its host down is not tried once more
	return i
}

// ContainerUpgradeArgs ask for another image of a container.
type ContainerUpgradeArgs struct{ setting.Upgrade }

func (a *ContainerUpgradeArgs) check() error { return a.Check() }
