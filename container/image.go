package container

import "context"

// Images has the images of a host, for runtimes that do not fetch them by themselves.
type Images interface {
	// Fetch returns an image, all parts of which are on this host then, their digests
	// verified. What is missing is fetched; told is called, by one goroutine at a time,
	// with how far that has come. Nothing of the image is removed before release, which
	// is nil if there is an error. pull is PullMissing, PullAlways or PullNever; empty is
	// PullMissing.
	Fetch(ctx context.Context, reference, pull string, told func(string)) (i Image, release func(), err error)
}

// Image is an image that is on this host, to be unpacked.
type Image struct {
	// Reference that it was asked for by.
	Reference string
	// Digest of its manifest, such as sha256:….
	Digest string
	// Layers from the lowest one.
	Layers []Layer
	// Entrypoint and Cmd are what runs in it, and the rest is how.
	Entrypoint, Cmd, Env         []string `json:",omitzero"`
	User, WorkingDir, StopSignal string   `json:",omitzero"`
	// Copy tells that it was a container, so that what must be its own (keys, the id of
	// the machine) is not taken over.
	Copy bool `json:",omitzero"`
	// Snapshots are those that the container had, in their order. They go with it, and a Copy
	// has none of them.
	Snapshots []ImageSnapshot `json:",omitempty"`
}

// ImageSnapshot is a snapshot, and a whole tree with the files of it.
type ImageSnapshot struct {
	Snapshot Snapshot
	Files    Layer
}

// Layer is a file of the host, a tar archive that is compressed or not.
type Layer struct {
	Path string
	// Offset and Bytes are where it lies in the file. No bytes are the whole file.
	Offset, Bytes int64 `json:",omitzero"`
	// DiffID is the digest of the uncompressed bytes; empty if it is unknown.
	DiffID string
	// Plain tells that it is a whole tree, in which no name hides anything.
	Plain bool `json:",omitzero"`
	// Delta tells that entries of it may stand for paths of the layers below that are gone, as
	// package rootfs marks them.
	Delta bool `json:",omitzero"`
}
