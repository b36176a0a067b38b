// Package rootfs makes the root directory of a container from the layers of an image.
//
// Layers come from strangers. Nothing in them reaches beyond the directory: each
// parent directory is found by openat2 with RESOLVE_IN_ROOT, so that a link that was
// planted by a layer leads back into the directory, and what is made there is made
// beside its name without following anything. A layer with a path that names "..", with
// an owner that the container does not have, with too many files or too many bytes is
// refused. Devices are left out: containers get theirs from the runtime.
//
// What is made when a layer is refused stays; the caller removes the directory.
package rootfs
