package container

import "context"

// Upgrader is a runtime that can give a container the files of another image. It keeps
// two sets of files, one in place and one beside it, until EndUpgrade.
type Upgrader interface {
	// PrepareUpgrade makes, beside the container of that name and CTID, what it becomes:
	// a container of the image Template, as Create makes it. The container may run, and
	// nothing of it changes. Privileged and the ids of the host stay as they are. What
	// another upgrade has left beside it is removed first. key is that of the action that
	// asks. same tells that the container is of that image already, and nothing was made.
	// A container that is not there is ErrNotFound. One that we did not make, and a
	// Template that is no image, is ErrUnsupported.
	PrepareUpgrade(ctx context.Context, spec CreateSpec, key string) (same bool, err error)
	// Exchange puts the files in place that PrepareUpgrade has made for that key, if next
	// is set, or else puts those back that were there before. It is nil if they are in
	// place, so that it can be done again after an interruption, whenever that was. One
	// that runs is ErrBusy.
	Exchange(ctx context.Context, name string, id CTID, key string, next bool) error
	// EndUpgrade removes what is not in place, snapshots of it included. It may be done
	// again.
	EndUpgrade(ctx context.Context, name string, id CTID) error
}
