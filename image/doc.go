// Package image has the images of a host: what containers of LXC are made from.
//
// An image is fetched from its registry once, in parts that bear the SHA-256 of their
// bytes as their names. A part is whole, and its digest verified, before it can be
// opened; a part that was cut short is gone on with, by this process or a later one. A
// record binds a reference to the digest of the manifest that it meant when it was
// fetched, so that the same reference makes the same containers until a user pulls
// again.
//
// The package owns the library for registries. It unpacks nothing: package
// image/rootfs does, in the process that makes the container.
package image
