// Package tree walks file trees whose owners may change them meanwhile, such as the root
// directory of a container that runs, and copies them.
//
// A tree is never left: each directory is opened from the root down without following a
// link, and what is mounted in it is not entered. What vanishes during the walk is left
// out.
package tree
