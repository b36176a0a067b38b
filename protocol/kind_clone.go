package protocol

import "github.com/hostler-io/hostler/protocol/data"

// KindClone makes a container of the files of another one, whose lane it holds too.
const KindClone Kind = "container.clone"

func kindClone() KindInfo {
	i := lifecycle(KindClone, "Create a container with the files of another one, and an identity of its own.", new(CloneArgs))
	i.Creates, i.RootEquivalent = true, true
	return i
}

// CloneArgs are the arguments of a clone.
type CloneArgs struct{ data.Clone }

func (a *CloneArgs) check() error {
	if _, err := ParseContainerName(a.Hostname); err != nil && a.Hostname != "" {
		return err
	}
	_, err := ParseCTID(a.Source)
	return err
}
