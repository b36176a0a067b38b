package protocol

import "github.com/hostler-io/hostler/protocol/data"

// The kinds about snapshots of containers: earlier states of their files.
const (
	KindSnapshot       Kind = "container.snapshot"
	KindRollback       Kind = "container.rollback"
	KindSnapshotRemove Kind = "container.snapshot-remove"
	KindSnapshotPrune  Kind = "container.snapshot-prune"
)

func kindsOfSnapshots() []KindInfo {
	return []KindInfo{
		lifecycle(KindSnapshot, "Keep the files of a container as they are now.", new(SnapshotArgs)),
		lifecycle(KindRollback, "Give a container the files of a snapshot.", new(RollbackArgs)),
		lifecycle(KindSnapshotRemove, "Remove a snapshot of a container.", new(SnapshotRemoveArgs)),
		lifecycle(KindSnapshotPrune, "Remove the snapshots of a container but the newest of each of the last days and weeks that have one.", new(SnapshotPruneArgs)),
	}
}

// SnapshotArgs ask for a snapshot.
type SnapshotArgs struct{ data.NewSnapshot }

// RollbackArgs ask for the files of a snapshot in place of those that a container has.
type RollbackArgs struct{ data.Rollback }

// SnapshotRemoveArgs name the snapshot that goes.
type SnapshotRemoveArgs struct{ data.SnapshotName }

// SnapshotPruneArgs say which snapshots stay.
type SnapshotPruneArgs struct{ data.Retention }

func (a *SnapshotArgs) check() error       { return a.Check() }
func (a *RollbackArgs) check() error       { return a.Check() }
func (a *SnapshotRemoveArgs) check() error { return a.Check() }
func (*SnapshotPruneArgs) check() error    { return nil }
