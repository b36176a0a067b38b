// Package snapshot keeps earlier states of a file tree, such as the root directory of a
// container, in a directory beside it on the same file system.
//
// A snapshot is a directory with a copy of the tree and a record. It appears under its
// name by one rename, when all of it is on disk. A rollback makes a copy of the snapshot
// and exchanges it for the tree in one step, so that the tree is at each moment either
// what it was or what it is to be. A name that begins with a dot is unfinished work, and the
// next call removes it.
//
// The caller ensures that only one call changes a directory at a time.
package snapshot
