package protocol

import "github.com/hostler-io/hostler/protocol/contract"

// KindSet changes how a container is kept.
const KindSet Kind = "container.set"

func kindSet() KindInfo {
	i := lifecycle(KindSet, "Change how a container is kept.", new(SetArgs))
	i.RootEquivalent = true
	return i
}

// SetArgs are the arguments of a change of how a container is kept.
type SetArgs struct{ contract.Change }

func (a *SetArgs) check() error { return a.Change.Check() }

// ContainerStatus is how a container stands to what is intended of it.
type ContainerStatus = contract.Status
