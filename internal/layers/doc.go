// Package layers has containers share the files of an image: what a container changes lies
// in a directory of its own, above those of the image, and the kernel shows both as one
// (an overlay). The owners of the files are mapped to those of the container, so that
// containers with different users share them.
//
// Nothing is mounted where other processes see it: a root directory is either a file that
// is open, or is mounted in a table of mounts that one thread has alone. So nothing has to
// be unmounted after any process is killed.
package layers
